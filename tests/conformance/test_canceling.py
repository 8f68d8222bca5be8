"""3.1.5 Cancel Task, 3.3.1 idempotency."""

import asyncio
import time

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import Caller, CallError, kinds, refused, say, state
from tests.conformance.expected import INVALID_ARGUMENT, TASK_NOT_CANCELABLE, TASK_NOT_FOUND
from tests.conformance.test_sending import ENDED, ended
from tests.support.waiting import wait_until

LIVE = ["slow 30", "slow 30 silent", "hang", "ask", "auth 30"]


@pytest.mark.parametrize("text", LIVE)
async def test_3_1_5_a_live_task_is_canceled_from_any_replica(text: str, caller: Caller, other: Caller) -> None:
    """3.1.5, B037, B039: within a second, whatever the agent is doing; subscribers see it as the last event."""
    task = await caller.task(text, return_immediately=True)
    async with caller.subscribe(task.id) as near, other.subscribe(task.id) as far:
        begun = time.monotonic()
        canceled = await other.cancel(task.id)
        assert time.monotonic() - begun < 1
        assert state(canceled.status.state) == "CANCELED"
        for log in (await near.all(), await far.all()):
            assert kinds(log)[-1] == "CANCELED"
            assert log[-1].status_update.status == canceled.status
    # B015: the store and the streams say the same.
    assert await caller.get(task.id) == await other.get(task.id) == canceled


async def test_3_1_5_an_agent_that_does_not_listen_is_canceled_too(caller: Caller, other: Caller) -> None:
    """B037: it swallows its cancellation for a while; the end is CANCELED, and nothing it writes later counts."""
    task = await caller.task("deaf 0.5", return_immediately=True)
    canceled = await other.cancel(task.id)
    assert state(canceled.status.state) == "CANCELED"
    assert await caller.get(task.id) == canceled


async def test_3_1_5_a_blocking_call_returns_when_its_task_is_canceled(caller: Caller, other: Caller) -> None:
    """3.2.2, B101: the call is answered with the task, within a second."""
    context_id = say().message.message_id
    blocked = asyncio.create_task(caller.task("hang", context_id=context_id))

    async def begun() -> str:
        tasks = (await other.page(context_id=context_id)).tasks
        return tasks[0].id if tasks else ""

    task_id = await wait_until(begun, "the task is listed")
    asked = time.monotonic()
    await other.cancel(task_id)
    assert state((await blocked).status.state) == "CANCELED"
    assert time.monotonic() - asked < 1


@pytest.mark.parametrize("how", ENDED)
async def test_3_1_5_an_ended_task_is_not_cancelable(how: str, caller: Caller, other: Caller) -> None:
    """3.1.5, 3.3.2: in each terminal state, CANCELED too; the task stays as it was (B041)."""
    task = await ended(caller, how)
    await refused(TASK_NOT_CANCELABLE, other.cancel(task.id))
    assert await caller.get(task.id) == task


async def test_3_1_5_an_unknown_task_is_not_found(caller: Caller) -> None:
    await refused(TASK_NOT_FOUND, caller.cancel("tck-nonexistent"))


@pytest.mark.parametrize("binding", ["GRPC", "JSONRPC"], indirect=True)
async def test_3_1_5_an_id_is_required(binding: str, caller: Caller) -> None:
    """5.7: over HTTP+JSON the path cannot lack it."""
    failure = await refused(INVALID_ARGUMENT, caller.cancel(""))
    assert set(failure.violations) == {"id"}


async def test_3_1_5_metadata_may_say_why(caller: Caller) -> None:
    """3.2.5: it changes nothing here."""
    task = await caller.task("ask")
    request = pb.CancelTaskRequest(id=task.id)
    request.metadata["why"] = "no longer needed"
    canceled = (await caller.answer("CancelTask", request)).message
    assert state(canceled.status.state) == "CANCELED"


async def test_3_3_1_many_cancellations_have_the_effect_of_one(caller: Caller, other: Caller) -> None:
    """3.3.1: at the same time, on both replicas: each sees CANCELED or comes too late, and there is one last event."""
    task = await caller.task("slow 30 silent", return_immediately=True)
    async with other.subscribe(task.id) as stream:
        outcomes = await asyncio.gather(
            *((caller, other)[at % 2].cancel(task.id) for at in range(6)), return_exceptions=True
        )
        log = await stream.all()
    assert kinds(log).count("CANCELED") == 1
    for outcome in outcomes:
        if isinstance(outcome, CallError):
            assert outcome.is_of(TASK_NOT_CANCELABLE)
        else:
            assert isinstance(outcome, pb.Task) and state(outcome.status.state) == "CANCELED"
    assert any(isinstance(outcome, pb.Task) for outcome in outcomes)
