"""The HTTP+JSON binding (specification 11)."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from http import HTTPStatus
from typing import Final

import httpx
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from a2a_grpc.client.credentials.base import NO_ACCESS, Access
from a2a_grpc.client.options import Options
from a2a_grpc.client.pool import Pool
from a2a_grpc.client.tracing import trace_headers
from a2a_grpc.client.transports.answers import (
    FOR_STREAM,
    by_status,
    parse_json,
    read,
    read_events,
    redirected,
    with_delay,
)
from a2a_grpc.client.transports.base import Numbered, R
from a2a_grpc.client.transports.sse import ServerSentEvent
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import A2AError, MethodNotAllowedError, RouteNotFoundError, from_error_body
from a2a_grpc.wire.headers import MEDIA_TYPE_A2A, MEDIA_TYPE_JSON, parse_event_id
from a2a_grpc.wire.rules import A2A, HttpCall, Rules

_SUBSCRIBE: Final = "SubscribeToTask"

_FOR_ANSWER: Final = {"accept": f"{MEDIA_TYPE_A2A}, {MEDIA_TYPE_JSON};q=0.9"}


class HttpTransport:
    """See `Transport`."""

    def __init__(self, url: str, options: Options, rules: Rules = A2A) -> None:
        self._base = url.rstrip("/")
        self._rules = rules
        self._max_receive_bytes = options.max_receive_bytes
        self._idle_timeout = options.idle_timeout
        self._pool = Pool(options)
        # The text of the specification says POST (11.3.2), its proto says GET; servers know one of them or both.
        self._subscribe_verb = "POST"

    async def open(self) -> None:
        """Nothing: the first request makes the connection, and tells when there is none."""

    async def unary(
        self,
        method: str,
        request: Message,
        response_type: type[R],
        *,
        timeout: float | None,  # noqa: ARG002 - HTTP has no word for it
        access: Access = NO_ACCESS,
    ) -> R:
        async with self._exchange(self._rules.to_http(method, request), _FOR_ANSWER, access) as response:
            body = await self._pool.body(response)
        if not response.is_success:
            raise _refusal(response, body)
        return response_type() if response_type is Empty else read(body, response_type, response)

    async def stream(
        self, method: str, request: Message, parameters: Mapping[str, str], *, access: Access = NO_ACCESS
    ) -> AsyncGenerator[Numbered, None]:
        headers = {**FOR_STREAM, **parameters}
        verb = self._subscribe_verb if method == _SUBSCRIBE else None
        begun = False
        try:
            async with aclosing(self._events(self._rules.to_http(method, request, verb), headers, access)) as events:
                async for event in events:
                    begun = True
                    yield event
        except (RouteNotFoundError, MethodNotAllowedError):
            if begun or verb != "POST":
                raise
        else:
            return
        async with aclosing(self._events(self._rules.to_http(method, request, "GET"), headers, access)) as events:
            async for event in events:
                self._subscribe_verb = "GET"
                yield event

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def _events(self, call: HttpCall, headers: dict[str, str], access: Access) -> AsyncGenerator[Numbered, None]:
        async with self._exchange(call, headers, access, answer_within=self._idle_timeout) as response:
            if not response.is_success:
                raise _refusal(response, await self._pool.body(response))
            events = read_events(response, max_bytes=self._max_receive_bytes, idle_timeout=self._idle_timeout)
            async with aclosing(events):
                async for event in events:
                    yield Numbered(parse_event_id(event.id) or 0, _payload(event, response))

    def _exchange(
        self, call: HttpCall, headers: dict[str, str], access: Access, answer_within: float | None = None
    ) -> AbstractAsyncContextManager[httpx.Response]:
        url = self._base + call.path
        if call.query:
            url = f"{url}?{httpx.QueryParams(list(call.query))}"
        headers = {**headers, **trace_headers()}
        if call.body is not None:
            headers["content-type"] = MEDIA_TYPE_A2A
        return self._pool.exchange(
            call.verb, url, headers=headers, content=call.body, answer_within=answer_within, access=access
        )


def _refusal(response: httpx.Response, body: bytes) -> A2AError:
    if redirect := redirected(response):
        return redirect
    parsed = parse_json(body)
    known = isinstance(parsed, dict) and isinstance(parsed.get("error"), dict)
    return with_delay(from_error_body(response.status_code, parsed) if known else by_status(response), response)


def _payload(event: ServerSentEvent, response: httpx.Response) -> a2a_pb2.StreamResponse:
    # A stream that has begun can carry an error only as an event: the body of section 11.6 in place of a payload.
    if event.event == "error" or event.data.startswith(b'{"error"'):
        raise from_error_body(HTTPStatus.INTERNAL_SERVER_ERROR, parse_json(event.data))
    return read(event.data, a2a_pb2.StreamResponse, response)
