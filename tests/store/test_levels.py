"""How many tasks there are in each state is right whatever happens to them, or is not told."""

import asyncio
import random
from collections import Counter
from typing import cast

import pytest

from a2a_grpc.server.core import states
from a2a_grpc.server.store import levels
from a2a_grpc.server.store.erasing import Eraser
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.levels import Levels
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.audit import audit
from tests.support.servers import StoreServer
from tests.support.tasks import BOB, create, open_store, read, status, step
from tests.support.waiting import wait_until

NONE = dict.fromkeys(
    ("submitted", "working", "completed", "failed", "canceled", "input_required", "rejected", "auth_required"), 0
)


def told(seen: Levels) -> dict[str, float] | None:
    tasks = seen.tasks()
    return None if tasks is None else {labels[0]: number for labels, number in tasks.items()}


async def counted(store: TaskStore) -> dict[str, float] | None:
    """What a replica that looks now would tell."""
    seen = Levels(store)
    for shards in (await seen.look(), []):
        if shards:
            await seen.walk(shards)
    await seen.look()
    return told(seen)


async def forget_the_tally(store: TaskStore, server: StoreServer) -> None:
    """What an older version leaves: tasks that nobody counted."""
    for keys in store.all_keys():
        server.client.delete(keys.tally, keys.since)
        for name in cast("list[bytes]", server.client.keys(keys.task("*"))):
            server.client.hdel(name.decode(), "tally")


async def test_an_empty_store_has_no_tasks(store: TaskStore) -> None:
    seen = Levels(store)
    assert told(seen) is None
    shards = await seen.look()
    assert told(seen) is None
    assert await seen.walk(shards)
    assert await seen.look() == []
    assert told(seen) == NONE
    assert (seen.waiting(), seen.age()) == (0, 0.0)


async def test_each_step_of_a_task_moves_it(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, shards=4, task_ttl=0.05) as store:
        assert await counted(store) == NONE
        done, parked, failed = [await create(store) for _ in range(3)]
        assert await counted(store) == NONE | {"submitted": 3}
        for stored in (done, parked, failed):
            await store.append(step(stored, 1, status(stored, states.WORKING)))
        done, parked, failed = [await read(store, each.task_id) for each in (done, parked, failed)]
        assert await counted(store) == NONE | {"working": 3}
        await store.append(step(done, 2, status(done, states.COMPLETED)))
        await store.append(step(failed, 2, status(failed, states.WORKING), status(failed, states.REJECTED)))
        await store.append(step(parked, 2, status(parked, states.INPUT_REQUIRED), release=True))
        # A call whose answer was lost is sent again, and moves nothing.
        await store.append(step(parked, 2, status(parked, states.INPUT_REQUIRED), release=True))
        assert await counted(store) == NONE | {"completed": 1, "rejected": 1, "input_required": 1}
        parked = await read(store, parked.task_id)
        await store.cancel(parked, status(parked, states.CANCELED))
        assert await counted(store) == NONE | {"completed": 1, "rejected": 1, "canceled": 1}
        await asyncio.sleep(0.06)
        assert await store.purge() == 3
        running = await create(store)
        assert await counted(store) == NONE | {"submitted": 1}
        await Eraser(store, DeadLetters(store, ttl=60)).erase(running.task_id)
        assert await counted(store) == NONE


async def test_tasks_of_an_older_version_are_counted_by_a_walk(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, shards=4) as store:
        tasks = [await create(store, scope=BOB) for _ in range(30)]
        await forget_the_tally(store, audited_server)
        seen = Levels(store)
        shards = await seen.look()
        assert told(seen) is None
        # Some are moved before the walk comes to them.
        for stored in tasks[:10]:
            await store.append(step(stored, 1, status(stored, states.COMPLETED)))
        await seen.walk(shards)
        assert await seen.look() == []
        assert told(seen) == NONE | {"completed": 10, "submitted": 20}


async def test_a_walk_counts_right_while_everything_changes(
    audited_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels, "_SCAN_STEP", 10)
    monkeypatch.setattr(levels, "_PAUSE", 0.001)
    async with open_store(audited_server.url, shards=3, task_ttl=0.02) as store:
        tasks = [await create(store) for _ in range(150)]
        await forget_the_tally(store, audited_server)
        seen, over = Levels(store), asyncio.Event()

        async def change() -> None:
            while tasks and not over.is_set():
                stored = tasks.pop(random.randrange(len(tasks)))
                await store.append(step(stored, 1, status(stored, random.choice(sorted(states.TERMINAL)))))
                await create(store)
                await store.purge()

        changing = asyncio.create_task(change())
        await seen.walk(await seen.look())
        over.set()
        await changing
        await seen.look()
        there = Counter(
            states.label(states.parse(cast("bytes", audited_server.client.hget(name.decode(), "state"))))
            for name in cast("list[bytes]", audited_server.client.keys("*:task:*"))
        )
        assert told(seen) == NONE | there


async def test_one_replica_walks_and_another_takes_over_where_it_dies(
    store: TaskStore, other: TaskStore, audited_server: StoreServer
) -> None:
    await create(store)
    await forget_the_tally(store, audited_server)
    keys = other.all_keys()
    one, two = Levels(store), Levels(other)
    # The first one begins, and is never heard of again.
    await store.pipeline.script(levels._BEGIN, [keys[0].tally], [60_000])
    assert not await two.walk(keys)
    audited_server.client.hset(keys[0].tally, "until", 1)
    assert await two.walk(keys)
    for seen in (one, two):
        await seen.look()
        assert told(seen) == NONE | {"submitted": 1}


async def test_the_queue_is_seen_while_tasks_are_counted(
    store: TaskStore, audited_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk through a large store takes minutes, for which nobody must think that the store is away."""
    for name, value in (("_EVERY", 0.02), ("_FRESH", 0.2), ("_SCAN_STEP", 1), ("_PAUSE", 0.02)):
        monkeypatch.setattr(levels, name, value)
    for _ in range(20):
        await create(store)
    await forget_the_tally(store, audited_server)
    seen = Levels(store)
    watching = asyncio.create_task(seen.watch())
    await wait_until(lambda: seen.waiting() is not None, "the first look")
    looks = 0
    while told(seen) is None:
        assert seen.waiting() == 0
        looks += 1
        await asyncio.sleep(0.02)
    assert looks > 10  # longer than what is seen is fresh
    assert told(seen) == NONE | {"submitted": 20}
    watching.cancel()
    await asyncio.wait((watching,))


async def test_nothing_is_told_while_a_replica_does_not_count(store: TaskStore, audited_server: StoreServer) -> None:
    """One of an older version, during a rollout. What it did is found when it is gone."""
    assert await counted(store) == NONE
    stored = await create(store)
    keys = store.all_keys()[0]
    older = '1 {"started":1,"turns":0,"max_turns":1,"version":"0.1.0"}'
    audited_server.client.hset(keys.replicas, "older", older)
    assert await counted(store) is None
    # It erases one, and makes another one.
    audited_server.client.hset(keys.tally, "0:2", 7)
    audited_server.client.hdel(keys.task(stored.task_id), "tally")
    assert await counted(store) is None
    audited_server.client.hdel(keys.replicas, "older")
    assert await counted(store) == NONE | {"submitted": 1}


async def test_what_nobody_can_explain_is_counted_anew_once_a_day(
    store: TaskStore, audited_server: StoreServer
) -> None:
    await create(store)
    assert await counted(store) == NONE | {"submitted": 1}
    keys = store.all_keys()[0]
    field = cast("bytes", audited_server.client.hget(keys.tally, "generation")).decode() + f":{states.WORKING}"
    audited_server.client.hset(keys.tally, field, 5)
    assert await counted(store) == NONE | {"submitted": 1, "working": 5}
    day = 86_400_000
    walked = int(cast("bytes", audited_server.client.hget(keys.tally, "walked")))
    audited_server.client.hset(keys.tally, "walked", walked - day - 1)
    assert await counted(store) == NONE | {"submitted": 1}


async def test_less_than_none_is_counted_anew_at_once(store: TaskStore, audited_server: StoreServer) -> None:
    await create(store)
    assert await counted(store) == NONE | {"submitted": 1}
    audited_server.client.hset(store.all_keys()[0].tally, f"0:{states.FAILED}", -1)
    assert await counted(store) == NONE | {"submitted": 1}


async def test_the_queue_has_a_length_and_an_age(store: TaskStore, audited_server: StoreServer) -> None:
    seen = Levels(store)
    first = await create(store, claim=False)
    await create(store, claim=False)
    audited_server.client.zadd(store.all_keys()[0].since, {first.task_id: 1000})
    await seen.look()
    assert seen.waiting() == 2
    now, _ = audited_server.client.time()
    assert seen.age() == pytest.approx(now - 1, abs=5)
    epoch = await store.claim(first.task_id)
    assert epoch is not None
    await seen.look()
    assert (seen.waiting(), round(seen.age() or 0)) == (1, 0)
    # Given back, it waits anew.
    await store.put_back(first.task_id, epoch)
    await seen.look()
    assert (seen.waiting(), round(seen.age() or 0)) == (2, 0)


async def test_the_age_is_mended_where_an_older_version_has_been_at_the_queue(
    store: TaskStore, audited_server: StoreServer
) -> None:
    keys = store.all_keys()[0]
    await create(store, claim=False)
    silent = await create(store, claim=False)
    # It took one without a word, and put another one there.
    audited_server.client.zadd(keys.since, {"0" * 32 + "-0": 1000})
    audited_server.client.zrem(keys.since, silent.task_id)
    seen = Levels(store)
    await seen.look()
    await seen.look()
    assert (seen.waiting(), round(seen.age() or 0)) == (2, 0)
    assert audit(audited_server.client) == []


async def test_numbers_do_not_outlive_the_store(store_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "_EVERY", 0.02)
    async with open_store(store_server.url, timeout=0.2) as store:
        seen = Levels(store)
        watching = asyncio.create_task(seen.watch())
        await wait_until(lambda: told(seen) == NONE, "the store was looked at")
        store_server.kill()
        await wait_until(lambda: seen.tasks() is None and seen.waiting() is None, "nothing is told")
        assert seen.age() is None
        watching.cancel()


async def test_numbers_that_nobody_renews_are_not_told(store: TaskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event loop that stands still looks no more, and another thread asks all the same."""
    seen = Levels(store)
    await seen.look()
    assert seen.waiting() == 0
    monkeypatch.setattr(levels, "_FRESH", 0.0)
    assert seen.waiting() is None
    assert seen.age() is None
