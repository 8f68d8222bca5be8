"""`/healthz` and `/readyz`: two questions that must never share an answer (B103).

`/healthz` asks whether this process should be restarted: while it can answer at all, no. `/readyz` asks whether it
should get calls: not before the store is there, nor while it is away, nor once the process drains. Neither asks the
store: they tell what is known, at once.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import orjson

from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.bindings.asgi.exchange import Exchange
from a2a_grpc.server.bindings.asgi.media import JSON
from a2a_grpc.server.bindings.asgi.types import Header, Receive, Scope, Send
from a2a_grpc.server.core.readiness import Readiness, State

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
        """200 or 503; the body names the components and what each waits for.

        With `?verbose` it also says since when, and when that was last seen.
        """
        ready = self._readiness.ready
        body: dict[str, object] = {"status": _status(ready)}
        if b"verbose" in {field.partition(b"=")[0] for field in scope["query_string"].split(b"&")}:
            body["since"] = _time(self._readiness.since)
            body["components"] = {name: _described(state) for name, state in self._readiness.components().items()}
        else:
            body["components"] = self._readiness.snapshot()
        await _answer(Exchange(scope, receive, send, _NO_CORS), 200 if ready else 503, body)


def _status(ready: bool) -> str:
    return "ready" if ready else "not ready"


def _described(state: State) -> dict[str, str]:
    described = {"status": _status(state.ready), "since": _time(state.since), "checked": _time(state.checked)}
    return described if state.ready else {**described, "reason": state.reason}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def _answer(exchange: Exchange, status: int, body: Mapping[str, object]) -> None:
    if exchange.verb not in ("GET", "HEAD"):
        await exchange.respond(405, JSON, b"{}", _VERBS)
    else:
        await exchange.respond(status, JSON, orjson.dumps(body), _NO_STORE)
