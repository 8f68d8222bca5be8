"""What both HTTP bindings make of an answer: messages, streams of events, refusals."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

import httpx

from a2a_grpc.client.bodies import chunks
from a2a_grpc.client.transports.base import R
from a2a_grpc.client.transports.sse import EventDecoder, ServerSentEvent
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import (
    A2AError,
    InvalidAgentResponseError,
    InvalidArgumentError,
    JsonParseError,
    UnavailableError,
    excerpt,
    from_error_body,
)
from a2a_grpc.wire.headers import MEDIA_TYPE_SSE, parse_retry_after

# What compresses a stream, or keeps it, holds events back.
FOR_STREAM: Final = {"accept": MEDIA_TYPE_SSE, "accept-encoding": "identity", "cache-control": "no-store"}

# What proxies say in their own name when they cannot reach the agent, or have waited long enough. Those from 520 on are
# of proxies in front of much of the web.
_BETWEEN: Final = frozenset({502, 503, 504, *range(520, 528), 530})


def parse_json(body: bytes) -> object:
    """What is in a body; None where it is not JSON: a proxy's page, for instance."""
    try:
        return protojson.parse(body)
    except A2AError:
        return None


def read(body: bytes, response_type: type[R], response: httpx.Response) -> R:
    """The message that is in a body or in the data of an event. Raises: InvalidAgentResponseError."""
    try:
        return protojson.loads(body, response_type)
    except (InvalidArgumentError, JsonParseError) as error:
        raise not_of_the_protocol(response, response_type.DESCRIPTOR.name, error.message) from error


def not_of_the_protocol(response: httpx.Response, wanted: str, why: str) -> InvalidAgentResponseError:
    """The error for an answer that is not what was asked for."""
    what = f"{response.request.method} {excerpt(response.request.url.path)}"
    return InvalidAgentResponseError(f"The agent answered {what} with something that is no {wanted}: {why}")


def media_type(response: httpx.Response) -> str:
    """What the body is said to be, without parameters; empty where nothing is said."""
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


async def read_events(
    response: httpx.Response, *, max_bytes: int, idle_timeout: float | None
) -> AsyncGenerator[ServerSentEvent, None]:
    """The events of a response. Seconds without a byte, be it of a heartbeat, are `idle_timeout` at most.

    Raises: InvalidAgentResponseError for what is no stream; UnavailableError for one that has fallen silent.
    """
    found = media_type(response)
    if found != MEDIA_TYPE_SSE:
        raise InvalidAgentResponseError(
            f"The agent answered a streaming request with {excerpt(found) or 'no media type'}."
        )
    decoder = EventDecoder(max_bytes)
    pieces = chunks(response)
    while True:
        try:
            async with asyncio.timeout(idle_timeout):
                chunk = await anext(pieces, None)
        except TimeoutError as error:
            raise UnavailableError(f"Nothing came over the stream for {idle_timeout:g} s.") from error
        if chunk is None:
            return
        for event in decoder.feed(chunk):
            yield event


def redirected(response: httpx.Response) -> InvalidAgentResponseError | None:
    """The error for a redirect, which is not followed; None for any other response."""
    if not response.has_redirect_location:
        return None
    target = excerpt(response.headers["location"])
    return InvalidAgentResponseError(f"The agent redirects to {target}, an address that its card does not name.")


def by_status(response: httpx.Response) -> A2AError:
    """The error of a response that says nothing about it but its status."""
    status = response.status_code
    if status in _BETWEEN:
        return UnavailableError(f"The agent, or what stands before it, answered with HTTP status {status}.")
    return from_error_body(status, None)


def with_delay(error: A2AError, response: httpx.Response) -> A2AError:
    """The error, with the time that Retry-After asks for where it has none of its own."""
    if error.retry_after is None:
        error.retry_after = parse_retry_after(response.headers.get("retry-after", ""))
    return error
