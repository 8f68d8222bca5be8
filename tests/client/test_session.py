"""A conversation: what continues a task, what begins one, and what another process needs to go on with it."""

import asyncio
import inspect
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from a2a_grpc.client import (
    AuthRequired,
    Completed,
    Continuation,
    Failed,
    InputRequired,
    InvalidArgumentError,
    RemoteAgent,
    Reply,
    Session,
    StatusUpdate,
    StillRunningError,
    TaskNotFoundError,
    UnsupportedOperationError,
    message,
)
from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.client.states import TERMINAL
from a2a_grpc.pb import a2a_pb2 as pb
from tests.docs.documents import ROOT, blocks
from tests.support.replica import Pair
from tests.support.waiting import wait_until

pytestmark = pytest.mark.agent("tests.client.agent:agent")

WORKING = pb.TASK_STATE_WORKING
COMPLETED = pb.TASK_STATE_COMPLETED
INPUT_REQUIRED = pb.TASK_STATE_INPUT_REQUIRED
AUTH_REQUIRED = pb.TASK_STATE_AUTH_REQUIRED


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture
async def agent(two_replicas: Pair, binding: str) -> AsyncIterator[RemoteAgent]:
    async with await RemoteAgent.connect(two_replicas.replicas[0].http_url, bindings=[binding]) as agent:
        yield agent


@pytest.fixture
async def elsewhere(two_replicas: Pair) -> AsyncIterator[RemoteAgent]:
    """The other replica."""
    async with await RemoteAgent.connect(two_replicas.replicas[1].http_url) as agent:
        yield agent


async def stored(agent: RemoteAgent, task_id: str) -> pb.Task:
    return await agent.client.get_task(pb.GetTaskRequest(id=task_id))


async def test_a_question_is_answered_in_its_task_and_what_follows_is_a_new_one(agent: RemoteAgent) -> None:
    session = agent.session()
    assert (session.context_id, session.task_id, session.state) == ("", "", None)

    asked = await session.run("ask")
    assert isinstance(asked, InputRequired)
    assert (session.task_id, session.state) == (asked.task_id, INPUT_REQUIRED)
    assert session.context_id == asked.context_id != ""
    answered = await session.run("Ada")
    assert isinstance(answered, Completed) and answered.task_id == asked.task_id
    assert (session.task_id, session.state) == (asked.task_id, COMPLETED)

    second = await session.run("echo 2")
    third = await session.run("fail")
    assert isinstance(second, Completed) and isinstance(third, Failed)
    tasks = [asked.task_id, second.task_id, third.task_id]
    assert len(set(tasks)) == 3 and session.earlier_task_ids == tuple(tasks[:2])
    assert session.state == pb.TASK_STATE_FAILED
    sent = (await stored(agent, third.task_id)).history[0]
    assert list(sent.reference_task_ids) == tasks[:2] and sent.context_id == asked.context_id
    assert not (await stored(agent, asked.task_id)).history[-1].reference_task_ids


async def test_an_answer_while_an_authorization_is_missing_goes_to_its_task(agent: RemoteAgent) -> None:
    """The agent goes on by itself; the message that came meanwhile is its next turn."""
    session = agent.session()
    first = await session.run("auth 300")
    assert isinstance(first, AuthRequired) and session.state == AUTH_REQUIRED

    second = await session.run("I have approved it")

    assert isinstance(second, Completed) and second.task_id == first.task_id
    assert second.text == "done\nI have approved it" and not session.earlier_task_ids


async def test_an_authorization_can_be_waited_for(agent: RemoteAgent) -> None:
    session = agent.session()
    assert isinstance(await session.run("auth 300"), AuthRequired)

    result = await session.result()

    assert isinstance(result, Completed) and result.text == "done" and session.state == COMPLETED


async def test_a_message_that_is_a_reply_has_no_task(agent: RemoteAgent) -> None:
    session = agent.session()
    reply = await session.run("msg hello")
    assert isinstance(reply, Reply) and reply.text == "hello"
    assert (session.context_id, session.task_id) == (reply.context_id, "")

    done = await session.run("echo x")
    assert isinstance(done, Completed) and done.context_id == reply.context_id


async def test_another_process_goes_on_with_the_conversation(agent: RemoteAgent, elsewhere: RemoteAgent) -> None:
    session = agent.session()
    await session.run("echo 1")
    asked = await session.run("ask")
    assert isinstance(asked, InputRequired)

    again = elsewhere.session(token=session.to_token())
    assert (again.context_id, again.task_id, again.state, again.earlier_task_ids) == (
        session.context_id,
        session.task_id,
        session.state,
        session.earlier_task_ids,
    )
    answered = await again.run("Ada")
    assert isinstance(answered, Completed) and answered.task_id == asked.task_id

    # The first one has not heard of it: its answer is refused, it learns why, and the next message begins a task.
    with pytest.raises(UnsupportedOperationError):
        await session.run("Grace")
    assert session.state == COMPLETED
    anew = await session.run("echo 3")
    assert isinstance(anew, Completed) and session.earlier_task_ids[-1] == asked.task_id


async def test_a_question_that_was_answered_elsewhere_is_no_outcome(agent: RemoteAgent, elsewhere: RemoteAgent) -> None:
    """Whoever was away is told of it, and then of what came after it."""
    session = agent.session()
    begun = await session.start("ask")
    assert isinstance(begun, Continuation)
    asked = await session.result()
    assert isinstance(asked, InputRequired) and isinstance(await agent.result(begun), InputRequired)
    await elsewhere.session(token=session.to_token()).run("Ada")

    updates = [update async for update in agent.resume(begun)]

    states = [update.state for update in updates if isinstance(update, StatusUpdate)]
    assert INPUT_REQUIRED in states and states[-1] == COMPLETED and isinstance(updates[-1], Completed)
    assert isinstance(await session.result(), Completed)


async def test_a_background_run_belongs_to_the_conversation(agent: RemoteAgent) -> None:
    session = agent.session()
    begun = await session.start("tick 4 100")
    assert isinstance(begun, Continuation) and begun.task_id == session.task_id

    beside = await session.run("echo beside")
    assert isinstance(beside, Completed) and session.earlier_task_ids == (begun.task_id,)
    result = await agent.result(begun)
    assert isinstance(result, Completed) and result.text == "1 2 3 4 "

    await session.start("tick 3 50")
    assert session.state in (pb.TASK_STATE_SUBMITTED, WORKING)
    updates = [type(update).__name__ async for update in session.resume()]
    assert updates[-5:] == ["ArtifactChunk", "ArtifactChunk", "ArtifactChunk", "StatusUpdate", "Completed"]
    assert session.state == COMPLETED


async def test_a_session_keeps_the_task_of_a_call_that_took_too_long(agent: RemoteAgent) -> None:
    session = agent.session()
    with pytest.raises(StillRunningError) as caught:
        await session.run("tick 6 100", timeout=0.3)
    assert session.task_id == caught.value.task_id

    result = await session.result()

    assert isinstance(result, Completed) and result.text == "1 2 3 4 5 6 " and result.task_id == caught.value.task_id


async def test_what_a_background_run_waits_for_is_told_before_it_is_waited_for(agent: RemoteAgent) -> None:
    session = agent.session()
    await session.start("auth 600")
    first, second = await session.result(), await session.result()

    assert isinstance(first, AuthRequired) and isinstance(second, Completed)


async def test_a_task_that_was_erased_is_forgotten(agent: RemoteAgent) -> None:
    session = agent.session(token=agent.session("c1").to_token())
    assert session.context_id == "c1"
    erased = session_at(agent, "gone", INPUT_REQUIRED)

    with pytest.raises(TaskNotFoundError):
        await erased.run("an answer")
    assert (erased.task_id, erased.state) == ("", None)
    result = await erased.run("echo x")
    assert isinstance(result, Completed) and result.context_id == "c1"


def session_at(agent: RemoteAgent, task_id: str, state: pb.TaskState) -> Session:
    """A session whose task somebody has erased meanwhile."""
    session = agent.session("c1")
    session._tasks, session._state = [task_id], state
    return agent.session(token=session.to_token())


async def test_one_message_at_a_time(agent: RemoteAgent) -> None:
    session = agent.session()
    waiting = asyncio.create_task(session.run("tick 3 100"))
    await wait_until(lambda: session.state == WORKING or session.task_id, "the first one is under way")
    for call in (session.run("echo x"), session.start("echo x"), session.result()):
        with pytest.raises(RuntimeError, match="waits for its agent"):
            await call
    first = await waiting
    assert isinstance(first, Completed) and session.earlier_task_ids == ()


async def test_a_stream_that_was_left_is_left_for_good(agent: RemoteAgent) -> None:
    session = agent.session()
    left = session.run_stream("tick 30 50")
    await anext(left)
    first = session.task_id
    assert first

    result = await session.run("echo x")

    assert isinstance(result, Completed) and session.earlier_task_ids == (first,)
    with pytest.raises(RuntimeError, match="gone on with another call"):
        await anext(left)
    assert (await stored(agent, first)).status.state not in TERMINAL, "its task goes on"


async def test_a_stream_that_is_broken_off_leaves_the_session_free(agent: RemoteAgent) -> None:
    session = agent.session()
    async for _ in session.run_stream("hang"):
        break
    first = session.task_id

    result = await session.run("echo x")

    assert isinstance(result, Completed) and session.earlier_task_ids == (first,)


async def test_ids_of_the_caller_are_kept(agent: RemoteAgent) -> None:
    context_id = uuid.uuid4().hex
    session = agent.session()
    first = await session.run(message("echo 1", context_id=context_id))
    assert isinstance(first, Completed) and session.context_id == context_id == first.context_id
    with pytest.raises(InvalidArgumentError, match="another context"):
        await session.run(message("echo 2", context_id="other"))
    with pytest.raises(InvalidArgumentError, match="another context"):
        agent.session("other", token=session.to_token())

    asked = await session.run("ask")
    assert isinstance(asked, InputRequired)
    apart = agent.session()
    answered = await apart.run(message("Ada", task_id=asked.task_id))
    assert isinstance(answered, Completed) and answered.task_id == asked.task_id == apart.task_id


async def test_a_session_without_a_task_has_nothing_to_follow(agent: RemoteAgent) -> None:
    with pytest.raises(InvalidArgumentError, match="no task"):
        await agent.session().result()


def test_a_session_offers_what_an_agent_offers() -> None:
    for name in ("run", "run_stream", "start"):
        mine, theirs = (inspect.signature(getattr(kind, name)) for kind in (Session, RemoteAgent))
        assert mine == theirs, name


async def test_the_examples_of_the_page(two_replicas: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    """What stands under "Sessions" in docs/CLIENT.md, with the address of an agent that is there."""
    url = two_replicas.replicas[0].http_url
    space: dict[str, Any] = {}
    examples = [
        block.text
        for block in blocks(ROOT / "docs" / "CLIENT.md")
        if block.heading in ("Sessions", "In the background")
    ]
    for text in examples:
        exec(text.replace("https://pizza.example.com", url).replace("A pizza, please.", "ask"), space)  # noqa: S102

    await space["order"]()
    async with await RemoteAgent.connect(url) as agent:
        await space["in_the_background"](agent)

    printed = capsys.readouterr().out
    assert printed.startswith("What is your name?\nA large one.\n") and "InputRequired(" in printed


async def test_a_message_refers_to_the_last_32_tasks(two_replicas: Pair) -> None:
    """So does the session that another process goes on with."""
    async with await RemoteAgent.connect(two_replicas.replicas[0].http_url) as agent:
        session = agent.session()
        for number in range(40):
            await session.run(f"echo {number}")
        known = [*session.earlier_task_ids, session.task_id]
        assert len(set(known)) == 40
        token = session.to_token()
        for one in (session, agent.session(token=token)):
            last = await one.run("echo last")
            assert isinstance(last, Completed)
            assert list((await stored(agent, last.task_id)).history[0].reference_task_ids) == known[-32:]
