"""Tokens that a replica fetches together."""

import asyncio

import pytest

from a2a_grpc.server.store.quotas import Quotas, Refused
from a2a_grpc.server.store.stock import KEPT, Bucket, Rate, Stock
from tests.support.servers import StoreServer
from tests.support.tasks import open_store

MINE, TOGETHER = ("acme", "caller", "alice"), ("acme",)


def bucket(per_second: float, burst: float, whose: tuple[str, ...] = MINE) -> Bucket:
    return Bucket(whose, "read", Rate(per_second, burst))


def test_what_is_fetched_is_used_up_and_no_more() -> None:
    stock, one = Stock(), bucket(500, 1000)
    assert not stock.take([one], 0.0)
    assert stock.wanted(one, 0.0) == 5  # a hundredth of what comes in a second
    stock.got(one, 5, 5, 0.0)  # one of them for the call itself
    assert [stock.take([one], 0.5) for _ in range(5)] == [True] * 4 + [False]


@pytest.mark.parametrize(("per_second", "burst"), [(199, 10_000), (10_000, 199), (0.001, 1), (1, 1e9)])
def test_slow_rates_stay_exact(per_second: float, burst: float) -> None:
    """What a replica fetches and does not use is lost: at most a hundredth of a second's worth."""
    assert Stock().wanted(bucket(per_second, burst), 0.0) == 1


def test_one_fetches_at_a_time() -> None:
    stock, one = Stock(), bucket(1000, 1000)
    assert [stock.wanted(one, 0.0) for _ in range(3)] == [10, 1, 1]
    stock.got(one, 1, 1, 0.0)
    stock.got(one, 10, 0, 0.0)  # refused, or the store was away
    assert stock.wanted(one, 0.0) == 10
    stock.got(one, 10, 10, 0.0)
    assert stock.wanted(one, 0.0) == 1  # there is some


def test_of_all_buckets_or_of_none() -> None:
    stock, one, other = Stock(), bucket(1000, 1000), bucket(1000, 1000, TOGETHER)
    stock.got(one, stock.wanted(one, 0.0), 3, 0.0)
    assert [stock.take([one, other], 0.0) for _ in range(5)] == [False] * 5
    stock.got(other, stock.wanted(other, 0.0), 2, 0.0)
    assert [stock.take([one, other], 0.0) for _ in range(2)] == [True, False]
    assert stock.take([one], 0.0)


def test_old_tokens_are_not_used() -> None:
    """Else a pause would add a burst of its own to that of the bucket."""
    stock, one = Stock(), bucket(1000, 1000)
    stock.got(one, stock.wanted(one, 0.0), 10, 0.0)
    assert not stock.take([one], KEPT)
    assert stock.wanted(one, KEPT) == 10


async def test_two_replicas_let_in_as_many_as_before_and_ask_seldom(one_store_server: StoreServer) -> None:
    client, fast = one_store_server.client, bucket(1000, 2000)
    batch = 10
    async with open_store(one_store_server.url, "r1") as one, open_store(one_store_server.url, "r2") as two:
        desks = Quotas(one), Quotas(two)
        began = asyncio.get_running_loop().time()

        async def enter(number: int) -> Refused | None:
            desk = desks[number % 2]
            return await desk.enter(desk.ticket("acme", ()), "acme", [fast], ())

        client.config_resetstat()
        let_in = [await enter(number) for number in range(1000)]
        asked = client.info("commandstats")["cmdstat_evalsha"]["calls"]
        assert let_in == [None] * 1000
        assert 1000 / batch <= asked <= 1.5 * 1000 / batch
        outcomes = await asyncio.gather(*(enter(number) for number in range(4000)))
        elapsed = asyncio.get_running_loop().time() - began
        admitted = 1000 + outcomes.count(None)
        assert 2000 - 2 * batch <= admitted <= 2000 + 1000 * elapsed + 1
