"""B011, B103: whatever is wrong with the store, callers are told so at once, and what runs waits until it is over.

Here it is always over before the patience of the turns (A2A_STORE_PATIENCE) is. What happens when the store does not
come back is said in `test_streams.py` (B025).
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.cases.conftest import AGENT
from tests.cases.reading import chunks, ticks
from tests.conformance.callers import BINDINGS, Caller, CallError, Connect, HttpCaller, Stream, kinds, say, state, texts
from tests.conformance.expected import UNAVAILABLE
from tests.conformance.test_store_trouble import calls, healths, ready, unavailable
from tests.support.replica import Pair
from tests.support.replica import pair as opened
from tests.support.troubles import HOLD, TROUBLES, Trouble
from tests.support.waiting import wait_until

READS = ("GetTask", "ListTasks", "SubscribeToTask")
PROBED_WITHIN = 10.0
BACK_WITHIN = 10.0


@pytest.fixture(scope="module")
def own() -> Iterator[Pair]:
    """Two replicas on a store that the tests may harm, with the settings as they are."""
    with opened(AGENT, {}) as pair:
        yield pair


@pytest.fixture
async def harmed(own: Pair) -> AsyncIterator[Pair]:
    """The same, and what was going on is over afterwards. Nobody was restarted for the trouble."""
    before = [replica.pid for replica in own.replicas]
    yield own
    await ready(*own.replicas)
    assert [replica.pid for replica in own.replicas] == before
    for replica in own.replicas:
        assert "Traceback" not in replica.log(), replica.log()


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.name)
async def test_b011_b103_what_runs_waits_and_callers_are_told(
    trouble: Trouble, harmed: Pair, connect: Connect, notes: Path
) -> None:
    """Each operation on each binding is UNAVAILABLE within two seconds, or answered where it only reads.

    Streams and blocking calls, where the turn runs and elsewhere, go on afterwards. Each turn is run once.
    """
    here = [await connect(harmed.replicas[0], over=over) for over in BINDINGS]
    there = [await connect(harmed.replicas[1], over=over) for over in BINDINGS]
    parked = await here[0].task("ask")
    async with work(here, there, notes) as (answers, logs):
        with trouble.begin(harmed.store):
            begun = time.monotonic()
            await asyncio.gather(*(told(trouble, caller, parked) for caller in here))
            await asyncio.gather(*(probed(caller) for caller in (here[1], there[1])))
            await asyncio.sleep(begun + HOLD - time.monotonic())
        await ready(*harmed.replicas)
        for task in await asyncio.wait_for(asyncio.gather(*answers), BACK_WITHIN):
            assert (state(task.status.state), texts(task)) == ("COMPLETED", [ticks(1, 25)])
        for log in await asyncio.wait_for(asyncio.gather(*logs), BACK_WITHIN):
            if log is not None:
                assert chunks(log) == ticks(1, 25)
                assert kinds(log)[-1] == "COMPLETED" and kinds(log).count("COMPLETED") == 1
    assert len(notes.read_text().splitlines()) == 2, "a turn was run twice"
    for caller in (*here, *there):
        assert await caller.get(parked.id) == parked
        assert texts(await caller.task("echo back")) == ["back"]
    assert texts(await there[0].task("echo go on", task_id=parked.id)) == ["go on"]


@contextlib.asynccontextmanager
async def work(
    here: list[Caller], there: list[Caller], notes: Path
) -> AsyncIterator[tuple[list["asyncio.Task[pb.Task]"], list["asyncio.Task[list[pb.StreamResponse] | None]"]]]:
    """Two turns on one replica, 2.5 s each: one with callers who wait for it, the other with readers of its stream."""
    text = f"counted 25 100 {notes}"
    request = say(text)
    answers = [asyncio.create_task(answered(here[0], request))]
    await wait_until(notes.read_text, "the turn has begun")
    # The same message again finds its task: these wait for what runs elsewhere.
    answers += [asyncio.create_task(answered(caller, request)) for caller in there]
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(over, answers)
        near = await stack.enter_async_context(here[0].stream("SendStreamingMessage", say(text)))
        begun = [await anext(near) for _ in range(3)]
        assert kinds(begun)[-1] == "artifact"
        far = [await stack.enter_async_context(from_the_beginning(caller, begun[0].task.id)) for caller in there]
        logs = [asyncio.create_task(read(near, begun)), *(asyncio.create_task(read(stream, [])) for stream in far)]
        stack.push_async_callback(over, logs)
        done, _ = await asyncio.wait(answers, timeout=0.3)
        assert not done
        yield answers, logs


async def over(tasks: list["asyncio.Task[Any]"]) -> None:
    """Leave none of `tasks` behind."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def answered(caller: Caller, request: pb.SendMessageRequest) -> pb.Task:
    """What a blocking call brings."""
    return (await caller.send(request)).task


def from_the_beginning(caller: Caller, task_id: str) -> contextlib.AbstractAsyncContextManager[Stream]:
    """All events of a task, also those that were there before anybody subscribed."""
    return caller.stream(
        "SubscribeToTask",
        pb.SubscribeToTaskRequest(id=task_id),
        parameters={**caller.parameters, "last-event-id": "1"},
    )


async def read(stream: Stream, events: list[pb.StreamResponse]) -> list[pb.StreamResponse] | None:
    """`events` and those that follow until the stream ends properly; None if it ended with UNAVAILABLE."""
    try:
        events.extend([event async for event in stream])
    except CallError as failure:
        assert failure.is_of(UNAVAILABLE), failure
        return None
    return events


async def told(trouble: Trouble, caller: Caller, parked: pb.Task) -> None:
    """Each operation says what there is to say, and what needs no store goes on."""
    operations = calls(parked.id)
    if trouble.readable:
        assert await caller.get(parked.id) == parked
        assert parked.id in {task.id for task in (await caller.page()).tasks}
        async with caller.subscribe(parked.id) as stream:
            assert kinds([await anext(stream)]) == ["task INPUT_REQUIRED"]
    await asyncio.gather(
        *(
            unavailable(caller, method, request)
            for method, request in operations
            if not (trouble.readable and method in READS)
        )
    )
    async with HttpCaller(caller.service) as http:
        assert (await http.http.get("/.well-known/agent-card.json")).status_code == 200


async def probed(caller: Caller) -> None:
    """Probes tell that the process lives and should not be sent anything."""

    async def noticed() -> bool:
        return await healths(caller.service) == (200, 503, "NOT_SERVING")

    await wait_until(noticed, "probes tell that the store is away, and that the process lives", PROBED_WITHIN)
