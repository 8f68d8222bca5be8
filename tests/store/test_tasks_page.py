"""Listing: newest status first, ids break ties, totals are exact, over any number of shards (3.1.4)."""

import random

import pytest

from a2a_grpc.server.core import states
from a2a_grpc.server.core.pages import Cursor
from a2a_grpc.server.store.records import Scope
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.audit import audit
from tests.support.servers import StoreServer
from tests.support.tasks import ALICE, BOB, create, open_store, origin, read, status, step

Row = tuple[str, int]


async def listed(
    store: TaskStore, size: int, scope: Scope = ALICE, context: str = "", state: int = 0, since: int | None = None
) -> list[Row]:
    """All rows of a listing, page by page; every page must say the same total."""
    rows: list[Row] = []
    cursor, totals = None, set()
    while True:
        page = await store.page(scope, context, state, since, cursor, size)
        assert len(page.rows) <= size
        totals.add(page.total)
        rows += page.rows
        if len(page.rows) < size:
            assert totals == {len(rows)}
            return rows
        cursor = Cursor(page.rows[-1][1], page.rows[-1][0])


def newest_first(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row[1], row[0]), reverse=True)


@pytest.mark.parametrize("shards", [1, 4])
async def test_pages_hold_each_task_once_in_order(audited_server: StoreServer, shards: int) -> None:
    """Few timestamps for many tasks, so that most of the order is ties."""
    chance = random.Random(7)
    made: dict[str, list[tuple[str, int, str, int]]] = {"alice": [], "bob": []}
    async with open_store(audited_server.url, shards=shards) as store:
        for _ in range(60):
            scope, context = chance.choice([ALICE, ALICE, BOB]), chance.choice(["c1", "c2"])
            stamp = chance.choice([1000, 1001, 1002, 5000])
            stored = await create(store, scope=scope, context=context, stamp_ms=stamp)
            state = chance.choice([states.SUBMITTED, states.WORKING, states.COMPLETED])
            if state != states.SUBMITTED:
                stamp = chance.choice([1000, 1001, 5000, 5001])
                await store.append(step(stored, 1, status(stored, state, stamp_ms=stamp)))
            made[scope.owner].append((stored.task_id, stamp, context, state))
        assert audit(audited_server.client) == []
        if shards > 1:
            assert {task_id[-1] for task_id, *_ in made["alice"]} == set("0123")
        for scope in (ALICE, BOB):
            for context in ("", "c1", "c2", "c3"):
                for wanted in (None, states.SUBMITTED, states.WORKING, states.COMPLETED, states.FAILED):
                    for since in (None, 0, 1001, 5001, 9999):
                        expected = newest_first(
                            [
                                (task_id, stamp)
                                for task_id, stamp, its_context, its_state in made[scope.owner]
                                if context in {"", its_context}
                                and wanted in {None, its_state}
                                and (since is None or stamp >= since)
                            ]
                        )
                        assert await listed(store, 7, scope, context, wanted or 0, since) == expected


async def test_every_page_size_gives_the_same_list_under_ties(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, shards=4) as store:
        made = [(await create(store, stamp_ms=1000)).task_id for _ in range(23)]
        for size in (1, 2, 3, 5, 22, 23, 24, 100):
            assert await listed(store, size) == [(task_id, 1000) for task_id in sorted(made, reverse=True)]


async def test_a_cursor_stays_valid_when_its_task_moves_or_goes(store: TaskStore) -> None:
    tasks = [await create(store, stamp_ms=stamp) for stamp in (1, 2, 3, 3, 3, 4, 5)]
    order = newest_first([(task.task_id, at) for task, at in zip(tasks, (1, 2, 3, 3, 3, 4, 5), strict=True)])
    page = await store.page(ALICE, "", 0, None, None, 4)
    assert page.rows == order[:4]
    cursor = Cursor(page.rows[-1][1], page.rows[-1][0])
    moved = await read(store, cursor.task_id)
    await store.append(step(moved, 1, status(moved, states.WORKING, stamp_ms=9)))
    # What was not on a page yet and did not change comes now, once.
    assert (await store.page(ALICE, "", 0, None, cursor, 4)).rows == order[4:]


async def test_a_cursor_from_anywhere_is_only_a_place(store: TaskStore) -> None:
    made = newest_first([((await create(store, stamp_ms=stamp)).task_id, stamp) for stamp in (1, 2, 2, 3)])
    for cursor, rest in (
        (Cursor(2**53, "zzz"), 0),
        (Cursor(3, "zzz"), 0),
        (Cursor(3, ""), 1),
        (Cursor(2, "zzz"), 1),
        (Cursor(2, ""), 3),
        (Cursor(0, ""), 4),
    ):
        assert (await store.page(ALICE, "", 0, None, cursor, 10)).rows == made[rest:]


async def test_an_unknown_owner_has_an_empty_list(store: TaskStore) -> None:
    await create(store)
    for scope, context in ((BOB, ""), (ALICE, "nowhere"), (Scope("tenant", "alice"), "")):
        page = await store.page(scope, context, 0, None, None, 10)
        assert (page.rows, page.total) == ([], 0)


async def test_the_log_is_read_from_any_place(store: TaskStore) -> None:
    stored = await create(store)
    await store.append(step(stored, 1, *(status(stored, states.WORKING, str(number)) for number in range(2, 8))))
    whole = await store.log(stored.task_id, 0)
    assert [event.seq for event in whole] == [1, 2, 3, 4, 5, 6, 7]
    assert whole[0].response.task == stored.fold.task()
    assert [event.response.status_update.status.message.message_id for event in whole[1:]] == list("234567")
    assert await store.log(stored.task_id, 5) == whole[5:]
    assert await store.log(stored.task_id, 2, 3) == whole[2:5]
    assert await store.log(stored.task_id, 7) == await store.log(stored.task_id, 99) == []


async def test_only_an_entry_that_brought_a_message_has_an_origin(store: TaskStore) -> None:
    stored = await create(store, "first")
    first = await store.origin(stored.task_id, 1)
    assert first is not None
    assert first.message.parts[0].text == "first"
    assert first.extensions == ("urn:one", "urn:two")
    assert first.request == origin("first").request
    assert await store.origin(stored.task_id, 2) is None
