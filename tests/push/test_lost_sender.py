"""Deliveries outlive the process that makes them: killed, stopped, frozen, or without its store (B053)."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator

import psutil
import pytest

from tests.conformance.callers import VERSION, GrpcCaller
from tests.push.config import AGENT, QUICK, config
from tests.support.receiver import Answer, Delivery, Receiver
from tests.support.replica import Pair, PairPool, Replica
from tests.support.waiting import wait_until

WHOLE = ["WORKING", *["artifact"] * 5, "COMPLETED"]


@pytest.fixture
def mortals(pair_pool: PairPool) -> Pair:
    """Two replicas that notice within a second when the other is lost."""
    return pair_pool.get(AGENT, {**QUICK, "A2A_LEASE_TTL": "1", "A2A_PUSH_TIMEOUT": "20"})


@pytest.fixture
async def caller(mortals: Pair) -> AsyncIterator[GrpcCaller]:
    async with GrpcCaller(mortals.replicas[0], VERSION) as connected:
        yield connected


class Gate:
    """Lets a receiver answer the request number `at` only when the gate is open."""

    def __init__(self, hook: Receiver, at: int = 3) -> None:
        self.opened = asyncio.Event()
        self._hook, self._at = hook, at

    async def __call__(self, _: Delivery) -> Answer:
        if len(self._hook.deliveries) == self._at:
            await self.opened.wait()
        return Answer()


async def sender(mortals: Pair, hook: Receiver) -> Replica:
    """The replica that waits for an answer of `hook`, once one does."""

    def connected() -> list[Replica]:
        return [one for one in mortals.replicas if hook.port in _peers(one)]

    await wait_until(lambda: hook.open, "a request that is not answered")
    [found] = await wait_until(connected, "a replica that is connected to the receiver")
    return found


def _peers(replica: Replica) -> set[int]:
    """The ports that the process is connected to."""
    connections = psutil.Process(replica.pid).net_connections("tcp")
    return {connection.raddr.port for connection in connections if connection.raddr}


def in_order(taken: list[Delivery]) -> None:
    """Every event came, none before one that it follows; only repeats of the last one may be there."""
    seqs = [one.seq for one in taken]
    assert seqs == sorted(seqs)
    told = {one.seq: one.state or "artifact" for one in taken}
    assert list(told.values()) == WHOLE


async def test_b053_a_killed_sender_is_replaced(mortals: Pair, caller: GrpcCaller, hook: Receiver) -> None:
    """Kill -9 in the middle of a request: another replica repeats it and goes on behind it."""
    gate = hook.behave = Gate(hook)
    await caller.task("chunks 5", task_push_notification_config=config(hook))
    (await sender(mortals, hook)).kill()
    gate.opened.set()

    in_order(await hook.until_end())
    repeats = Counter(one.header("x-a2a-delivery-id") for one in hook.deliveries)
    assert sorted(repeats.values()) == [1] * 6 + [2]


async def test_b053_a_sender_that_stops_hands_over(mortals: Pair, caller: GrpcCaller, hook: Receiver) -> None:
    """SIGTERM while a receiver is silent: the other replica goes on at once, not when the lease lapses."""
    gate = hook.behave = Gate(hook)
    await caller.task("chunks 5", task_push_notification_config=config(hook))
    stopping = await sender(mortals, hook)
    stopping.terminate()
    await asyncio.to_thread(stopping.wait)
    gate.opened.set()

    in_order(await hook.until_end())


async def test_a_frozen_sender_does_no_harm_when_it_comes_back(
    mortals: Pair, caller: GrpcCaller, hook: Receiver
) -> None:
    """SIGSTOP for longer than its lease: what it was about to write is refused."""
    gate = hook.behave = Gate(hook)
    await caller.task("chunks 5", task_push_notification_config=config(hook))
    frozen = await sender(mortals, hook)
    frozen.stop_signal()
    in_order(await hook.until_end())
    before = len(hook.deliveries)
    gate.opened.set()
    frozen.cont()
    async with GrpcCaller(frozen, VERSION) as thawed:
        await thawed.task("chunks 1", task_push_notification_config=config(hook, "/after"))
    await hook.until_end("/after")

    assert len([one for one in hook.deliveries if one.target == "/hook"]) == before


async def test_deliveries_go_on_after_a_restart_of_everything(
    mortals: Pair, caller: GrpcCaller, hook: Receiver
) -> None:
    """What was not delivered is in the store."""

    async def down(_: Delivery) -> Answer:
        return Answer(503)

    hook.behave = down
    await caller.task("chunks 5", task_push_notification_config=config(hook))
    await hook.until(2)
    for one in mortals.replicas:
        one.kill()
    del hook.deliveries[:]

    async def up(_: Delivery) -> Answer:
        return Answer()

    hook.behave = up
    await asyncio.to_thread(mortals.repair)

    in_order(await hook.until_end())


async def test_deliveries_wait_for_a_store_that_is_away(mortals: Pair, caller: GrpcCaller, hook: Receiver) -> None:
    gate = hook.behave = Gate(hook)
    await caller.task("chunks 5", task_push_notification_config=config(hook))
    await wait_until(lambda: hook.open, "a request under way")
    with mortals.store.frozen():
        gate.opened.set()
        await asyncio.sleep(2)  # longer than a call to the store may take, and than the lease

    in_order(await hook.until_end())


@pytest.mark.slow
async def test_nothing_is_lost_when_receivers_fail_and_a_sender_is_killed(mortals: Pair, hook: Receiver) -> None:
    """300 tasks, half of all answers are failures, one replica is killed on the way: each event comes, in its order."""
    chance = random.Random(4)

    async def moody(_: Delivery) -> Answer:
        return Answer(chance.choice([200, 503]))

    hook.behave = moody
    survivor, victim = mortals.replicas
    async with GrpcCaller(survivor, VERSION) as caller:
        tasks = [
            await caller.task("chunks 5", return_immediately=True, task_push_notification_config=config(hook, f"/{at}"))
            for at in range(300)
        ]
        victim.send(signal.SIGKILL)
        assert len(tasks) == 300
        await wait_until(
            lambda: sum(one.state == "COMPLETED" and one.answered == 200 for one in hook.deliveries) >= 300,
            "the end of each task",
            50,
        )
    for at in range(300):
        in_order(hook.taken(f"/{at}"))
