"""Dead letters in the store: written once, found by whoever looks, gone when their time is over."""

import asyncio
from typing import cast

import pytest

from a2a_grpc.server.core import states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.records import Origin, Scope, StoredTask
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.audit import audit
from tests.support.servers import StoreServer
from tests.support.tasks import ALICE, BOB, DAY, create, open_store, origin, read, status, step

CAROL = Scope("acme", "carol")


@pytest.fixture
def letters(store: TaskStore) -> DeadLetters:
    return DeadLetters(store, ttl=30 * DAY)


async def buried(
    letters: DeadLetters, store: TaskStore, text: str = "hello", *, scope: Scope = ALICE, died_ms: int | None = None
) -> str:
    """The id of a new letter."""
    stored = await create(store, text, scope=scope)
    await letters.bury(stored, origin(text), f"gave up on {text}", now_ms() if died_ms is None else died_ms)
    return f"{stored.task_id}.1"


async def pages(letters: DeadLetters, limit: int, tenant: str | None = None, owner: str | None = None) -> list[str]:
    """The ids of all letters, read in pages of `limit`."""
    found, cursor = [], None
    while True:
        page = await letters.page(tenant, owner, cursor, limit)
        assert len(page.letters) <= limit
        found += [letter.id for letter in page.letters]
        cursor = page.cursor
        if cursor is None:
            return found


async def test_a_letter_keeps_all_that_it_takes_to_try_again(store: TaskStore, letters: DeadLetters) -> None:
    before = now_ms()
    stored = await create(store, "hello", scope=CAROL, context="talk")
    said = origin("hello")

    await letters.bury(stored, said, "The replica was lost.", 1_700_000_000_123)

    found = await letters.find(f"{stored.task_id}.1")
    assert found is not None
    letter, kept = found
    assert (letter.scope, letter.context, letter.task_id, letter.turn) == (CAROL, "talk", stored.task_id, 1)
    assert (letter.reason, letter.attempts, letter.redriven) == ("The replica was lost.", 1, "")
    assert letter.died_ms == 1_700_000_000_123
    assert before <= letter.created_ms <= now_ms()
    assert kept == Origin(message=said.message, request=said.request, extensions=("urn:one", "urn:two"))


async def test_the_same_turn_is_buried_once(store: TaskStore, letters: DeadLetters) -> None:
    stored = await create(store)
    for reason, died in (("first", 1000), ("second", 2000)):
        await letters.bury(stored, origin("hello"), reason, died)

    (letter,) = (await letters.page(None, None, None, 10)).letters
    assert (letter.reason, letter.died_ms) == ("first", 1000)


async def test_two_turns_of_one_task_are_two_letters(store: TaskStore, letters: DeadLetters) -> None:
    stored = await create(store)
    await letters.bury(stored, origin("one"), "first", 1000)
    stored.turn = 7
    await letters.bury(stored, origin("two"), "second", 2000)

    assert await pages(letters, 10) == [f"{stored.task_id}.7", f"{stored.task_id}.1"]


async def test_a_letter_without_its_message_says_so(store: TaskStore, letters: DeadLetters) -> None:
    stored = await create(store)
    await letters.bury(stored, None, "lost", 1000)

    found = await letters.find(f"{stored.task_id}.1")
    assert found is not None
    assert found[1] is None


async def test_a_task_that_is_gone_gets_no_letter(store: TaskStore, letters: DeadLetters) -> None:
    """Else a letter could come back after its task was erased on purpose."""
    stored = await create(store)
    gone = StoredTask(**{name: getattr(stored, name) for name in stored.__slots__})
    gone.task_id = store.new_task_id(ALICE, "another")

    await letters.bury(gone, origin("hello"), "lost", 1000)

    assert await pages(letters, 10) == []


@pytest.mark.parametrize("limit", [1, 3, 100])
async def test_letters_come_page_by_page_over_all_shards_the_latest_first(
    audited_server: StoreServer, limit: int
) -> None:
    async with open_store(audited_server.url, shards=4) as store:
        letters = DeadLetters(store, ttl=DAY)
        # Two of each time, so that pages also break between equal ones.
        now = now_ms()
        ids = [await buried(letters, store, str(at), died_ms=now - at // 2 * 1000) for at in range(10)]
        expected = [one for at in range(0, 10, 2) for one in sorted(ids[at : at + 2], reverse=True)]

        assert await pages(letters, limit) == expected


async def test_letters_of_one_caller(store: TaskStore, letters: DeadLetters) -> None:
    of_alice = [await buried(letters, store, str(at), died_ms=10_000 - at) for at in range(3)]
    of_carol = [await buried(letters, store, str(at), scope=CAROL, died_ms=9_000 - at) for at in range(3)]
    of_bob = await buried(letters, store, scope=BOB, died_ms=1)

    assert await pages(letters, 2, owner="alice") == of_alice
    assert await pages(letters, 2, tenant="acme") == of_carol
    assert await pages(letters, 2, tenant="", owner="bob") == [of_bob]
    assert await pages(letters, 2, tenant="acme", owner="bob") == []


async def test_a_letter_is_noted_as_redriven_and_only_if_it_is_there(store: TaskStore, letters: DeadLetters) -> None:
    letter_id = await buried(letters, store)
    await letters.mark_redriven(letter_id, "the new one")
    found = await letters.find(letter_id)
    assert found is not None
    assert found[0].redriven == "the new one"

    assert await letters.discard(letter_id)
    await letters.mark_redriven(letter_id, "another")
    assert await letters.find(letter_id) is None


async def test_letters_are_removed_one_by_one_by_age_or_all(store: TaskStore, letters: DeadLetters) -> None:
    old, middle, new = [await buried(letters, store, str(at), died_ms=at) for at in (1000, 2000, 3000)]

    assert await letters.discard(middle)
    assert not await letters.discard(middle)
    assert await letters.discard_before(1999) == 1
    assert await pages(letters, 10) == [new]
    assert await letters.find(old) is None
    more = [await buried(letters, store, str(at)) for at in range(150)]
    assert await letters.discard_before(None) == 1 + len(more)
    assert await pages(letters, 10) == []


async def test_only_the_letters_of_one_task(store: TaskStore, letters: DeadLetters) -> None:
    kept = [await buried(letters, store, str(at)) for at in range(20)]
    gone = await buried(letters, store)

    assert await letters.discard_of(gone.partition(".")[0]) == 1
    assert await letters.discard_of(gone.partition(".")[0]) == 0
    assert set(await pages(letters, 100)) == set(kept)


@pytest.mark.parametrize("letter_id", ["", ".", "x", "x.1", "0" * 32 + "-0", "0" * 32 + "-0.", "0" * 32 + "-0.x"])
async def test_what_is_no_letter_is_not_found(letters: DeadLetters, letter_id: str) -> None:
    assert await letters.find(letter_id) is None
    assert not await letters.discard(letter_id)


async def test_a_letter_outlives_its_task_and_leaves_when_its_own_time_is_over(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, task_ttl=0.05) as store:
        letters = DeadLetters(store, ttl=0.5)
        stored = await create(store)
        await letters.bury(stored, origin("hello"), "lost", now_ms())
        await store.append(step(stored, 1, status(stored, states.FAILED)))
        await asyncio.sleep(0.06)
        assert await store.purge() == 1
        assert await letters.sweep() == 0
        assert await letters.find(f"{stored.task_id}.1") is not None
        assert audit(audited_server.client) == []

        await asyncio.sleep(0.5)
        assert await letters.sweep() == 1
        names = {key.decode().split(":")[2] for key in cast("list[bytes]", audited_server.client.keys("a2a:{*"))}
        assert names == {"dedupe", "tally"}


async def test_a_letter_goes_by_itself_where_nobody_sweeps(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url) as store:
        letter_id = await buried(DeadLetters(store, ttl=10), store)
        life = audited_server.client.pttl(store.keys_of(letter_id[:34]).letter(letter_id))
        # An hour behind the sweep.
        assert 3_600_000 < life <= 3_610_000
        # Its row stays; whoever lists the letters passes over it.
        audited_server.client.delete(store.keys_of(letter_id[:34]).letter(letter_id))
        assert await pages(DeadLetters(store, ttl=10), 10) == []
        assert await DeadLetters(store, ttl=0).sweep() == 1


async def test_a_letter_that_was_written_without_an_answer_is_not_written_twice(audited_server: StoreServer) -> None:
    """The connection is cut while the script runs; the call is sent again (see `store/pipeline.py`)."""
    async with open_store(audited_server.url) as store:
        letters = DeadLetters(store, ttl=DAY)
        stored = await create(store)
        burying = [asyncio.ensure_future(letters.bury(stored, origin("x"), "lost", 1000)) for _ in range(50)]
        await asyncio.sleep(0)
        audited_server.cut_connections()
        await asyncio.gather(*burying)
        assert await pages(letters, 10) == [f"{stored.task_id}.1"]
        assert (await read(store, stored.task_id)).seq == 1
