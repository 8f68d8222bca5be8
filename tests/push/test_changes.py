"""What a caller or an operator changes while a request is under way (3.1.7, 3.1.10)."""

import asyncio
import re

import pytest

from a2a_grpc.command import main
from tests.conformance.callers import VERSION, GrpcCaller
from tests.push.config import AGENT, QUICK, config, create, delete
from tests.support.receiver import Answer, Delivery, Receiver, receiver
from tests.support.replica import Pair, PairPool
from tests.support.waiting import wait_until


class Late:
    """Lets the first request wait for `gate`; all are answered with `status`."""

    def __init__(self, hook: Receiver, status: int) -> None:
        self.gate = asyncio.Event()
        self._hook, self._status = hook, status

    async def __call__(self, _: Delivery) -> Answer:
        if len(self._hook.deliveries) == 1:
            await self.gate.wait()
        return Answer(self._status)


@pytest.fixture
def pair(pair_pool: PairPool) -> Pair:
    """Two replicas that notice within a second when they were overtaken."""
    settings = {"A2A_LEASE_TTL": "1", "A2A_PUSH_TIMEOUT": "20", "A2A_ADMIN_ADDR": "127.0.0.1:0"}
    return pair_pool.get(AGENT, {**QUICK, **settings})


@pytest.mark.parametrize("status", [200, 503, 410])
async def test_what_was_replaced_is_not_told_any_more(pair: Pair, hook: Receiver, status: int) -> None:
    """The new URL hears everything from the event on that nobody has taken, whatever the old one answers in the end."""
    late = hook.behave = Late(hook, status)
    async with GrpcCaller(pair.replicas[0], VERSION) as caller, receiver() as new:
        task = await caller.task("chunks 3", task_push_notification_config=config(hook, id="mine"))
        await wait_until(lambda: hook.open, "a request under way")
        await create(caller, task.id, config(new, id="mine"))
        taken = await new.until_end()
        late.gate.set()
        await caller.task("echo hi", task_push_notification_config=config(new, "/after"))
        await new.until_end("/after")
    assert [one.state or "artifact" for one in taken] == ["WORKING", *["artifact"] * 3, "COMPLETED"]
    assert len(hook.deliveries) == 1
    assert len(new.taken("/hook")) == 5, "nothing came again"


@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize("what", ["webhook", "task"])
async def test_what_is_gone_is_not_told_any_more(pair: Pair, hook: Receiver, what: str, status: int) -> None:
    """The request that is under way is the last one, and nobody stumbles over what is gone."""
    late = hook.behave = Late(hook, status)
    one = pair.replicas[0]
    async with GrpcCaller(one, VERSION) as caller, receiver() as other:
        task = await caller.task("chunks 3", task_push_notification_config=config(hook, id="mine"))
        await wait_until(lambda: hook.open, "a request under way")
        if what == "task":
            admin_addr = re.findall(r"administration on (\S+)", one.log(None))[-1]
            arguments = ["tasks", "delete", task.id, "--yes", "--admin", admin_addr]
            assert await asyncio.to_thread(main, arguments) == 0
        else:
            await delete(caller, task.id, "mine")
        late.gate.set()
        await caller.task("chunks 3", task_push_notification_config=config(other))
        await other.until_end()
    assert len(hook.deliveries) == 1
    assert not any("Traceback" in each.log(None) for each in pair.replicas)
