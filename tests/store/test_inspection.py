"""Looking at the tasks of all callers: every way to find them finds the same, page by page."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from a2a_grpc.server.core import states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.store.inspection import Inspection, Place, Wanted
from a2a_grpc.server.store.records import Scope
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.servers import StoreServer
from tests.support.tasks import ALICE, BOB, create, open_store, read, status, step

CAROL = Scope("acme", "carol")


@pytest.fixture(params=[1, 16], ids=["one shard", "16 shards"])
async def store(request: pytest.FixtureRequest, audited_server: StoreServer) -> AsyncIterator[TaskStore]:
    async with open_store(audited_server.url, shards=request.param) as opened:
        await opened.registry.beat(0, 100, enters=True)
        yield opened


@pytest.fixture
def inspection(store: TaskStore) -> Inspection:
    return Inspection(store)


async def pages(inspection: Inspection, limit: int, **wanted: Any) -> list[str]:
    """The ids that are found in pages of `limit`, none twice."""
    found: list[str] = []
    position = ""
    while True:
        tasks, position = await inspection.find(Wanted(**wanted), position, limit)
        assert len(tasks) <= limit
        found += [task.task_id for task in tasks]
        if not position:
            assert len(found) == len(set(found))
            return found


class Some:
    """Tasks in every place and state, of three callers; each list has those of one kind."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.parked: list[str] = []
        self.running: list[str] = []
        self.later: list[str] = []
        self.ready: list[str] = []

    @property
    def all(self) -> set[str]:
        return {*self.ended, *self.parked, *self.running, *self.later, *self.ready}


async def some(store: TaskStore) -> Some:
    made = Some()
    for scope in (ALICE, BOB, CAROL):
        for _ in range(4):
            ended, parked, running, later = [await create(store, scope=scope) for _ in range(4)]
            await store.append(step(ended, 1, status(ended, states.COMPLETED)))
            await store.append(step(parked, 1, status(parked, states.INPUT_REQUIRED, "q"), release=True))
            await store.append(step(running, 1, status(running, states.WORKING)))
            await store.put_back(later.task_id, later.epoch, counted=True, due_ms=now_ms() + 60_000)
            made.ended.append(ended.task_id)
            made.parked.append(parked.task_id)
            made.running.append(running.task_id)
            made.later.append(later.task_id)
    made.ready = [(await create(store, scope=scope, claim=False)).task_id for scope in (ALICE, BOB, CAROL)]
    return made


@pytest.mark.parametrize("limit", [1, 7, 1000])
async def test_every_task_is_found_once(store: TaskStore, inspection: Inspection, limit: int) -> None:
    made = await some(store)

    assert set(await pages(inspection, limit)) == made.all


@pytest.mark.parametrize("limit", [1, 4, 1000])
async def test_by_where_they_are(store: TaskStore, inspection: Inspection, limit: int) -> None:
    made = await some(store)

    assert await pages(inspection, limit, place=Place.RUNNING) == sorted(made.running)
    assert set(await pages(inspection, limit, place=Place.READY)) == set(made.ready)
    assert set(await pages(inspection, limit, place=Place.LATER)) == set(made.later)
    assert await pages(inspection, limit, place=Place.RUNNING, state=states.COMPLETED) == []


async def test_those_that_wait_come_in_their_order(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url) as store:
        waiting = [(await create(store, claim=False)).task_id for _ in range(10)]

        assert await pages(Inspection(store), 3, place=Place.READY) == waiting


async def test_by_state_tenant_and_owner(store: TaskStore, inspection: Inspection) -> None:
    made = await some(store)
    of_carol = set(await pages(inspection, 1000, tenant="acme"))
    of_bob = set(await pages(inspection, 1000, owner="bob"))

    assert len(of_carol) == len(of_bob) == 17
    assert of_carol.isdisjoint(of_bob)
    assert set(await pages(inspection, 3, state=states.COMPLETED)) == set(made.ended)
    assert set(await pages(inspection, 3, state=states.WORKING)) == set(made.running)
    assert set(await pages(inspection, 3, tenant="acme", place=Place.LATER)) == set(made.later) & of_carol
    assert await pages(inspection, 3, tenant="acme", owner="bob") == []


async def test_of_one_caller_the_latest_first(store: TaskStore, inspection: Inspection) -> None:
    await some(store)
    dated = [await create(store, scope=Scope("", "dora"), stamp_ms=1_000_000 + at) for at in range(9)]
    expected = [stored.task_id for stored in reversed(dated)]

    for limit in (1, 4, 9, 100):
        assert await pages(inspection, limit, tenant="", owner="dora") == expected
        assert await pages(inspection, limit, tenant="", owner="dora", state=states.SUBMITTED) == expected
    assert await pages(inspection, 4, tenant="", owner="dora", state=states.FAILED) == []
    assert set(await pages(inspection, 4, owner="dora")) == set(expected)


async def test_what_is_said_of_a_task(store: TaskStore, inspection: Inspection) -> None:
    before = now_ms()
    stored = await create(store, scope=CAROL, context="talk", limit=7)
    await store.append(step(stored, 1, status(stored, states.WORKING, stamp_ms=1_700_000_000_000)))

    found = await inspection.summary(stored.task_id)

    assert found is not None
    assert (found.task_id, found.scope, found.context) == (stored.task_id, CAROL, "talk")
    assert (found.state, found.stamp_ms) == (states.WORKING, 1_700_000_000_000)
    assert (found.holder, found.attempt, found.limit, found.place) == ("r1", 1, 7, Place.RUNNING)
    assert before <= found.created_ms <= now_ms()

    waiting = await create(store, claim=False)
    idle = await inspection.summary(waiting.task_id)
    assert idle is not None
    assert (idle.holder, idle.attempt, idle.place) == ("", 0, Place.READY)
    for task_id in ("", "x", store.new_task_id(ALICE, "m")):
        assert await inspection.summary(task_id) is None


async def test_what_a_lost_replica_held_is_running_until_it_is_recovered(
    store: TaskStore, inspection: Inspection, audited_server: StoreServer
) -> None:
    async with open_store(audited_server.url, "r2", shards=store.shards) as other:
        await other.registry.beat(0, 100, enters=True)
        stored = await create(other)
        assert await pages(inspection, 5, place=Place.RUNNING) == [stored.task_id]
        row = next(row for row in (await store.registry.census()).replicas if row.name == "r2")
        assert await store.registry.condemn(row.name, row.beat_ms)
        assert await pages(inspection, 5, place=Place.RUNNING) == [stored.task_id]


async def test_a_look_ends_however_little_is_found(
    store: TaskStore, inspection: Inspection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of very many tasks a look goes through some, and says where the next one begins."""
    monkeypatch.setattr("a2a_grpc.server.store.inspection._SCANNED", 20)
    monkeypatch.setattr("a2a_grpc.server.store.inspection._SCAN_STEP", 10)
    made = [(await create(store)).task_id for _ in range(40)]
    wanted = await read(store, made[-1])
    await store.append(step(wanted, 1, status(wanted, states.WORKING)))

    looks, position, found = 0, "", []
    while position or not looks:
        tasks, position = await inspection.find(Wanted(state=states.WORKING), position, 50)
        found += [task.task_id for task in tasks]
        looks += 1

    assert found == [wanted.task_id]
    assert looks > 1


@pytest.mark.parametrize("position", ["x", "0", ".0.", "-1.0.", "0.0.\n", "9" * 30 + ".0."])
async def test_a_position_that_is_none_is_refused(inspection: Inspection, position: str) -> None:
    for wanted in (Wanted(), Wanted(tenant="", owner="alice"), Wanted(place=Place.READY)):
        with pytest.raises(ValueError, match="not a position"):
            await inspection.find(wanted, position, 5)
