"""The holder's entries: fenced, in order, exactly once, with the indexes and the snapshot that belong to them."""

from collections.abc import AsyncIterator

import pytest

from a2a_grpc.server.core import states
from a2a_grpc.server.store.records import Appended, Outcome
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.audit import audit
from tests.support.servers import StoreServer
from tests.support.tasks import ALICE, chunk, create, dedupe, facts, open_store, origin, read, status, step

OK = Outcome.OK


async def test_entries_follow_the_log_and_the_indexes_follow_the_state(
    store: TaskStore, audited_server: StoreServer
) -> None:
    stored = await create(store)
    batches = [
        [status(stored, states.WORKING, "w1")],
        [chunk(stored, "1"), chunk(stored, "2")],
        [status(stored, states.WORKING, "w2"), chunk(stored, "3"), status(stored, states.AUTH_REQUIRED, "q")],
        [status(stored, states.WORKING)],
        [chunk(stored, "4"), status(stored, states.COMPLETED, "done")],
    ]
    first = 2
    for operation, batch in enumerate(batches, 1):
        appended = await store.append(step(await read(store, stored.task_id), operation, *batch))
        assert appended == Appended(outcome=OK, first=first)
        assert audit(audited_server.client) == []
        first += len(batch)
    task = (await read(store, stored.task_id)).fold.task()
    assert [part.text for part in task.artifacts[0].parts] == ["1", "2", "3", "4"]
    assert [message.parts[0].text for message in task.history] == ["hello", "w1", "w2", "q"]
    assert task.status.message.parts[0].text == "done"
    assert [event.seq for event in await store.log(stored.task_id, 0)] == list(range(1, first))
    assert (await store.held()).task_ids == []


async def test_a_repeated_write_is_written_once(store: TaskStore) -> None:
    stored = await create(store)
    write = step(stored, 1, status(stored, states.WORKING), chunk(stored, "1"))
    assert [await store.append(write) for _ in range(3)] == [Appended(outcome=OK, first=2)] * 3
    working = await read(store, stored.task_id)
    following = step(working, 2, chunk(stored, "2"))
    assert [await store.append(following) for _ in range(2)] == [Appended(outcome=OK, first=4)] * 2
    last = step(working, 3, status(stored, states.COMPLETED))
    assert [await store.append(last) for _ in range(2)] == [Appended(outcome=OK, first=5)] * 2
    assert [event.seq for event in await store.log(stored.task_id, 0)] == [1, 2, 3, 4, 5]


async def test_a_write_and_a_take_in_flight_together_may_both_be_repeated(store: TaskStore) -> None:
    """An agent reads its inbox in one task and writes in another: the connection may break under both at once."""
    stored = await create(store)
    for text in ("m2", "m3"):
        await store.follow_up(stored, status(stored, states.WORKING), origin(text), dedupe(text), claim=True)
    write = step(stored, 2, chunk(stored, "1"))
    for _ in range(3):
        assert await store.take(stored.task_id, stored.epoch, 1) == (Outcome.TOOK, 2)
        assert await store.append(write) == Appended(outcome=OK, first=4)
    after = await read(store, stored.task_id)
    assert (after.queue, after.seq) == ((3,), 4)
    following = step(stored, 4, chunk(stored, "2"))
    for _ in range(3):
        assert (await store.append(following)).first == 5
        assert await store.take(stored.task_id, stored.epoch, 3) == (Outcome.TOOK, 3)
    assert (await read(store, stored.task_id)).queue == ()
    assert await store.take(stored.task_id, stored.epoch, 5) == (Outcome.NONE, 0)


async def test_another_claim_fences_the_earlier_one(store: TaskStore, other: TaskStore) -> None:
    stale = await create(store)
    await store.put_back(stale.task_id, stale.epoch)
    assert await other.claim(stale.task_id) == 3
    held = await read(other, stale.task_id)
    assert (await store.append(step(stale, 1, chunk(stale, "stale")))).outcome is Outcome.FENCED
    assert await store.take(stale.task_id, stale.epoch, 2) == (Outcome.FENCED, 0)
    assert await store.checkpoint(stale.task_id, stale.epoch, b"stale") is Outcome.FENCED
    await store.put_back(stale.task_id, stale.epoch)
    assert facts(await read(other, stale.task_id)) == facts(held)
    # The same operation number under another epoch is another write.
    assert (await other.append(step(held, 1, chunk(held, "mine")))).first == 2
    assert (await other.append(step(held, 1, chunk(held, "mine")))).first == 2
    assert (await store.append(step(stale, 1, chunk(stale, "stale")))).outcome is Outcome.FENCED


async def test_a_write_that_was_stored_before_the_fence_is_still_answered_so(
    store: TaskStore, other: TaskStore
) -> None:
    stored = await create(store)
    write = step(stored, 1, chunk(stored, "1"))
    assert await store.append(write) == Appended(outcome=OK, first=2)
    await store.put_back(stored.task_id, stored.epoch)
    await other.claim(stored.task_id)
    assert await store.append(write) == Appended(outcome=OK, first=2)


async def test_a_write_on_another_state_than_expected_is_refused(store: TaskStore) -> None:
    stored = await create(store)
    await store.append(step(stored, 1, status(stored, states.WORKING)))
    assert (await store.append(step(stored, 2, chunk(stored, "x")))).outcome is Outcome.STATE
    assert (await read(store, stored.task_id)).seq == 2


async def test_an_erased_task_is_gone(store: TaskStore, audited_server: StoreServer) -> None:
    stored = await create(store)
    audited_server.client.flushall()
    assert (await store.append(step(stored, 1, chunk(stored, "x")))).outcome is Outcome.GONE
    assert await store.take(stored.task_id, stored.epoch, 2) == (Outcome.GONE, 0)
    assert await store.checkpoint(stored.task_id, stored.epoch, b"") is Outcome.GONE
    assert await store.claim(stored.task_id) is None
    await store.put_back(stored.task_id, stored.epoch)
    assert await store.read(stored.task_id) is None
    assert await store.log(stored.task_id, 0) == []
    assert await store.origin(stored.task_id, 1) is None
    assert audited_server.client.dbsize() == 0


async def test_an_end_waits_while_a_message_does(store: TaskStore) -> None:
    stored = await create(store)
    await store.follow_up(stored, status(stored, states.WORKING), origin("more"), dedupe("more"), claim=True)
    end = step(stored, 1, status(stored, states.COMPLETED), idle_only=True)
    assert (await store.append(end)).outcome is Outcome.QUEUED
    assert (await read(store, stored.task_id)).state == states.SUBMITTED
    # What is not an end does not ask, and the holder hears of the message.
    assert await store.append(step(stored, 1, chunk(stored, "x"))) == Appended(outcome=OK, first=3)
    assert await store.take(stored.task_id, stored.epoch, 2) == (Outcome.TOOK, 2)
    assert (await store.append(step(stored, 3, status(stored, states.COMPLETED), idle_only=True))).outcome is OK


async def test_a_parked_task_is_given_up_with_or_without_an_entry(store: TaskStore) -> None:
    stored = await create(store)
    await store.append(step(stored, 1, status(stored, states.INPUT_REQUIRED, "q")))
    assert (await store.held()).task_ids == [stored.task_id]
    asked = await read(store, stored.task_id)
    for _ in range(2):
        assert (await store.append(step(asked, 2, release=True, idle_only=True))).outcome is OK
    after = await read(store, stored.task_id)
    assert (after.holder, after.seq, after.state) == ("", 2, states.INPUT_REQUIRED)
    assert (await store.held()).task_ids == []


async def test_a_snapshot_is_kept_only_where_it_stands_at_the_end_of_the_log(store: TaskStore) -> None:
    stored = await create(store)
    fold = stored.fold
    for entry in (first := chunk(stored, "1"), second := chunk(stored, "2")):
        fold.apply(entry)
    head, artifacts = fold.to_bytes()
    # A message came between what the writer knew and its write: its fold is not the task.
    await store.follow_up(stored, status(stored, states.WORKING), origin("more"), dedupe("more"), claim=True)
    await store.append(step(stored, 1, first, second, snapshot_at=1, head=head, artifacts=artifacts))
    after = await read(store, stored.task_id)
    assert [message.parts[0].text for message in after.fold.head.history] == ["hello", "more"]
    # Now it knows.
    after.fold.apply(third := chunk(stored, "3"))
    head, artifacts = after.fold.to_bytes()
    await store.append(step(stored, 2, third, snapshot_at=4, head=head, artifacts=artifacts))
    task = (await read(store, stored.task_id)).fold.task()
    assert [part.text for part in task.artifacts[0].parts] == ["1", "2", "3"]
    without = await store.read(stored.task_id, artifacts=False)
    assert without is not None
    assert without.fold.head == after.fold.head
    assert not without.fold.artifacts.artifacts


@pytest.mark.parametrize("end", [states.COMPLETED, states.FAILED, states.REJECTED, states.CANCELED])
async def test_retention_begins_at_the_end_and_not_before(audited_server: StoreServer, end: int) -> None:
    client = audited_server.client
    async with open_store(audited_server.url, task_ttl=100.0) as store:
        stored = await create(store)
        keys = store.keys_of(stored.task_id)
        await store.append(step(stored, 1, status(stored, states.WORKING), chunk(stored, "x")))
        assert client.pttl(keys.task(stored.task_id)) == client.pttl(keys.log(stored.task_id)) == -1
        working = await read(store, stored.task_id)
        await store.append(step(working, 2, status(stored, states.parse(str(end)))))
        # The sweep erases at the end of the retention; the keys' own life time is the net an hour under it.
        for key in (keys.task(stored.task_id), keys.log(stored.task_id)):
            assert 3_690_000 < client.pttl(key) <= 3_700_000


async def test_a_checkpoint_is_kept_and_replaced_and_costs_no_entry(store: TaskStore) -> None:
    stored = await create(store)
    for state in (b"", b"\x00\xff", b"second"):
        assert await store.checkpoint(stored.task_id, stored.epoch, state) is OK
        assert (await read(store, stored.task_id)).checkpoint == state
    assert (await read(store, stored.task_id)).seq == 1


async def test_a_large_batch_is_one_step(store: TaskStore) -> None:
    stored = await create(store)
    entries = [chunk(stored, str(number)) for number in range(1000)]
    assert (await store.append(step(stored, 1, *entries))).first == 2
    found = [entry async for entry in pages(store, stored.task_id)]
    assert found[1:] == [entry.SerializeToString() for entry in entries]


async def pages(store: TaskStore, task_id: str) -> AsyncIterator[bytes]:
    seq = 0
    while events := await store.log(task_id, seq):
        for event in events:
            assert event.seq == seq + 1
            seq = event.seq
            yield event.response.SerializeToString()


async def test_appends_of_many_tasks_at_once_stay_apart(store: TaskStore) -> None:
    tasks = [await create(store) for _ in range(20)]
    for number in range(5):
        for stored in tasks:
            await store.append(step(stored, number + 1, chunk(stored, f"{stored.task_id} {number}")))
    for stored in tasks:
        task = (await read(store, stored.task_id)).fold.task()
        assert [part.text for part in task.artifacts[0].parts] == [f"{stored.task_id} {number}" for number in range(5)]
    assert (await store.page(ALICE, "", 0, None, None, 100)).total == 20
