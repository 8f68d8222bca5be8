"""Bytes that are no request are answered with a sentence for people, on every service of the port."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest

from a2a_grpc.pb import a2a_pb2
from tests.bindings_grpc.frames import DATA, HEADERS, http2
from tests.bindings_grpc.scripted import Scripted, serving
from tests.bindings_grpc.test_failures import error_info, failure

A2A = "/lf.a2a.v1.A2AService/"
UNARY = ("/lf.a2a.v1.A2AService/SendMessage", "/lf.a2a.v1.A2AService/ListTasks", "/grpc.health.v1.Health/Check")
STREAMS = ("/lf.a2a.v1.A2AService/SendStreamingMessage", "/grpc.health.v1.Health/Watch")
REFLECTION = (
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)
GARBAGE = {
    "cut off": b"\x0a\xff\x01abc",
    "no tag": b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    "not UTF-8": b"\x0a\x02\xff\xfe",
}


async def once(request: bytes) -> AsyncIterator[bytes]:
    yield request


async def answer(channel: Any, method: str, request: bytes) -> grpc.aio.AioRpcError:
    if method in UNARY:
        return await failure(channel.unary_unary(method)(request))
    if method in STREAMS:
        return await failure(channel.unary_stream(method)(request).read())
    return await failure(channel.stream_stream(method)(once(request)).read())


@pytest.mark.parametrize("method", [*UNARY, *STREAMS, *REFLECTION])
async def test_garbage_is_an_invalid_argument(method: str, caplog: pytest.LogCaptureFixture) -> None:
    handler = Scripted()
    async with serving(handler) as address, grpc.aio.insecure_channel(address) as channel:
        for request in GARBAGE.values():
            error = await answer(channel, method, request)
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert error_info(error).reason == "INVALID_PARAMS"
            assert error.details() == (
                f"The request of {method.rpartition('/')[2]} cannot be read: it is not a protobuf message of the right "
                "type, is cut off, has text that is not UTF-8, or is nested deeper than 32 levels."
            )
    assert handler.calls == []
    assert caplog.records == []


async def test_nesting_that_protobuf_refuses_is_named() -> None:
    async with serving(Scripted(), max_nesting=17) as address, grpc.aio.insecure_channel(address) as channel:
        error = await answer(channel, A2A + "SendMessage", wrapped_value(120))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (error.details() or "").endswith("or is nested deeper than 17 levels.")


def wrapped_value(levels: int) -> bytes:
    """A SendMessageRequest whose first part holds `levels` lists, each in the other."""
    value = b"\x1a\x01x"  # Value.string_value
    for _ in range(levels):
        value = field(6, field(1, value))  # Value.list_value, ListValue.values
    return field(2, field(5, field(4, value)))  # SendMessageRequest.message, Message.parts, Part.data


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def varint(number: int) -> bytes:
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def request_of(size: int) -> a2a_pb2.SendMessageRequest:
    """A SendMessageRequest of exactly `size` bytes."""
    request = a2a_pb2.SendMessageRequest(message=a2a_pb2.Message(parts=[a2a_pb2.Part(raw=bytes(size - 100))]))
    request.tenant = "x" * (size - request.ByteSize() - 2)
    assert request.ByteSize() == size
    return request


async def send(address: str, request: a2a_pb2.SendMessageRequest) -> Any:
    async with grpc.aio.insecure_channel(address) as channel, asyncio.timeout(5):
        method: Any = channel.unary_unary(A2A + "SendMessage")
        return await method(request.SerializeToString())


async def test_the_limit_is_on_the_size_of_the_message() -> None:
    handler = Scripted()
    async with serving(handler, max_message_bytes=100_000) as address:
        await send(address, request_of(100_000))
        assert len(handler.calls) == 1
        error = await failure(send(address, request_of(100_001)))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert error.details() == "The request has 100001 bytes; the limit is 100000 bytes."
        assert error_info(error).reason == "PAYLOAD_TOO_LARGE"
        assert len(handler.calls) == 1


async def test_a_request_of_more_than_twice_the_limit_is_cut_off_by_the_library() -> None:
    handler = Scripted()
    async with serving(handler, max_message_bytes=100_000) as address:
        error = await failure(send(address, request_of(200_001)))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "grpc-status-details-bin" not in error.trailing_metadata()
        await send(address, request_of(1_000))
    assert len(handler.calls) == 1


async def test_an_unknown_method_is_unimplemented() -> None:
    async with serving(Scripted()) as address, grpc.aio.insecure_channel(address) as channel:
        for method in (A2A + "NoSuchMethod", "/lf.a2a.v2.A2AService/SendMessage", "/"):
            call: Any = channel.unary_unary(method)
            error = await failure(call(b""))
            assert error.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_metadata_that_are_not_text_pass_and_stay_out_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """The library would log the value, which may be a credential, with a traceback, twice a call."""
    handler = Scripted()
    headers = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", A2A + "GetTask"),
        (":authority", "agent"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("authorization", "Bearer caf\u00e9"),
    )
    async with serving(handler) as address, http2(address) as wire, asyncio.timeout(5):
        await wire.request(1, headers, body=bytes(5))
        frames = [await wire.read_until(HEADERS, DATA) for _ in range(3)]
    assert [frame.kind for frame in frames if frame] == [HEADERS, DATA, HEADERS]
    assert handler.calls[0].parameters["authorization"] == "Bearer caf\u00e9"
    assert caplog.records == []
