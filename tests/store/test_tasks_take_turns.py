"""Claiming, giving back, cancelling: at most one holder, and every step may be repeated."""

import asyncio

import pytest

from a2a_grpc.server.core import ids, states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.store.records import Outcome, Scope
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.audit import audit
from tests.support.servers import StoreServer
from tests.support.tasks import ALICE, BOB, chunk, create, dedupe, facts, open_store, origin, read, status, step
from tests.support.waiting import wait_until

CAROL, DAVE = Scope("", "carol"), Scope("", "dave")


async def test_one_replica_claims_a_waiting_turn(store: TaskStore, other: TaskStore) -> None:
    waiting = await create(store, claim=False)
    assert await store.claim(waiting.task_id) == 1
    assert await other.claim(waiting.task_id) is None
    claimed = await read(store, waiting.task_id)
    assert (claimed.holder, claimed.epoch, claimed.attempt) == ("r1", 1, 1)
    assert await store.waiting(10) == []
    assert (await store.held()).task_ids == [waiting.task_id]


async def test_claims_at_once_go_to_one_each(store: TaskStore, other: TaskStore) -> None:
    waiting = [await create(store, claim=False) for _ in range(20)]
    claims = await asyncio.gather(*(at.claim(task.task_id) for task in waiting for at in (store, other)))
    assert [claim for claim in claims if claim is not None] == [1] * 20
    assert len((await store.held()).task_ids) + len((await other.held()).task_ids) == 20


async def test_a_repeated_claim_gets_its_answer_again_and_another_claim_does_not(store: TaskStore) -> None:
    waiting = await create(store, claim=False)
    call = ids.new_id()
    assert [await store.claim(waiting.task_id, call) for _ in range(3)] == [1, 1, 1]
    # This replica holds it already: a second claim would run the turn twice at once.
    assert await store.claim(waiting.task_id) is None
    assert (await read(store, waiting.task_id)).attempt == 1


async def test_turns_wait_in_the_order_they_came(store: TaskStore) -> None:
    waiting = [(await create(store, claim=False)).task_id for _ in range(5)]
    assert await store.waiting(10) == waiting
    assert await store.waiting(2) == waiting[:2]


async def test_turns_of_all_shards_are_served_in_turn(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, shards=4) as store:
        lines: dict[str, list[str]] = {shard: [] for shard in "0123"}
        while min(len(line) for line in lines.values()) < 3:
            task_id = (await create(store, claim=False)).task_id
            lines[task_id[-1]].append(task_id)
        found = await store.waiting(100)
        assert len(found) == sum(len(line) for line in lines.values())
        assert {shard: [task_id for task_id in found if task_id[-1] == shard] for shard in lines} == lines
        for rank in range(3):
            assert {task_id[-1] for task_id in found[4 * rank : 4 * rank + 4]} == set("0123")
        assert await store.waiting(4) != []
        assert {task_id[-1] for task_id in await store.waiting(4)} == set("0123")


async def test_callers_are_served_in_turn_whatever_each_has_sent(store: TaskStore) -> None:
    """One that floods the queue must not starve the others; each caller's turns stay in their order."""
    flood = [(await create(store, claim=False)).task_id for _ in range(6)]
    bobs = [(await create(store, claim=False, scope=BOB)).task_id for _ in range(2)]
    late = (await create(store, claim=False, scope=CAROL)).task_id
    served, dave = [], ""
    while line := await store.waiting(1):
        assert await store.claim(line[0]) is not None
        served.append(line[0])
        if len(served) == 3:
            # Somebody who comes later is not put before those who wait since earlier rounds, nor behind the flood.
            dave = (await create(store, claim=False, scope=DAVE)).task_id
    assert set(served[:3]) == {flood[0], bobs[0], late}
    assert set(served[3:6]) == {flood[1], bobs[1], dave}
    assert served[6:] == flood[2:]


async def test_a_turn_that_is_given_back_comes_before_those_that_wait(store: TaskStore) -> None:
    running = await create(store)
    waiting = [(await create(store, claim=False, scope=scope)).task_id for scope in (ALICE, BOB)]
    await store.put_back(running.task_id, 1)
    assert (await store.waiting(1)) == [running.task_id]
    assert sorted((await store.waiting(3))[1:]) == sorted(waiting)


async def test_a_turn_that_is_due_later_waits_until_then(store: TaskStore) -> None:
    stored = await create(store)
    await store.put_back(stored.task_id, 1, counted=True, due_ms=now_ms() + 250)
    await store.promote()
    assert await store.waiting(5) == []
    # It is still a turn to come: a message to the task waits for it.
    back = await read(store, stored.task_id)
    assert (back.holder, back.attempt) == ("", 1)
    placed = await store.follow_up(back, status(back, states.WORKING), origin("more"), dedupe("m2"), claim=True)
    assert placed.outcome is Outcome.QUEUED

    async def due() -> bool:
        await store.promote()
        return await store.waiting(5) == [stored.task_id]

    await wait_until(due, "the turn is due", 2)
    assert await store.claim(stored.task_id) == 3
    assert (await read(store, stored.task_id)).attempt == 2


async def test_a_turn_is_recovered_once_from_a_lost_replica(store: TaskStore, other: TaskStore) -> None:
    stored = await create(store, limit=2)
    assert await other.recover(stored.task_id, stored.epoch + 1, store.replica, default_limit=3) is None
    assert (await read(store, stored.task_id)).holder == store.replica
    for _ in range(2):
        assert await other.recover(stored.task_id, stored.epoch, store.replica, default_limit=3) is None
    back = await read(store, stored.task_id)
    assert (back.holder, back.epoch, back.attempt) == ("", 2, 1)
    assert (await store.held()).task_ids == []
    assert await other.waiting(5) == [stored.task_id]
    assert (await store.append(step(stored, 1, chunk(stored, "late")))).outcome is Outcome.FENCED


async def test_a_turn_without_an_attempt_left_is_taken_by_whoever_finds_it(store: TaskStore, other: TaskStore) -> None:
    stored, call = await create(store, limit=1), ids.new_id()
    for _ in range(2):
        # The second time is the answer that was lost.
        found = await other.recover(stored.task_id, stored.epoch, store.replica, default_limit=3, call_id=call)
        assert found == 2
    taken = await read(store, stored.task_id)
    assert (taken.holder, taken.epoch, taken.attempt) == (other.replica, 2, 2)
    assert ((await store.held()).task_ids, (await other.held()).task_ids) == ([], [stored.task_id])
    # Given back it has no attempt left either.
    await other.put_back(stored.task_id, 2)
    assert await store.claim(stored.task_id) == 4
    assert (await read(store, stored.task_id)).attempt == 2


async def test_a_turn_that_is_given_back_counts_no_attempt(store: TaskStore, other: TaskStore) -> None:
    stored = await create(store)
    for epoch in (1, 3):
        await store.put_back(stored.task_id, epoch)
        back = await read(store, stored.task_id)
        assert (back.holder, back.epoch, back.attempt) == ("", epoch + 1, 0)
        assert await other.waiting(10) == [stored.task_id]
        assert await store.claim(stored.task_id) == epoch + 2
        assert (await read(store, stored.task_id)).attempt == 1
    # Said again when somebody else runs it, it changes nothing.
    await store.put_back(stored.task_id, 5)
    assert await other.claim(stored.task_id) == 7
    before = facts(await read(store, stored.task_id))
    await store.put_back(stored.task_id, 5)
    assert facts(await read(store, stored.task_id)) == before


async def test_a_turn_is_given_back_with_the_message_it_answers_and_those_that_wait(
    store: TaskStore, other: TaskStore
) -> None:
    stored = await create(store)
    for text in ("m2", "m3"):
        await store.follow_up(stored, status(stored, states.WORKING), origin(text), dedupe(text), claim=True)
    assert await store.take(stored.task_id, 1, 1) == (Outcome.TOOK, 2)
    await store.put_back(stored.task_id, 1)
    await other.claim(stored.task_id)
    claimed = await read(other, stored.task_id)
    assert (claimed.turn, claimed.queue) == (2, (3,))
    said = await other.origin(stored.task_id, claimed.turn)
    assert said is not None
    assert said.message.parts[0].text == "m2"


async def test_messages_are_taken_in_order_once(store: TaskStore) -> None:
    stored = await create(store)
    texts = [f"m{number}" for number in range(2, 12)]
    for text in texts:
        await store.follow_up(stored, status(stored, states.WORKING), origin(text), dedupe(text), claim=True)
    taken = []
    for operation in range(1, 11):
        outcome, seq = await store.take(stored.task_id, 1, operation)
        assert await store.take(stored.task_id, 1, operation) == (outcome, seq) == (Outcome.TOOK, operation + 1)
        said = await store.origin(stored.task_id, seq)
        assert said is not None
        taken.append(said.message.parts[0].text)
    assert taken == texts
    assert await store.take(stored.task_id, 1, 11) == (Outcome.NONE, 0)
    # An answer "nothing" leaves no trace: what comes afterwards is found.
    await store.follow_up(stored, status(stored, states.WORKING), origin("last"), dedupe("last"), claim=True)
    assert await store.take(stored.task_id, 1, 11) == (Outcome.TOOK, 12)


# -- cancelling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["ready", "parked"])
async def test_a_task_that_nobody_runs_is_canceled_at_once(
    store: TaskStore, other: TaskStore, audited_server: StoreServer, where: str
) -> None:
    stored = await create(store, claim=where == "parked")
    if where == "parked":
        await store.append(step(stored, 1, status(stored, states.INPUT_REQUIRED, "q"), release=True))
        stored = await read(store, stored.task_id)
    canceled = status(stored, states.CANCELED)
    assert await other.cancel(stored, canceled) is Outcome.CANCELED
    after = await read(store, stored.task_id)
    assert (after.state, after.seq, after.holder) == (states.CANCELED, stored.seq + 1, "")
    assert await store.waiting(10) == []
    assert audit(audited_server.client) == []
    # Fenced for whoever had it before, and closed to messages and claims.
    assert (await store.append(step(stored, 5, chunk(stored, "late")))).outcome is Outcome.FENCED
    assert await store.claim(stored.task_id) is None


async def test_a_repeated_cancellation_gets_its_answer_again_and_another_one_does_not(store: TaskStore) -> None:
    stored = await create(store, claim=False)
    canceled, call = status(stored, states.CANCELED), ids.new_id()
    for _ in range(3):
        assert await store.cancel(stored, canceled, call_id=call) is Outcome.CANCELED
    assert await store.cancel(stored, canceled) is Outcome.STATE
    assert (await read(store, stored.task_id)).seq == 2


async def test_a_running_task_is_asked_for(store: TaskStore, other: TaskStore) -> None:
    stored = await create(store)
    for _ in range(2):
        assert await other.cancel(stored, status(stored, states.CANCELED)) is Outcome.ASKED
    asked = await read(store, stored.task_id)
    assert asked.canceling
    assert (asked.state, asked.seq, asked.holder) == (states.SUBMITTED, 1, "r1")
    appended = await store.append(step(stored, 1, chunk(stored, "x")))
    assert appended.canceling
    assert (await store.append(step(stored, 2, status(stored, states.CANCELED)))).outcome is Outcome.OK
    assert (await read(store, stored.task_id)).state == states.CANCELED


async def test_a_holder_that_does_not_answer_is_passed_over(
    store: TaskStore, other: TaskStore, audited_server: StoreServer
) -> None:
    stored = await create(store)
    canceled = status(stored, states.CANCELED)
    assert await other.cancel(stored, canceled) is Outcome.ASKED
    # Somebody else than the one who was asked: ask that one first.
    assert await other.cancel(stored, canceled, over="r9") is Outcome.ASKED
    assert await other.cancel(stored, canceled, over="r1") is Outcome.CANCELED
    assert (await store.append(step(stored, 1, chunk(stored, "late")))).outcome is Outcome.FENCED
    # Nothing is left of it with the replica that was passed over.
    assert (await store.held()).task_ids == []
    assert audit(audited_server.client) == []


async def test_a_cancellation_that_comes_too_late_changes_nothing(store: TaskStore) -> None:
    stored = await create(store)
    await store.append(step(stored, 1, status(stored, states.COMPLETED)))
    assert await store.cancel(stored, status(stored, states.CANCELED)) is Outcome.STATE
    after = await read(store, stored.task_id)
    assert (after.state, after.canceling) == (states.COMPLETED, False)


async def test_an_erased_task_cannot_be_canceled(store: TaskStore, audited_server: StoreServer) -> None:
    stored = await create(store)
    audited_server.client.flushall()
    assert await store.cancel(stored, status(stored, states.CANCELED)) is Outcome.GONE
    assert audited_server.client.dbsize() == 0
