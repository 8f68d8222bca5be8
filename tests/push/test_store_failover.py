"""Webhooks while the master of their store is lost (sentinels and cluster)."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.callers import VERSION, GrpcCaller
from tests.process.test_failover import master, replaced
from tests.push.config import AGENT, QUICK, config
from tests.support.cluster import ClusterSet, cluster_set
from tests.support.receiver import Answer, Delivery, Receiver
from tests.support.replica import Replica
from tests.support.sentinel import SentinelSet, sentinel_set
from tests.support.waiting import wait_until

TASKS = 20


@pytest.fixture(params=["sentinel", "cluster"])
def store(request: pytest.FixtureRequest) -> Iterator[SentinelSet | ClusterSet]:
    with sentinel_set() if request.param == "sentinel" else cluster_set() as made:
        yield made


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_nothing_is_lost_with_the_master_of_the_store(store: SentinelSet | ClusterSet, hook: Receiver) -> None:
    """Every event of every task comes, in order; the cursor may go back by what the new master had not heard of."""

    async def slow(_: Delivery) -> Answer:
        await asyncio.sleep(0.2)
        return Answer()

    hook.behave = slow
    shards = "16" if isinstance(store, ClusterSet) else "1"
    env = {**QUICK, "A2A_STORE_REPLICAS": "1", "A2A_SHARDS": shards}
    with ExitStack() as stack:
        replicas = [Replica(agent=AGENT, redis_url=store.url, env=env) for _ in range(2)]
        for one in replicas:
            stack.callback(one.close)
            await asyncio.to_thread(one.start)
        async with GrpcCaller(replicas[0], VERSION) as caller:
            made = [
                await caller.task("chunks 10", task_push_notification_config=config(hook, f"/{at}"))
                for at in range(TASKS)
            ]
        await hook.until(TASKS * 2)
        lost = master(store, made[0].id)
        await asyncio.to_thread(lost.kill)
        await wait_until(lambda: replaced(store, lost, made[0].id), "there is another master", 15)
        await asyncio.to_thread(lost.start)
        for at in range(TASKS):
            taken = await hook.until_end(f"/{at}", 40)
            first = dict.fromkeys(one.seq for one in taken)
            assert list(first) == list(range(2, 14)), at
