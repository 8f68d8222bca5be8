"""Tokens and places in the store, shared by all replicas."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from a2a_grpc.server.store import quotas as module
from a2a_grpc.server.store.quotas import Quotas, Refused, Room, Ticket
from a2a_grpc.server.store.stock import Bucket, Rate
from tests.support.audit import audit
from tests.support.servers import StoreServer
from tests.support.tasks import open_store
from tests.support.waiting import wait_until

ACME = "acme"
ALICE = (ACME, "caller", "alice")
BOB = (ACME, "caller", "bob")
SLOW = Rate(0.001, 3)
"""Three calls, and no fourth within the time of a test."""


class Desk:
    """One replica's view."""

    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas

    async def enter(self, *wanted: Bucket | Room) -> Refused | None:
        """The outcome for a call that stays."""
        return (await self.stay(*wanted))[0]

    async def stay(self, *wanted: Bucket | Room) -> tuple[Refused | None, Ticket]:
        rooms = [one for one in wanted if isinstance(one, Room)]
        ticket = self.quotas.ticket(ACME, rooms)
        buckets = [one for one in wanted if isinstance(one, Bucket)]
        return await self.quotas.enter(ticket, ACME, buckets, rooms), ticket


@contextlib.asynccontextmanager
async def two(url: str, shards: int = 1) -> AsyncIterator[tuple[Desk, Desk]]:
    async with open_store(url, "r1", shards=shards) as one, open_store(url, "r2", shards=shards) as other:
        yield Desk(Quotas(one)), Desk(Quotas(other))


async def test_replicas_share_a_bucket(store_server: StoreServer) -> None:
    bucket = Bucket(ALICE, "send", SLOW)
    async with two(store_server.url) as (one, other):
        outcomes = [await desk.enter(bucket) for desk in (one, other, one, other, one)]
        assert outcomes[:3] == [None, None, None]
        for refused in outcomes[3:]:
            assert refused is not None
            assert refused.by == bucket
            assert refused.retry_after == pytest.approx(1000, rel=0.05)


async def test_of_many_at_once_as_many_get_in_as_there_are_tokens(store_server: StoreServer) -> None:
    async with two(store_server.url) as desks:
        bucket = Bucket(ALICE, "send", Rate(0.001, 20))
        outcomes = await asyncio.gather(*(desks[number % 2].enter(bucket) for number in range(200)))
        assert outcomes.count(None) == 20


async def test_tokens_come_back_with_time_and_no_more_than_the_burst(one_store_server: StoreServer) -> None:
    async with two(one_store_server.url) as (desk, _):
        bucket = Bucket(ALICE, "send", Rate(20, 2))
        assert [await desk.enter(bucket) for _ in range(2)] == [None, None]
        refused = await desk.enter(bucket)
        assert refused is not None
        assert refused.retry_after is not None
        assert 0 < refused.retry_after <= 0.05
        await asyncio.sleep(refused.retry_after)
        assert await desk.enter(bucket) is None
        await asyncio.sleep(0.3)  # six tokens' time
        outcomes = await asyncio.gather(*(desk.enter(bucket) for _ in range(6)))
        assert outcomes.count(None) == 2


async def test_callers_tenants_and_groups_are_counted_apart(one_store_server: StoreServer) -> None:
    only_one = Rate(0.001, 1)
    async with two(one_store_server.url) as (desk, _):
        for whose in (ALICE, BOB, (ACME,), (ACME, "peer", "alice"), ("globex", "caller", "alice")):
            for group in ("send", "read"):
                assert await desk.enter(Bucket(whose, group, only_one)) is None, whose
                assert await desk.enter(Bucket(whose, group, only_one)) is not None, whose


async def test_all_or_nothing(one_store_server: StoreServer) -> None:
    """A call that its tenant has no token for, or no place, takes none of its caller's."""
    full, mine = Bucket((ACME,), "send", Rate(0.001, 1)), Bucket(ALICE, "send", SLOW)
    async with two(one_store_server.url) as (desk, _):
        assert await desk.enter(full) is None
        for _ in range(5):
            refused = await desk.enter(mine, full)
            assert refused is not None
            assert refused.by == full
        room = Room((ACME,), "calls", 1)
        assert await desk.enter(room) is None
        for _ in range(5):
            refused = await desk.enter(mine, room)
            assert (refused and refused.by, refused and refused.retry_after) == (room, None)
        assert [await desk.enter(mine) for _ in range(4)].count(None) == 3


async def test_a_place_is_taken_until_it_is_given_back(one_store_server: StoreServer) -> None:
    room, wide = Room(ALICE, "streams", 2), Room((ACME,), "streams", 3)
    async with two(one_store_server.url) as (one, other):
        (first, ticket), (second, _) = await one.stay(room, wide), await other.stay(room, wide)
        assert (first, second) == (None, None)
        refused = await other.enter(room, wide)
        assert refused is not None
        assert refused.by == room
        one.quotas.leave(ticket)
        one.quotas.leave(ticket)  # twice is no more than once

        async def free() -> bool:
            return await other.enter(room, wide) is None

        await wait_until(free, "there is a place")
        refused = await one.enter(room, wide)
        assert refused is not None


async def test_places_of_a_replica_that_is_gone_fall_free_and_of_one_that_is_there_do_not(
    one_store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEASE", 0.6)
    monkeypatch.setattr(module, "_RENEW", 0.2)
    gone, there = Room(ALICE, "streams", 1), Room(BOB, "streams", 1)
    async with two(one_store_server.url) as (one, other):
        assert await one.enter(gone) is None
        assert await other.enter(there) is None
        renewing = asyncio.create_task(other.quotas.renew_forever())
        assert await other.enter(gone) is not None

        async def free() -> bool:
            return await other.enter(gone) is None

        await wait_until(free, "the place of the other replica is free")
        for _ in range(4):
            await asyncio.sleep(0.2)
            assert await one.enter(there) is not None
        renewing.cancel()


async def test_an_emptied_store_learns_of_those_who_are_in(
    one_store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RENEW", 0.1)
    room = Room(ALICE, "streams", 1)
    async with two(one_store_server.url) as (one, other):
        assert await one.enter(room) is None
        client = one_store_server.client
        client.delete(*client.keys("*places*"))
        renewing = asyncio.create_task(one.quotas.renew_forever())

        async def known() -> bool:
            refused, ticket = await other.stay(room)
            other.quotas.leave(ticket)
            return refused is not None

        await wait_until(known, "the place is taken again")
        renewing.cancel()


@pytest.mark.parametrize("shards", [1, 16])
async def test_every_key_is_in_the_table_and_goes_by_itself(shards: int, one_store_server: StoreServer) -> None:
    async with two(one_store_server.url, shards) as (desk, _):
        for number in range(20):
            whose = (f"tenant-{number}", "caller", "alice")
            ticket = desk.quotas.ticket(whose[0], [Room(whose, "calls", 1)])
            await desk.quotas.enter(ticket, whose[0], [Bucket(whose, "send", SLOW)], [Room(whose, "calls", 1)])
    client = one_store_server.client
    names = client.keys("*:rate:*") + client.keys("*:places:*")
    assert len(names) == 40
    assert all(0 < client.pttl(name) < 4_000_000 for name in names)
    assert audit(client) == []


async def test_a_store_whose_clock_is_behind_takes_over(one_store_server: StoreServer) -> None:
    """Its predecessor's times are an hour ahead. Nobody has to wait for that hour."""
    client, hour = one_store_server.client, 3_600_000
    bucket, room = Bucket(ALICE, "send", Rate(10, 1)), Room(ALICE, "streams", 1)
    async with two(one_store_server.url) as (desk, _):
        assert await desk.enter(bucket, room) is None
        seconds, microseconds = client.time()
        ahead = seconds * 1000 + microseconds // 1000 + hour
        [rate], [places] = client.keys("*:rate:*"), client.keys("*:places:*")
        client.set(rate, f"0.000000 {ahead}", px=hour)
        client.zadd(places, {name: ahead for name, _ in client.zscan_iter(places)})
        refused = await desk.enter(bucket)
        assert refused is not None
        assert refused.retry_after == 0.1  # ten a second
        await asyncio.sleep(refused.retry_after)
        # The token is there, and the place is nobody's who renews it.
        assert await desk.enter(bucket, room) is None
        assert 0 < client.pttl(rate) < 100_000
        assert client.zcard(places) == 1


async def test_what_is_spent_tells_when_there_is_more(one_store_server: StoreServer) -> None:
    async with two(one_store_server.url) as (one, other):
        bucket = Bucket(ALICE, "authentication", Rate(0.01, 2))
        assert await one.quotas.spend(ACME, bucket) == 0
        assert await other.quotas.spend(ACME, bucket) == pytest.approx(100, rel=0.05)
        assert await one.quotas.spend(ACME, bucket) == pytest.approx(100, rel=0.05)
