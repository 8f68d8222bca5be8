"""B007, B013, B077: callers leave in every way there is, and no task, other caller or connection suffers."""

import asyncio
import contextlib
import random
import socket
import struct
import time
from collections.abc import Awaitable, Callable

import grpc.aio
import httpx
import psutil
import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from tests.cases.conftest import AGENT
from tests.cases.reading import behind_relays, reached, ticks
from tests.conformance.callers import (
    BINDINGS,
    CALLERS,
    VERSION,
    Caller,
    CallError,
    Connect,
    kinds,
    say,
    state,
    texts,
)
from tests.conformance.expected import UNAVAILABLE
from tests.support.replica import Pair, Replica, replica
from tests.support.waiting import wait_until

METADATA = tuple(VERSION.items())

Leave = Callable[[Replica, pb.SendMessageRequest], Awaitable[None]]


async def _grpc_stream_cancelled(replica: Replica, request: pb.SendMessageRequest) -> None:
    async with grpc.aio.insecure_channel(replica.grpc_addr) as channel:
        call = A2AServiceStub(channel).SendStreamingMessage(request, metadata=METADATA)
        async for event in call:
            if event.HasField("artifact_update"):
                call.cancel()
                break


async def _grpc_stream_past_its_deadline(replica: Replica, request: pb.SendMessageRequest) -> None:
    async with grpc.aio.insecure_channel(replica.grpc_addr) as channel:
        call = A2AServiceStub(channel).SendStreamingMessage(request, metadata=METADATA, timeout=0.3)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in call:
                pass
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def _grpc_channel_closed(replica: Replica, request: pb.SendMessageRequest) -> None:
    channel = grpc.aio.insecure_channel(replica.grpc_addr)
    call = A2AServiceStub(channel).SendStreamingMessage(request, metadata=METADATA)
    assert await call.read()
    await channel.close()


async def _reset(replica: Replica, request: pb.SendMessageRequest, over: str) -> None:
    async with (
        behind_relays(replica) as (there, relays),
        CALLERS[over](there) as caller,
        caller.stream("SendStreamingMessage", request) as stream,
    ):
        await anext(stream)
        for relay in relays:
            relay.reset()
        with pytest.raises((CallError, httpx.TransportError)):
            await stream.all()


async def _grpc_stream_reset(replica: Replica, request: pb.SendMessageRequest) -> None:
    await _reset(replica, request, "GRPC")


async def _http_stream_reset(replica: Replica, request: pb.SendMessageRequest) -> None:
    await _reset(replica, request, "HTTP+JSON")


async def _jsonrpc_stream_reset(replica: Replica, request: pb.SendMessageRequest) -> None:
    await _reset(replica, request, "JSONRPC")


async def _http_stream_closed(replica: Replica, request: pb.SendMessageRequest) -> None:
    async with CALLERS["HTTP+JSON"](replica) as caller, caller.stream("SendStreamingMessage", request) as stream:
        await anext(stream)


async def _grpc_answer_past_its_deadline(replica: Replica, request: pb.SendMessageRequest) -> None:
    async with grpc.aio.insecure_channel(replica.grpc_addr) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await A2AServiceStub(channel).SendMessage(request, metadata=METADATA, timeout=0.3)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


async def _grpc_answer_not_waited_for(replica: Replica, request: pb.SendMessageRequest) -> None:
    async with grpc.aio.insecure_channel(replica.grpc_addr) as channel:
        call = A2AServiceStub(channel).SendMessage(request, metadata=METADATA)
        answered = asyncio.ensure_future(call.code())
        await asyncio.wait([answered], timeout=0.2)
        assert not answered.done()
        call.cancel()
        await answered


async def _http_answer_not_waited_for(replica: Replica, request: pb.SendMessageRequest) -> None:
    async with CALLERS["HTTP+JSON"](replica) as caller:
        with pytest.raises(httpx.TimeoutException):
            await caller.answer("SendMessage", request, timeout=0.3)


async def _jsonrpc_answer_not_waited_for(replica: Replica, request: pb.SendMessageRequest) -> None:
    async with CALLERS["JSONRPC"](replica) as caller:
        with pytest.raises(httpx.TimeoutException):
            await caller.answer("SendMessage", request, timeout=0.3)


LEAVING: tuple[Leave, ...] = (
    _grpc_stream_cancelled,
    _grpc_stream_past_its_deadline,
    _grpc_channel_closed,
    _grpc_stream_reset,
    _http_stream_reset,
    _jsonrpc_stream_reset,
    _http_stream_closed,
    _grpc_answer_past_its_deadline,
    _grpc_answer_not_waited_for,
    _http_answer_not_waited_for,
    _jsonrpc_answer_not_waited_for,
)


@pytest.mark.parametrize("leave", LEAVING, ids=[leave.__name__.strip("_") for leave in LEAVING])
async def test_b013_a_caller_who_leaves_does_not_stop_the_task(
    leave: Leave, pair: Pair, connect: Connect, tenant: str
) -> None:
    """Whichever way the caller goes: the work is done, once, and in full."""
    request = say("tick 8 60")
    request.tenant = tenant
    await leave(pair.replicas[0], request)
    other = await connect(pair.replicas[1], tenant=tenant)
    [listed] = (await other.page()).tasks
    assert state(listed.status.state) in {"SUBMITTED", "WORKING"}, "it ended before its caller left"
    done = await reached(other, listed.id, "COMPLETED")
    assert texts(done) == [ticks(1, 8)]


# -- B007 --------------------------------------------------------------------------------------------------------------


def connections(pair: Pair) -> int:
    """How many the store has, but for the test's own."""
    return sum(client["name"] != "test" for client in pair.store.client.client_list())


def subscriptions(pair: Pair) -> list[bytes | str]:
    """The channels that somebody follows, but for those of the replicas themselves."""
    return [channel for channel in pair.store.client.pubsub_shardchannels() if b":events:" in channel]


def p99(took: list[float]) -> float:
    return sorted(took)[len(took) * 99 // 100]


async def test_b007_readers_who_drop_out_leave_the_store_connections_whole(pair: Pair, connect: Connect) -> None:
    """50 subscriptions, half of them resumed, are cancelled and reset at random times while 20 callers read tasks."""
    pair.store.client.client_setname("test")
    callers = [await connect(replica) for replica in pair.replicas]
    task = await callers[0].task("ask")
    others = [await callers[at % 2].task(f"echo {at}") for at in range(20)]
    for caller in callers:  # so that the replicas have opened whatever they keep open
        await caller.get(task.id)
    before = connections(pair)

    async def get(at: int, took: list[float], done: Callable[[], bool]) -> None:
        while not done():
            begun = time.monotonic()
            assert await callers[(at + len(took)) % 2].get(others[at].id) == others[at]
            took.append(time.monotonic() - begun)

    # What the machine takes for it at this hour, with nobody who drops out.
    calm: list[float] = []
    await asyncio.gather(*(get(at, calm, lambda: len(calm) > 400) for at in range(len(others))))

    async def drop(at: int) -> None:
        over, how = BINDINGS[at % 3], ("cancel", "reset")[at % 2]
        cursor = {"last-event-id": str(at % 3)} if at % 4 < 2 else {}
        async with (
            behind_relays(pair.replicas[at // 2 % 2]) as (there, relays),
            CALLERS[over](there, {**VERSION, **cursor}) as caller,
            caller.subscribe(task.id) as stream,
        ):
            await anext(stream)
            await asyncio.sleep(random.random())
            if how == "reset":
                for relay in relays:
                    relay.reset()
                with pytest.raises((CallError, httpx.TransportError)):
                    await stream.all()

    async def meanwhile() -> list[float]:
        took: list[float] = []
        stopped = asyncio.Event()
        reading = [asyncio.create_task(get(at, took, stopped.is_set)) for at in range(len(others))]
        await asyncio.gather(*map(drop, range(50)))
        stopped.set()
        await asyncio.gather(*reading)
        assert len(took) > 200
        return took

    async with callers[1].subscribe(task.id) as idle:
        await anext(idle)
        # When the machine itself stands still for a moment, all 20 callers see it, which is more than one in a hundred.
        slow = [p99(await meanwhile())]
        while slow[-1] >= p99(calm) + 0.2 and len(slow) < 3:
            slow.append(p99(await meanwhile()))
        await callers[0].task("echo x", task_id=task.id)
        assert kinds(await idle.all()) == ["WORKING", "artifact", "COMPLETED"]
    assert slow[-1] < p99(calm) + 0.2, slow
    await wait_until(lambda: connections(pair) == before, "the store has no connection more than before", 10)
    await wait_until(lambda: not subscriptions(pair), "nobody follows a task any more", 10)


# -- B077 --------------------------------------------------------------------------------------------------------------


def descriptors(pair: Pair) -> list[int]:
    """Open files and connections of each replica."""
    return [psutil.Process(replica.pid).num_fds() for replica in pair.replicas]


async def reader_over_sse(replica: Replica, task_id: str) -> asyncio.StreamWriter:
    """A subscriber who has seen two events, as cheap as 200 of them must be."""
    host, _, port = replica.http_url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /tasks/{task_id}:subscribe HTTP/1.1\r\nHost: x\r\nA2A-Version: 1.0\r\n\r\n".encode())
    events = 0
    while events < 2:
        line = await reader.readline()
        assert line, "the stream has ended"
        events += line.startswith(b"data: ")
    return writer


async def test_b077_readers_who_vanish_leave_nothing_behind(pair: Pair, connect: Connect) -> None:
    """200 SSE readers and 40 over gRPC of a task at work are gone at once, without a word; the task is not touched."""
    one = await connect(pair.replicas[0])
    task = await one.task("tick 1000 100", return_immediately=True)
    before = descriptors(pair)
    async with contextlib.AsyncExitStack() as stack:
        behind = [await stack.enter_async_context(behind_relays(replica)) for replica in pair.replicas]
        callers = [await stack.enter_async_context(CALLERS["GRPC"](there)) for there, _ in behind for _ in range(20)]
        flags = [asyncio.Event() for _ in callers]

        async def read(caller: Caller, seen: asyncio.Event) -> None:
            async with caller.subscribe(task.id) as stream:
                await anext(stream)
                await anext(stream)
                seen.set()
                await stream.all()

        over_grpc = [asyncio.create_task(read(caller, flag)) for caller, flag in zip(callers, flags, strict=True)]
        async with asyncio.timeout(20):
            over_sse = await asyncio.gather(*(reader_over_sse(pair.replicas[at % 2], task.id) for at in range(200)))
            await asyncio.gather(*(flag.wait() for flag in flags))
        assert all(now >= was + 100 for now, was in zip(descriptors(pair), before, strict=True))
        assert len(subscriptions(pair)) == 1  # one for the whole replica, whatever the number of its readers
        for writer in over_sse:
            reset = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            writer.transport.abort()
        for _, relays in behind:
            for relay in relays:
                relay.reset()
        for error in await asyncio.gather(*over_grpc, return_exceptions=True):
            assert isinstance(error, CallError), error
    await wait_until(
        lambda: all(now <= was + 2 for now, was in zip(descriptors(pair), before, strict=True)),
        "no connection of a reader is left",
    )
    await wait_until(lambda: not subscriptions(pair), "nobody follows the task any more")
    assert state((await one.get(task.id)).status.state) == "WORKING"
    assert state((await one.cancel(task.id)).status.state) == "CANCELED"


async def test_b077_a_stop_ends_every_stream_in_time_and_says_so(connect: Connect) -> None:
    """SIGTERM with 30 live readers: each hears that the server leaves, the process ends, and the task goes on later."""
    async with replica(agent=AGENT) as server:
        callers = [await connect(server, over=over) for over in BINDINGS for _ in range(10)]
        task = await callers[0].task("hang", return_immediately=True)

        async def read(caller: Caller, seen: asyncio.Event) -> CallError:
            async with caller.subscribe(task.id) as stream:
                await anext(stream)
                seen.set()
                with pytest.raises(CallError) as caught:
                    await stream.all()
                return caught.value

        flags = [asyncio.Event() for _ in callers]
        reading = [asyncio.create_task(read(caller, flag)) for caller, flag in zip(callers, flags, strict=True)]
        await asyncio.wait_for(asyncio.gather(*(flag.wait() for flag in flags)), 20)
        server.terminate()
        for error in await asyncio.wait_for(asyncio.gather(*reading), 8):
            assert error.is_of(UNAVAILABLE), error
        assert await asyncio.to_thread(server.wait) == 0
        await asyncio.to_thread(server.start)
        again = await connect(server)
        async with again.subscribe(task.id) as stream:
            assert kinds([await anext(stream)]) in (["task SUBMITTED"], ["task WORKING"])
        assert state((await again.cancel(task.id)).status.state) == "CANCELED"


async def test_b077_a_stop_does_not_wait_for_an_agent_that_does_not_end(connect: Connect) -> None:
    """One that swallows its cancellation, or blocks a thread: the process ends, before it and its store are killed."""
    async with replica(agent=AGENT, env={"A2A_CANCEL_GRACE": "0.5"}) as server:
        caller = await connect(server)
        texts = ("hang", "end swallow", "end thread", "stubborn hang")
        tasks = [await caller.task(text, return_immediately=True) for text in texts]
        # This task ends, and its function does not.
        assert state((await caller.cancel(tasks[-1].id)).status.state) == "CANCELED"
        server.terminate()
        assert await asyncio.to_thread(server.wait, 8) == 0
        await asyncio.to_thread(server.start)
        again = await connect(server)
        assert {task.id for task in (await again.page()).tasks} == {task.id for task in tasks}


# -- idle streams ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_b007_a_stream_may_be_idle_for_longer_than_any_read_of_the_store(pair: Pair, connect: Connect) -> None:
    """12 s without an event, eight times the store's timeout and more than the tail waits for a sign of life."""
    callers = [await connect(replica, over=over) for over in BINDINGS for replica in pair.replicas]
    task = await callers[0].task("ask")
    async with contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(caller.subscribe(task.id)) for caller in callers]
        reading = [asyncio.create_task(stream.all()) for stream in streams]
        done, _ = await asyncio.wait(reading, timeout=12)
        assert not done
        await callers[-1].task("tick 1 1", task_id=task.id)
        for log in await asyncio.gather(*reading):
            assert kinds(log) == ["task INPUT_REQUIRED", "WORKING", "WORKING", "artifact", "COMPLETED"]
