"""Erasing one task before its time: nothing of it is left, whatever its state, and nothing of others is touched."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, cast

import pytest

from a2a_grpc.server.core import states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.store.erasing import Eraser
from a2a_grpc.server.store.errors import TaskErasedError
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.records import Outcome, Scope, StoredTask
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.places import open_place
from tests.support.servers import StoreServer
from tests.support.tasks import ALICE, DAY, chunk, create, dedupe, open_store, origin, read, status, step
from tests.support.waiting import wait_until


@pytest.fixture(params=[1, 16], ids=["one shard", "16 shards"])
async def store(request: pytest.FixtureRequest, audited_server: StoreServer) -> AsyncIterator[TaskStore]:
    async with open_store(audited_server.url, shards=request.param) as opened:
        yield opened


@pytest.fixture
def letters(store: TaskStore) -> DeadLetters:
    return DeadLetters(store, ttl=30 * DAY)


@pytest.fixture
def eraser(store: TaskStore, letters: DeadLetters) -> Eraser:
    return Eraser(store, letters)


def names(server: StoreServer) -> set[str]:
    """All keys, but for the tally: it holds numbers only, and the audit looks at those."""
    keys = {key.decode() for key in cast("list[bytes]", server.client.keys("*"))}
    return {key for key in keys if not key.endswith(":tally")}


async def follow_up(store: TaskStore, stored: StoredTask, text: str, message_id: str = "") -> Outcome:
    said = origin(text, message_id)
    resumed = status(stored, states.WORKING)
    known = dedupe(said.message.message_id)
    return (await store.follow_up(stored, resumed, said, known, claim=True)).outcome


async def ended(store: TaskStore) -> StoredTask:
    stored = await create(store)
    await store.append(step(stored, 1, chunk(stored, "x"), status(stored, states.COMPLETED, "done")))
    return await read(store, stored.task_id)


async def parked(store: TaskStore) -> StoredTask:
    stored = await create(store)
    await store.append(step(stored, 1, status(stored, states.INPUT_REQUIRED, "q"), release=True))
    return await read(store, stored.task_id)


async def running(store: TaskStore) -> StoredTask:
    stored = await create(store)
    await store.append(step(stored, 1, status(stored, states.WORKING), chunk(stored, "x")))
    return await read(store, stored.task_id)


async def resumed(store: TaskStore) -> StoredTask:
    """It asked twice, was answered twice, and more messages wait."""
    stored = await parked(store)
    assert await follow_up(store, stored, "first answer") is Outcome.STARTED
    stored = await read(store, stored.task_id)
    await store.append(step(stored, 1, status(stored, states.INPUT_REQUIRED, "q2"), release=True))
    stored = await read(store, stored.task_id)
    assert await follow_up(store, stored, "second answer") is Outcome.STARTED
    for text in ("more", "and more"):
        stored = await read(store, stored.task_id)
        assert await follow_up(store, stored, text) is Outcome.QUEUED
    return await read(store, stored.task_id)


async def ready(store: TaskStore) -> StoredTask:
    return await create(store, claim=False)


async def later(store: TaskStore) -> StoredTask:
    stored = await running(store)
    await store.put_back(stored.task_id, stored.epoch, counted=True, due_ms=now_ms() + 60_000)
    return await read(store, stored.task_id)


async def long(store: TaskStore) -> StoredTask:
    """Its log was cut; the message of its turn is kept aside."""
    stored = await create(store)
    for at in range(1, 60):
        stored = await read(store, stored.task_id)
        head, artifacts = stored.fold.to_bytes()
        entries = [chunk(stored, str(at))]
        stored.fold.apply(entries[0])
        head, artifacts = stored.fold.to_bytes()
        await store.append(step(stored, at, *entries, snapshot_at=stored.seq, head=head, artifacts=artifacts))
    return await read(store, stored.task_id)


async def canceled(store: TaskStore) -> StoredTask:
    stored = await ready(store)
    assert await store.cancel(stored, status(stored, states.CANCELED)) is Outcome.CANCELED
    return await read(store, stored.task_id)


@pytest.mark.parametrize("made", [ended, parked, running, resumed, ready, later, canceled])
async def test_nothing_of_the_task_is_left(
    store: TaskStore,
    letters: DeadLetters,
    eraser: Eraser,
    audited_server: StoreServer,
    made: Callable[[TaskStore], Coroutine[Any, Any, StoredTask]],
) -> None:
    before = names(audited_server)
    stored = await made(store)
    await letters.bury(stored, origin("hello"), "lost", now_ms())
    assert len(names(audited_server)) > len(before) + 5

    assert await eraser.erase(stored.task_id) == 1

    assert names(audited_server) == before
    assert await eraser.erase(stored.task_id) is None


async def test_nothing_of_a_task_with_a_long_log_is_left(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, log_events=10) as store:
        stored = await long(store)
        assert stored.first > 1
        assert await Eraser(store, DeadLetters(store, ttl=DAY)).erase(stored.task_id) == 0
        assert names(audited_server) == {"a2a:shards"}


async def test_others_are_not_touched(store: TaskStore, letters: DeadLetters, eraser: Eraser) -> None:
    stored = await resumed(store)
    # Where some wait, others that come have to wait behind them.
    others = [await made(store) for made in (ended, parked, running, resumed, later, ready) for _ in range(2)]
    for other in others:
        await letters.bury(other, origin("hello"), "lost", now_ms())

    assert await eraser.erase(stored.task_id) == 0

    found = (await store.page(ALICE, "", 0, None, None, 100)).rows
    assert {task_id for task_id, _ in found} == {other.task_id for other in others}
    assert len((await letters.page(None, None, None, 100)).letters) == len(others)
    for other in others:
        first = other.fold.head.history[0].message_id
        known = await store.known(ALICE, dedupe(first))
        assert known is not None
        assert known.task_id == other.task_id


async def test_a_message_id_that_stands_for_another_task_is_remembered(store: TaskStore, eraser: Eraser) -> None:
    """Two callers may use the same id, and so may one caller when its time is over."""
    bob = Scope("", "bob")
    stored = await create(store)
    message_id = stored.fold.head.history[0].message_id
    keys = store.home_of(bob, message_id)
    others = [
        keys.dedupe("", "bob", message_id),
        store.home_of(ALICE, "later").dedupe("", "alice", "later"),
    ]
    another = store.new_task_id(ALICE, "later")
    for key in others:
        await store.pipeline.command("SET", key, f"call digest {another} CREATED 1 1", "PX", 60_000)
    assert await follow_up(store, stored, "x", "later") in {Outcome.KNOWN, Outcome.QUEUED}

    assert await eraser.erase(stored.task_id) == 0

    assert [await store.pipeline.command("EXISTS", key) for key in others] == [1, 1]


async def test_the_same_message_makes_a_new_task_afterwards(store: TaskStore, eraser: Eraser) -> None:
    stored = await create(store)
    message_id = stored.fold.head.history[0].message_id
    assert await eraser.erase(stored.task_id) == 0

    assert await store.known(ALICE, dedupe(message_id)) is None


async def test_its_runner_is_refused(store: TaskStore, eraser: Eraser, audited_server: StoreServer) -> None:
    stored = await running(store)
    assert await eraser.erase(stored.task_id) == 0
    left = names(audited_server)

    late = step(stored, 2, chunk(stored, "late"), status(stored, states.COMPLETED))
    assert (await store.append(late)).outcome is Outcome.GONE
    assert await store.take(stored.task_id, stored.epoch, 3) == (Outcome.GONE, 0)
    assert await store.checkpoint(stored.task_id, stored.epoch, b"x") is Outcome.GONE
    await store.put_back(stored.task_id, stored.epoch)
    assert await store.claim(stored.task_id) is None
    assert await store.cancel(stored, status(stored, states.CANCELED)) is Outcome.GONE
    assert await follow_up(store, stored, "late") is Outcome.GONE
    assert names(audited_server) == left
    assert (await store.held()).task_ids == []


async def test_a_message_that_comes_meanwhile_is_erased_too(
    store: TaskStore, eraser: Eraser, audited_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = names(audited_server)
    stored = await running(store)
    found, sent = TaskStore.read, 0

    async def read_and_be_late(self: TaskStore, task_id: str, **how: Any) -> StoredTask | None:
        nonlocal sent
        current = await found(self, task_id, **how)
        if sent < 3:
            sent += 1
            assert await follow_up(store, stored, f"message {sent}") is Outcome.QUEUED
            await store.append(step(stored, 1 + sent, chunk(stored, "y")))
        return current

    monkeypatch.setattr(TaskStore, "read", read_and_be_late)
    assert await eraser.erase(stored.task_id) == 0
    assert sent == 3
    assert names(audited_server) == before


async def test_the_letters_of_a_task_whose_time_was_over(
    store: TaskStore, letters: DeadLetters, eraser: Eraser, audited_server: StoreServer
) -> None:
    stored = await ended(store)
    await letters.bury(stored, origin("hello"), "lost", now_ms())
    row = store.keys_of(stored.task_id)
    audited_server.client.zadd(row.purge, {row.purge_row(stored.task_id, "", "alice", "context", states.COMPLETED): 1})
    assert await store.purge() == 1

    assert await eraser.erase(stored.task_id) == 1
    assert await eraser.erase(stored.task_id) is None


@pytest.mark.parametrize("task_id", ["", "x", "0" * 32 + "-0", "0" * 32 + "-ffff", "*"])
async def test_what_is_no_task_is_not_found(eraser: Eraser, task_id: str) -> None:
    assert await eraser.erase(task_id) is None


@pytest.mark.parametrize("local", [True, False], ids=["runs here", "runs elsewhere"])
async def test_followers_hear_that_there_is_no_such_task(audited_server: StoreServer, local: bool) -> None:
    async with open_place(audited_server.url) as one, open_place(audited_server.url, "r2") as two:
        stored = await running(one.store)
        place = one if local else two
        if local:
            place.tail.run_begins(stored.task_id)
        waiting = [asyncio.ensure_future(place.collect(stored.task_id, 99)) for _ in range(3)]
        await wait_until(lambda: place.begun == 3, "the followers wait")

        await Eraser(two.store, DeadLetters(two.store, ttl=DAY)).erase(stored.task_id)
        await wait_until(lambda: stored.task_id.encode() in one.wakes, "the holder is woken")
        if local:
            # As the engine does when it finds that the task is gone.
            assert place.tail.run_ends(stored.task_id, ended=False)
            await place.tail.go_on(stored.task_id)

        for follower in waiting:
            async with asyncio.timeout(5):
                with pytest.raises(TaskErasedError):
                    await follower
