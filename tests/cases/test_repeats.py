"""B089, and B013, B021, B029, B033 in its light: a message that is sent again is answered, and not carried out again.

On one shard and on four: a message id then says in which of them it is looked for.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.cases.conftest import AGENT, ENV
from tests.cases.reading import reached, ticks
from tests.conformance.callers import BINDINGS, Caller, CallError, Connect, kinds, refused, say, state, texts
from tests.conformance.expected import INVALID_ARGUMENT, TASK_NOT_FOUND
from tests.conformance.test_resuming import sending
from tests.conformance.test_streaming import merged
from tests.support.replica import Pair, PairPool, Replica, pair, replica
from tests.support.waiting import wait_until


@pytest.fixture(params=["one shard", "four shards"])
def sharded(request: pytest.FixtureRequest, pair_pool: PairPool) -> Pair:
    """Two replicas on one store of so many shards."""
    return pair_pool.get(AGENT, ENV if request.param == "one shard" else {**ENV, "A2A_SHARDS": "4"})


@pytest.fixture
async def callers(sharded: Pair, connect: Connect, tenant: str) -> list[Caller]:
    """Of one tenant: of both replicas over each binding, in turn."""
    return [await connect(replica, over=over, tenant=tenant) for over in BINDINGS for replica in sharded.replicas]


def runs(notes: Path) -> int:
    """How often the agent has begun, and ended, a turn."""
    lines = [line.partition(" ")[0] for line in notes.read_text().splitlines()]
    assert lines.count("begin") == lines.count("end")
    return lines.count("begin")


def changed(request: pb.SendMessageRequest, **fields: Any) -> pb.SendMessageRequest:
    """The request with other fields of its message, or with metadata of its own."""
    made = pb.SendMessageRequest()
    made.CopyFrom(request)
    if "text" in fields:
        made.message.parts[0].text = fields.pop("text")
    if "metadata" in fields:
        made.metadata.update(fields.pop("metadata"))
    for name, value in fields.items():
        setattr(made.message, name, value)
    return made


async def sent(caller: Caller, request: pb.SendMessageRequest) -> pb.Task:
    """The task that SendMessage answers with."""
    response = await caller.send(request)
    assert response.HasField("task")
    return response.task


async def streamed(caller: Caller, request: pb.SendMessageRequest) -> list[pb.StreamResponse]:
    async with caller.stream("SendStreamingMessage", request) as stream:
        return await stream.all()


async def refused_as_another(caller: Caller, request: pb.SendMessageRequest) -> None:
    """The id was used for another message; on either way to send."""
    for method in ("SendMessage", "SendStreamingMessage"):
        failure = await refused(INVALID_ARGUMENT, caller.call(method, request))
        assert set(failure.violations) == {"message.message_id" if caller.binding == "GRPC" else "message.messageId"}


# -- new tasks ---------------------------------------------------------------------------------------------------------


async def test_b089_one_after_another(callers: list[Caller], notes: Path) -> None:
    """Over every binding, on both replicas, blocking and streaming, while it runs and after its end."""
    request = say(f"exclusive 300 {notes}")
    begun = await sent(callers[0], changed_to_return(request))
    assert state(begun.status.state) in {"SUBMITTED", "WORKING"}
    task = await sent(callers[1], request)
    assert (task.id, state(task.status.state)) == (begun.id, "COMPLETED")
    for caller in callers:
        assert await sent(caller, request) == task == await caller.get(task.id)
        events = await streamed(caller, request)
        assert kinds(events)[0] == "task SUBMITTED" and kinds(events)[-1] == "COMPLETED"
        assert merged(events) == task
    assert runs(notes) == 1
    assert (await callers[0].page()).total_size == 1


def changed_to_return(request: pb.SendMessageRequest) -> pb.SendMessageRequest:
    """The same message, for a caller that does not wait: the configuration is no part of what is said."""
    made = changed(request)
    made.configuration.return_immediately = True
    return made


async def test_b089_many_at_once(callers: list[Caller], notes: Path) -> None:
    """B029: 24 callers over both replicas and all bindings, half of them streams; all get what GetTask gives."""
    request = say(f"exclusive 200 {notes}")
    answers, logs = await asyncio.gather(
        asyncio.gather(*(sent(callers[at % 6], request) for at in range(12))),
        asyncio.gather(*(streamed(callers[at % 6], request) for at in range(12))),
    )
    task = await callers[0].get(answers[0].id)
    assert state(task.status.state) == "COMPLETED" and answers == [task] * 12
    for log in logs:
        assert kinds(log)[-1] == "COMPLETED" and merged(log) == task
    assert runs(notes) == 1
    assert (await callers[0].page()).total_size == 1


async def test_b089_a_repeat_joins_the_live_stream(callers: list[Caller]) -> None:
    """B021: a stream of its own, with everything from where the task stands to the end; nobody loses an event by it."""
    request = say("tick 10 60")
    logs = []
    async with callers[0].stream("SendStreamingMessage", request) as first:
        begun = [await anext(first) for _ in range(3)]
        logs = await asyncio.gather(*(streamed(caller, request) for caller in callers))
        begun += await first.all()
    task = await callers[1].get(begun[0].task.id)
    assert texts(task) == [ticks(1, 10)]
    assert kinds(begun) == ["task SUBMITTED", "WORKING", *["artifact"] * 10, "COMPLETED"]
    for log in logs:
        assert merged(log) == task and log[-1] == begun[-1]
        assert log[1:] == begun[-len(log) + 1 :]


async def test_b013_who_left_comes_back_with_the_same_message(callers: list[Caller]) -> None:
    """The first stream was dropped; the message leads back to its task, which went on meanwhile."""
    request = say("tick 6 60")
    async with callers[0].stream("SendStreamingMessage", request) as stream:
        task_id = (await anext(stream)).task.id
    for caller in callers[1:3]:
        events = await streamed(caller, request)
        assert events[0].task.id == task_id and kinds(events)[-1] == "COMPLETED"
    assert texts(await callers[3].get(task_id)) == [ticks(1, 6)]
    assert (await callers[0].page()).total_size == 1


async def test_b089_another_message_under_the_same_id_is_refused(callers: list[Caller], notes: Path) -> None:
    """Other words or other metadata; while the first runs and after its end. The task is not touched."""
    request = say(f"exclusive 500 {notes}")
    task_id = (await sent(callers[0], changed_to_return(request))).id
    others = [changed(request, text="echo x"), changed(request, metadata={"a": 1}), changed(request, context_id="c")]
    for other, caller in zip(others, callers, strict=False):
        await refused_as_another(caller, other)
    task = await reached(callers[1], task_id, "COMPLETED")
    for other, caller in zip(others, callers[3:], strict=False):
        await refused_as_another(caller, other)
    assert await callers[2].get(task_id) == task and runs(notes) == 1
    assert (await callers[0].page()).total_size == 1


async def test_b089_the_id_of_another_tenant_is_another_message(
    sharded: Pair, connect: Connect, callers: list[Caller], notes: Path, tenant: str
) -> None:
    """Of another caller too: tests/conformance/test_isolation.py."""
    request = say(f"exclusive 5 {notes}")
    stranger = await connect(sharded.replicas[1], tenant=f"{tenant}-other")
    tasks = [await sent(callers[0], request), await sent(stranger, request)]
    assert tasks[0].id != tasks[1].id and runs(notes) == 2
    for caller, task in zip((callers[1], stranger), tasks, strict=True):
        assert await sent(caller, request) == task


# -- follow-ups --------------------------------------------------------------------------------------------------------


async def test_b089_an_answer_to_a_question_counts_once(callers: list[Caller], notes: Path) -> None:
    """B033: many at once, then one after another, also when the task has ended; each turn runs once."""
    task = await callers[0].task("ask")
    first = say("step one", task_id=task.id)
    answers = await asyncio.gather(*(sent(callers[at % 6], first) for at in range(12)))
    assert {state(answer.status.state) for answer in answers} == {"INPUT_REQUIRED"}
    assert [texts(answer) for answer in answers] == [["artifact of one"]] * 12
    last = say(f"exclusive 100 {notes}", task_id=task.id)
    ended = await asyncio.gather(*(sent(callers[at % 6], last) for at in range(12)))
    done = await callers[0].get(task.id)
    assert ended == [done] * 12 and runs(notes) == 1
    for caller in callers:
        assert await sent(caller, last) == done
        assert merged_end(await streamed(caller, last)) == "COMPLETED"
        assert await sent(caller, first) == done, "it leads to its task, as that stands"
        await refused_as_another(caller, changed(last, text="echo x"))
    said = [message.message_id for message in done.history if message.role == pb.ROLE_USER]
    assert said[1:] == [first.message.message_id, last.message.message_id]


def merged_end(events: list[pb.StreamResponse]) -> str:
    return state(merged(events).status.state)


async def test_b033_a_message_for_a_task_at_work_is_queued_once(callers: list[Caller], notes: Path) -> None:
    """Sent again from everywhere while it waits for its turn."""
    task = await callers[0].task(f"exclusive 400 {notes}", return_immediately=True)
    request = say(f"exclusive 5 {notes}", task_id=task.id)
    answers = await asyncio.gather(*(sent(callers[at % 6], request) for at in range(12)))
    assert answers == [await callers[0].get(task.id)] * 12
    assert runs(notes) == 2
    said = [message.message_id for message in answers[0].history if message.role == pb.ROLE_USER]
    assert said.count(request.message.message_id) == 1 and len(said) == 2


@pytest.mark.parametrize("order", ["task first", "follow-up first", "at once"])
async def test_b089_an_id_is_of_one_message_wherever_it_went(order: str, callers: list[Caller], notes: Path) -> None:
    """One that began a task is no follow-up and the other way round, whatever shard the tasks are in."""
    for at in range(8):
        parked = await callers[at % 6].task("ask")
        new = say(f"exclusive 1 {notes}")
        follow_up = changed(new, task_id=parked.id)
        there = callers[(at + 1) % 6]
        if order == "at once":
            answers = await asyncio.gather(sent(callers[at % 6], new), sent(there, follow_up), return_exceptions=True)
            [won] = [answer for answer in answers if isinstance(answer, pb.Task)]
            [lost] = [answer for answer in answers if isinstance(answer, CallError)]
            assert lost.is_of(INVALID_ARGUMENT), lost
            first, second = (follow_up, new) if won.id == parked.id else (new, follow_up)
        else:
            first, second = (new, follow_up) if order == "task first" else (follow_up, new)
            won = await sent(callers[at % 6], first)
        await refused_as_another(there, second)
        assert await sent(there, first) == won
        if first is new:
            assert await there.get(parked.id) == parked
    assert runs(notes) == 8


async def test_b089_a_message_to_another_task_is_another_message(callers: list[Caller], notes: Path) -> None:
    """The same id and words in two parked tasks: the second is refused, wherever both are."""
    for at in range(6):
        one, two = [await callers[at].task("ask") for _ in range(2)]
        request = say(f"exclusive 1 {notes}", task_id=one.id)
        done = await sent(callers[at], request)
        await refused_as_another(callers[(at + 1) % 6], changed(request, task_id=two.id))
        assert await callers[at].get(two.id) == two
        assert await sent(callers[(at + 2) % 6], request) == done
    assert runs(notes) == 6


async def test_b089_a_refused_message_leaves_its_id_free(callers: list[Caller]) -> None:
    """Nothing was accepted, so nothing is repeated: the id may be used for the message put right."""
    for at, caller in enumerate(callers):
        done = await caller.task("echo done")
        request = say("echo hi", task_id=done.id)
        with pytest.raises(CallError):
            await sent(caller, request)
        fresh = await sent(callers[(at + 1) % 6], changed(request, task_id=""))
        assert fresh.id != done.id and texts(fresh) == ["hi"]


async def test_b029_a_question_from_before_a_message_does_not_end_its_stream(callers: list[Caller]) -> None:
    """It still stands in the first event; who goes on from there is told how the message was answered."""
    for at, caller in enumerate(callers):
        pause = 200
        while True:  # until the message comes before the turn has ended
            task = await caller.task(f"linger {pause}")
            request = say("tick 2 10", task_id=task.id)
            told = await sending(callers[(at + 1) % 6], request)
            if told.kinds[0] == "task INPUT_REQUIRED" or pause > 2000:
                break
            pause *= 4
        assert told.kinds[0] == "task INPUT_REQUIRED" and told.kinds[-1] == "COMPLETED"
        again = await sending(callers[(at + 2) % 6], request, told.seqs[0])
        assert (again.events, again.seqs) == (told.events, told.seqs)


# -- the window --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def two(**env: str) -> Iterator[tuple[Replica, Replica]]:
    with pair(AGENT, {**ENV, **env}) as started:
        yield started.replicas


@pytest.fixture(scope="module")
def short() -> Iterator[tuple[Replica, Replica]]:
    """They know a message for a second."""
    with two(A2A_DEDUPE_TTL="1") as replicas:
        yield replicas


async def test_b089_after_the_window_the_id_is_new(
    short: tuple[Replica, Replica], connect: Connect, notes: Path
) -> None:
    """A2A_DEDUPE_TTL: within it a repeat, after it another message, of other content too."""
    one, other = [await connect(replica) for replica in short]
    request = say(f"exclusive 1 {notes}")
    task = await sent(one, request)

    async def anew() -> pb.Task | None:
        again = await sent(other, request)
        return again if again.id != task.id else None

    again = await wait_until(anew, "the window is over")
    assert runs(notes) == 2 and again is not None and state(again.status.state) == "COMPLETED"

    async def other_words() -> list[str]:
        with contextlib.suppress(CallError):
            return texts(await sent(one, changed(request, text="echo other words")))
        return []

    assert await wait_until(other_words, "the id is free for other words") == ["other words"]


@pytest.mark.parametrize("over", BINDINGS)
async def test_b089_a_window_of_0_switches_it_off(over: str, connect: Connect, notes: Path) -> None:
    """Each time anew, of other content too; follow-ups as well."""
    async with off() as server:
        caller = await connect(server, over=over)
        request = say(f"exclusive 1 {notes}")
        tasks = [await sent(caller, request) for _ in range(3)]
        assert len({task.id for task in tasks}) == 3 and runs(notes) == 3
        assert texts(await sent(caller, changed(request, text="echo x"))) == ["x"]
        parked = await caller.task("ask")
        again = [await sent(caller, changed(request, text="step a", task_id=parked.id)) for _ in range(2)]
        assert len(texts(again[1])) == 2
        events = [await streamed(caller, request) for _ in range(2)]
        assert len({log[0].task.id for log in events}) == 2


@contextlib.asynccontextmanager
async def off() -> AsyncIterator[Replica]:
    async with replica(agent=AGENT, env={**ENV, "A2A_DEDUPE_TTL": "0"}) as server:
        yield server


async def test_b089_a_message_whose_task_is_no_longer_kept_is_not_done_again(connect: Connect, notes: Path) -> None:
    """A2A_TASK_TTL is shorter than the window: the answer says why there is nothing, on every binding."""
    with two(A2A_TASK_TTL="0.5") as replicas:
        callers = [await connect(replicas[at % 2], over=over) for at, over in enumerate(BINDINGS)]
        request = say(f"exclusive 1 {notes}")
        task = await sent(callers[0], request)

        async def erased() -> bool:
            try:
                await callers[0].get(task.id)
            except CallError as error:
                return error.is_of(TASK_NOT_FOUND)
            return False

        await wait_until(erased, "the task is erased", 20)
        for caller in callers:
            for method in ("SendMessage", "SendStreamingMessage"):
                for asked in (request, changed_to_return(request)):
                    failure = await refused(TASK_NOT_FOUND, caller.call(method, asked))
                    assert "accepted before" in failure.message and "no longer kept" in failure.message
        assert runs(notes) == 1
