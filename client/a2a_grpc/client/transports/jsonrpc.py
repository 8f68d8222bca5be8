"""The JSON-RPC binding (specification 9)."""

import itertools
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Final

import httpx
import orjson
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from a2a_grpc.client.credentials.base import NO_ACCESS, Access
from a2a_grpc.client.options import Options
from a2a_grpc.client.pool import Pool
from a2a_grpc.client.tracing import trace_headers
from a2a_grpc.client.transports.answers import (
    FOR_STREAM,
    by_status,
    media_type,
    not_of_the_protocol,
    parse_json,
    read_events,
    redirected,
    with_delay,
)
from a2a_grpc.client.transports.base import Numbered, R
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import InvalidArgumentError, from_jsonrpc_error
from a2a_grpc.wire.headers import MEDIA_TYPE_JSON, MEDIA_TYPE_SSE, parse_event_id
from a2a_grpc.wire.protojson import from_dict, to_dict

_FOR_ANSWER: Final = {"accept": MEDIA_TYPE_JSON}


class JsonRpcTransport:
    """See `Transport`. All requests go to one address; the tenant is among the params."""

    def __init__(self, url: str, options: Options) -> None:
        self._url = url
        self._max_receive_bytes = options.max_receive_bytes
        self._idle_timeout = options.idle_timeout
        self._pool = Pool(options)
        self._ids = itertools.count(1)

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
        identifier = next(self._ids)
        async with self._exchange(method, request, identifier, _FOR_ANSWER, access) as response:
            body = await self._pool.body(response)
        result = _result(response, body, identifier)
        return response_type() if response_type is Empty else _message(result, response_type, response)

    async def stream(
        self, method: str, request: Message, parameters: Mapping[str, str], *, access: Access = NO_ACCESS
    ) -> AsyncGenerator[Numbered, None]:
        identifier = next(self._ids)
        headers = {**FOR_STREAM, **parameters}
        async with self._exchange(method, request, identifier, headers, access, self._idle_timeout) as response:
            if not response.is_success or media_type(response) != MEDIA_TYPE_SSE:
                # An error before the first event is an ordinary response. A result would be one, too, and is no stream.
                _result(response, await self._pool.body(response), identifier)
            events = read_events(response, max_bytes=self._max_receive_bytes, idle_timeout=self._idle_timeout)
            async with aclosing(events):
                async for event in events:
                    result = _result(response, event.data, identifier)
                    yield Numbered(parse_event_id(event.id) or 0, _message(result, a2a_pb2.StreamResponse, response))

    async def aclose(self) -> None:
        await self._pool.aclose()

    def _exchange(
        self,
        method: str,
        request: Message,
        identifier: int,
        headers: dict[str, str],
        access: Access,
        answer_within: float | None = None,
    ) -> AbstractAsyncContextManager[httpx.Response]:
        body = {"jsonrpc": "2.0", "id": identifier, "method": method, "params": to_dict(request)}
        return self._pool.exchange(
            "POST",
            self._url,
            headers={**headers, **trace_headers(), "content-type": MEDIA_TYPE_JSON},
            content=orjson.dumps(body),
            answer_within=answer_within,
            access=access,
        )


def _result(response: httpx.Response, body: bytes, identifier: int) -> Any:
    """The result in a response object. Raises the error that is in its place."""
    if redirect := redirected(response):
        raise redirect
    parsed = parse_json(body)
    answer: dict[str, Any] = parsed if isinstance(parsed, dict) else {}
    if isinstance(answer.get("error"), dict):
        raise with_delay(from_jsonrpc_error(answer["error"]), response)
    if not response.is_success:
        raise with_delay(by_status(response), response)
    if "result" not in answer:
        raise not_of_the_protocol(response, "JSON-RPC response", "it has neither a result nor an error.")
    if answer.get("id") != identifier:
        raise not_of_the_protocol(response, "answer to this request", "its id is another.")
    return answer["result"]


def _message(result: Any, response_type: type[R], response: httpx.Response) -> R:
    try:
        return from_dict(result, response_type)
    except InvalidArgumentError as error:
        raise not_of_the_protocol(response, response_type.DESCRIPTOR.name, error.message) from error
