"""Every exit of an agent's function ends in a state (DESIGN 6)."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from a2a_grpc.server.agents import Fail, Reject, Turn, TurnOverError
from a2a_grpc.server.core import states
from tests.engine.nodes import State, agent_of, artifacts, history, open_node, words
from tests.support.servers import StoreServer
from tests.support.waiting import wait_until

FAILED = "The agent failed."


class Odd(BaseException):
    """No Exception."""


async def returns(turn: Turn) -> None:
    pass


async def completes(turn: Turn) -> None:
    await turn.complete("done")


async def completes_twice(turn: Turn) -> None:
    await turn.complete("done")
    await turn.complete("done again")


async def replies(turn: Turn) -> None:
    await turn.reply("done")


async def raises(turn: Turn) -> None:
    raise ValueError("private: hunter2")


async def rejects(turn: Turn) -> None:
    await turn.reject("not mine")


async def raises_reject(turn: Turn) -> None:
    raise Reject("not mine")


async def raises_reject_without_words(turn: Turn) -> None:
    raise Reject


async def fails(turn: Turn) -> None:
    await turn.fail("could not")


async def raises_fail(turn: Turn) -> None:
    raise Fail("could not") from ValueError("private: hunter2")


async def raises_fail_without_words(turn: Turn) -> None:
    raise Fail


async def exits(turn: Turn) -> None:
    sys.exit(3)


async def interrupts(turn: Turn) -> None:
    raise KeyboardInterrupt


async def raises_something_odd(turn: Turn) -> None:
    raise Odd


async def raises_generator_exit(turn: Turn) -> None:
    raise GeneratorExit


async def raises_stop_iteration(turn: Turn) -> None:
    raise StopAsyncIteration


async def raises_a_group(turn: Turn) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(raises(turn))
        group.create_task(asyncio.sleep(60))


async def raises_cancelled_error(turn: Turn) -> None:
    raise asyncio.CancelledError


async def cancels_itself(turn: Turn) -> None:
    this = asyncio.current_task()
    assert this is not None
    this.cancel()
    await asyncio.sleep(60)


async def cancels_itself_and_returns(turn: Turn) -> None:
    this = asyncio.current_task()
    assert this is not None
    this.cancel()


async def cancels_itself_and_swallows_it(turn: Turn) -> None:
    this = asyncio.current_task()
    assert this is not None
    for _ in range(3):
        this.cancel()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await turn.working("never mind")


async def awaits_a_cancelled_task(turn: Turn) -> None:
    other = asyncio.create_task(asyncio.sleep(60))
    other.cancel()
    await other


async def times_out_inside(turn: Turn) -> None:
    async with asyncio.timeout(0.01):
        await asyncio.sleep(60)


async def parks(turn: Turn) -> None:
    await turn.require_input("what?")


async def waits_for_authorization(turn: Turn) -> None:
    await turn.require_auth("sign in")


async def parks_and_raises(turn: Turn) -> None:
    await turn.require_input("what?")
    raise ValueError


async def parks_and_goes_on(turn: Turn) -> None:
    await turn.require_input("what?")
    await turn.working("never mind")


async def completes_and_raises(turn: Turn) -> None:
    await turn.complete("done")
    raise ValueError


async def completes_and_exits(turn: Turn) -> None:
    await turn.complete("done")
    await turn.flush()
    sys.exit(3)


EXITS: list[tuple[Callable[[Turn], Awaitable[None]], State, str]] = [
    (returns, states.COMPLETED, ""),
    (completes, states.COMPLETED, "done"),
    (completes_twice, states.COMPLETED, "done"),
    (replies, states.COMPLETED, "done"),
    (raises, states.FAILED, FAILED),
    (rejects, states.REJECTED, "not mine"),
    (raises_reject, states.REJECTED, "not mine"),
    (raises_reject_without_words, states.REJECTED, ""),
    (fails, states.FAILED, "could not"),
    (raises_fail, states.FAILED, "could not"),
    (raises_fail_without_words, states.FAILED, FAILED),
    (exits, states.FAILED, FAILED),
    (interrupts, states.FAILED, FAILED),
    (raises_something_odd, states.FAILED, FAILED),
    (raises_generator_exit, states.FAILED, FAILED),
    (raises_stop_iteration, states.FAILED, FAILED),
    (raises_a_group, states.FAILED, FAILED),
    (raises_cancelled_error, states.FAILED, FAILED),
    (cancels_itself, states.FAILED, FAILED),
    (cancels_itself_and_returns, states.COMPLETED, ""),
    (cancels_itself_and_swallows_it, states.COMPLETED, ""),
    (awaits_a_cancelled_task, states.FAILED, FAILED),
    (times_out_inside, states.FAILED, FAILED),
    (parks, states.INPUT_REQUIRED, "what?"),
    (waits_for_authorization, states.AUTH_REQUIRED, "sign in"),
    (parks_and_raises, states.FAILED, FAILED),
    (parks_and_goes_on, states.COMPLETED, ""),
    (completes_and_raises, states.COMPLETED, "done"),
    (completes_and_exits, states.COMPLETED, "done"),
]


@pytest.mark.parametrize(("leaves", "state", "said"), EXITS, ids=[leaves.__name__ for leaves, _, _ in EXITS])
@pytest.mark.parametrize("answers", ["task", "mixed"])
async def test_every_exit_ends_in_a_state(
    server: StoreServer, leaves: Any, state: State, said: str, answers: str, caplog: pytest.LogCaptureFixture
) -> None:
    if answers == "mixed" and leaves is replies:
        pytest.skip("this is how a mixed skill answers with a message")
    if answers == "mixed" and leaves is cancels_itself_and_returns:
        # What runs before it is clear what it will be runs in a task of its own, which ends as cancelled then.
        state, said = states.FAILED, FAILED
    async with open_node(server.url, agent_of(leaves, answers=answers)) as node:
        async with asyncio.timeout(5):
            task = await node.task("go")
        assert (task.status.state, words(task)) == (state, said)
        assert task == await node.get(task.id)
        assert "hunter2" not in str(task)
        await wait_until(lambda: node.engine.running == 0, "the run is over")
        assert (await node.store.held()).task_ids == []
        # The replica is none the worse for it.
        again = await node.task("go")
        assert again.status.state == state


@pytest.mark.parametrize("leaves", [parks, waits_for_authorization])
async def test_a_parked_task_may_leave_by_every_exit_too(server: StoreServer, leaves: Any) -> None:
    for then, state, said in EXITS:

        async def agent(turn: Turn, then: Any = then) -> None:
            await (leaves if turn.text == "first" else then)(turn)

        async with open_node(server.url, agent) as node:
            task_id = (await node.task("first")).id
            async with asyncio.timeout(5):
                task = await node.task("second", task_id)
            assert (task.id, task.status.state, words(task)) == (task_id, state, said), then.__name__


# -- deadlines -------------------------------------------------------------------------------------------------------


async def hangs(turn: Turn) -> None:
    await turn.working("thinking")
    await asyncio.Event().wait()


async def hangs_and_swallows(turn: Turn) -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if turn.text == "leave":
                return


async def hangs_and_has_last_words(turn: Turn) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await turn.artifact(artifact_id="last", text="so far")
        raise


@pytest.mark.parametrize("leaves", [hangs, hangs_and_swallows, hangs_and_has_last_words])
async def test_a_missed_deadline_is_a_failure_with_a_sentence(server: StoreServer, leaves: Any) -> None:
    async with open_node(server.url, leaves, turn_timeout=0.1, cancel_grace=0.2) as node:
        async with asyncio.timeout(3):
            task = await node.task("leave")
        assert task.status.state == states.FAILED
        assert words(task) == "The agent did not finish within 0.1 seconds."
        assert artifacts(task) == ({"last": ["so far"]} if leaves is hangs_and_has_last_words else {})


async def test_a_skill_has_a_deadline_of_its_own_and_every_turn_its_whole(server: StoreServer) -> None:
    async def agent(turn: Turn) -> None:
        await asyncio.sleep(0.2)
        if turn.text == "hang":
            await asyncio.Event().wait()
        await turn.require_input("more?")

    async with open_node(server.url, agent_of(agent, timeout=0.35), turn_timeout=60) as node:
        task = await node.task("one")
        for _ in range(2):
            task = await node.task("another", task.id)
            assert task.status.state == states.INPUT_REQUIRED
        task = await node.task("hang", task.id)
        assert words(task) == "The agent did not finish within 0.35 seconds."


async def test_a_deaf_agent_is_left_behind_and_not_heard_any_more(server: StoreServer) -> None:
    refused, go = asyncio.Event(), asyncio.Event()

    async def deaf(turn: Turn) -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                await turn.artifact(artifact_id="in time", text="x")
        try:
            await turn.artifact(artifact_id="late", text="y")
        except TurnOverError:
            refused.set()
            raise

    async with open_node(server.url, deaf, turn_timeout=0.1, cancel_grace=0.2) as node:
        task = await node.task("go")
        assert task.status.state == states.FAILED
        go.set()
        await asyncio.wait_for(refused.wait(), 3)
        assert artifacts(await node.get(task.id)) == {"in time": ["x"]}


async def test_a_function_that_writes_after_its_end_is_refused(server: StoreServer) -> None:
    outcomes: list[object] = []
    strays: list[asyncio.Task[None]] = []
    go = asyncio.Event()

    async def leaves_something_behind(turn: Turn) -> None:
        async def stray() -> None:
            await go.wait()
            for write in (
                lambda: turn.working("late"),
                lambda: turn.artifact(text="late"),
                lambda: turn.complete("late"),
                lambda: turn.reply("late"),
                lambda: turn.checkpoint(b"late"),
                lambda: turn.flush() if turn.text == "second" else turn.working("late"),
            ):
                try:
                    outcomes.append(await write())
                except TurnOverError:
                    outcomes.append(TurnOverError)

        if turn.text == "first":
            strays.append(asyncio.create_task(stray()))
            await turn.require_input("what?")
        else:
            # The stray task of the turn before writes while this one runs on the same replica.
            go.set()
            await strays[0]
            await turn.artifact(artifact_id="mine", text="x")

    async with open_node(server.url, leaves_something_behind) as node:
        task_id = (await node.task("first")).id
        task = await node.task("second", task_id)
        assert outcomes == [TurnOverError] * 6
        assert (task.status.state, artifacts(task)) == (states.COMPLETED, {"mine": ["x"]})
        assert history(task) == ["first", "what?", "second"]


async def test_a_stray_writer_does_not_reach_the_next_turn_of_the_same_claim(server: StoreServer) -> None:
    """A message waits, so that the next turn follows at once under the same claim."""
    refused: list[bool] = []
    go = asyncio.Event()
    turns: list[Turn] = []

    async def agent(turn: Turn) -> None:
        turns.append(turn)
        if turn.text == "first":
            await go.wait()
            return
        try:
            await turns[0].working("late")
        except TurnOverError:
            refused.append(True)
        await turn.complete("done")

    async with open_node(server.url, agent) as node:
        task_id = await node.begin("first")
        await node.begin("second", task_id)
        go.set()
        task = await node.until(task_id, states.COMPLETED)
        assert refused == [True]
        assert words(task) == "done"
        assert "late" not in history(task)


async def test_an_agent_without_a_skill_for_a_claimed_task_fails_it(server: StoreServer) -> None:
    """A replica of another version created it."""
    async with open_node(server.url, returns, max_turns=0) as old:
        task_id = await old.begin("go")
    agent = agent_of(returns)

    @agent.router
    def route(_: object) -> str:
        return "no such skill"

    async with open_node(server.url, agent, "r2") as node:
        task = await node.until(task_id, states.FAILED)
        assert words(task) == "The agent has no skill for this any more."
