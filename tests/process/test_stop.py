"""How a process ends: on a signal in time and in order, whatever it is doing; and what is left when it is killed."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Iterator

import psutil
import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import BINDINGS, CALLERS, Caller, CallError, HttpCaller, kinds, say, state, texts
from tests.conformance.expected import UNAVAILABLE
from tests.support.processes import runs
from tests.support.replica import Replica, replica
from tests.support.waiting import wait_until

AGENT = "tests.process.busy_agent:agent"
SOON = 4.0
"""Seconds to the end of a process in which nobody is deaf."""


@pytest.fixture
async def server() -> AsyncIterator[Replica]:
    """A ready replica with an embedded store of its own."""
    async with replica(agent=AGENT, env={"A2A_CANCEL_GRACE": "1"}) as started:
        yield started


@pytest.fixture
async def caller(server: Replica) -> AsyncIterator[HttpCaller]:
    async with HttpCaller(server) as caller:
        yield caller


async def end(server: Replica, number: signal.Signals = signal.SIGTERM, within: float = SOON) -> None:
    """Sends a signal; the process has to end as one that was asked to, in time, and its store with it."""
    store = children(server)
    begun = time.monotonic()
    server.send(number)
    assert await asyncio.to_thread(server.wait) == 0, server.log()
    assert time.monotonic() - begun < within
    assert not list(living(store))
    assert "Traceback" not in server.log()


def children(server: Replica) -> list[psutil.Process]:
    """The embedded store and what belongs to it."""
    found = psutil.Process(server.pid).children(recursive=True)
    assert any("valkey-server" in child.name() or "redis-server" in child.name() for child in found)
    return found


def living(processes: list[psutil.Process]) -> Iterator[psutil.Process]:
    for process in processes:
        if runs(process):
            yield process


async def working(caller: Caller, task_id: str, chunks: str = "") -> pb.Task:
    """The task, once it is at work and has made `chunks`."""

    async def reached() -> pb.Task | None:
        task = await caller.get(task_id)
        return task if task.status.state == pb.TASK_STATE_WORKING and chunks in "".join(texts(task)) else None

    task = await wait_until(reached, f"the task is at work and has made {chunks!r}")
    assert task is not None
    return task


# -- on a signal -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_idle_process_ends_with_its_store(number: signal.Signals, server: Replica) -> None:
    await end(server, number)


async def test_turns_that_run_are_given_back_and_done_after_the_next_start(server: Replica, caller: HttpCaller) -> None:
    counting = await caller.task("count 12", return_immediately=True)
    hanging = await caller.task("hang", return_immediately=True)
    await working(caller, counting.id, "2 ")
    # A message for a task at work waits for its turn, also over the end of the process.
    await caller.task("echo more", task_id=counting.id, return_immediately=True)
    await working(caller, hanging.id)
    await end(server)
    await asyncio.to_thread(server.start)

    async def done() -> pb.Task | None:
        task = await caller.get(counting.id)
        return task if task.status.state == pb.TASK_STATE_COMPLETED else None

    task = await wait_until(done, "the turn was run again, and the one that waited")
    assert task is not None
    assert texts(task) == ["".join(f"{number} " for number in range(1, 13)), "more"]
    assert [message.parts[0].text for message in task.history] == ["count 12", "echo more"]
    assert state((await caller.cancel(hanging.id)).status.state) == "CANCELED"


async def test_who_waits_and_who_reads_is_told_over_each_binding(server: Replica) -> None:
    """UNAVAILABLE in the form of the binding, and no response that is cut: the callers would not let it pass."""
    async with contextlib.AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(CALLERS[binding](server)) for binding in BINDINGS]
        task = await callers[0].task("hang", return_immediately=True)
        calls: list[asyncio.Task[object]] = [asyncio.create_task(one.send(say("hang"))) for one in callers]
        calls += [await following(one, task.id) for one in callers]
        for call in calls:
            stack.callback(call.cancel)

        async def all_are_at_work() -> bool:
            return (await callers[0].page(status=pb.TASK_STATE_WORKING)).total_size == 1 + len(callers)

        await wait_until(all_are_at_work, "the calls have come")
        await end(server)
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(outcome, CallError) and outcome.is_of(UNAVAILABLE), outcome


async def following(caller: Caller, task_id: str) -> asyncio.Task[None]:
    """Reads the stream of a task, of which the first event has come, to its end."""
    begun = asyncio.Event()

    async def read() -> None:
        async with caller.subscribe(task_id) as stream:
            begun.set()
            await stream.all()

    reading = asyncio.create_task(read())
    await asyncio.wait_for(begun.wait(), 5)
    return reading


async def test_a_deaf_agent_does_not_hold_up_the_end(server: Replica, caller: HttpCaller) -> None:
    """It has the cancel grace (1 s) and no more."""
    task = await caller.task("deaf", return_immediately=True)
    await working(caller, task.id)
    reading = await following(caller, task.id)
    await end(server, within=SOON + 1)
    with pytest.raises(CallError):
        await reading


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("text", ["deaf", "block"])
async def test_a_second_signal_ends_the_process_at_once(text: str, number: signal.Signals) -> None:
    """Also while an agent keeps the event loop to itself. The store does not need its application to end."""
    # The deaf one would be left to itself after the grace, and the process end as if there had been one signal.
    async with replica(agent=AGENT, env={"A2A_CANCEL_GRACE": "5"}) as server, HttpCaller(server) as caller:
        task = await caller.task(text, return_immediately=True)
        if text == "deaf":
            await working(caller, task.id)
        store = children(server)
        server.send(number)
        if text == "deaf":
            await wait_until(lambda: "stopping" in server.log(), "the first signal has come")

        def ended() -> bool:
            if server.alive:
                server.send(number)
            return not server.alive

        await wait_until(ended, "the process has ended")
        assert server.wait() == -number
        await wait_until(lambda: not list(living(store)), "the store has ended")


# -- without one -------------------------------------------------------------------------------------------------------


async def test_a_killed_process_loses_nothing_that_was_told(server: Replica, caller: HttpCaller) -> None:
    """SIGKILL: the next start has the same data, at once, and goes on with what was parked."""
    done = [await caller.task(f"echo {number}") for number in range(5)]
    parked = await caller.task("ask")
    async with caller.stream("SendStreamingMessage", say("count 1000")) as stream:
        told = [await anext(stream) for _ in range(4)]
        server.kill()
    await asyncio.to_thread(server.start)
    for task in (*done, parked):
        assert await caller.get(task.id) == task
    assert kinds(told) == ["task SUBMITTED", "WORKING", "artifact", "artifact"]
    [artifact] = (await caller.get(told[0].task.id)).artifacts
    assert "".join(part.text for part in artifact.parts).startswith("1 2 ")
    assert texts(await caller.task("echo on", task_id=parked.id)) == ["on"]
