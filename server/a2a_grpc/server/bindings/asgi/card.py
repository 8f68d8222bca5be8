"""The agent card at its well-known address (8.2), with the caching that 8.6 asks for."""

import re
from email.utils import format_datetime
from urllib.parse import unquote

import orjson

from a2a_grpc.server.auth.gate import Gates
from a2a_grpc.server.bindings.asgi.conditional import is_fresh
from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.bindings.asgi.exchange import Exchange
from a2a_grpc.server.bindings.asgi.failure import error_headers
from a2a_grpc.server.bindings.asgi.media import JSON
from a2a_grpc.server.bindings.asgi.query import read_query
from a2a_grpc.server.bindings.asgi.types import Header, Receive, Scope, Send
from a2a_grpc.server.bindings.asgi.verbs import answer_other_verb
from a2a_grpc.server.calls.cards import CardReading
from a2a_grpc.server.card.published import CardSource, PublishedCard
from a2a_grpc.server.hosting.attempts import Attempts
from a2a_grpc.wire.errors import A2AError, MethodNotAllowedError, RouteNotFoundError, error_body, excerpt

# The second name is the one of before 0.3; clients still ask for it.
_PATH = re.compile(rb"(?:/([^/]+))?/\.well-known/agent(?:-card)?\.json")


def card_tenant(raw_path: bytes) -> str | None:
    """The tenant whose card `raw_path` asks for, "" for the card of the server itself, None if it is no such path."""
    found = _PATH.fullmatch(raw_path)
    if found is None:
        return None
    return unquote(found[1].decode("latin-1")) if found[1] else ""


class CardEndpoint:
    """Serves the public cards of a CardSource.

    The media type is application/json: application/a2a+json is registered for the messages of the HTTP+JSON binding
    (14.1.1), and the well-known document is not one of them (14.3).
    """

    def __init__(
        self,
        source: CardSource,
        *,
        max_age: int = 300,
        cors: Cors | None = None,
        gates: Gates | None = None,
        attempts: Attempts | None = None,
    ) -> None:
        """`max_age`: seconds for which a copy may be used without asking again. With `gates` callers alone get it."""
        self._cards = CardReading(source, gates, attempts)
        self._cors = cors or Cors()
        self._max_age = max_age

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request for a card."""
        # CORS headers are added here, since caches store them with the card.
        exchange = Exchange(scope, receive, send, Cors(()))
        origin = exchange.parameters.get("origin")
        headers = list(self._cors.public_headers(origin))
        try:
            if exchange.verb not in ("GET", "HEAD"):
                refusal = MethodNotAllowedError("A card can only be read.", metadata={"allow": "GET"})
                return await answer_other_verb(exchange, self._cors, refusal, headers)
            await self._serve(exchange, await self._find(exchange), headers)
        except A2AError as failure:
            headers += [*error_headers(failure, exchange.call, b"Bearer"), (b"cache-control", b"no-store")]
            await exchange.respond(failure.kind.http, JSON, orjson.dumps(error_body(failure)), headers)

    async def _find(self, exchange: Exchange) -> PublishedCard:
        tenant = card_tenant(exchange.scope["raw_path"])
        call = exchange.make_call("GetAgentCard", "HTTP+JSON", read_query(exchange))
        published = await self._cards.read(tenant, call) if tenant is not None else None
        if published is None:
            raise RouteNotFoundError(
                f"No agent card is published for the tenant {excerpt(tenant)}."
                if tenant
                else "No agent card is published here."
            )
        return published

    async def _serve(self, exchange: Exchange, published: PublishedCard, headers: list[Header]) -> None:
        headers += [
            (b"etag", published.etag.encode()),
            (b"last-modified", format_datetime(published.last_modified, usegmt=True).encode()),
            (b"cache-control", b"%s, max-age=%d" % (b"private" if published.private else b"public", self._max_age)),
        ]
        if published.varies:
            headers.append((b"vary", ", ".join(published.varies).encode("latin-1")))
        if is_fresh(exchange.parameters, published.etag, published.last_modified):
            await exchange.respond_empty(304, headers)
        else:
            await exchange.respond(200, JSON, published.body, headers)
