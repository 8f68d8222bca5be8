"""The store on a cluster: every shard is found, and followed when its slot goes to another node."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import cast

import pytest
import redis

from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.store import inspection as looking
from a2a_grpc.server.store.erasing import Eraser
from a2a_grpc.server.store.errors import StoreMisconfiguredError
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.levels import Levels
from a2a_grpc.server.store.opening import open_nodes
from a2a_grpc.server.store.registrations import NewEntry, Registrations, Withdrawal
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.store.topology import slot_of
from tests.store.pens import Pen, see
from tests.support.cluster import ClusterSet, cluster_set
from tests.support.leaks import secret
from tests.support.nodes import Node
from tests.support.places import Place, open_place
from tests.support.servers import KINDS, ServerKind
from tests.support.tasks import ALICE, DAY, create, open_store, origin
from tests.support.waiting import wait_until

SHARDS = 16


@pytest.fixture(
    scope="module",
    params=[KINDS[0], pytest.param(KINDS[2], marks=pytest.mark.slow)],
    ids=lambda kind: kind.name,
)
def started(request: pytest.FixtureRequest) -> Iterator[ClusterSet]:
    kind: ServerKind = request.param
    with cluster_set(kind) as made:
        yield made


@pytest.fixture
def cluster(started: ClusterSet) -> Iterator[ClusterSet]:
    """Three masters with a replica each, whole and empty."""
    for node in started.nodes:
        with contextlib.suppress(redis.ReadOnlyError):
            node.client.flushall()
    yield started
    started.repair()


async def written_by_many(
    here: Place, there: TaskStore, trouble: Callable[[], Coroutine[None, None, None]], limit: float = 20
) -> None:
    """Tasks in all shards get events from `there` until the `trouble` is over and some more; here all are seen."""
    pens = [Pen(there, await create(there)) for _ in range(2 * SHARDS)]
    seen: list[list[int]] = [[] for _ in pens]
    followers = [asyncio.create_task(see(here, pen.stored, one)) for pen, one in zip(pens, seen, strict=True)]
    await wait_until(lambda: here.begun == len(pens), "the followers are there")
    during = asyncio.create_task(trouble())

    async def write(pen: Pen) -> None:
        while not during.done():
            await pen.write()
            await asyncio.sleep(0.002)
        await pen.write(3)

    async with asyncio.timeout(limit):
        await asyncio.gather(*(write(pen) for pen in pens))
    during.result()
    await wait_until(
        lambda: all(one and one[-1] == pen.seq for one, pen in zip(seen, pens, strict=True)), "all events are seen"
    )
    assert seen == [list(range(2, pen.seq + 1)) for pen in pens]
    for follower in followers:
        follower.cancel()


async def test_tasks_lie_on_all_masters_and_are_found_and_followed(cluster: ClusterSet) -> None:
    async with (
        open_place(cluster.url, shards=SHARDS) as here,
        open_store(cluster.url, "r2", shards=SHARDS) as there,
    ):
        await written_by_many(here, there, partial(asyncio.sleep, 0.1))
        page = await here.store.page(ALICE, "", 0, None, None, 100)
        assert page.total == 2 * SHARDS
    for shard in range(SHARDS):
        # What this side takes for the slot of a key is what the server does.
        tag = f"a2a:{{{shard:x}}}:x"
        assert cluster.nodes[0].client.execute_command("CLUSTER", "KEYSLOT", tag) == slot_of(tag)  # type: ignore[no-untyped-call]
    assert all(node.client.dbsize() > 10 for node in cluster.nodes[:3])


async def test_the_address_of_one_node_is_refused_with_what_to_write(cluster: ClusterSet) -> None:
    with pytest.raises(StoreMisconfiguredError, match=r"A2A_REDIS_URL must begin with redis\+cluster://"):
        async with open_store(f"redis://{cluster.nodes[1].address}", shards=SHARDS) as store:
            await asyncio.gather(*(create(store) for _ in range(SHARDS)))


async def test_calls_and_followers_go_with_a_slot_to_another_node(cluster: ClusterSet) -> None:
    """The slots of five shards are moved one by one, keys and all, while everybody is at work."""

    async def move() -> None:
        await asyncio.sleep(0.1)
        for shard in range(5):
            source = cluster.master_of(f"a2a:{{{shard:x}}}:x")
            target = next(node for node in cluster.nodes[:3] if node is not source)
            await asyncio.to_thread(give, source, target, slot_of(f"{{{shard:x}}}"), cluster)

    async with (
        open_place(cluster.url, shards=SHARDS) as here,
        open_store(cluster.url, "r2", shards=SHARDS) as there,
    ):
        await written_by_many(here, there, move)


def give(source: Node, target: Node, slot: int, cluster: ClusterSet) -> None:
    """Move one slot from `source` to `target`, as `redis-cli --cluster reshard` does."""
    there, here = cluster.id_of(target), cluster.id_of(source)
    cluster.ask(target, "SETSLOT", slot, "IMPORTING", here)
    cluster.ask(source, "SETSLOT", slot, "MIGRATING", there)
    while keys := cluster.ask(source, "GETKEYSINSLOT", slot, 10):
        source.client.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)  # type: ignore[no-untyped-call]
    for node in (target, source, *cluster.nodes):
        with contextlib.suppress(redis.ResponseError):  # replicas learn it from their masters
            cluster.ask(node, "SETSLOT", slot, "NODE", there)


async def test_a_replica_takes_over_on_request(cluster: ClusterSet) -> None:
    async def fail_over() -> None:
        await asyncio.sleep(0.1)
        replica = next(node for node in cluster.nodes if node.replication()["role"] == "slave")
        cluster.ask(replica, "FAILOVER")
        await wait_until(lambda: replica.replication().get("role") == "master", "it is a master")

    async with (
        open_place(cluster.url, shards=SHARDS) as here,
        open_store(cluster.url, "r2", shards=SHARDS) as there,
    ):
        await written_by_many(here, there, fail_over)


async def test_the_nodes_may_ask_for_a_password() -> None:
    with cluster_set(password=secret("store")) as cluster:
        async with (
            open_place(cluster.url, shards=SHARDS) as here,
            open_store(cluster.url, "r2", shards=SHARDS) as there,
        ):
            await written_by_many(here, there, partial(asyncio.sleep, 0.1))


@pytest.mark.slow
@pytest.mark.parametrize("stopped", [False, True])
async def test_what_a_lost_master_held_is_served_by_its_replica(cluster: ClusterSet, stopped: bool) -> None:
    async def lose() -> None:
        await asyncio.sleep(0.1)
        master = cluster.master_of("a2a:{0}:x")
        if stopped:
            master.stop()
        else:
            master.kill()
        await wait_until(lambda: cluster.master_of("a2a:{0}:x") is not master, "a replica takes over", 15)
        if stopped:
            master.cont()
        else:
            await asyncio.to_thread(master.start)

    async with (
        open_place(cluster.url, shards=SHARDS) as here,
        open_store(cluster.url, "r2", shards=SHARDS, store_replicas=1) as there,
    ):
        await written_by_many(here, there, lose, 40)


async def test_operators_find_and_erase_what_lies_on_any_node(cluster: ClusterSet) -> None:
    async with open_store(cluster.url, shards=SHARDS) as store:
        inspection, letters = looking.Inspection(store), DeadLetters(store, ttl=DAY)
        await store.registry.beat(0, 100, enters=True)
        running = {(await create(store, str(at))).task_id for at in range(2 * SHARDS)}
        waiting = [await create(store, str(at), claim=False) for at in range(2 * SHARDS)]
        ready = {stored.task_id for stored in waiting}
        for stored in waiting:
            await letters.bury(stored, origin("x"), "lost", now_ms())

        async def found(place: looking.Place | None) -> set[str]:
            tasks, more = await inspection.find(looking.Wanted(place=place), "", 1000)
            assert not more
            return {task.task_id for task in tasks}

        assert (await found(looking.Place.RUNNING), await found(looking.Place.READY), await found(None)) == (
            running, ready, running | ready
        )  # fmt: skip
        assert {letter.task_id for letter in (await letters.page(None, None, None, 100)).letters} == ready

        eraser = Eraser(store, letters)
        assert [await eraser.erase(task_id) for task_id in ready] == [1] * len(ready)
        assert await found(None) == running
        left = [key for node in cluster.nodes for key in cast("list[bytes]", node.client.keys("*"))]
        assert not [key for key in left if any(task_id.encode() in key for task_id in ready)]
        assert await letters.discard_before(None) == 0


async def test_tasks_that_nobody_has_counted_are_counted_on_each_node(cluster: ClusterSet) -> None:
    async with open_store(cluster.url, shards=16) as store:
        for _ in range(40):
            await create(store)
        for keys in store.all_keys():
            await store.pipeline.command("DEL", keys.tally)
        seen = Levels(store)
        await seen.walk(await seen.look())
        assert await seen.look() == []
        tasks = seen.tasks()
        assert tasks is not None
        assert {labels: number for labels, number in tasks.items() if number} == {("submitted",): 40}


async def test_the_registry_of_agents_lives_in_one_slot(cluster: ClusterSet) -> None:
    nodes = open_nodes(cluster.url, timeout=3)
    try:
        registrations = Registrations(nodes, max_ttl=60, per_owner=5, most=10)
        entry = NewEntry(
            id="a", owner="alice", url="https://a.example.com", card=b"{}", facets=b"{}", public=True, signature=1,
            key_id="", instance="",
        )  # fmt: skip
        await registrations.register(entry, 30)
        claim = await registrations.claim(30, 1)
        assert await registrations.report("a", claim.proof, pause=9, state=2, reason="", signature=1, key_id="")
        assert [glance.state for glance in (await registrations.look(None, 10)).glances] == [2]
        assert await registrations.renew("a", "alice", 0, "") is not None
        assert await registrations.withdraw("a", "alice", "") is Withdrawal.OK
    finally:
        await nodes.close()
