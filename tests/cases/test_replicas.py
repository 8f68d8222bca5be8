"""B001, B003, B015, B017, B021, B029: two replicas are one service."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.cases.conftest import AGENT, ENV
from tests.cases.reading import chunks, reached, ticks, until
from tests.conformance.callers import BINDINGS, Caller, Connect, Stream, kinds, say, state, texts
from tests.conformance.test_streaming import merged
from tests.support.replica import Pair, Replica
from tests.support.servers import fresh_store_server


@pytest.mark.parametrize("over", BINDINGS)
async def test_b001_a_dropped_stream_is_taken_up_on_the_other_replica(over: str, pair: Pair, connect: Connect) -> None:
    """The snapshot holds what was emitted before, the events are what came after: nothing lost, nothing twice."""
    first = await connect(pair.replicas[0], over=over)
    async with first.stream("SendStreamingMessage", say("tick 12 150")) as stream:
        task_id = (await anext(stream)).task.id
        await until(stream, "2 ")

    async def take_up(again: Caller) -> list[pb.StreamResponse]:
        async with again.subscribe(task_id) as stream:
            return await stream.all()

    again = [await connect(pair.replicas[1], over=elsewhere) for elsewhere in BINDINGS]
    done = await asyncio.gather(*map(take_up, again))
    for events in done:
        [before] = texts(events[0].task)
        assert before.startswith(ticks(1, 2))
        assert before + chunks(events) == ticks(1, 12)
        assert kinds(events)[-1] == "COMPLETED" and set(kinds(events)[1:-1]) == {"artifact"}
        assert merged(events) == await first.get(task_id) == await again[0].get(task_id)


async def test_b001_a_stream_is_taken_up_again_and_again(pair: Pair, connect: Connect) -> None:
    """Each time on the other replica, and over another binding; the pieces make the whole."""
    callers = [await connect(replica, over=over) for over in BINDINGS for replica in pair.replicas]
    task_id = (await callers[0].task("tick 24 80", return_immediately=True)).id
    known = ""
    for number, caller in zip(range(3, 25, 4), callers, strict=True):
        async with caller.subscribe(task_id) as stream:
            before = "".join(texts((await anext(stream)).task))
            assert before.startswith(known)
            if f"{number} " not in before:
                before += chunks(await until(stream, f"{number} "))
            known = before
    async with callers[0].subscribe(task_id) as stream:
        events = await stream.all()
    assert "".join(texts(events[0].task)) + chunks(events) == ticks(1, 24)


@pytest.mark.parametrize("over", BINDINGS)
async def test_b003_turns_on_alternating_replicas_never_roll_a_task_back(
    over: str, pair: Pair, connect: Connect
) -> None:
    """What another replica did to a parked task is what the next turn goes on from, in store and streams."""
    one, other = [await connect(replica, over=over) for replica in pair.replicas]
    task = await one.task("step a")
    async with one.subscribe(task.id) as here, other.subscribe(task.id) as there:
        watching = [asyncio.create_task(stream.all()) for stream in (here, there)]
        for caller, word in ((other, "step b"), (one, "step c"), (other, "step d"), (one, "last e")):
            await caller.task(word, task_id=task.id)
        logs = await asyncio.gather(*watching)
    done = await one.get(task.id)
    assert await other.get(task.id) == done
    assert state(done.status.state) == "COMPLETED"
    assert [artifact.name for artifact in done.artifacts] == list("abcde")
    assert [part.text for message in done.history for part in message.parts] == [
        *(text for name in "abcd" for text in (f"step {name}", f"what after {name}?")),
        "last e",
    ]
    turn = ["WORKING", "artifact", "INPUT_REQUIRED"]
    for log in logs:
        assert kinds(log) == ["task INPUT_REQUIRED", *turn * 3, "WORKING", "artifact", "COMPLETED"]
        # The history of a stream lacks what callers said: only updates follow the Task.
        assert merged(log).artifacts == done.artifacts and merged(log).status == done.status


ENDINGS = {
    "raise": "FAILED",
    "exit": "FAILED",
    "fail": "FAILED",
    "reject": "REJECTED",
    "complete": "COMPLETED",
    "return": "COMPLETED",
    "cancel": "CANCELED",
    "late": "COMPLETED",
}


@pytest.mark.parametrize("how", ENDINGS)
async def test_b015_streams_and_store_agree_on_the_end(how: str, pair: Pair, connect: Connect) -> None:
    """On both replicas and all bindings: one terminal status, the last event, and GetTask says the same at once."""
    callers = [await connect(replica, over=over) for over in BINDINGS for replica in pair.replicas]
    text = "hang" if how == "cancel" else f"tick 2 150 {how}"
    task = await callers[0].task(text, return_immediately=True)

    async def watch(caller: Caller, asked: Caller) -> tuple[list[pb.StreamResponse], pb.Task]:
        async with caller.subscribe(task.id) as stream:
            events = await stream.all()
            return events, await asked.get(task.id)

    watching = [asyncio.create_task(watch(*both)) for both in zip(callers, callers[1:] + callers[:1], strict=True)]
    if how == "cancel":
        await asyncio.wait(watching, timeout=0.1)
        assert state((await callers[1].cancel(task.id)).status.state) == "CANCELED"
    for events, got in await asyncio.gather(*watching):
        assert kinds(events)[-1] == ENDINGS[how]
        assert kinds(events).count(ENDINGS[how]) == 1
        assert got.status == events[-1].status_update.status
        assert got == merged(events)


@pytest.mark.parametrize("over", BINDINGS)
async def test_b017_a_parked_task_is_followed_into_its_next_turn(over: str, pair: Pair, connect: Connect) -> None:
    """Who subscribed while the first turn ran here stays with the task when the next one runs on another replica."""
    one, other = [await connect(replica, over=over) for replica in pair.replicas]
    task = await one.task("park 1500", return_immediately=True)
    async with one.subscribe(task.id) as stream:
        reading = asyncio.create_task(stream.all())
        await reached(other, task.id, "INPUT_REQUIRED")
        done, _ = await asyncio.wait([reading], timeout=0.3)
        assert not done, "the stream was closed although the task waits"
        await other.task("tick 3 30", task_id=task.id)
        events = await asyncio.wait_for(reading, 5)
    assert kinds(events)[-8:] == ["artifact", "INPUT_REQUIRED", "WORKING", "WORKING", *["artifact"] * 3, "COMPLETED"]
    assert texts(await one.get(task.id)) == ["before the question", ticks(1, 3)]


@pytest.mark.parametrize("text", ["ask", "approve"])
async def test_b017_a_parked_task_can_be_subscribed_to(text: str, pair: Pair, connect: Connect) -> None:
    """On either replica and every binding: the task as it waits, then the answer to it, wherever that runs."""
    one, other = [await connect(replica) for replica in pair.replicas]
    task = await one.task(text)
    everywhere = [await connect(replica, over=over) for over in BINDINGS for replica in pair.replicas]
    async with contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(caller.subscribe(task.id)) for caller in everywhere]
        assert {kinds([await anext(stream)])[0] for stream in streams} == {f"task {state(task.status.state)}"}
        reading = [asyncio.create_task(stream.all()) for stream in streams]
        done, _ = await asyncio.wait(reading, timeout=0.3)
        assert not done, "a stream was closed although the task waits"
        await other.task("tick 3 30", task_id=task.id)
        for log in await asyncio.wait_for(asyncio.gather(*reading), 5):
            assert kinds(log) == ["WORKING", "WORKING", *["artifact"] * 3, "COMPLETED"]


async def test_b021_every_subscriber_gets_everything_and_only_of_its_task(pair: Pair, connect: Connect) -> None:
    """Five readers over both replicas, two of them too slow for any buffer; another task of the context runs too."""
    ways = [("GRPC", 0), ("GRPC", 1), ("HTTP+JSON", 0), ("HTTP+JSON", 1), ("GRPC", 1)]
    callers = [await connect(pair.replicas[at], over=over) for over, at in ways]
    one = callers[0]
    task = await one.task("ask")
    over_now = asyncio.Event()

    async def read(stream: Stream, *, slowly: bool) -> list[pb.StreamResponse]:
        if slowly:
            await over_now.wait()
        return await stream.all()

    async with contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(caller.subscribe(task.id)) for caller in callers]
        reading = [asyncio.create_task(read(stream, slowly=at >= 3)) for at, stream in enumerate(streams)]
        await asyncio.gather(
            one.task("chunks 1000", task_id=task.id), one.task("chunks 1000", context_id=task.context_id)
        )
        over_now.set()
        logs = await asyncio.gather(*reading)
    assert kinds(logs[0]) == ["task INPUT_REQUIRED", "WORKING", "WORKING", *["artifact"] * 1000, "COMPLETED"]
    assert chunks(logs[0]) == "".join(f"{number:019d} " for number in range(1, 1001))
    assert {event.artifact_update.task_id for event in logs[0][3:-1]} == {task.id}
    for log in logs[1:]:
        assert log == logs[0]


async def test_b029_a_blocking_answer_is_what_every_replica_reads_next(pair: Pair, connect: Connect) -> None:
    """1,000 short tasks, 50 at a time over both replicas: each answer is complete, and GetTask gives the same."""
    callers = [await connect(replica) for replica in pair.replicas]
    numbers = iter(range(1000))
    done = []

    async def work() -> None:
        for number in numbers:
            here, there = callers[number % 2], callers[(number // 2) % 2]
            task = await here.task(f"echo {number}")
            assert state(task.status.state) == "COMPLETED" and texts(task) == [str(number)]
            assert await there.get(task.id) == task
            done.append(number)

    await asyncio.gather(*(work() for _ in range(50)))
    assert sorted(done) == list(range(1000))


@pytest.fixture
async def full_and_free(connect: Connect) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two replicas on one store, the first of which runs one turn at a time and is busy with it."""
    with fresh_store_server() as store, contextlib.ExitStack() as stack:
        replicas = [
            Replica(agent=AGENT, redis_url=store.url, env={**ENV, "A2A_MAX_TURNS": turns}) for turns in ("1", "100")
        ]
        for replica in replicas:
            stack.callback(replica.close)
            replica.start(wait=False)
        for replica in replicas:
            await asyncio.to_thread(replica.wait_ready)
        busy = await connect(replicas[0])
        await busy.task("hang", return_immediately=True)
        yield replicas[0], replicas[1]


async def test_b029_an_answer_comes_when_the_turn_runs_on_the_other_replica(
    full_and_free: tuple[Replica, Replica], connect: Connect
) -> None:
    """The caller waits here, the work is done there: blocking, streaming, and for a task that is read at once."""
    full, free = full_and_free
    callers = [await connect(full, over=over) for over in BINDINGS]
    elsewhere = await connect(free)

    async def once(number: int) -> None:
        caller = callers[number % 3]
        task = await caller.task(f"echo {number}")
        assert state(task.status.state) == "COMPLETED" and texts(task) == [str(number)]
        assert await elsewhere.get(task.id) == task == await caller.get(task.id)
        events = await caller.events(f"tick 2 10 {'raise' if number % 2 else 'complete'}")
        end = "FAILED" if number % 2 else "COMPLETED"
        assert kinds(events)[0] in {"task SUBMITTED", "task WORKING"}
        assert kinds(events)[-1] == end and kinds(events).count(end) == 1
        assert await caller.get(events[0].task.id) == merged(events)

    for start in range(0, 100, 20):
        await asyncio.gather(*map(once, range(start, start + 20)))


@pytest.mark.parametrize("over", BINDINGS)
async def test_b029_a_stream_answers_its_own_message(over: str, pair: Pair, connect: Connect) -> None:
    """The task asks and its turn is not over: a message that comes now is answered, not met with the old question."""
    one, other = [await connect(replica, over=over) for replica in pair.replicas]
    for here in (one, other):
        task = await one.task("linger 300")
        assert state(task.status.state) == "INPUT_REQUIRED"
        events = await here.events("tick 2 10", task_id=task.id)
        assert kinds(events)[-3:] == ["artifact", "artifact", "COMPLETED"]
        blocking = await one.task("linger 300")
        assert state((await here.task("tick 2 10", task_id=blocking.id)).status.state) == "COMPLETED"
