"""B011, B103: whatever is wrong with the store, callers are told so at once, and what runs waits until it is over.

Here it is always over before the patience of the turns (A2A_STORE_PATIENCE) is. What happens when the store does not
come back is said in `test_streams.py` (B025).
"""

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.cases.conftest import AGENT
from tests.cases.reading import chunks, reached, ticks
from tests.conformance.callers import (
    BINDINGS,
    Caller,
    CallError,
    Connect,
    HttpCaller,
    Stream,
    kinds,
    refused,
    say,
    state,
    texts,
)
from tests.conformance.expected import TASK_NOT_FOUND, UNAVAILABLE
from tests.conformance.test_store_trouble import calls, healths, ready, unavailable
from tests.support.audit import audit
from tests.support.lossy import LossyLink, lossy
from tests.support.replica import Pair, replica
from tests.support.replica import pair as opened
from tests.support.servers import fresh_store_server
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
    before = [one.pid for one in own.replicas]
    yield own
    await ready(*own.replicas)
    assert [one.pid for one in own.replicas] == before
    for one in own.replicas:
        assert "Traceback" not in one.log(), one.log()


# One for each way in which a store can be away; the others are like one of these, and take as long.
PRESSING = {"gone", "standing still", "full", "read-only", "busy"}
EACH = [
    pytest.param(trouble, id=trouble.name, marks=() if trouble.name in PRESSING else (pytest.mark.slow,))
    for trouble in TROUBLES
]


@pytest.mark.parametrize("trouble", EACH)
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
            await asyncio.gather(*(probed(trouble, caller) for caller in (here[1], there[1])))
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


async def probed(trouble: Trouble, caller: Caller) -> None:
    """Probes tell that the process lives and should not be sent anything, and operators what is wrong."""

    async def noticed() -> bool:
        async with HttpCaller(caller.service) as http:
            told = (await http.http.get("/readyz")).json()["components"]["store"]
        return trouble.word in told and await healths(caller.service) == (200, 503, "NOT_SERVING")

    await wait_until(noticed, "probes tell that the store is away, and that the process lives", PROBED_WITHIN)


@pytest.mark.parametrize("how", ["flushed", "restarted"])
async def test_b011_a_store_that_comes_back_empty_leaves_nobody_waiting(
    how: str, harmed: Pair, connect: Connect, notes: Path
) -> None:
    """Its tasks are lost, and everybody who waits for one or reads one hears it; what runs stops; new work is done."""
    here = [await connect(harmed.replicas[0], over=over) for over in BINDINGS]
    there = [await connect(harmed.replicas[1], over=over) for over in BINDINGS]
    parked, request = await here[0].task("ask"), say(f"effects {notes}")
    waiting = [asyncio.create_task(answered(here[0], request))]
    await wait_until(notes.read_text, "the turn has begun")
    # For the same turn, from where it runs and from elsewhere; and for a question that nobody will answer.
    waiting += [asyncio.create_task(answered(caller, request)) for caller in (*here[1:], *there)]
    reading: list[asyncio.Task[list[pb.StreamResponse]]] = []
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(over, waiting)
        stack.push_async_callback(over, reading)
        running = (await here[0].page(status=pb.TASK_STATE_WORKING)).tasks[0].id
        for caller in (*here, *there):
            for task_id in (running, parked.id):
                stream = await stack.enter_async_context(caller.subscribe(task_id))
                await anext(stream)
                reading.append(asyncio.create_task(stream.all()))
        done, _ = await asyncio.wait([*waiting, *reading], timeout=0.3)
        assert not done
        harmed.store.client.flushall()
        if how == "restarted":
            await harmed.store.restart()
        lost = time.monotonic()
        for outcome in await asyncio.wait_for(asyncio.gather(*waiting, *reading, return_exceptions=True), BACK_WITHIN):
            assert isinstance(outcome, CallError), outcome
            assert outcome.is_of(TASK_NOT_FOUND) or outcome.is_of(UNAVAILABLE), outcome
        assert time.monotonic() - lost < BACK_WITHIN
    await wait_until(lambda: quiet(notes), "the turn of a task that is gone has stopped")
    for caller in (*here, *there):
        await refused(TASK_NOT_FOUND, caller.get(parked.id))
        assert texts(await caller.task("echo new")) == ["new"]
    assert not audit(harmed.store.client)
    # Each replica looks once a second.
    await wait_until(lambda: harmed.store.client.get("a2a:shards") == b"1", "the number of shards is kept again")


async def quiet(notes: Path) -> bool:
    """Nothing is noted any more, for five times as long as the turn takes for a line."""
    before = notes.stat().st_size
    await asyncio.sleep(0.25)
    return notes.stat().st_size == before


def has_lost(link: LossyLink, answers: int) -> bool:
    return link.lost >= answers


async def test_b011_connections_that_break_in_mid_script_cost_time_and_nothing_else(
    connect: Connect, notes: Path
) -> None:
    """The store has done it, and its answer is lost: again and again, wherever in its life a task is."""
    with fresh_store_server() as store:
        async with lossy(store) as link, replica(agent=AGENT, redis_url=link.url) as one:
            callers = [await connect(one, over=over) for over in BINDINGS]

            async def lose() -> None:
                chance = random.Random(11)
                while True:
                    link.lose_after(chance.randrange(12))
                    await wait_until(partial(has_lost, link, link.lost + 1), "an answer is lost", 10)

            async def once(number: int) -> None:
                caller = callers[number % len(callers)]
                task = await caller.task(f"counted 3 20 {notes}")
                assert (state(task.status.state), texts(task)) == ("COMPLETED", [ticks(1, 3)])
                question = await caller.task("ask")
                assert texts(await caller.task(f"echo {number}", task_id=question.id)) == [str(number)]
                log = await caller.events(f"counted 3 20 {notes}")
                assert (kinds(log)[-1], chunks(log)) == ("COMPLETED", ticks(1, 3))

            losing = asyncio.create_task(lose())
            try:
                for start in range(0, 60, 12):
                    await asyncio.gather(*map(once, range(start, start + 12)))
            finally:
                await over([losing])
            assert link.lost > 20
            assert len(notes.read_text().splitlines()) == 120, "a turn was run twice"
            assert "Traceback" not in one.log()
        await wait_until(lambda: not audit(store.client), "all is in order")


@pytest.mark.slow
async def test_b103_probes_are_answered_under_load(harmed: Pair) -> None:
    """A thousand calls a second, which is more than one core takes: none of them fails, and no probe waits for them."""
    one = harmed.replicas[0]
    flooding = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.cases.flood", one.grpc_addr, "1000", "5"), stdout=asyncio.subprocess.PIPE
    )
    ended = asyncio.create_task(flooding.communicate())
    took: list[float] = []
    while not ended.done():
        async with HttpCaller(one) as http:
            for path in ("/healthz", "/readyz"):
                begun = time.monotonic()
                assert (await http.http.get(path)).status_code == 200
                took.append(time.monotonic() - begun)
        assert (await healths(one))[2] == "SERVING"  # within its 5 s
        await asyncio.wait([ended], timeout=0.05)
    outcomes = dict(line.split() for line in (await ended)[0].decode().splitlines())
    assert outcomes.keys() == {"OK"} and int(outcomes["OK"]) > 4000
    assert len(took) > 50
    assert max(took) < 1


@pytest.mark.slow
async def test_b103_turns_outlast_half_a_minute_without_the_store(harmed: Pair, connect: Connect, notes: Path) -> None:
    """Killed for 30 s, with the settings as they are: nobody is restarted, and the work goes on where it was."""
    callers = [await connect(one) for one in harmed.replicas]
    tasks = [await caller.task(f"counted 20 100 {notes}", return_immediately=True) for caller in callers]
    harmed.store.kill()
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < 30:
        told = await asyncio.gather(*(healths(one) for one in harmed.replicas))
        assert {live for live, _, _ in told} == {200}
        assert passed < PROBED_WITHIN or {(is_ready, serving) for _, is_ready, serving in told} == {
            (503, "NOT_SERVING")
        }
        await asyncio.gather(*(unavailable(caller, "ListTasks", pb.ListTasksRequest()) for caller in callers))
    harmed.store.start()
    await ready(*harmed.replicas)
    for caller, task in zip(callers, tasks, strict=True):
        assert texts(await reached(caller, task.id, "COMPLETED")) == [ticks(1, 20)]
    assert len(notes.read_text().splitlines()) == 2, "a turn was run twice"
