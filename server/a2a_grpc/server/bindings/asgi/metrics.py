"""`/metrics`, on a listener of its own."""

from collections.abc import Awaitable, Callable
from typing import Final

from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.bindings.asgi.exchange import Exchange
from a2a_grpc.server.bindings.asgi.types import Header, Receive, Scope, Send

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
"""The text format of Prometheus."""
_TEXT = b"text/plain; charset=utf-8"
_VERBS: tuple[Header, ...] = ((b"allow", b"GET, HEAD"),)
_NO_CORS = Cors(())


class MetricsEndpoint:
    """An ASGI app that answers with the metrics of the moment."""

    def __init__(self, render: Callable[[], Awaitable[bytes]], content_type: bytes) -> None:
        self._render = render
        self._content_type = content_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """GET /metrics."""
        exchange = Exchange(scope, receive, send, _NO_CORS)
        if scope["path"] != "/metrics":
            await exchange.respond(404, _TEXT, b"The metrics are at /metrics.\n")
        elif exchange.verb not in ("GET", "HEAD"):
            await exchange.respond(405, _TEXT, b"", _VERBS)
        else:
            await exchange.respond(200, self._content_type, await self._render())
