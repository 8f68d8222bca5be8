"""The gateway: routes a request, reads its message, runs the call, writes the answer."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

import orjson
from google.protobuf.message import Message

from a2a_grpc.server.bindings.asgi.body import body_limit, check_size, has_body, read_body
from a2a_grpc.server.bindings.asgi.conditional import etag_matches
from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.bindings.asgi.exchange import CallerGoneError, Exchange
from a2a_grpc.server.bindings.asgi.failure import allowed_verbs, error_headers
from a2a_grpc.server.bindings.asgi.media import check_json, response_type
from a2a_grpc.server.bindings.asgi.offload import OFFLOAD_BYTES, dump
from a2a_grpc.server.bindings.asgi.query import Query, read_query
from a2a_grpc.server.bindings.asgi.sse import EventStream
from a2a_grpc.server.bindings.asgi.types import App, Header, Receive, Scope, Send
from a2a_grpc.server.bindings.asgi.unary import run_unary
from a2a_grpc.server.bindings.asgi.verbs import answer_options
from a2a_grpc.server.bindings.asgi.version import VersionCheck, any_version
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.handler import Handler
from a2a_grpc.wire import rules
from a2a_grpc.wire.errors import A2AError, InternalError, MethodNotAllowedError, error_body
from a2a_grpc.wire.headers import MEDIA_TYPE_A2A, MEDIA_TYPE_JSON
from a2a_grpc.wire.protojson import DEFAULT_NESTING, dumps

_log = logging.getLogger(__name__)

_BINDING = "HTTP+JSON"
_BODY_TYPES = frozenset({MEDIA_TYPE_A2A, MEDIA_TYPE_JSON})

# What GET answers is true now and for this caller; some caches keep a 200 or a 404 for minutes where nothing is said.
_NO_STORE: Header = (b"cache-control", b"no-store")
_PRIVATE: Header = (b"cache-control", b"private, no-cache")
# Where the credentials stand that are checked elsewhere.
_CREDENTIALS = ("authorization", "cookie")


def create_app(
    handler: Handler,
    *,
    max_message_bytes: int = 4 * 1024 * 1024,
    max_nesting: int = DEFAULT_NESTING,
    heartbeat: float = 15.0,
    cors: Cors | None = None,
    challenge: str = "Bearer",
    check_version: VersionCheck = any_version,
    served: rules.Rules = rules.A2A,
    media_type: bytes | None = None,
) -> App:
    """The gateway as an ASGI app.

    `max_message_bytes` is the size of the protobuf; `max_nesting` the levels of free-form data; `heartbeat` is in
    seconds; `challenge` is the WWW-Authenticate of a 401 for which the call has left none; `check_version` is asked
    about requests that cannot be read; `served` is the service whose operations the handler knows, and
    `media_type` that of its answers; None: one of those of A2A, as the caller wants it.
    """
    return _Gateway(
        handler=handler,
        max_message_bytes=max_message_bytes,
        max_nesting=max_nesting,
        heartbeat=heartbeat,
        cors=cors or Cors(),
        challenge=challenge.encode("latin-1"),
        check_version=check_version,
        served=served,
        media_type=media_type,
        literal=_literal_routes(served),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gateway:
    handler: Handler
    max_message_bytes: int
    max_nesting: int
    heartbeat: float
    cors: Cors
    challenge: bytes
    check_version: VersionCheck
    served: rules.Rules
    media_type: bytes | None
    literal: Mapping[tuple[str, bytes], rules.Match]
    """Paths without fields always mean the same."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, self.cors)
        try:
            if exchange.verb == "OPTIONS":
                await answer_options(exchange, self.cors, self._verbs(exchange.scope["raw_path"]))
            else:
                await self._serve(exchange)
        except CallerGoneError:
            return
        except A2AError as error:
            await self._fail(exchange, error)
        except Exception:
            _log.exception("%s %s failed", exchange.verb, scope["path"])
            if exchange.responded:
                raise
            await self._fail(exchange, InternalError("The request could not be handled."))

    async def _serve(self, exchange: Exchange) -> None:
        match = self._route(exchange)
        operation = self.served.operations[match.method]
        query = read_query(exchange)
        call = exchange.make_call(match.method, _BINDING, query)
        await self.handler.admit(call, _tenant(match, query))
        try:
            request = await self._read(exchange, match, query)
        except A2AError:
            self.check_version(exchange.parameters)
            raise
        if operation.streaming:
            await EventStream(
                exchange,
                self.handler.stream(match.method, request, call),
                encode=dumps,
                encode_error=_encode_error,
                fail=partial(self._fail, exchange),
                heartbeat=self.heartbeat,
            ).run()
            return
        response = await run_unary(self.handler, request, call, exchange)
        body = await dump(response)
        if match.method == "GetExtendedAgentCard" and exchange.verb in ("GET", "HEAD"):
            await self._serve_card(exchange, call, body)
            return
        await exchange.respond(200, self._type(exchange), body, _caching(exchange))

    async def _serve_card(self, exchange: Exchange, call: Call, body: bytes) -> None:
        # A cache of the caller's own may keep it, and asks each time: what it may see can change (13.3).
        etag = f'"{sha256(body).hexdigest()[:32]}"'
        varies = call.admitted[0].headers if call.admitted is not None else _CREDENTIALS
        headers = [_PRIVATE, (b"etag", etag.encode())]
        if varies:
            headers.append((b"vary", ", ".join(varies).encode("latin-1")))
        if etag_matches(exchange.parameters, etag):
            await exchange.respond_empty(304, headers)
        else:
            await exchange.respond(200, self._type(exchange), body, headers)

    async def _read(self, exchange: Exchange, match: rules.Match, query: Query) -> Message:
        if not has_body(exchange.parameters) or exchange.verb in ("GET", "HEAD", "DELETE"):
            # A body of these verbs has no meaning (RFC 9110 section 9.3.1); 11.5 puts their parameters into the URL.
            return self.served.build_request(match, query, None, self.max_nesting)
        check_json(exchange.parameters, _BODY_TYPES)
        body = await read_body(exchange.receive, exchange.parameters, body_limit(self.max_message_bytes))
        if len(body) < OFFLOAD_BYTES:
            request = self.served.build_request(match, query, body, self.max_nesting)
        else:
            request = await asyncio.to_thread(self.served.build_request, match, query, body, self.max_nesting)
        check_size(request.ByteSize(), self.max_message_bytes)
        return request

    def _route(self, exchange: Exchange) -> rules.Match:
        raw_path: bytes = exchange.scope["raw_path"]
        literal = self.literal.get((exchange.verb, raw_path))
        if literal is not None:
            return literal
        if exchange.verb != "HEAD":
            return self.served.match(exchange.verb, raw_path)
        match = self.served.match("GET", raw_path)
        if self.served.operations[match.method].streaming:
            # The head of a stream is only known with its first event.
            raise MethodNotAllowedError("A stream has no HEAD.", metadata={"allow": "GET, POST"})
        return match

    def _verbs(self, raw_path: bytes) -> list[str]:
        try:
            self.served.match("OPTIONS", raw_path)
        except MethodNotAllowedError as error:
            return allowed_verbs(error)
        return ["OPTIONS"]

    def _type(self, exchange: Exchange) -> bytes:
        if self.media_type is not None:
            return self.media_type
        return response_type(exchange.parameters.get("content-type", ""), exchange.parameters.get("accept", ""))

    async def _fail(self, exchange: Exchange, error: A2AError) -> None:
        await exchange.note_refusal(self.handler, _BINDING, error)
        headers = error_headers(error, exchange.call, self.challenge)
        if exchange.verb in ("GET", "HEAD"):
            headers.append(_NO_STORE)
        await exchange.respond(error.kind.http, self._type(exchange), _encode_error(error), headers)


def _literal_routes(served: rules.Rules) -> Mapping[tuple[str, bytes], rules.Match]:
    return {
        (route.verb, path): served.match(route.verb, path)
        for route in served.routes
        if not route.fields
        for path in [b"".join(b"/" + segment.literal.encode() for segment in route.segments) + route.action.encode()]
    }


def _tenant(match: rules.Match, query: Query) -> str | None:
    """The tenant of a request that is not read yet; None where only its body would tell."""
    if "tenant" in match.params:
        return match.params["tenant"]
    if match.route.has_body:
        return None
    return next((value for name, value in reversed(query) if name == "tenant"), "")


def _caching(exchange: Exchange) -> tuple[Header, ...]:
    return (_NO_STORE,) if exchange.verb in ("GET", "HEAD") else ()


def _encode_error(error: A2AError) -> bytes:
    return orjson.dumps(error_body(error))
