"""3.2.2 execution mode, 7.6 in-task authorization."""

import asyncio
import time

import httpx
import pytest

from tests.conformance.callers import Caller, CallError, kinds, say, state, texts
from tests.conformance.test_reading import said
from tests.support.waiting import wait_until


@pytest.mark.parametrize("how", [{}, {"return_immediately": False}])
async def test_3_2_2_a_call_blocks_until_the_task_ends(how: dict[str, bool], caller: Caller) -> None:
    """3.2.2: by default; the answer has all artifacts and the last status."""
    begun = time.monotonic()
    task = await caller.task("slow 0.3", **how)
    assert time.monotonic() - begun >= 0.3
    assert (state(task.status.state), texts(task)) == ("COMPLETED", ["chunk 1 "])


async def test_3_2_2_a_call_blocks_until_input_is_required(caller: Caller) -> None:
    task = await caller.task("ask")
    assert state(task.status.state) == "INPUT_REQUIRED"
    assert [part.text for part in task.status.message.parts] == ["What else?"]


async def test_3_2_2_a_call_blocks_until_authorization_is_required(caller: Caller, other: Caller) -> None:
    """3.2.2, 7.6.1: the answer says what is needed, and the work goes on without another message."""
    task = await caller.task("auth 0.2")
    assert state(task.status.state) == "AUTH_REQUIRED"
    assert [part.text for part in task.status.message.parts] == ["Please approve this at https://example.com/approve."]

    async def done() -> bool:
        return state((await other.get(task.id)).status.state) == "COMPLETED"

    await wait_until(done, "the task goes on by itself")


async def test_3_2_2_a_follow_up_blocks_for_its_own_turn(caller: Caller, other: Caller) -> None:
    """3.2.2: on the other replica; what counts is the answer to this message, not the state it found."""
    task = await caller.task("ask")
    again = await other.task("slow 0.3", task_id=task.id)
    assert (state(again.status.state), texts(again)) == ("COMPLETED", ["chunk 1 "])


async def test_3_2_2_a_repeated_call_blocks_for_a_turn_that_runs_elsewhere(caller: Caller, other: Caller) -> None:
    """3.2.2, 3.3.1: the same message again, to the replica that does not run it: the answer is that of the work."""
    request = say("slow 0.4")
    request.configuration.return_immediately = True
    task = (await caller.send(request)).task
    request.configuration.return_immediately = False
    again = (await other.send(request)).task
    assert (again.id, state(again.status.state), texts(again)) == (task.id, "COMPLETED", ["chunk 1 "])


async def test_3_2_2_return_immediately_does_not_wait(caller: Caller, other: Caller) -> None:
    """3.2.2: the task is there, on every replica, and it is still going on."""
    begun = time.monotonic()
    task = await caller.task("hang", return_immediately=True)
    assert time.monotonic() - begun < 1
    assert state(task.status.state) in ("SUBMITTED", "WORKING")
    assert state((await other.get(task.id)).status.state) in ("SUBMITTED", "WORKING")
    await caller.cancel(task.id)


async def test_3_2_2_return_immediately_on_a_follow_up(caller: Caller, other: Caller) -> None:
    """3.2.2: the message is part of the task, whose work goes on."""
    task = await caller.task("ask")
    begun = await other.task("hang", task_id=task.id, return_immediately=True)
    assert (begun.id, state(begun.status.state)) == (task.id, "WORKING")
    assert said(begun) == ["ask", "What else?", "hang"]
    await caller.cancel(task.id)


async def test_3_2_2_return_immediately_has_no_effect_on_streams(caller: Caller) -> None:
    events = await caller.events(prefix="tck-stream-001", return_immediately=True)
    assert kinds(events) == ["task SUBMITTED", "WORKING", "artifact", "COMPLETED"]


async def test_3_2_2_return_immediately_has_no_effect_on_messages(caller: Caller) -> None:
    response = await caller.send(say("msg", return_immediately=True))
    assert [part.text for part in response.message.parts] == ["Direct message response"]


async def test_3_2_2_a_caller_that_stops_waiting_stops_nothing(caller: Caller, other: Caller) -> None:
    """DESIGN 7: the deadline of a caller, or its leaving, is no reason to stop the work."""
    request = say("slow 0.6")
    request.message.context_id = request.message.message_id
    with pytest.raises((CallError, httpx.ReadTimeout)) as caught:
        await caller.answer("SendMessage", request, timeout=0.2)
    if isinstance(caught.value, CallError):
        assert caught.value.grpc == "DEADLINE_EXCEEDED"

    async def done() -> bool:
        [task] = (await other.page(context_id=request.message.context_id, include_artifacts=True)).tasks
        return state(task.status.state) == "COMPLETED" and texts(task) == ["chunk 1 "]

    await wait_until(done, "the work is done")


async def test_7_6_a_message_is_accepted_while_authorization_is_required(caller: Caller, other: Caller) -> None:
    """7.6.1: the agent keeps its explanation, and answers the message in a later turn of the task."""
    task = await caller.task("auth 1")
    assert state(task.status.state) == "AUTH_REQUIRED"
    later = await other.task("echo approved", task_id=task.id)
    assert (later.id, state(later.status.state)) == (task.id, "COMPLETED")
    assert texts(later) == ["approved"]
    assert "echo approved" in said(later)
    assert "Please approve this at https://example.com/approve." in said(later)


async def test_3_3_3_messages_to_a_working_task_wait_for_their_turn(caller: Caller, other: Caller) -> None:
    """3.3.3, B033: from many callers on both replicas at once: each is heard once, one after another."""
    task = await caller.task("slow 1 silent", return_immediately=True)
    answers = await asyncio.gather(*((caller, other)[at % 2].task(f"echo {at}", task_id=task.id) for at in range(6)))
    assert {answer.id for answer in answers} == {task.id}
    final = await other.get(task.id)
    assert state(final.status.state) == "COMPLETED"
    assert sorted(said(final)[1:]) == [f"echo {at}" for at in range(6)]
    assert sorted(texts(final)) == [str(at) for at in range(6)]
    assert [f"echo {text}" for text in texts(final)] == said(final)[1:]
