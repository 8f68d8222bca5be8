"""A new task: its dedupe entry, its first entry, its index rows and its place are one step."""

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.store.records import Outcome
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.audit import audit
from tests.support.servers import StoreServer
from tests.support.tasks import ALICE, BOB, create, dedupe, new_task, open_store, origin, read


async def test_a_claimed_task_is_run_by_this_replica(store: TaskStore, other: TaskStore) -> None:
    first = origin("hello", "m1")
    entry = new_task(store, first)
    placed = await store.create(entry, ALICE, first, dedupe("m1"), claim=True, limit=3)
    assert (placed.outcome, placed.task_id, placed.seq, placed.epoch) == (Outcome.CREATED, entry.task.id, 1, 1)
    stored = await read(other, placed.task_id)
    assert stored.fold.task() == entry.task
    assert (stored.scope, stored.context, stored.state) == (ALICE, "context", states.SUBMITTED)
    assert (stored.seq, stored.epoch, stored.holder, stored.attempt, stored.turn) == (1, 1, "r1", 1, 1)
    assert (stored.queue, stored.canceling, stored.checkpoint) == ((), False, None)
    assert (await store.held()).task_ids == [placed.task_id]
    assert (await other.held()).task_ids == []


async def test_what_the_caller_said_comes_back_whole(store: TaskStore, other: TaskStore) -> None:
    first = origin("hello")
    entry = new_task(store, first)
    await store.create(entry, ALICE, first, dedupe("m"), claim=True, limit=3)
    assert await other.origin(entry.task.id, 1) == first


async def test_an_unclaimed_task_waits_for_any_replica(store: TaskStore, other: TaskStore) -> None:
    first = origin("hello", "m1")
    entry = new_task(store, first)
    placed = await store.create(entry, ALICE, first, dedupe("m1"), claim=False, limit=3)
    assert (placed.outcome, placed.seq, placed.epoch) == (Outcome.CREATED, 1, 0)
    stored = await read(store, entry.task.id)
    assert (stored.epoch, stored.holder, stored.attempt) == (0, "", 0)
    assert await other.waiting(10) == [entry.task.id]


async def test_the_same_message_again_finds_its_task(store: TaskStore, other: TaskStore) -> None:
    first = origin("hello", "m1")
    placed = await store.create(new_task(store, first), ALICE, first, dedupe("m1", digest="d"), claim=True, limit=3)
    assert await other.known(ALICE, dedupe("m1", digest="d")) is not None
    again = await other.create(new_task(other, first), ALICE, first, dedupe("m1", digest="other"), claim=True, limit=3)
    assert (again.outcome, again.task_id, again.seq, again.digest) == (Outcome.KNOWN, placed.task_id, 1, "d")
    assert len((await store.page(ALICE, "", 0, None, None, 10)).rows) == 1
    # Another caller's message of the same id is another message.
    assert await other.known(BOB, dedupe("m1")) is None
    assert await other.known(ALICE, dedupe("m2")) is None
    theirs = await other.create(new_task(other, first, BOB), BOB, first, dedupe("m1"), claim=True, limit=3)
    assert theirs.outcome is Outcome.CREATED


@pytest.mark.parametrize("claim", [True, False])
async def test_a_repeated_call_gets_its_own_answer_again(store: TaskStore, claim: bool) -> None:
    first = origin("hello", "m1")
    entry, call = new_task(store, first), dedupe("m1")
    answers = [await store.create(entry, ALICE, first, call, claim=claim, limit=3) for _ in range(3)]
    assert [(one.outcome, one.task_id, one.seq, one.epoch) for one in answers] == [
        (Outcome.CREATED, entry.task.id, 1, int(claim))
    ] * 3
    assert len(await store.log(entry.task.id, 0)) == 1


async def test_a_new_turn_waits_behind_those_that_wait_unless_it_has_begun(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url) as store:
        await create(store, claim=False)
        behind = await create(store, claim=True)
        assert (behind.holder, behind.epoch, behind.attempt) == ("", 0, 0)
        first = origin("begun", "m3")
        placed = await store.create(new_task(store, first), ALICE, first, dedupe("m3"), claim=True, limit=3, begun=True)
        assert (placed.outcome, placed.epoch) == (Outcome.CREATED, 1)
        assert audit(audited_server.client) == []


async def test_a_full_queue_refuses_before_anything_is_stored(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, max_ready=2) as store:
        await create(store, claim=False)
        await create(store, claim=False)
        before = audited_server.client.dbsize()
        first = origin("one too many", "m3")
        placed = await store.create(new_task(store, first), ALICE, first, dedupe("m3"), claim=False, limit=3)
        assert placed.outcome is Outcome.FULL
        assert audited_server.client.dbsize() == before
        assert await store.known(ALICE, dedupe("m3")) is None
        # Who could run it at once would overtake those that wait.
        placed = await store.create(new_task(store, first), ALICE, first, dedupe("m3"), claim=True, limit=3)
        assert placed.outcome is Outcome.FULL
        assert audit(audited_server.client) == []


async def test_the_dedupe_entry_lives_as_long_as_it_is_told(store: TaskStore, audited_server: StoreServer) -> None:
    first = origin("hello", "m1")
    await store.create(new_task(store, first), ALICE, first, dedupe("m1", window_ms=90_000), claim=True, limit=3)
    key = store.all_keys()[0].dedupe("", "alice", "m1")
    assert 80_000 < audited_server.client.pttl(key) <= 90_000


async def test_hostile_names_stay_within_their_keys(store: TaskStore) -> None:
    """Owners, contexts and message ids are the caller's text."""
    nasty = "a2a:{0}:task:* \r\n\x00'\"{}}]] \N{BROKEN HEART}"
    scope = ALICE._replace(tenant=nasty, owner=nasty)
    first = origin(nasty, nasty)
    entry = new_task(store, first, scope, nasty)
    await store.create(entry, scope, first, dedupe(nasty), claim=True, limit=3)
    stored = await read(store, entry.task.id)
    assert (stored.scope, stored.context) == (scope, nasty)
    assert [task_id for task_id, _ in (await store.page(scope, nasty, 0, None, None, 5)).rows] == [entry.task.id]
    again = await store.create(new_task(store, first, scope, nasty), scope, first, dedupe(nasty), claim=True, limit=3)
    assert again.task_id == entry.task.id


async def test_an_id_that_no_store_made_is_no_task(store: TaskStore) -> None:
    for task_id in ("", "nope", "0" * 32 + "-0", "0" * 32 + "-1", "*", "0" * 32 + "-0\n"):
        assert await store.read(task_id) is None


async def test_a_task_is_created_once_by_many_callers_at_once(store: TaskStore, other: TaskStore) -> None:
    first = origin("hello", "m1")
    placed = [
        await reply
        for reply in [
            at.create(new_task(at, first), ALICE, first, dedupe("m1"), claim=True, limit=3)
            for at in (store, other) * 20
        ]
    ]
    assert [one.outcome for one in placed].count(Outcome.CREATED) == 1
    assert len({one.task_id for one in placed}) == 1


async def test_a_status_of_any_age_is_kept_to_the_millisecond(store: TaskStore) -> None:
    for stamp in (0, 1, 1_700_000_000_123, now_ms(), 253_402_300_799_999):
        stored = await create(store, stamp_ms=stamp)
        assert stored.fold.head.status.timestamp.ToMilliseconds() == stamp
        assert (stored.task_id, stamp) in (await store.page(ALICE, "", 0, stamp, None, 10)).rows


def test_a_message_is_not_changed_by_being_packed() -> None:
    said = origin("hello")
    packed = said.packed()
    assert packed[1] == "urn:one,urn:two"
    assert a2a_pb2.SendMessageRequest.FromString(packed[0]) == said.request
