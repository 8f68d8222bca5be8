"""Connections grow old (B105): their calls end by themselves, with an error that says so, and are never cut."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from a2a_grpc.server.bindings.grpc.server import ConnectionAge
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.core.events import Event
from tests.bindings_grpc.scripted import Scripted, chunk, empty_response, serving

GET = a2a_pb2.GetTaskRequest(id="t-1")
SUBSCRIBE = a2a_pb2.SubscribeToTaskRequest(id="t-1")
AGE = ConnectionAge(limit=0.5, grace=1.0)


async def endless(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
    seq = 0
    while True:
        yield Event(seq := seq + 1, chunk("x"))
        await asyncio.sleep(0.01)


async def slow(method: str, request: Message, call: Call) -> Message:
    if method == "SendMessage":
        await asyncio.Event().wait()
    return await empty_response(method, request, call)


async def ended(call: Awaitable[object]) -> tuple[str, float]:
    """The public sentence with which a call was ended, and after which time it may come again."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE, caught.value
    [details] = [value for name, value in caught.value.trailing_metadata() or () if name == "grpc-status-details-bin"]
    retry = error_details_pb2.RetryInfo()
    status = status_pb2.Status.FromString(details if isinstance(details, bytes) else details.encode())
    assert any(detail.Unpack(retry) for detail in status.details)
    return status.message, retry.retry_delay.ToMilliseconds() / 1000


async def test_no_call_outlasts_its_connection() -> None:
    """Wherever in the life of a connection a call begins. Short calls go on all the time, over new connections."""
    async with (
        serving(Scripted(slow, endless), age=AGE) as address,
        grpc.aio.insecure_channel(address) as channel,
        asyncio.timeout(10),
    ):
        stub: Any = A2AServiceStub(channel)

        async def read() -> None:
            async for _ in stub.SubscribeToTask(SUBSCRIBE):
                pass

        begun = time.monotonic()
        readers: list[asyncio.Task[tuple[str, float]]] = []
        callers: list[asyncio.Task[tuple[str, float]]] = []
        while time.monotonic() < begun + 2.5 or len(readers) < 6:
            readers.append(asyncio.create_task(ended(read())))
            callers.append(asyncio.create_task(ended(stub.SendMessage(a2a_pb2.SendMessageRequest()))))
            for _ in range(10):
                await stub.GetTask(GET, timeout=2)
                await asyncio.sleep(0.01)
        for reader in readers:
            sentence, retry_after = await reader
            assert sentence.endswith("subscribe to the task again over a new one.")
            assert retry_after == 0.1
        for caller in callers:
            sentence, retry_after = await caller
            assert "what it has started goes on" in sentence
            assert retry_after == 0.1


async def test_a_call_ends_within_the_grace() -> None:
    async with serving(Scripted(slow, endless), age=AGE) as address, grpc.aio.insecure_channel(address) as channel:
        begun = time.monotonic()
        stub: Any = A2AServiceStub(channel)
        await ended(stub.SendMessage(a2a_pb2.SendMessageRequest()))
        assert AGE.longest_call == pytest.approx(0.8)
        assert 0.7 < time.monotonic() - begun < 5


async def test_without_an_age_calls_last() -> None:
    async with serving(Scripted(slow, endless)) as address, grpc.aio.insecure_channel(address) as channel:
        stub: Any = A2AServiceStub(channel)
        begun = time.monotonic()
        async for _ in stub.SubscribeToTask(SUBSCRIBE):
            if time.monotonic() > begun + 1.2 * AGE.grace:
                break
        else:
            pytest.fail("the stream has ended")


def test_the_margin_is_a_fifth_and_at_most_five_seconds() -> None:
    assert ConnectionAge(limit=300, grace=5).longest_call == 4
    assert ConnectionAge(limit=300, grace=600).longest_call == 595
