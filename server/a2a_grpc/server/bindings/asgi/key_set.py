"""The keys that check signatures of this service, at their well-known address (8.4.2)."""

from hashlib import sha256

import orjson

from a2a_grpc.server.bindings.asgi.conditional import etag_matches
from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.bindings.asgi.exchange import Exchange
from a2a_grpc.server.bindings.asgi.failure import error_headers
from a2a_grpc.server.bindings.asgi.media import JSON
from a2a_grpc.server.bindings.asgi.types import Receive, Scope, Send
from a2a_grpc.server.bindings.asgi.verbs import answer_other_verb
from a2a_grpc.server.card.published import KeySource
from a2a_grpc.wire.errors import A2AError, MethodNotAllowedError, RouteNotFoundError, error_body

_JWKS = b"application/jwk-set+json"
_CACHING = (b"cache-control", b"public, max-age=300")
"""Short: a key that is taken out must be gone for readers soon."""


class KeySetEndpoint:
    """Serves the JWK Set of a KeySource. Public keys are for everybody, also where the card is not."""

    def __init__(self, source: KeySource, cors: Cors | None = None) -> None:
        self._source = source
        self._cors = cors or Cors()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request for the keys."""
        exchange = Exchange(scope, receive, send, Cors(()))
        headers = list(self._cors.public_headers(exchange.parameters.get("origin")))
        try:
            if exchange.verb not in ("GET", "HEAD"):
                refusal = MethodNotAllowedError("Keys can only be read.", metadata={"allow": "GET"})
                return await answer_other_verb(exchange, self._cors, refusal, headers)
            body = await self._source.key_set()
            if body is None:
                raise RouteNotFoundError("This service signs nothing, and has no keys to publish.")
            etag = f'"{sha256(body).hexdigest()[:32]}"'
            headers += [(b"etag", etag.encode()), _CACHING]
            if etag_matches(exchange.parameters, etag):
                await exchange.respond_empty(304, headers)
            else:
                await exchange.respond(200, _JWKS, body, headers)
        except A2AError as failure:
            headers += [*error_headers(failure, None, b"Bearer"), (b"cache-control", b"no-store")]
            await exchange.respond(failure.kind.http, JSON, orjson.dumps(error_body(failure)), headers)
