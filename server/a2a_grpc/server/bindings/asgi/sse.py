"""Event streams (3.1.2, 11.7): server-sent events, one `data:` line each.

What a reader can rely on:

* An error before the first event is an ordinary response with a status, not an event in a 200 stream (B019).
* `id:` is the event's number in its task; a reader that comes back sends it as Last-Event-ID.
* A comment line keeps idle connections alive; proxies are told not to buffer or to compress (B023).
* An error after the first event is one last event of the type `error` whose data is the error object of the binding
  (B025). A stream that ends without a terminal state and without an error was cut on the way.
* The task does not depend on its readers (3.5.2): when one hangs up, only its iterator is closed.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from google.protobuf.message import Message

from a2a_grpc.server.bindings.asgi.draining import draining
from a2a_grpc.server.bindings.asgi.exchange import Exchange
from a2a_grpc.server.bindings.asgi.types import Header
from a2a_grpc.server.core.events import Event
from a2a_grpc.wire.errors import A2AError, InternalError, UnavailableError
from a2a_grpc.wire.protojson import one_line

_log = logging.getLogger(__name__)

_HEARTBEAT = b": still here\n\n"

_FAREWELL_TIMEOUT = 1.0
"""Seconds that the last event of a stream may wait for a reader that does not keep up."""


def stream_headers() -> list[Header]:
    """The head of every event stream. There is no Content-Length, and no content coding, ever."""
    return [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-cache, no-transform"),
        (b"x-accel-buffering", b"no"),
    ]


class EventStream:
    """One event stream of one reader."""

    def __init__(
        self,
        exchange: Exchange,
        events: AsyncIterator[Event],
        *,
        encode: Callable[[Message], bytes],
        encode_error: Callable[[A2AError], bytes],
        fail: Callable[[A2AError], Awaitable[None]],
        heartbeat: float,
    ) -> None:
        """Send `events` to the caller of `exchange`.

        `encode` and `encode_error` give the data of an event, one line each; `fail` answers with an error instead of a
        stream; `heartbeat` is in seconds.
        """
        self._exchange = exchange
        self._events = events
        self._encode = encode
        self._encode_error = encode_error
        self._fail = fail
        self._heartbeat = heartbeat
        self._loop = asyncio.get_running_loop()
        self._last_write = self._loop.time()
        self._draining = False
        self._sending: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Send the events until they end, the reader hangs up, or the listener closes; the iterator is closed then."""
        pump = self._loop.create_task(self._send_all())
        unsubscribe = draining(self._exchange.scope).subscribe(self._drain)
        try:
            await self._watch_reader(pump)
        finally:
            unsubscribe()
            pump.cancel()
            await asyncio.wait((pump,))
            aclose = getattr(self._events, "aclose", None)
            if aclose is not None:
                await aclose()
        if not pump.cancelled():
            pump.result()

    async def _watch_reader(self, pump: asyncio.Task[None]) -> None:
        """Return when the reader has gone or the response is complete: ASGI announces both in the same way."""
        while not pump.done():
            try:
                async with asyncio.timeout(self._heartbeat):
                    message = await self._exchange.receive()
            except TimeoutError:
                await self._beat(pump)
                continue
            if message["type"] == "http.disconnect":
                return

    async def _beat(self, pump: asyncio.Task[None]) -> None:
        if pump.done() or self._loop.time() - self._last_write < self._heartbeat / 2:
            return
        # A first event that takes so long comes from an agent at work; a proxy would give up on a silent response.
        await self._write(_HEARTBEAT)

    async def _send_all(self) -> None:
        failure: A2AError | None = None
        # From here on a cancellation arrives inside, where it can be answered.
        self._sending = asyncio.current_task()
        try:
            if self._draining:
                failure = _shutting_down()
            else:
                async for event in self._events:
                    await self._write(_frame(event.seq, self._encode(event.response)))
        except A2AError as error:
            failure = error
        except asyncio.CancelledError:
            if not self._draining:
                raise
            failure = _shutting_down()
        except Exception:  # noqa: BLE001  # whatever it was, the reader must not take the cut for the end
            _log.exception("an event stream failed")
            failure = InternalError("The stream failed; the task may still go on.")
        async with asyncio.timeout(_FAREWELL_TIMEOUT if self._draining else None):
            await self._finish(failure)

    async def _finish(self, failure: A2AError | None) -> None:
        if failure is not None:
            if not self._exchange.responded:
                await self._fail(failure)
                return
            await self._write(b"event: error\ndata: %b\n\n" % one_line(self._encode_error(failure)))
        elif not self._exchange.responded:
            await self._exchange.start(200, stream_headers())
        await self._exchange.send({"type": "http.response.body", "body": b""})

    async def _write(self, frame: bytes) -> None:
        if not self._exchange.responded:
            await self._exchange.start(200, stream_headers())
        await self._exchange.send({"type": "http.response.body", "body": frame, "more_body": True})
        self._last_write = self._loop.time()

    def _drain(self) -> None:
        self._draining = True
        if self._sending is not None:
            self._sending.cancel()


def _frame(seq: int, data: bytes) -> bytes:
    data = one_line(data)
    return b"id: %d\ndata: %b\n\n" % (seq, data) if seq > 0 else b"data: %b\n\n" % data


def _shutting_down() -> UnavailableError:
    return UnavailableError("The server is shutting down; subscribe to the task again.", retry_after=1.0)
