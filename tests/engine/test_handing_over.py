"""Turns that change hands: an engine that closes, a store that goes away, a holder that is overtaken."""

import asyncio
import itertools
import time
from typing import Any

import pytest

from a2a_grpc.server.agents import Retry, Turn, TurnOverError
from a2a_grpc.server.core import states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.core.events import Event
from tests.engine.nodes import Node, agent_of, artifacts, echo, history, open_node, words
from tests.support.lossy import lossy
from tests.support.servers import StoreServer
from tests.support.tasks import chunk, create, open_store, read, step
from tests.support.waiting import wait_until


class Witness:
    """An agent that notes its turns and hangs until told to go on."""

    def __init__(self) -> None:
        self.turns: list[tuple[str, int, bytes | None]] = []
        self.go = asyncio.Event()

    async def agent(self, turn: Turn) -> None:
        self.turns.append((turn.text, turn.attempt, turn.restored))
        await turn.stream("part", text=f"{len(self.turns)}")
        await turn.checkpoint(f"by {len(self.turns)}".encode())
        await self.go.wait()


async def test_an_engine_that_closes_gives_its_turns_back_and_no_attempt_counts(server: StoreServer) -> None:
    witness = Witness()
    async with open_node(server.url, witness.agent, "r2", max_turns=0) as watching:
        async with open_node(server.url, witness.agent) as closing:
            ids = [await closing.begin(f"t{number}") for number in range(5)]
            await wait_until(lambda: len(witness.turns) == 5, "the turns run")
            for task_id in ids:
                await watching.until(task_id, states.SUBMITTED)
            await closing.engine.close()
            assert sorted(await watching.store.waiting(10)) == sorted(ids)
            assert (await closing.store.held()).task_ids == []
        for task_id in ids:
            stored = await read(watching.store, task_id)
            assert (stored.holder, stored.attempt, stored.state) == ("", 0, states.SUBMITTED)
        witness.go.set()
        async with open_node(server.url, witness.agent, "r3") as taking:
            for task_id in ids:
                task = await taking.until(task_id, states.COMPLETED)
                # What the first run wrote is replaced, not doubled; its checkpoint is there.
                assert len(artifacts(task)["part"]) == 1
        assert sorted(text for text, _, _ in witness.turns) == sorted(f"t{number}" for number in [*range(5)] * 2)
        assert all(attempt == 1 for _, attempt, _ in witness.turns)
        assert all(restored is not None for _, _, restored in witness.turns[5:])


async def test_callers_wait_on_while_the_turn_changes_hands(server: StoreServer) -> None:
    witness = Witness()
    async with (
        open_node(server.url, witness.agent) as one,
        open_node(server.url, witness.agent, "r2", max_turns=0) as watching,
    ):
        stream = watching.stream("go")
        task_id = (await anext(stream)).response.task.id
        seen = asyncio.create_task(rest(stream))
        blocked = asyncio.create_task(watching.task("more", task_id))
        await wait_until(lambda: bool(witness.turns), "the turn runs")
        await one.engine.close()
        async with open_node(server.url, witness.agent, "r3"):
            await wait_until(lambda: len(witness.turns) == 2, "the turn runs elsewhere")
            witness.go.set()
            task = await blocked
            assert task.status.state == states.COMPLETED
            events = await seen
            assert [event.seq for event in events if not event.response.HasField("message")]
            assert events[-1].response.status_update.status.state == states.COMPLETED
            assert [text for text in history(task) if text in {"go", "more"}] == ["go", "more"]
            assert [text for text, _, _ in witness.turns] == ["go", "go", "more"]


async def rest(stream: object) -> list[Event]:
    return [event async for event in stream]  # type: ignore[attr-defined]


async def test_messages_that_waited_change_hands_with_the_turn(server: StoreServer) -> None:
    witness = Witness()
    async with open_node(server.url, witness.agent) as closing:
        task_id = await closing.begin("m0")
        for number in range(1, 4):
            await closing.begin(f"m{number}", task_id)
    witness.go.set()
    async with open_node(server.url, witness.agent, "r2") as taking:
        await taking.until(task_id, states.COMPLETED)
    assert [text for text, _, _ in witness.turns] == ["m0", "m0", "m1", "m2", "m3"]


async def test_an_engine_that_closes_leaves_a_deaf_agent_behind(server: StoreServer) -> None:
    free, refused = asyncio.Event(), asyncio.Event()

    async def deaf(turn: Turn) -> None:
        await turn.working()
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue
        if turn.text == "go" and not refused.is_set():
            try:
                await turn.complete("late")
            except TurnOverError:
                refused.set()
                raise

    async with open_node(server.url, deaf, cancel_grace=0.2) as closing:
        task_id = await closing.begin("go")
        await closing.until(task_id, states.WORKING)
        async with asyncio.timeout(3):
            await closing.engine.close()
        assert await closing.store.waiting(5) == [task_id]
        free.set()
        await asyncio.wait_for(refused.wait(), 3)
        async with open_node(server.url, deaf, "r2") as taking:
            task = await taking.until(task_id, states.COMPLETED)
            assert words(task) == ""


async def test_what_an_agent_said_before_it_was_stopped_is_not_lost(server: StoreServer) -> None:
    """It ended the task and was still busy when the engine closed."""
    said = asyncio.Event()

    async def agent(turn: Turn) -> None:
        await turn.complete("done")
        said.set()
        await asyncio.Event().wait()

    async with open_node(server.url, agent) as closing:
        task_id = await closing.begin("go")
        await said.wait()
        await closing.engine.close()
        task = await closing.get(task_id)
        assert (task.status.state, words(task)) == (states.COMPLETED, "done")


# -- a store that goes away ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    ["restart", pytest.param("freeze", marks=pytest.mark.wide), pytest.param("cut", marks=pytest.mark.wide)],
)
async def test_a_turn_goes_on_over_an_outage_and_nothing_is_lost_or_doubled(server: StoreServer, fault: str) -> None:
    """Two seconds without a store: longer than a call waits for it, shorter than a turn does."""
    count = 300
    back = asyncio.Event()

    async def agent(turn: Turn) -> None:
        await turn.working("off we go")
        for number in itertools.count():
            await turn.stream("out", text=str(number))
            assert await turn.reference(turn.task_id) is not None
            await asyncio.sleep(0.002)
            if number >= count and back.is_set():
                break
        message = await turn.inbox.get()
        await turn.checkpoint(b"state")
        await turn.complete(f"re {message.parts[0].text}")

    async with (
        open_node(server.url, agent, timeout=0.5) as one,
        open_node(server.url, agent, "r2", timeout=0.5) as two,
    ):
        stream = one.stream("go")
        task_id = (await anext(stream)).response.task.id
        here, elsewhere = asyncio.create_task(rest(stream)), asyncio.create_task(rest(two.subscribe(task_id)))
        await wait_until(lambda: len(server.client.keys("*:log:*")) == 1 and chunks(server) > 20, "it is under way")
        match fault:
            case "restart":
                await server.restart(down_for=2.0)
            case "freeze":
                with server.frozen():
                    await asyncio.sleep(2.0)
            case "cut":
                for _ in range(10):
                    server.cut_connections()
                    server.cut_connections("pubsub")
                    await asyncio.sleep(0.05)
        back.set()
        await wait_until(lambda: sent(two, task_id), "the last message is accepted")
        task = await two.until(task_id, states.COMPLETED, 10)
        assert words(task) == "re bye"
        texts = artifacts(task)["out"]
        assert len(texts) > count
        assert texts == [str(number) for number in range(len(texts))]
        for events in (await here, (await elsewhere)[1:]):
            first = events[0].seq
            told = [event.seq for event in events]
            assert told == sorted(set(told))
            parts = [
                event.response.artifact_update.artifact.parts[0].text
                for event in events
                if event.response.HasField("artifact_update")
            ]
            assert parts == texts[len(texts) - len(parts) :]
            assert first > 1
        stored = await read(two.store, task_id)
        assert (stored.attempt, stored.checkpoint) == (1, b"state")


def chunks(server: StoreServer) -> int:
    (key,) = server.client.keys("*:log:*")
    return int(server.client.xlen(key))


async def sent(node: Node, task_id: str) -> bool:
    try:
        await node.begin("bye", task_id, message_id="bye")
    except Exception:  # noqa: BLE001 - the store may still be on its way back
        return False
    return True


async def test_a_turn_that_has_lost_its_patience_with_the_store_runs_again(server: StoreServer) -> None:
    runs: list[int] = []

    async def agent(turn: Turn) -> None:
        runs.append(turn.attempt)
        for number in range(40):
            await turn.stream("out", text=str(number))
            await turn.flush()
            await asyncio.sleep(0.01)

    async with open_node(server.url, agent, timeout=0.2, patience=0.4) as node:
        task_id = await node.begin("go")
        await wait_until(lambda: len(server.client.keys("*:log:*")) == 1 and chunks(server) > 5, "it is under way")
        with server.frozen():
            await asyncio.sleep(1.0)
        task = await node.until(task_id, states.COMPLETED, 8)
        assert artifacts(task) == {"out": [str(number) for number in range(40)]}
        assert runs == [1, 2]


async def test_a_store_that_refuses_a_write_ends_the_run_and_not_the_replica(server: StoreServer) -> None:
    """Nothing that comes back by itself: somebody has written something else under the name of the log."""
    go, refused = asyncio.Event(), asyncio.Event()

    async def agent(turn: Turn) -> None:
        if turn.text == "bad":
            await go.wait()
        await turn.artifact(artifact_id="a", text="x")
        try:
            await turn.flush()
        except (TurnOverError, asyncio.CancelledError):
            refused.set()
            raise

    async with open_node(server.url, agent) as node:
        task_id = await node.begin("bad")
        log = node.store.keys_of(task_id).log(task_id)
        server.client.rename(log, "elsewhere")
        server.client.set(log, "something else")
        go.set()
        # Who waits for it to be stored does not hear that it was.
        await asyncio.wait_for(refused.wait(), 3)
        await wait_until(lambda: node.engine.running == 0, "the run is over")
        assert (await node.task("good")).status.state == states.COMPLETED
        server.client.rename("elsewhere", log)
        # It was given back, and runs to its end as soon as it can.
        await node.until(task_id, states.COMPLETED, 8)


# -- fencing ---------------------------------------------------------------------------------------------------------


async def test_a_holder_that_was_overtaken_is_refused_and_stops(server: StoreServer) -> None:
    stopped: list[str] = []
    go = asyncio.Event()

    async def agent(turn: Turn) -> None:
        try:
            await turn.working()
            await go.wait()
            for number in itertools.count():
                await turn.stream("out", text=str(number))
                await turn.flush()
        except TurnOverError:
            stopped.append("refused")
            raise
        except asyncio.CancelledError:
            stopped.append("cancelled")
            raise

    async with open_node(server.url, agent) as node:
        task_id = await node.begin("go")
        await node.until(task_id, states.WORKING)
        # By hand what another replica's claim does.
        key = node.store.keys_of(task_id).task(task_id)
        server.client.hincrby(key, "epoch", 1)
        server.client.hset(key, "holder", "another")
        before = await read(node.store, task_id)
        go.set()
        await wait_until(lambda: bool(stopped), "the agent hears of it")
        await wait_until(lambda: node.engine.running == 0, "the run is over")
        after = await read(node.store, task_id)
        assert (after.seq, after.state, after.holder) == (before.seq, states.WORKING, "another")
        # The other one goes on with the task.
        server.client.srem(node.store.keys_of(task_id).held(node.store.replica), task_id)
        server.client.sadd(node.store.keys_of(task_id).held("another"), task_id)
        assert (await node.store.append(step(after, 1, chunk(after, "theirs")))).first == before.seq + 1


async def test_a_fenced_run_sends_its_waiters_elsewhere(server: StoreServer) -> None:
    go = asyncio.Event()

    async def agent(turn: Turn) -> None:
        await turn.working()
        await go.wait()
        await turn.complete("stale")

    async with open_node(server.url, agent, max_turns=1) as node:
        blocked = asyncio.create_task(node.task("go"))
        await wait_until(lambda: node.engine.running == 1, "the turn runs")
        (row,) = (await node.list()).tasks
        await node.until(row.id, states.WORKING)
        stored = await read(node.store, row.id)
        await node.store.put_back(row.id, stored.epoch)
        async with open_node(server.url, quick, "r2") as other:
            task = await other.until(row.id, states.COMPLETED)
            assert words(task) == "by the other one"
            go.set()
            assert await blocked == task


async def test_a_replica_that_claims_a_task_it_had_lost_stops_the_earlier_run(server: StoreServer) -> None:
    turns, stopped = [0], asyncio.Event()

    async def agent(turn: Turn) -> None:
        turns[0] += 1
        if turns[0] == 1:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
        await stopped.wait()
        await turn.complete("by the second run")

    async with open_node(server.url, agent) as node:
        task_id = await node.begin("go")
        await wait_until(lambda: turns[0] == 1, "the turn runs")
        await node.store.put_back(task_id, (await read(node.store, task_id)).epoch)
        task = await node.until(task_id, states.COMPLETED)
        assert (words(task), turns) == ("by the second run", [2])
        await wait_until(lambda: node.engine.running == 0, "both runs are over")


async def quick(turn: Turn) -> None:
    await turn.complete("by the other one")


async def test_a_turn_that_wants_another_attempt_waits_for_a_store_that_is_away(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it wanted is not forgotten: to be run again, and when."""
    attempts: list[float] = []

    async def agent(turn: Turn) -> None:
        attempts.append(time.monotonic())
        if turn.attempt == 1:
            raise Retry("not yet", after=3)

    async with open_node(server.url, agent, timeout=0.3) as node:
        put_back = node.store.put_back

        async def while_away(*arguments: Any, **named: Any) -> None:
            monkeypatch.undo()
            with server.frozen():
                putting = asyncio.create_task(put_back(*arguments, **named))
                await asyncio.wait([putting], timeout=1)
            await putting

        monkeypatch.setattr(node.store, "put_back", while_away)
        task_id = await node.begin("go")
        await wait_until(lambda: len(attempts) == 2, "it is run again", 10)
        assert attempts[1] - attempts[0] > 3
        await node.until(task_id, states.COMPLETED)


async def test_a_deaf_turn_holds_up_no_other(server: StoreServer) -> None:
    free = asyncio.Event()

    async def agent(turn: Turn) -> None:
        await turn.working()
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                if turn.text != "deaf":
                    raise

    async with open_node(server.url, agent, cancel_grace=3.0) as node:
        await node.until(await node.begin("deaf"), states.WORKING)
        obedient = await node.begin("go")
        await node.until(obedient, states.WORKING)
        closing = asyncio.create_task(node.engine.close())

        async def given_back() -> bool:
            return await node.store.waiting(5) == [obedient]

        await wait_until(given_back, "the other turn is given back", 1.5)
        assert not closing.done()
        free.set()
        await closing


async def test_a_turn_that_began_before_its_task_was_stored_has_used_up_an_attempt(server: StoreServer) -> None:
    """The store takes the task, and its caller has left: nobody is told of it."""
    runs: list[int] = []
    async with lossy(server) as link:

        async def agent(turn: Turn) -> None:
            runs.append(turn.attempt)
            if len(runs) == 1:
                # From here on the store gets what it is sent later.
                link.hold()
            await turn.artifact(artifact_id="out", text=f"{turn.attempt}")

        async with open_node(link.url, agent_of(agent, answers="mixed")) as node:
            sending = asyncio.create_task(node.task("go"))
            await wait_until(lambda: bool(runs) and link.held > 0, "the task is on its way")
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            link.let_go()
            await wait_until(lambda: len(runs) == 2, "it is run again", 10)
            assert runs == [1, 2]


async def test_what_a_lost_replica_holds_is_recovered_however_long_ago_it_was_lost(server: StoreServer) -> None:
    """Those who began with it may have been lost themselves, or could not reach the store."""
    async with open_store(server.url, "lost") as lost:
        stored = await create(lost)
    longer_ago = now_ms() - 3_600_000
    server.client.hset("a2a:{0}:condemned", "lost", longer_ago)
    async with open_node(server.url, echo) as node:
        await node.until(stored.task_id, states.COMPLETED)
        await wait_until(lambda: not server.client.exists("a2a:{0}:condemned"), "the case is closed", 12)
