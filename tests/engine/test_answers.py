"""Answers as message, task or mixed (3.1.1)."""

import asyncio
import sys

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Fail, Reject, Turn, TurnOverError
from a2a_grpc.server.agents.agent import SkillFunction
from a2a_grpc.server.core import states
from a2a_grpc.wire.errors import (
    A2AError,
    InternalError,
    InvalidAgentResponseError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnsupportedOperationError,
)
from tests.engine.nodes import Node, agent_of, artifacts, history, open_node, words
from tests.support.lossy import lossy
from tests.support.servers import StoreServer
from tests.support.waiting import wait_until


async def replies(turn: Turn) -> None:
    await turn.reply(f"re {turn.text}")


def text(response: a2a_pb2.SendMessageResponse) -> str:
    assert response.HasField("message"), response
    return "".join(part.text for part in response.message.parts)


# -- messages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", ["message", "mixed"])
async def test_a_message_answers_and_nothing_is_stored(server: StoreServer, answers: str) -> None:
    async with open_node(server.url, agent_of(replies, answers=answers)) as node:
        before = set(server.client.keys("*"))
        response = await node.send("hello", context_id="mine")
        assert text(response) == "re hello"
        message = response.message
        assert (message.role, message.context_id, message.task_id) == (a2a_pb2.ROLE_AGENT, "mine", "")
        assert message.message_id
        events = [event async for event in node.stream("hello")]
        assert [(event.seq, event.response.WhichOneof("payload")) for event in events] == [(0, "message")]
        assert events[0].response.message.context_id, "a context is made where the caller named none"
        assert set(server.client.keys("*")) == before
        assert node.engine.running == 0


@pytest.mark.parametrize("answers", ["message", "mixed"])
async def test_work_goes_on_after_the_answer_but_says_no_more(server: StoreServer, answers: str) -> None:
    refused, go = asyncio.Event(), asyncio.Event()

    async def agent(turn: Turn) -> None:
        await turn.reply("first")
        await go.wait()
        for write in (turn.reply, turn.working, turn.complete):
            with pytest.raises(TurnOverError):
                await write("late")
        refused.set()

    async with open_node(server.url, agent_of(agent, answers=answers)) as node:
        assert text(await node.send("go")) == "first"
        go.set()
        await asyncio.wait_for(refused.wait(), 3)
        assert (await node.list()).total_size == 0


async def says_nothing(turn: Turn) -> None:
    pass


async def makes_a_task(turn: Turn) -> None:
    await turn.working("this is no message")


async def raises(turn: Turn) -> None:
    raise ValueError("private")


async def rejects(turn: Turn) -> None:
    raise Reject("not for me")


async def fails(turn: Turn) -> None:
    raise Fail("could not")


async def exits(turn: Turn) -> None:
    sys.exit(1)


async def hangs(turn: Turn) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("agent", "error", "said"),
    [
        (says_nothing, InvalidAgentResponseError, "The agent answers with messages only and gave none."),
        (makes_a_task, InvalidAgentResponseError, "The agent answers with messages only and gave none."),
        (hangs, InvalidAgentResponseError, "The agent answers with messages only and gave none."),
        (raises, InternalError, "The agent failed."),
        (exits, InternalError, "The agent failed."),
        (fails, InternalError, "could not"),
        (rejects, UnsupportedOperationError, "not for me"),
    ],
)
async def test_an_agent_that_owes_a_message_and_gives_none_is_an_error(
    server: StoreServer, agent: SkillFunction, error: type[A2AError], said: str
) -> None:
    served = agent_of(agent, answers="message", timeout=0.1 if agent is hangs else None)
    async with open_node(server.url, served) as node:
        async with asyncio.timeout(3):
            with pytest.raises(error) as caught:
                await node.send("go")
        assert caught.value.message == said
        assert (await node.list()).total_size == 0


async def test_a_caller_that_leaves_ends_the_work_of_a_message(server: StoreServer) -> None:
    """Nobody can ever get it."""
    ended = asyncio.Event()

    async def agent(turn: Turn) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with open_node(server.url, agent_of(agent, answers="message")) as node:
        call = asyncio.create_task(node.send("go"))
        await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.wait_for(ended.wait(), 3)


async def test_messages_count_against_the_turns_that_may_run(server: StoreServer) -> None:
    go = asyncio.Event()

    async def agent(turn: Turn) -> None:
        await go.wait()
        await turn.reply("done")

    async with open_node(server.url, agent_of(agent, answers="message"), max_turns=2) as node:
        calls = [asyncio.create_task(node.send("go")) for _ in range(2)]
        await asyncio.sleep(0.01)
        with pytest.raises(ResourceExhaustedError):
            await node.send("one too many")
        go.set()
        assert [text(response) for response in await asyncio.gather(*calls)] == ["done"] * 2
        assert text(await node.send("now there is room")) == "done"


# -- mixed -----------------------------------------------------------------------------------------------------------


async def test_the_first_word_decides(server: StoreServer) -> None:
    async def agent(turn: Turn) -> None:
        match turn.text:
            case "message":
                await turn.reply("a message")
            case "status":
                await turn.working("a task")
                await turn.complete("done")
            case "artifact":
                await turn.artifact(artifact_id="a", text="x")
            case "park":
                await turn.require_input("what?")
            case "inbox":
                await turn.inbox.get()
            case "checkpoint":
                await turn.checkpoint(b"x")
            case _:
                await turn.complete(f"re {turn.text}")

    async with (
        open_node(server.url, agent_of(agent, answers="mixed")) as one,
        open_node(server.url, agent_of(agent, answers="mixed"), "r2") as two,
    ):
        assert text(await one.send("message")) == "a message"
        task = await one.task("status")
        assert (task.status.state, words(task), history(task)) == (states.COMPLETED, "done", ["status", "a task"])
        task = await one.task("artifact")
        assert (task.status.state, artifacts(task)) == (states.COMPLETED, {"a": ["x"]})
        assert (await one.task("checkpoint")).status.state == states.COMPLETED
        task = await one.task("park")
        assert task.status.state == states.INPUT_REQUIRED
        # A task once is a task for good: its next turn answers within it.
        task = await two.task("again", task.id)
        assert (task.status.state, words(task)) == (states.COMPLETED, "re again")
        task_id = await one.begin("inbox")
        assert (await two.task("hello", task_id)).status.state == states.COMPLETED
        assert (await one.list()).total_size == 5


async def test_who_says_nothing_in_time_has_a_task(server: StoreServer) -> None:
    go = asyncio.Event()

    async def agent(turn: Turn) -> None:
        await go.wait()
        await turn.reply("late")

    async with (
        open_node(server.url, agent_of(agent, answers="mixed"), mixed_timeout=0.1) as one,
        open_node(server.url, agent_of(agent, answers="mixed"), "r2") as two,
    ):
        task_id = await one.begin("hello")
        assert (await two.get(task_id)).status.state == states.SUBMITTED
        go.set()
        task = await two.until(task_id, states.COMPLETED)
        assert words(task) == "late"


async def test_a_message_in_the_moment_in_which_it_becomes_a_task_is_not_lost(server: StoreServer) -> None:
    """The time is up, the task is being stored, and the agent answers with a message."""
    go = asyncio.Event()

    async def agent(turn: Turn) -> None:
        await go.wait()
        await turn.reply("just in time")

    async with (
        lossy(server) as link,
        open_node(link.url, agent_of(agent, answers="mixed"), mixed_timeout=0.05, timeout=5.0) as node,
    ):
        call = asyncio.create_task(node.send("hello"))
        await asyncio.sleep(0.02)
        link.hold()
        await wait_until(lambda: link.held > 0, "the task is on its way to the store")
        go.set()
        await asyncio.sleep(0.02)
        link.let_go()
        response = await call
        assert response.HasField("task")
        assert words(response.task) == "just in time"


async def test_a_mixed_answer_that_is_repeated_runs_once_where_it_is_a_task(server: StoreServer) -> None:
    runs: list[str] = []

    async def agent(turn: Turn) -> None:
        runs.append(turn.text)
        await turn.artifact(artifact_id="a", text="x")

    async with (
        open_node(server.url, agent_of(agent, answers="mixed")) as one,
        open_node(server.url, agent_of(agent, answers="mixed"), "r2") as two,
    ):
        task = await one.task("hello", message_id="m1")
        assert await two.task("hello", message_id="m1") == await one.task("hello", message_id="m1") == task
        assert runs == ["hello"]
        with pytest.raises(InvalidArgumentError):
            await two.send("other words", message_id="m1")


async def test_a_mixed_answer_sent_twice_at_once_is_one_task(server: StoreServer) -> None:
    """Both begin before either is stored; the one that is too late stops."""
    ended: list[str] = []

    async def agent(turn: Turn) -> None:
        try:
            await turn.artifact(artifact_id="a", text="x")
            await asyncio.sleep(0.05)
            ended.append("ran")
        except asyncio.CancelledError:
            ended.append("stopped")
            raise

    served = agent_of(agent, answers="mixed")
    async with open_node(server.url, served) as one, open_node(server.url, served, "r2") as two:
        tasks = await asyncio.gather(*(node.task("hello", message_id="m1") for node in (one, two)))
        assert tasks[0] == tasks[1]
        assert sorted(ended) == ["ran", "stopped"]


async def test_a_caller_that_leaves_before_the_answer_leaves_a_task_that_goes_on(server: StoreServer) -> None:
    go = asyncio.Event()

    async def agent(turn: Turn) -> None:
        await turn.working()
        await go.wait()

    async with open_node(server.url, agent_of(agent, answers="mixed")) as node:
        call = asyncio.create_task(node.send("hello"))
        await wait_until(lambda: node.engine.running == 1, "it has become a task")
        call.cancel()
        go.set()
        await wait_until(lambda: completed(node), "the task goes on to its end")


async def completed(node: Node) -> bool:
    return (await node.list(status=states.COMPLETED)).total_size == 1
