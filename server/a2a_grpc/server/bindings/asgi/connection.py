"""One HTTP/1.1 connection: uvicorn's, with the limits and the manners that an open port needs.

uvicorn bounds neither the time nor the size of a request's head, answers unreadable bytes with plain text, tells only
the newest of several pipelined requests that the peer has gone, and loses the body of a request that offers an upgrade.
The rest is uvicorn's.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from a2a_grpc.server.bindings.asgi.failure import error_headers
from a2a_grpc.server.bindings.asgi.tls import certificate_state
from a2a_grpc.wire.errors import A2AError, InvalidArgumentError, UnavailableError, error_body

_UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """What one connection, and all of them together, may take. Seconds, bytes, connections."""

    head_timeout: float = 30.0
    """From the first byte of a request (or from the accept) to the end of its headers."""
    body_timeout: float = 60.0
    """From there to the end of its body."""
    head_bytes: int = 64 * 1024
    """Request line and headers of one request."""
    keep_alive: float = 75.0
    """An idle connection stays open for this long: longer than the usual 60 s of a load balancer, so that it is never
    this side that closes a connection just as the balancer picks it."""
    connections: int | None = None
    """Open connections; one more is answered 503 and closed. None: as many as the process has file descriptors for."""


class Connection(HttpToolsProtocol):
    """The protocol object of one accepted connection."""

    def __init__(
        self,
        *,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        limits: ConnectionLimits,
        leaving: Callable[[], bool],
        on_closed: Callable[[], None],
    ) -> None:
        """`leaving` tells whether this connection is to be closed with its next response."""
        super().__init__(config, server_state, app_state, asyncio.get_running_loop())
        self._limits = limits
        self._leaving = leaving
        self._on_closed = on_closed
        self._timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._in_head = False
        self._in_message = False
        self._earlier: list[RequestResponseCycle] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, **certificate_state(transport)}
        if self._limits.connections is not None and len(self.connections) > self._limits.connections:
            self._refuse(
                503, UnavailableError("Too many connections are open; try again in a moment.", retry_after=1.0)
            )
        else:
            self._timer = self.loop.call_later(self._limits.head_timeout, self.transport.close)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if not self._in_message and b"pgrade" in data:
            data = _without_upgrade(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        # Most requests come in one piece: nothing is pending then, and no timer was needed.
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_bytes:
                self._refuse(431, InvalidArgumentError(f"Headers must fit {self._limits.head_bytes} bytes."))
            elif self._timer is None:
                self._timer = self.loop.call_later(self._limits.head_timeout, self._head_timed_out)
        elif self._in_message:
            if self._timer is None:
                self._timer = self.loop.call_later(self._limits.body_timeout, self._body_timed_out, self.cycle)
        elif self.cycle is not None and self.cycle.response_complete and self.timeout_keep_alive_task is None:
            # The rest of a body that nobody wanted has come; uvicorn counts the idle time from responses only.
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_message_begin(self) -> None:
        self._stop_timer()
        self._in_message = self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._in_head = False
        self._head_bytes = 0
        before = self.cycle
        super().on_headers_complete()
        if self._leaving() and self.cycle is not None:
            self.cycle.keep_alive = False
        if before is not None and not before.response_complete:
            self._earlier = [cycle for cycle in self._earlier if not cycle.response_complete]
            self._earlier.append(before)

    def on_message_complete(self) -> None:
        self._stop_timer()
        self._in_message = False
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        for cycle in self._earlier:
            if not cycle.response_complete:
                cycle.disconnected = True
            cycle.message_event.set()
        self._earlier.clear()
        self._on_closed()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  # says no more than that it is invalid
        """Answer bytes that are not HTTP/1.1; called by uvicorn."""
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            # A status line in the middle of a response would be read as part of it.
            self.transport.close()
            return
        others = "neither HTTP/2 nor gRPC" if self.scheme == "https" else "neither TLS nor HTTP/2 nor gRPC"
        self._refuse(400, InvalidArgumentError(f"This is not HTTP/1.1; this port speaks {others}."))

    def shutdown(self) -> None:
        """Close with the end of the response, where a request is here or its first bytes are; at once where not."""
        if not self._in_head:
            self.close_unless_answering()

    def close_unless_answering(self) -> None:
        """Close at once, or with the end of the response to a request that is here as a whole."""
        super().shutdown()

    def abort(self) -> None:
        """Close without waiting for a peer that does not read."""
        self.transport.abort()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _head_timed_out(self) -> None:
        self._refuse_late("headers", self._limits.head_timeout)

    def _body_timed_out(self, cycle: RequestResponseCycle) -> None:
        if cycle.response_started:
            self.transport.close()
        else:
            self._refuse_late("body", self._limits.body_timeout)

    def _refuse_late(self, part: str, seconds: float) -> None:
        self._refuse(408, InvalidArgumentError(f"The {part} of the request did not arrive within {seconds:g} s."))

    def _refuse(self, status: int, error: A2AError) -> None:
        body = orjson.dumps(error_body(error))
        headers = (
            *self.server_state.default_headers,
            *error_headers(error, None, b""),
            (b"content-type", b"application/json"),
            (b"connection", b"close"),
            (b"content-length", b"%d" % len(body)),
        )
        if not self.transport.is_closing():
            lines = b"".join(b"%s: %s\r\n" % header for header in headers)
            self.transport.write(STATUS_LINE[status] + lines + b"\r\n" + body)
            self.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """The beginning of a request without its offer to change the protocol, which a server may always ignore.

    Java's HttpClient offers HTTP/2 with every first request of a connection, also with one that has a body.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"", head) + end + rest
