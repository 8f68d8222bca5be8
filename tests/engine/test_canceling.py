"""Cancelling: at once wherever the task runs, whatever its agent does (3.1.5, DESIGN 6)."""

import asyncio
import time

import pytest

from a2a_grpc.server.agents import Agent, Turn, TurnOverError
from a2a_grpc.server.core import states
from a2a_grpc.wire.errors import TaskNotCancelableError, TaskNotFoundError
from tests.engine.nodes import Node, agent_of, artifacts, history, open_node, words
from tests.support.servers import StoreServer
from tests.support.tasks import BOB, read
from tests.support.waiting import wait_until


async def hangs(turn: Turn) -> None:
    await turn.working("thinking")
    await asyncio.Event().wait()


async def begun(node: Node, text: str = "go") -> str:
    """A task whose turn has said that it works."""
    task_id = await node.begin(text)
    await node.until(task_id, states.WORKING)
    return task_id


async def moves(node: Node, task_id: str) -> list[int]:
    log = [event.response for event in await node.store.log(task_id, 0)]
    return [entry.status_update.status.state for entry in log if entry.HasField("status_update")]


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_running_turn_is_canceled_within_a_second(server: StoreServer, where: str) -> None:
    async with open_node(server.url, hangs) as one, open_node(server.url, hangs, "r2") as two:
        task_id = await begun(one)
        blocked = asyncio.create_task(one.task("more", task_id))
        subscribers = [asyncio.create_task(states_of(node, task_id)) for node in (one, two)]
        await wait_until(lambda: waits(one, task_id), "the second message waits")
        await wait_until(lambda: one.tail.followed(task_id) and two.tail.followed(task_id), "all are there")
        began = time.monotonic()
        task = await (one if where == "here" else two).cancel(task_id)
        assert time.monotonic() - began < 1
        assert task.status.state == states.CANCELED
        assert await two.get(task_id) == await one.get(task_id) == task
        assert (await blocked).status.state == states.CANCELED
        for seen in await asyncio.gather(*subscribers):
            assert seen[-1] == states.CANCELED and seen.count(states.CANCELED) == 1
        await wait_until(lambda: one.engine.running == 0, "the run is over")


async def states_of(node: Node, task_id: str) -> list[int]:
    return [event.response.status_update.status.state async for event in node.subscribe(task_id)]


async def waits(node: Node, task_id: str) -> bool:
    return bool((await read(node.store, task_id)).queue)


async def test_a_task_that_waits_for_a_replica_is_canceled_and_never_runs(server: StoreServer) -> None:
    ran: list[str] = []

    async def agent(turn: Turn) -> None:
        ran.append(turn.text)

    async with open_node(server.url, agent, max_turns=0) as node:
        task_id = await node.begin("go")
        blocked = asyncio.create_task(node.task("more", task_id))
        await wait_until(lambda: waits(node, task_id), "the second message waits")
        assert (await node.cancel(task_id)).status.state == states.CANCELED
        assert (await blocked).status.state == states.CANCELED
    async with open_node(server.url, agent, "r2") as other:
        await other.task("go on")
        assert ran == ["go on"]


@pytest.mark.parametrize("state", ["input", "auth"])
async def test_a_parked_task_is_canceled(server: StoreServer, state: str) -> None:
    async def agent(turn: Turn) -> None:
        await (turn.require_input("?") if state == "input" else turn.require_auth("?"))

    async with open_node(server.url, agent) as one, open_node(server.url, agent, "r2") as two:
        task_id = (await one.task("go")).id
        await wait_until(lambda: one.engine.running == 0, "the task is parked")
        subscription = asyncio.create_task(states_of(one, task_id))
        await wait_until(lambda: one.tail.followed(task_id), "the subscriber is there")
        task = await two.cancel(task_id)
        assert (task.status.state, history(task)) == (states.CANCELED, ["go", "?"])
        assert (await subscription)[-1] == states.CANCELED


async def test_a_turn_that_stands_behind_its_question_is_canceled(server: StoreServer) -> None:
    async def agent(turn: Turn) -> None:
        await turn.require_input("?")
        await turn.inbox.get()

    async with open_node(server.url, agent) as one, open_node(server.url, agent, "r2") as two:
        task_id = (await one.task("go")).id
        assert (await two.cancel(task_id)).status.state == states.CANCELED
        await wait_until(lambda: one.engine.running == 0, "the run is over")


@pytest.mark.parametrize("grace", [0.2, 1.0])
async def test_a_deaf_agent_is_canceled_after_the_grace(server: StoreServer, grace: float) -> None:
    free = asyncio.Event()

    async def deaf(turn: Turn) -> None:
        await turn.working()
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        with pytest.raises(TurnOverError):
            await turn.complete("I did it all the same")

    async with (
        open_node(server.url, deaf, cancel_grace=grace) as one,
        open_node(server.url, deaf, "r2", cancel_grace=grace) as two,
    ):
        task_id = await begun(one)
        began = time.monotonic()
        assert (await two.cancel(task_id)).status.state == states.CANCELED
        assert grace <= time.monotonic() - began < grace + 1
        free.set()
        await wait_until(lambda: one.engine.running == 0, "the run is over")
        assert (await two.get(task_id)).status.state == states.CANCELED


# What an agent may do when its turn is cancelled; the task is CANCELED after each.


async def completes(turn: Turn) -> None:
    await turn.complete("finished after all")


async def fails(turn: Turn) -> None:
    await turn.fail("interrupted")


async def rejects(turn: Turn) -> None:
    await turn.reject("interrupted")


async def asks(turn: Turn) -> None:
    await turn.require_input("really?")


async def writes(turn: Turn) -> None:
    await turn.artifact(artifact_id="last", text="so far")


async def raises(turn: Turn) -> None:
    raise ValueError


async def returns(turn: Turn) -> None:
    pass


@pytest.mark.parametrize("reaction", [completes, fails, rejects, asks, writes, raises, returns])
@pytest.mark.parametrize("where", ["function", "hook"])
async def test_a_canceled_task_is_canceled_whatever_its_agent_does(
    server: StoreServer, where: str, reaction: object
) -> None:
    react = reaction
    assert callable(react)

    async def agent(turn: Turn) -> None:
        await turn.working()
        try:
            await asyncio.Event().wait()
        finally:
            if where == "function":
                await react(turn)

    served = agent_of(agent)
    if where == "hook":
        served.on_cancel(react)
    async with open_node(server.url, served) as one, open_node(server.url, served, "r2") as two:
        task_id = await begun(one)
        task = await two.cancel(task_id)
        assert task.status.state == states.CANCELED
        assert (await moves(two, task_id)).count(states.CANCELED) == 1
        assert not set(await moves(two, task_id)) & {states.COMPLETED, states.FAILED, states.REJECTED}
        said = {completes: "finished after all", fails: "interrupted", rejects: "interrupted"}
        assert words(task) == said.get(react, "")
        assert artifacts(task) == ({"last": ["so far"]} if react is writes else {})


async def test_the_hook_has_the_last_word_within_the_grace(server: StoreServer) -> None:
    order: list[str] = []

    def served() -> Agent:
        async def function(turn: Turn) -> None:
            try:
                await turn.working()
                await asyncio.Event().wait()
            finally:
                order.append("function")

        agent = agent_of(function)

        @agent.on_cancel
        async def hook(turn: Turn) -> None:
            order.append("hook")
            await turn.working("cleaning up")
            await turn.artifact(artifact_id="last", text=turn.text)
            if turn.text == "slow":
                await asyncio.Event().wait()

        return agent

    async with open_node(server.url, served(), cancel_grace=0.3) as node:
        for text in ("quick", "slow"):
            task_id = await begun(node, text)
            task = await node.cancel(task_id)
            assert task.status.state == states.CANCELED
            assert artifacts(task) == {"last": [text]}
            assert history(task) == [text, "cleaning up"]
    assert order == ["function", "hook"] * 2


async def test_a_task_that_ended_is_not_canceled_any_more(server: StoreServer) -> None:
    async def agent(turn: Turn) -> None:
        await {"complete": turn.complete, "fail": turn.fail, "reject": turn.reject}[turn.text]("x")

    async with open_node(server.url, agent) as one, open_node(server.url, hangs, "r2") as two:
        ended = [await one.task(text) for text in ("complete", "fail", "reject")]
        canceled = await begun(two)
        ended.append(await one.cancel(canceled))
        for task in ended:
            for node in (one, two):
                with pytest.raises(TaskNotCancelableError):
                    await node.cancel(task.id)
            assert await one.get(task.id) == task


async def test_a_task_of_somebody_else_cannot_be_canceled(server: StoreServer) -> None:
    async with open_node(server.url, hangs) as node:
        task_id = await begun(node)
        for unknown in (task_id, "0" * 32 + "-0", "junk"):
            with pytest.raises(TaskNotFoundError):
                await node.cancel(unknown, scope=BOB)
        assert (await node.get(task_id)).status.state == states.WORKING


async def test_many_cancels_at_once_are_one(server: StoreServer) -> None:
    async with open_node(server.url, hangs) as one, open_node(server.url, hangs, "r2") as two:
        task_id = await begun(one)
        outcomes = await asyncio.gather(
            *((one, two)[at % 2].cancel(task_id) for at in range(10)), return_exceptions=True
        )
        canceled = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
        assert canceled
        assert all(task.status.state == states.CANCELED for task in canceled)
        assert all(isinstance(error, TaskNotCancelableError) for error in outcomes if isinstance(error, BaseException))
        assert (await moves(one, task_id)).count(states.CANCELED) == 1


async def test_a_cancel_that_races_with_the_end_tells_who_won(server: StoreServer) -> None:
    async def agent(turn: Turn) -> None:
        await turn.working()
        await asyncio.sleep(0.005)

    won: list[int] = []
    async with open_node(server.url, agent) as one, open_node(server.url, agent, "r2") as two:
        for number in range(40):
            task_id = await one.begin("go")
            await asyncio.sleep(0.0003 * number)
            try:
                task = await two.cancel(task_id)
                assert task.status.state == states.CANCELED
            except TaskNotCancelableError:
                task = await two.get(task_id)
                assert task.status.state == states.COMPLETED
            won.append(task.status.state)
            assert (await one.get(task_id)) == task
            assert sum(state in states.TERMINAL for state in await moves(one, task_id)) == 1
    assert set(won) == {states.CANCELED, states.COMPLETED}, "the race was no race"


async def test_a_cancel_that_meets_a_turn_as_it_parks_wins(server: StoreServer) -> None:
    """However it falls, the task is CANCELED and not parked with a wish that comes true at its next turn."""

    async def agent(turn: Turn) -> None:
        await turn.working()
        await asyncio.sleep(0.003)
        await turn.require_input("?")

    async with open_node(server.url, agent) as one, open_node(server.url, agent, "r2") as two:
        for number in range(30):
            task_id = await one.begin("go")
            await asyncio.sleep(0.0003 * number)
            assert (await two.cancel(task_id)).status.state == states.CANCELED


async def test_a_wish_to_cancel_is_not_forgotten_when_its_caller_leaves(server: StoreServer) -> None:
    """The holder hears of it only when it writes: the wake-up was lost, and the turn is about to park."""
    go, hooked = asyncio.Event(), asyncio.Event()

    async def agent(turn: Turn) -> None:
        await turn.working()
        await go.wait()
        await turn.require_input("?")

    served = agent_of(agent)

    @served.on_cancel
    async def hook(turn: Turn) -> None:
        await turn.working("cleaning up")
        hooked.set()

    async with open_node(server.url, served) as node:
        task_id = await begun(node)
        # As if a cancelling replica had died after it had asked.
        server.client.hset(node.store.keys_of(task_id).task(task_id), "cancel", 1)
        go.set()
        task = await node.until(task_id, states.CANCELED)
        assert hooked.is_set()
        assert history(task)[-1] == "cleaning up"
