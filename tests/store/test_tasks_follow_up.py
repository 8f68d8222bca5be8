"""A message to an existing task: it begins a turn where the task is parked, and waits its turn otherwise."""

import dataclasses

import pytest

from a2a_grpc.server.core import states
from a2a_grpc.server.store.records import Dedupe, Origin, Outcome, Placed, StoredTask
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.audit import audit
from tests.support.servers import StoreServer
from tests.support.tasks import ALICE, create, dedupe, open_store, origin, read, status, step


async def parked(store: TaskStore, state: int = states.INPUT_REQUIRED) -> StoredTask:
    """A task whose turn ended with a question."""
    stored = await create(store)
    appended = await store.append(step(stored, 1, status(stored, states.parse(str(state)), "question"), release=True))
    assert appended.outcome is Outcome.OK
    return await read(store, stored.task_id)


async def send(
    store: TaskStore, stored: StoredTask, said: Origin, call: Dedupe | None = None, *, claim: bool = True
) -> Placed:
    resumed = status(stored, states.WORKING)
    return await store.follow_up(stored, resumed, said, call or dedupe(said.message.message_id), claim=claim)


def spoken(stored: StoredTask) -> list[str]:
    return [message.parts[0].text for message in stored.fold.head.history]


@pytest.mark.parametrize("state", [states.INPUT_REQUIRED, states.AUTH_REQUIRED])
async def test_an_answer_begins_the_next_turn_here(store: TaskStore, other: TaskStore, state: int) -> None:
    stored = await parked(store, state)
    placed = await send(other, stored, origin("answer"))
    assert (placed.outcome, placed.task_id, placed.seq, placed.epoch) == (Outcome.STARTED, stored.task_id, 4, 2)
    resumed = await read(store, stored.task_id)
    assert (resumed.state, resumed.holder, resumed.epoch, resumed.attempt) == (states.WORKING, "r2", 2, 1)
    assert (resumed.turn, resumed.queue) == (4, ())
    assert spoken(resumed) == ["hello", "question", "answer"]
    assert not resumed.fold.head.status.HasField("message")
    assert (await other.held()).task_ids == [stored.task_id]


async def test_an_answer_may_wait_for_a_replica(store: TaskStore, other: TaskStore) -> None:
    stored = await parked(store)
    placed = await send(store, stored, origin("answer"), claim=False)
    assert (placed.outcome, placed.seq, placed.epoch) == (Outcome.STARTED, 4, 0)
    resumed = await read(store, stored.task_id)
    assert (resumed.state, resumed.holder, resumed.epoch, resumed.attempt) == (states.WORKING, "", 1, 0)
    assert await other.waiting(10) == [stored.task_id]


async def test_messages_to_a_running_task_wait_in_order(store: TaskStore, other: TaskStore) -> None:
    stored = await create(store)
    assert [(await send(at, stored, origin(f"{at.replica}"))).seq for at in (other, store, other)] == [2, 3, 4]
    waiting = await read(store, stored.task_id)
    assert (waiting.state, waiting.holder, waiting.epoch) == (states.SUBMITTED, "r1", 1)
    assert (waiting.turn, waiting.queue) == (1, (2, 3, 4))
    assert spoken(waiting) == ["hello", "r2", "r1", "r2"]


async def test_a_message_to_a_task_that_waits_for_a_replica_waits_too(store: TaskStore) -> None:
    stored = await create(store, claim=False)
    placed = await send(store, stored, origin("more"))
    assert (placed.outcome, placed.seq, placed.epoch) == (Outcome.QUEUED, 2, 0)
    assert (await read(store, stored.task_id)).holder == ""
    assert await store.waiting(10) == [stored.task_id]


async def test_a_question_that_a_running_turn_still_stands_behind_is_answered_to_it(store: TaskStore) -> None:
    stored = await create(store)
    await store.append(step(stored, 1, status(stored, states.INPUT_REQUIRED, "question")))
    asked = await read(store, stored.task_id)
    placed = await send(store, asked, origin("answer"))
    assert (placed.outcome, placed.seq) == (Outcome.QUEUED, 3)
    assert spoken(await read(store, stored.task_id)) == ["hello", "question", "answer"]


async def test_the_same_message_again_is_known(store: TaskStore, other: TaskStore) -> None:
    stored = await parked(store)
    placed = await send(store, stored, origin("answer", "m2"), dedupe("m2", digest="d"))
    again = await send(other, stored, origin("answer", "m2"), dedupe("m2", digest="x"))
    assert (again.outcome, again.task_id, again.seq, again.digest) == (Outcome.KNOWN, stored.task_id, placed.seq, "d")
    assert await other.known(ALICE, dedupe("m2"), stored.task_id) == again


@pytest.mark.parametrize("claim", [True, False])
@pytest.mark.parametrize("running", [True, False])
async def test_a_repeated_call_gets_its_own_answer_again(store: TaskStore, running: bool, claim: bool) -> None:
    stored = await create(store) if running else await parked(store)
    said, call = origin("answer", "m2"), dedupe("m2")
    answers = [await send(store, stored, said, call, claim=claim) for _ in range(3)]
    outcome, seq, epoch = (Outcome.QUEUED, 2, 0) if running else (Outcome.STARTED, 4, 2 * claim)
    assert [(one.outcome, one.seq, one.epoch) for one in answers] == [(outcome, seq, epoch)] * 3
    after = await read(store, stored.task_id)
    assert spoken(after).count("answer") == 1
    assert after.queue == ((2,) if running else ())


async def test_who_knows_an_older_state_learns_the_new_one(store: TaskStore) -> None:
    stale = await create(store)
    await store.append(step(stale, 1, status(stale, states.WORKING)))
    before = await read(store, stale.task_id)
    assert (await send(store, stale, origin("late"))).outcome is Outcome.STATE
    assert (await read(store, stale.task_id)).seq == before.seq
    assert (await send(store, before, origin("in time"))).outcome is Outcome.QUEUED


async def test_a_task_that_has_ended_takes_no_message(store: TaskStore) -> None:
    stored = await create(store)
    await store.append(step(stored, 1, status(stored, states.COMPLETED)))
    assert (await send(store, stored, origin("late"))).outcome is Outcome.STATE


async def test_an_erased_task_is_gone(store: TaskStore, audited_server: StoreServer) -> None:
    stored = await create(store)
    audited_server.client.flushall()
    assert (await send(store, stored, origin("late"))).outcome is Outcome.GONE
    assert audited_server.client.dbsize() == 0


async def test_a_full_queue_refuses_an_answer_and_stores_nothing_of_it(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, max_ready=1) as store:
        stored = await parked(store)
        await create(store, claim=False)
        assert (await send(store, stored, origin("answer", "m"), claim=False)).outcome is Outcome.FULL
        assert (await read(store, stored.task_id)).seq == stored.seq
        assert await store.known(ALICE, dedupe("m"), stored.task_id) is None
        # Who could run it at once would overtake those that wait.
        assert (await send(store, stored, origin("answer"), claim=True)).outcome is Outcome.FULL


async def test_a_message_to_a_turn_that_runs_takes_no_place_in_the_queue(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, max_ready=1) as store:
        busy = await create(store)
        await create(store, claim=False)
        assert (await send(store, busy, origin("more"), claim=False)).outcome is Outcome.QUEUED


async def test_an_answer_waits_behind_those_that_wait(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url) as store:
        stored = await parked(store)
        await create(store, claim=False)
        placed = await send(store, stored, origin("answer"), claim=True)
        assert (placed.outcome, placed.epoch) == (Outcome.STARTED, 0)
        assert audit(audited_server.client) == []


async def test_a_task_lets_only_so_many_messages_wait(store: TaskStore) -> None:
    """Reading the task reads them all: without an end one caller could keep everybody's store busy."""
    stored = await create(store)
    for number in range(100):
        assert (await send(store, stored, origin(f"m{number}"))).outcome is Outcome.QUEUED
    full = await read(store, stored.task_id)
    assert (await send(store, stored, origin("one too many", "m"))).outcome is Outcome.CROWDED
    assert (await read(store, stored.task_id)).seq == full.seq
    assert await store.known(ALICE, dedupe("m"), stored.task_id) is None
    # A place that is free again can be had.
    await store.take(stored.task_id, stored.epoch, 1)
    assert (await send(store, stored, origin("one too many", "m"))).outcome is Outcome.QUEUED


async def test_one_of_two_answers_at_once_begins_the_turn_and_the_other_one_waits(
    store: TaskStore, other: TaskStore
) -> None:
    stored = await parked(store)
    one, two = await send(store, stored, origin("a")), await send(other, stored, origin("b"))
    assert one.outcome is Outcome.STARTED
    assert two.outcome is Outcome.STATE
    again = await send(other, await read(other, stored.task_id), origin("b"))
    assert (again.outcome, again.seq) == (Outcome.QUEUED, one.seq + 1)


async def test_so_many_messages_may_wait_for_one_task_and_no_more(store: TaskStore) -> None:
    """Whoever reads the task reads them all: a hundred is the limit."""
    stored = await create(store)
    placed = [await send(store, stored, origin(f"m{number}")) for number in range(101)]
    assert [one.outcome for one in placed] == [Outcome.QUEUED] * 100 + [Outcome.CROWDED]
    full = await read(store, stored.task_id)
    assert (full.seq, len(full.queue)) == (101, 100)
    # There is room again when one is taken.
    assert await store.take(stored.task_id, 1, 1) == (Outcome.TOOK, 2)
    assert (await send(store, stored, origin("again"))).outcome is Outcome.QUEUED


async def test_a_message_that_is_refused_leaves_its_id_free_in_every_shard(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, shards=4) as store:
        stored = await parked(store)
        for number in range(8):
            # The task is not in the state any more that the sender has read.
            stale = dataclasses.replace(stored, state=states.WORKING)
            message_id = f"m{number}"
            assert (await send(store, stale, origin("answer", message_id))).outcome is Outcome.STATE
            assert await store.known(ALICE, dedupe(message_id)) is None
            assert await store.known(ALICE, dedupe(message_id), stored.task_id) is None
