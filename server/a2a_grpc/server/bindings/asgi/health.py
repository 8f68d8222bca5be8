"""`/healthz` and `/readyz`: two questions that must never share an answer (B103).

`/healthz` asks whether this process should be restarted: while it can answer at all, no. `/readyz` asks whether it
should get calls: not before the store is there, nor while it is away, nor once the process drains.
"""

from collections.abc import Mapping

import orjson

from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.bindings.asgi.exchange import Exchange
from a2a_grpc.server.bindings.asgi.media import JSON
from a2a_grpc.server.bindings.asgi.types import Header, Receive, Scope, Send
from a2a_grpc.server.core.readiness import Readiness

_NO_STORE: tuple[Header, ...] = ((b"cache-control", b"no-store"),)
_VERBS: tuple[Header, ...] = ((b"allow", b"GET, HEAD"),)
_NO_CORS = Cors(())


class Health:
    """The two endpoints as ASGI apps."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    async def live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200, always."""
        await _answer(Exchange(scope, receive, send, _NO_CORS), 200, {"status": "ok"})

    async def ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        """200 or 503; the body names the components and what each waits for."""
        ready = self._readiness.ready
        body = {"status": "ready" if ready else "not ready", "components": self._readiness.snapshot()}
        await _answer(Exchange(scope, receive, send, _NO_CORS), 200 if ready else 503, body)


async def _answer(exchange: Exchange, status: int, body: Mapping[str, object]) -> None:
    if exchange.verb not in ("GET", "HEAD"):
        await exchange.respond(405, JSON, b"{}", _VERBS)
    else:
        await exchange.respond(status, JSON, orjson.dumps(body), _NO_STORE)
