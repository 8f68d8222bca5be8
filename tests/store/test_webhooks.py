"""The webhooks of the store: due with what the task writes, claimed by one, moved on by nobody who was overtaken."""

import asyncio
from typing import cast

import pytest

from a2a_grpc.server.core import states
from a2a_grpc.server.core.events import status_changed
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.records import Origin, Outcome, StoredTask, Webhook
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.store.webhooks import Claim, Webhooks
from tests.support.audit import audit
from tests.support.servers import StoreServer
from tests.support.tasks import ALICE, DAY, chunk, create, dedupe, new_task, open_store, origin, read, status, step
from tests.support.waiting import wait_until

LEASE = 60_000
LETTER_TTL = 3600.0


def hook(webhook_id: str = "w", content: bytes = b"content", limit: int = 10) -> Webhook:
    return Webhook(id=webhook_id, content=content, limit=limit)


@pytest.fixture
def webhooks(store: TaskStore) -> Webhooks:
    return Webhooks(store, letter_ttl=LETTER_TTL)


async def hooked(store: TaskStore, *hooks: Webhook) -> StoredTask:
    """A running task with webhooks that know everything so far."""
    stored = await create(store)
    webhooks = Webhooks(store, letter_ttl=LETTER_TTL)
    for one in hooks or (hook(),):
        assert await webhooks.put(stored, one) is Outcome.OK
    return stored


async def claimed(webhooks: Webhooks, stored: StoredTask, webhook_id: str = "w", lease_ms: int = LEASE) -> Claim:
    claim = await webhooks.claim(stored.task_id, webhook_id, lease_ms)
    assert claim is not None
    return claim


async def due(webhooks: Webhooks) -> list[str]:
    return sorted(webhook_id for _, webhook_id in (await webhooks.due(100)).rows)


async def end(store: TaskStore, stored: StoredTask, operation: int = 9) -> StoredTask:
    await store.append(step(stored, operation, status(stored, states.COMPLETED)))
    return await read(store, stored.task_id)


async def test_nothing_is_due_until_something_happens(store: TaskStore, webhooks: Webhooks) -> None:
    stored = await hooked(store)
    assert await due(webhooks) == []
    await store.append(step(stored, 1, chunk(stored, "one")))
    assert await due(webhooks) == ["w"]


async def test_a_task_without_webhooks_is_never_due(store: TaskStore, webhooks: Webhooks) -> None:
    await end(store, await create(store))
    assert await due(webhooks) == []


async def test_a_webhook_that_comes_with_a_new_task(store: TaskStore, webhooks: Webhooks) -> None:
    first = origin("hello")
    entry = new_task(store, first)
    known = dedupe(first.message.message_id)
    for _ in range(2):
        await store.create(entry, ALICE, first, known, claim=True, limit=3, webhook=hook())
    stored = await read(store, entry.task.id)
    assert [one.id for one in await webhooks.all(stored.task_id)] == ["w"]
    await end(store, stored)
    claim = await claimed(webhooks, stored)
    assert (claim.cursor, claim.content, claim.scope) == (1, b"content", ALICE)


async def test_webhooks_that_come_with_a_later_message(store: TaskStore, webhooks: Webhooks) -> None:
    stored = await hooked(store)

    async def say(webhook: Webhook, message_id: str) -> Outcome:
        current = await read(store, stored.task_id)
        said: Origin = origin("more", message_id)
        resumed = status_changed(stored.task_id, stored.context, states.WORKING, 0)
        placed = await store.follow_up(current, resumed, said, dedupe(message_id), claim=False, webhook=webhook)
        return placed.outcome

    assert await say(hook("w", b"other", 2), "m1") is Outcome.QUEUED
    assert await say(hook("v", b"new", 2), "m2") is Outcome.QUEUED
    before = (await read(store, stored.task_id)).seq
    assert await say(hook("u", b"too many", 2), "m3") is Outcome.HOOKED
    assert (await read(store, stored.task_id)).seq == before
    assert {one.id: one.content for one in await webhooks.all(stored.task_id)} == {"w": b"other", "v": b"new"}
    # What was refused may be sent again without.
    assert await say(hook("v", b"newer", 2), "m3") is Outcome.QUEUED


async def test_what_is_claimed_is_nobody_elses(store: TaskStore, other: TaskStore, webhooks: Webhooks) -> None:
    stored = await hooked(store)
    await store.append(step(stored, 1, chunk(stored, "one")))
    claim = await claimed(webhooks, stored)
    elsewhere = Webhooks(other, letter_ttl=LETTER_TTL)
    assert await elsewhere.claim(stored.task_id, "w", LEASE) is None
    # Not even when there is more to tell.
    await store.append(step(stored, 2, chunk(stored, "two")))
    assert await due(elsewhere) == []
    assert await webhooks.advance(claim, 2, LEASE) is Outcome.OK
    assert await webhooks.advance(claim, 3, LEASE) is Outcome.NONE
    assert await due(webhooks) == []
    await store.append(step(stored, 3, chunk(stored, "three")))
    assert (await claimed(elsewhere, stored)).cursor == 3


async def test_who_was_overtaken_moves_nothing(store: TaskStore, other: TaskStore, webhooks: Webhooks) -> None:
    stored = await hooked(store)
    await store.append(step(stored, 1, chunk(stored, "one"), chunk(stored, "two")))
    stale = await claimed(webhooks, stored, lease_ms=1)
    elsewhere = Webhooks(other, letter_ttl=LETTER_TTL)
    await wait_until(lambda: _is_due(elsewhere), "the lease lapses")
    fresh = await claimed(elsewhere, stored)
    assert await elsewhere.advance(fresh, 2, LEASE) is Outcome.OK

    assert await webhooks.advance(stale, 3, LEASE) is Outcome.FENCED
    assert not await webhooks.renew(stale, LEASE)
    await webhooks.defer(stale, 0, counted=True)
    assert await webhooks.give_up(stale, 3, "why") is None
    assert await due(webhooks) == []
    assert await elsewhere.renew(fresh, LEASE)
    assert await elsewhere.advance(fresh, 3, LEASE) is Outcome.NONE


async def _is_due(webhooks: Webhooks) -> bool:
    return await due(webhooks) == ["w"]


async def test_attempts_and_their_beginning_are_counted_until_something_is_taken(
    store: TaskStore, webhooks: Webhooks
) -> None:
    stored = await hooked(store)
    await store.append(step(stored, 1, chunk(stored, "one"), chunk(stored, "two")))
    first = await claimed(webhooks, stored)
    assert (first.attempts, first.since_ms) == (0, 0)
    await webhooks.defer(first, 0, counted=True)
    second = await claimed(webhooks, stored)
    assert second.attempts == 1
    assert first.now_ms <= second.since_ms <= second.now_ms
    await webhooks.defer(second, 0, counted=False)
    third = await claimed(webhooks, stored)
    assert (third.attempts, third.since_ms) == (1, second.since_ms)
    assert await webhooks.advance(third, 2, LEASE) is Outcome.OK
    await webhooks.defer(third, 0, counted=True)
    assert (await claimed(webhooks, stored)).attempts == 1


async def test_a_pause_is_kept(store: TaskStore, webhooks: Webhooks) -> None:
    stored = await hooked(store)
    await store.append(step(stored, 1, chunk(stored, "one")))
    await webhooks.defer(await claimed(webhooks, stored), 30_000, counted=True)
    await store.append(step(stored, 2, chunk(stored, "two")))
    found = await webhooks.due(10)
    assert found.rows == []
    assert found.next is not None
    assert 29 < found.next <= 30


async def test_what_is_given_up_is_told_nothing_more(store: TaskStore, webhooks: Webhooks) -> None:
    stored = await hooked(store, hook("w"), hook("v"))
    await store.append(step(stored, 1, chunk(stored, "one")))
    letter_id = await webhooks.give_up(await claimed(webhooks, stored), 2, "The webhook w could not be told.")
    assert letter_id is not None
    await end(store, stored)
    assert await due(webhooks) == ["v"]

    letters = DeadLetters(store, ttl=LETTER_TTL)
    [letter] = (await letters.page(None, None, None, 10)).letters
    assert (letter.id, letter.webhook, letter.turn, letter.attempts) == (letter_id, "w", 2, 1)
    assert (letter.task_id, letter.scope) == (stored.task_id, ALICE)
    assert (await letters.find(letter_id)) == (letter, None)

    assert await webhooks.revive(stored.task_id, "w")
    assert (await claimed(webhooks, stored)).cursor == 1
    assert await letters.discard(letter_id)
    assert not await webhooks.revive(stored.task_id, "unknown")


async def test_other_content_stops_who_delivers_to_the_old_one(store: TaskStore, webhooks: Webhooks) -> None:
    stored = await hooked(store)
    await store.append(step(stored, 1, chunk(stored, "one")))
    old = await claimed(webhooks, stored)
    assert await webhooks.put(stored, hook("w", b"new")) is Outcome.OK
    assert await webhooks.advance(old, 2, LEASE) is Outcome.FENCED
    fresh = await claimed(webhooks, stored)
    assert (fresh.content, fresh.cursor, fresh.attempts) == (b"new", 1, 0)


async def test_a_webhook_that_was_removed_is_gone(store: TaskStore, webhooks: Webhooks) -> None:
    stored = await hooked(store)
    await store.append(step(stored, 1, chunk(stored, "one")))
    claim = await claimed(webhooks, stored)
    for _ in range(2):
        await webhooks.remove(stored.task_id, "w")
    assert await webhooks.advance(claim, 2, LEASE) is Outcome.FENCED
    assert await webhooks.get(stored.task_id, "w") is None
    await end(store, stored)
    assert await due(webhooks) == []


async def test_so_many_and_no_more(store: TaskStore, webhooks: Webhooks) -> None:
    stored = await create(store)
    assert await webhooks.put(stored, hook("a", limit=2)) is Outcome.OK
    assert await webhooks.put(stored, hook("b", limit=2)) is Outcome.OK
    assert await webhooks.put(stored, hook("c", limit=2)) is Outcome.HOOKED
    assert await webhooks.put(stored, hook("b", b"again", limit=2)) is Outcome.OK


async def test_a_task_that_has_ended_tells_its_end(store: TaskStore, webhooks: Webhooks) -> None:
    ended = await end(store, await create(store))
    assert await webhooks.put(ended, hook()) is Outcome.OK
    claim = await claimed(webhooks, ended)
    assert claim.cursor == ended.told - 1
    assert await webhooks.advance(claim, ended.seq, LEASE) is Outcome.NONE


async def test_cancellation_is_told(store: TaskStore, webhooks: Webhooks) -> None:
    stored = await create(store, claim=False)
    await webhooks.put(stored, hook())
    assert await store.cancel(stored, status(stored, states.CANCELED)) is Outcome.CANCELED
    assert await due(webhooks) == ["w"]


async def test_names_of_any_kind(store: TaskStore, webhooks: Webhooks) -> None:
    names = ["c:x", "s:y", "two words", "ünïcode ✓", "-", "1 2 3"]
    stored = await hooked(store, *(hook(name, name.encode()) for name in names))
    await end(store, stored)
    assert await due(webhooks) == sorted(names)
    for name in names:
        assert (await claimed(webhooks, stored, name)).content == name.encode()
        await webhooks.remove(stored.task_id, name)


async def test_a_task_stays_until_its_webhooks_know_its_end(one_store_server: StoreServer) -> None:
    async with open_store(one_store_server.url, task_ttl=0.05, webhook_patience=DAY) as store:
        webhooks = Webhooks(store, letter_ttl=LETTER_TTL)
        stored = await end(store, await hooked(store))
        await asyncio.sleep(0.1)  # the retention itself
        await store.purge()
        stored = await read(store, stored.task_id)
        claim = await claimed(webhooks, stored)
        await store.purge()
        assert await webhooks.advance(claim, stored.seq, LEASE) is Outcome.NONE
        # It is looked at again after a while, so not by this sweep.
        [row] = cast("list[bytes]", one_store_server.client.zrange("a2a:{0}:purge", 0, 0))
        one_store_server.client.zadd("a2a:{0}:purge", {row.decode(): 0})
        await store.purge()
        assert await store.read(stored.task_id) is None
        assert one_store_server.client.keys("a2a:{0}:push*") == []
        assert audit(one_store_server.client) == []


async def test_a_task_does_not_stay_for_ever(one_store_server: StoreServer) -> None:
    async with open_store(one_store_server.url, task_ttl=0.05, webhook_patience=0) as store:
        await end(store, await hooked(store))
        await wait_until(lambda: _purged(store), "the task is erased")
        assert one_store_server.client.keys("a2a:{0}:*push*") == []


async def _purged(store: TaskStore) -> int:
    return await store.purge()


async def test_the_longest_waiting_comes_first_whatever_its_shard(one_store_server: StoreServer) -> None:
    """A shard in which many wait takes no places from the others."""
    async with open_store(one_store_server.url, shards=4) as store:
        webhooks = Webhooks(store, letter_ttl=LETTER_TTL)
        waiting: list[str] = []
        for number in range(12):
            stored = await hooked(store, hook(f"{number:02}"))
            await store.append(step(stored, 1, chunk(stored, "one")))
            await webhooks.defer(await claimed(webhooks, stored, f"{number:02}"), 0, counted=False)
            waiting.append(f"{number:02}")
            await asyncio.sleep(0.002)
        assert [webhook_id for _, webhook_id in (await webhooks.due(5)).rows] == waiting[:5]


async def test_a_cursor_is_never_beyond_the_log(store: TaskStore, webhooks: Webhooks) -> None:
    """A master that took over may have lost the end of a log that was told; what it numbers the same is told, too."""
    stored = await hooked(store)
    await store.append(step(stored, 1, chunk(stored, "one")))
    claim = await claimed(webhooks, stored)
    assert await webhooks.advance(claim, 7, LEASE) is Outcome.NONE
    await store.append(step(stored, 2, chunk(stored, "two")))
    assert (await claimed(webhooks, stored)).cursor == 2


async def test_a_late_renewal_does_not_put_off_what_is_due(store: TaskStore, webhooks: Webhooks) -> None:
    """It was on its way when the claim was over, and something happened since."""
    stored = await hooked(store)
    await store.append(step(stored, 1, chunk(stored, "one")))
    claim = await claimed(webhooks, stored)
    assert await webhooks.advance(claim, 2, LEASE) is Outcome.NONE
    await store.append(step(stored, 2, chunk(stored, "two")))
    assert not await webhooks.renew(claim, LEASE)
    assert await due(webhooks) == ["w"]
