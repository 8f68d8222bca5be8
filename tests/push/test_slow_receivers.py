"""One bad receiver costs nobody else anything (B053)."""

import asyncio
import time
from collections import Counter

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import VERSION, GrpcCaller
from tests.push.config import AGENT, LOCAL, config
from tests.support.receiver import SILENT, Answer, Delivery, Receiver, receiver
from tests.support.replica import PairPool
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wide

HANGING, HOSTS, HEALTHY, PER_HOST = 200, 30, 20, 10


async def silent(_: Delivery) -> Answer:
    return SILENT


async def test_b053_receivers_that_never_answer_delay_nobody_else(pair_pool: PairPool, hook: Receiver) -> None:
    """200 tasks with 30 of them, and 20 with another: those are told at once, and so is who asks for a task."""
    pair = pair_pool.get(AGENT, {**LOCAL, "A2A_PUSH_TIMEOUT": "20"})
    async with receiver(silent, host="0.0.0.0") as hanging, GrpcCaller(pair.replicas[0], VERSION) as caller:
        quiet = await _latencies(caller, (await caller.task("echo hi")).id)
        for at in range(HANGING):
            given = pb.TaskPushNotificationConfig(url=f"http://127.0.1.{1 + at % HOSTS}:{hanging.port}/{at}")
            await caller.task("echo hi", task_push_notification_config=given)
        await wait_until(lambda: hanging.open >= 2 * HOSTS, "requests that hang")

        began = time.monotonic()
        ids = [
            (await caller.task("chunks 3", task_push_notification_config=config(hook, f"/{at}"))).id
            for at in range(HEALTHY)
        ]
        for at in range(HEALTHY):
            await hook.until_end(f"/{at}")
        assert time.monotonic() - began < 10
        busy = await _latencies(caller, ids[0])

        hosts = Counter(one.header("host") for one in hanging.deliveries)
        assert max(hosts.values()) <= 2 * PER_HOST, "each replica keeps to A2A_PUSH_PER_HOST"
    # A busy machine makes both slow; what is told apart is a loop that waits for a receiver.
    assert busy[len(busy) * 99 // 100] < max(0.2, 5 * quiet[len(quiet) * 99 // 100])


async def _latencies(caller: GrpcCaller, task_id: str) -> list[float]:
    """How long GetTask takes, in seconds, the shortest first."""
    times = []
    for _ in range(200):
        began = time.perf_counter()
        await caller.get(task_id)
        times.append(time.perf_counter() - began)
        await asyncio.sleep(0)
    return sorted(times)


async def test_callers_do_not_wait_for_receivers(pair_pool: PairPool) -> None:
    """A blocking call returns when the task has ended, whatever its webhook does meanwhile."""
    pair = pair_pool.get(AGENT, {**LOCAL, "A2A_PUSH_TIMEOUT": "20"})
    async with receiver(silent) as hanging, GrpcCaller(pair.replicas[0], VERSION) as caller:
        began = time.monotonic()
        await caller.task("chunks 20", task_push_notification_config=config(hanging))
        assert time.monotonic() - began < 5
