"""The store behind sentinels: found, followed to another server, and never used where it no longer is."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.opening import open_nodes
from tests.store.pens import Pen, see
from tests.support.leaks import secret
from tests.support.nodes import Node
from tests.support.places import open_place
from tests.support.sentinel import NAME, SentinelSet, sentinel_set
from tests.support.servers import KINDS, ServerKind
from tests.support.tasks import create, open_store, read
from tests.support.waiting import wait_until


@pytest.fixture(
    scope="module",
    params=[KINDS[0], pytest.param(KINDS[2], marks=pytest.mark.slow)],
    ids=lambda kind: kind.name,
)
def started(request: pytest.FixtureRequest) -> Iterator[SentinelSet]:
    kind: ServerKind = request.param
    with sentinel_set(kind) as made:
        yield made


@pytest.fixture
def sentinels(started: SentinelSet) -> Iterator[SentinelSet]:
    """Three servers and three sentinels, as they are at first but for who is the master."""
    yield started
    started.repair()


async def test_the_master_is_found_and_followed(sentinels: SentinelSet) -> None:
    async with open_place(sentinels.url) as here, open_store(sentinels.url, "r2") as there:
        stored = await create(there)
        pen = Pen(there, stored)
        follower = asyncio.create_task(here.collect(stored.task_id, 101))
        await wait_until(lambda: here.begun == 1, "the follower is there")
        for _ in range(50):
            await pen.write(2)
        assert [event.seq for event in await follower] == list(range(2, 102))
        assert guests(sentinels.master()) == 5
        assert [guests(one) for one in sentinels.replicas()] == [0, 0]


@pytest.mark.slow
async def test_every_connection_follows_the_master_to_another_server(sentinels: SentinelSet) -> None:
    """A failover on request: the old master still takes writes when another one is master already.

    They are lost, unless every replica must have what is acknowledged: the new master is none of them any more.
    """
    before = sentinels.master()
    async with open_place(sentinels.url) as here, open_store(sentinels.url, "r2", store_replicas=2) as there:
        stored = await create(there)
        pen = Pen(there, stored)
        seen: list[int] = []
        follower = asyncio.create_task(see(here, stored, seen))
        await wait_until(lambda: here.begun == 1, "the follower is there")
        await pen.write()
        sentinels.sentinels[0].client.execute_command("SENTINEL", "FAILOVER", NAME)  # type: ignore[no-untyped-call]
        while before.port in sentinels.named():
            await pen.write()
        await wait_until(lambda: guests(before) == 0, "everybody has left the old master")
        await pen.write()
        await wait_until(lambda: seen and seen[-1] >= pen.seq, "the last event is seen")
        assert seen == list(range(2, pen.seq + 1))
        assert [event.seq for event in await here.store.log(stored.task_id, 0, pen.seq)] == [1, *seen]
        follower.cancel()


async def test_idle_connections_leave_a_master_that_was_stopped_and_goes_on(sentinels: SentinelSet) -> None:
    """Nothing is under way while it stands still, so that nothing fails: it goes on as if nothing had happened."""
    before = sentinels.master()
    async with open_place(sentinels.url) as here:
        stored = await create(here.store)
        assert guests(before) == 3
        before.stop()
        await wait_until(lambda: before.port not in sentinels.named(), "there is another master", 15)
        before.cont()
        await wait_until(lambda: guests(before) == 0, "nobody is left at the old one", 3)
        async with open_store(sentinels.url, "r2") as there:
            follower = asyncio.create_task(here.collect(stored.task_id, 2))
            await wait_until(lambda: here.begun == 1, "the follower is there")
            await Pen(there, await read(there, stored.task_id)).write()
            assert [event.seq for event in await follower] == [2]


async def test_sentinels_that_are_gone_or_silent_are_not_waited_for(sentinels: SentinelSet) -> None:
    sentinels.sentinels[0].kill()
    sentinels.sentinels[1].stop()
    async with open_store(sentinels.url) as store, asyncio.timeout(1.0):
        await create(store)


async def test_a_name_that_no_sentinel_knows_is_named(sentinels: SentinelSet, caplog: pytest.LogCaptureFixture) -> None:
    nodes = open_nodes(sentinels.url.replace(f"/{NAME}", "/nobody"), timeout=0.3)
    with pytest.raises(StoreUnavailableError):
        await nodes.calls.command("GET", "x")
    await nodes.close()
    assert "no sentinel says where the master nobody is: " in caplog.text


async def test_servers_and_sentinels_may_ask_for_passwords() -> None:
    with sentinel_set(servers=2, password=secret("store")) as sentinels:
        async with open_place(sentinels.url) as here:
            await create(here.store)
            assert guests(sentinels.master()) == 3


def guests(node: Node) -> int:
    """How many connections others than servers, sentinels and this test have to `node`."""
    found = 0
    with contextlib.suppress(Exception):
        found = sum(
            client["flags"] in {"N", "P"}
            and not client["name"].startswith("sentinel")
            and client["cmd"] != "client|list"
            for client in node.client.client_list()
        )
    return found
