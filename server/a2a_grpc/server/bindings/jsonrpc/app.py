"""The endpoint: reads a request object, runs the call, writes response objects.

Decisions where JSON-RPC 2.0, HTTP and section 9 leave room:

* Whatever the request object asks for, answers have status 200, errors as well. What concerns the HTTP request itself
  has its own status with a JSON-RPC error as body and the id null: 405, 413, 415. So has missing authentication: 401
  with a challenge and 403, since proxies and HTTP clients act on them (7.4), and since nobody reads the body of who is
  not let in; and a limit that is reached: 429, with its id.
* A tenant has an address of its own, `/TENANT/`, which wins over what the params say. One that is not there is 404.
* A request without an id is a notification: it is carried out and answered 204 without a body, whatever came of it. A
  streaming one is carried out up to its first event.
* Batches are refused, as in section 9, which has single requests only. Params are an object; null stands for none.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

from google.protobuf.message import Message

from a2a_grpc.server.bindings.asgi.body import body_limit, check_size, has_body, read_body
from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.bindings.asgi.exchange import CallerGoneError, Exchange
from a2a_grpc.server.bindings.asgi.failure import error_headers
from a2a_grpc.server.bindings.asgi.media import JSON, check_json
from a2a_grpc.server.bindings.asgi.offload import OFFLOAD_BYTES, dump
from a2a_grpc.server.bindings.asgi.query import read_query
from a2a_grpc.server.bindings.asgi.root import root_tenant
from a2a_grpc.server.bindings.asgi.sse import EventStream
from a2a_grpc.server.bindings.asgi.types import App, Receive, Scope, Send
from a2a_grpc.server.bindings.asgi.unary import run_unary, take_first
from a2a_grpc.server.bindings.asgi.verbs import answer_other_verb
from a2a_grpc.server.bindings.asgi.version import VersionCheck, any_version
from a2a_grpc.server.bindings.jsonrpc.envelope import (
    NULL_ID,
    Request,
    encode_error,
    read_request,
    response_id,
    result_head,
    with_exact_id,
)
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.handler import Handler
from a2a_grpc.server.core.events import Event
from a2a_grpc.wire.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InternalError,
    MethodNotAllowedError,
    MethodNotFoundError,
    PayloadTooLargeError,
    PermissionDeniedError,
    QuotaExceededError,
    RouteNotFoundError,
    UnauthenticatedError,
    UnsupportedMediaTypeError,
    excerpt,
)
from a2a_grpc.wire.headers import MEDIA_TYPE_A2A, MEDIA_TYPE_JSON
from a2a_grpc.wire.protojson import DEFAULT_NESTING, dumps, from_dict, parse
from a2a_grpc.wire.rules import OPERATIONS, Operation

_log = logging.getLogger(__name__)

_BINDING = "JSONRPC"
_BODY_TYPES = frozenset({MEDIA_TYPE_JSON, MEDIA_TYPE_A2A})
_MAX_BYTES_FOR_ID = 64 * 1024
_OWN_STATUS = (
    MethodNotAllowedError,
    PayloadTooLargeError,
    PermissionDeniedError,
    QuotaExceededError,
    RouteNotFoundError,
    UnauthenticatedError,
    UnsupportedMediaTypeError,
)


def create_app(
    handler: Handler,
    *,
    max_message_bytes: int = 4 * 1024 * 1024,
    max_nesting: int = DEFAULT_NESTING,
    heartbeat: float = 15.0,
    cors: Cors | None = None,
    challenge: str = "Bearer",
    check_version: VersionCheck = any_version,
) -> App:
    """The endpoint as an ASGI app, whatever path it is mounted at.

    `max_message_bytes` is the size of the params as protobuf; `max_nesting` the levels of free-form data; `heartbeat`
    is in seconds; `challenge` is the WWW-Authenticate of a 401 for which the call has left none; `check_version` is
    asked about requests whose method or params cannot be read.
    """
    return _Endpoint(
        handler=handler,
        max_message_bytes=max_message_bytes,
        max_nesting=max_nesting,
        heartbeat=heartbeat,
        cors=cors or Cors(),
        challenge=challenge.encode("latin-1"),
        check_version=check_version,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    handler: Handler
    max_message_bytes: int
    max_nesting: int
    heartbeat: float
    cors: Cors
    challenge: bytes
    check_version: VersionCheck

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _Round(self, Exchange(scope, receive, send, self.cors)).run()


class _Round:
    """One HTTP request to the endpoint."""

    __slots__ = ("_endpoint", "_exchange", "_id")

    def __init__(self, endpoint: _Endpoint, exchange: Exchange) -> None:
        self._endpoint = endpoint
        self._exchange = exchange
        self._id: bytes | None = NULL_ID
        """What the answer carries, as far as it is known; None while a notification is carried out."""

    async def run(self) -> None:
        """Answer the request, whatever happens."""
        try:
            if self._exchange.verb == "POST":
                await self._answer()
            else:
                await self._answer_other_verb()
        except CallerGoneError:
            return
        except A2AError as error:
            await self._fail(error)
        except Exception:
            _log.exception("a JSON-RPC request failed")
            if self._exchange.responded:
                raise
            await self._fail(InternalError("The request could not be handled."))

    async def _answer(self) -> None:
        exchange, endpoint, limit = self._exchange, self._endpoint, self._endpoint.max_nesting
        tenant = root_tenant(exchange.scope["raw_path"])
        call = exchange.make_call("", _BINDING, read_query(exchange))
        try:
            await endpoint.handler.admit(call, tenant)
        except _OWN_STATUS:
            raise
        except A2AError:
            self._id = await self._read_id()
            raise
        if has_body(exchange.parameters):
            check_json(exchange.parameters, _BODY_TYPES)
        body = await read_body(exchange.receive, exchange.parameters, body_limit(endpoint.max_message_bytes))
        is_large = len(body) >= OFFLOAD_BYTES
        value = await asyncio.to_thread(_parse, body, limit) if is_large else _parse(body, limit)
        try:
            request = read_request(value)
        except A2AError:
            self._id = response_id(value)
            raise
        self._id = request.id
        try:
            operation, message = await self._read(request, is_large=is_large)
        except A2AError:
            endpoint.check_version(exchange.parameters)
            raise
        if tenant is not None:
            # As on the paths of HTTP+JSON, where the path has the last word (11.3).
            message.tenant = tenant  # type: ignore[attr-defined]
        call.method = operation.name
        await self._call(operation, message, call)

    async def _read_id(self) -> bytes:
        """The id in a body that is not to be looked at any further, for an answer that needs one."""
        exchange = self._exchange
        try:
            body = await read_body(exchange.receive, exchange.parameters, _MAX_BYTES_FOR_ID)
            return response_id(_parse(body, self._endpoint.max_nesting))
        except A2AError:
            return NULL_ID

    async def _read(self, request: Request, *, is_large: bool) -> tuple[Operation, Message]:
        """The operation that a request object asks for, and its message."""
        operation = OPERATIONS.get(request.method)
        if operation is None:
            raise MethodNotFoundError(
                f"There is no method {excerpt(request.method, 64)}; the methods of A2A 1.0 are named like SendMessage."
            )
        limit = self._endpoint.max_nesting
        if is_large:
            message = await asyncio.to_thread(from_dict, request.params, operation.request, limit)
        else:
            message = from_dict(request.params, operation.request, limit)
        check_size(message.ByteSize(), self._endpoint.max_message_bytes)
        return operation, message

    async def _call(self, operation: Operation, message: Message, call: Call) -> None:
        exchange, handler = self._exchange, self._endpoint.handler
        if operation.streaming:
            events = handler.stream(operation.name, message, call)
            if self._id is None:
                await take_first(events, exchange)
            else:
                await self._stream(events, self._id)
                return
        else:
            response = await run_unary(handler, message, call, exchange)
            if self._id is not None:
                await exchange.respond(200, JSON, b"%b%b}" % (result_head(self._id), await dump(response)))
                return
        await exchange.respond_empty(204, [])

    async def _stream(self, events: AsyncIterator[Event], identifier: bytes) -> None:
        head = result_head(identifier)
        await EventStream(
            self._exchange,
            events,
            encode=lambda response: b"%b%b}" % (head, dumps(response)),
            encode_error=lambda error: encode_error(error, identifier),
            fail=self._fail,
            heartbeat=self._endpoint.heartbeat,
        ).run()

    async def _answer_other_verb(self) -> None:
        wrong_verb = MethodNotAllowedError(
            "JSON-RPC requests are sent with POST; the agent card is at /.well-known/agent-card.json.",
            metadata={"allow": "POST"},
        )
        await answer_other_verb(self._exchange, self._endpoint.cors, wrong_verb)

    async def _fail(self, error: A2AError) -> None:
        await self._exchange.note_refusal(self._endpoint.handler, _BINDING, error)
        has_own_status = isinstance(error, _OWN_STATUS)
        headers = error_headers(error, self._exchange.call, self._endpoint.challenge)
        if isinstance(error, UnauthenticatedError | PermissionDeniedError):
            # Mostly nobody has looked for the id by then.
            self._id = NULL_ID
        if self._id is None:
            await self._exchange.respond_empty(error.kind.http if has_own_status else 204, headers)
            return
        status = error.kind.http if has_own_status else 200
        if isinstance(error, UnsupportedMediaTypeError):
            # 5.4 has a code for this; the one of our own table is for errors that it has none for.
            error = ContentTypeNotSupportedError(error.message)
        await self._exchange.respond(status, JSON, encode_error(error, self._id), headers)


def _parse(body: bytes, max_nesting: int) -> object:
    return with_exact_id(parse(body, max_nesting), body)
