"""When the peer goes away, what served it ends at once (B013: what it started is the Handler's to keep)."""

import asyncio
import gc
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from a2a_grpc.server.bindings.grpc import registrar
from a2a_grpc.server.core.events import Event
from a2a_grpc.wire.errors import A2AError
from tests.bindings_grpc.scripted import Scripted, calling, chunk, serving
from tests.support.waiting import wait_until

SUBSCRIBE = a2a_pb2.SubscribeToTaskRequest(id="t-1")


class Watched:
    """A stream that says when it was closed; `size` makes its events large enough to fill the window of the peer."""

    def __init__(self, size: int = 1, endless: bool = False) -> None:
        self.size = size
        self.endless = endless
        self.sent = 0
        self.closed = asyncio.Event()

    async def stream(self, *_: object) -> AsyncIterator[Event]:
        try:
            while True:
                self.sent += 1
                yield Event(self.sent, chunk("x" * self.size))
                if not self.endless:
                    await asyncio.Event().wait()
        finally:
            self.closed.set()


class Hanging:
    """A unary call that goes on until it is cancelled."""

    def __init__(self) -> None:
        self.started, self.over = asyncio.Event(), asyncio.Event()

    async def unary(self, *_: object) -> Message:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.over.set()
        raise AssertionError


async def closes(watched: Watched) -> None:
    async with asyncio.timeout(2):
        await watched.closed.wait()


async def test_a_cancelled_stream_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    async with calling(Scripted(stream=watched.stream)) as stub:
        rpc = stub.SubscribeToTask(SUBSCRIBE)
        await rpc.read()
        rpc.cancel()
        await closes(watched)
    assert caplog.records == []


async def test_streams_that_are_left_at_their_first_event_leave_nothing_behind() -> None:
    """A status for a peer that leaves before the first event is all sent would stay in the library for ever."""
    watched = Watched(size=5_000_000)
    async with calling(Scripted(stream=watched.stream)) as stub:
        for number in range(1, 21):
            rpc = stub.SubscribeToTask(SUBSCRIBE)
            await begins(watched, number)
            rpc.cancel()
        await wait_until(lambda: not left_behind(), "what was to be sent is let go of")


async def begins(watched: Watched, number: int) -> None:
    await wait_until(lambda: watched.sent == number, "the first event is on its way")


def left_behind() -> int:
    gc.collect()
    return sum(type(each).__name__ == "SendStatusFromServerOperation" for each in gc.get_objects())


async def test_a_peer_that_is_gone_is_sent_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what it cannot send the library keeps a few hundred bytes for ever."""
    sent: list[A2AError] = []

    async def abort(context: object, error: A2AError) -> None:
        sent.append(error)

    monkeypatch.setattr(registrar, "_abort", abort)
    hanging = Hanging()
    waiting, writing = Watched(), Watched(size=1_000_000, endless=True)
    for watched in (waiting, writing):
        async with calling(Scripted(stream=watched.stream)) as stub:
            rpc = stub.SubscribeToTask(SUBSCRIBE)
            await rpc.read()
            if watched is writing:
                await stalls(watched)
            rpc.cancel()
            await closes(watched)
    async with calling(Scripted(unary=hanging.unary)) as stub, asyncio.timeout(5):
        call = stub.GetTask(a2a_pb2.GetTaskRequest())
        await hanging.started.wait()
        call.cancel()
        await hanging.over.wait()
    assert sent == []


async def test_a_stream_past_its_deadline_is_closed() -> None:
    watched = Watched()
    async with calling(Scripted(stream=watched.stream)) as stub:
        rpc = stub.SubscribeToTask(SUBSCRIBE, timeout=0.3)
        await rpc.read()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rpc.read()
        await closes(watched)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_stream_whose_connection_is_gone_is_closed() -> None:
    watched = Watched()
    async with serving(Scripted(stream=watched.stream)) as address:
        channel = grpc.aio.insecure_channel(address)
        rpc = A2AServiceStub(channel).SubscribeToTask(SUBSCRIBE)
        await rpc.read()
        await channel.close()
        await closes(watched)


async def test_a_peer_that_does_not_read_holds_the_stream_up_and_then_closes_it() -> None:
    watched = Watched(size=1_000_000, endless=True)
    async with calling(Scripted(stream=watched.stream)) as stub:
        rpc = stub.SubscribeToTask(SUBSCRIBE)
        await rpc.read()
        await stalls(watched)
        rpc.cancel()
        await closes(watched)


async def stalls(watched: Watched) -> None:
    """Wait until the number of events sent stands still for 0.2 s: the writer waits for the peer."""
    last, since = -1, 0.0
    loop = asyncio.get_running_loop()

    def still() -> bool:
        nonlocal last, since
        if watched.sent != last:
            last, since = watched.sent, loop.time()
        return loop.time() - since > 0.2

    await wait_until(still, "the stream stalls")
    assert watched.sent < 50


async def test_an_iterator_that_is_no_generator_will_do() -> None:
    class Two:
        left = 2

        def __aiter__(self) -> "Two":
            return self

        async def __anext__(self) -> Event:
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return Event(1, chunk("x"))

    async with calling(Scripted(stream=lambda *_: Two())) as stub:
        assert len([response async for response in stub.SubscribeToTask(SUBSCRIBE)]) == 2


async def test_a_cancelled_unary_call_cancels_its_handler() -> None:
    hanging = Hanging()
    async with calling(Scripted(unary=hanging.unary)) as stub:
        rpc = stub.GetTask(a2a_pb2.GetTaskRequest())
        async with asyncio.timeout(2):
            await hanging.started.wait()
            rpc.cancel()
            await hanging.over.wait()
