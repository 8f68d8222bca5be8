"""How many turns run here, who waits, who is refused, and which replica runs what waits."""

import asyncio
from functools import partial
from typing import Any

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Turn
from a2a_grpc.server.core import states
from a2a_grpc.server.engine.lease import Lease
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.wire.errors import QuotaExceededError, ResourceExhaustedError, Violation
from tests.engine.nodes import Node, open_node
from tests.support.audit import audit
from tests.support.lossy import lossy
from tests.support.servers import StoreServer
from tests.support.tasks import read
from tests.support.waiting import wait_until


class Gate:
    """An agent whose turns note when they begin and wait until the gate opens."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.running = 0
        self.most = 0
        self.open = asyncio.Event()

    async def __call__(self, turn: Turn) -> None:
        self.begun.append(turn.text)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.open.wait()
        finally:
            self.running -= 1

    async def agent(self, turn: Turn) -> None:
        await self(turn)


async def test_a_replica_that_nobody_would_miss_claims_nothing_and_leaves_the_queue_alone(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    async with open_node(server.url, gate.agent, max_turns=2) as node:
        monkeypatch.setattr(Lease, "beat", lambda _: asyncio.sleep(0))
        node.engine.lease.valid = False
        waiting = [await node.begin(f"t{number}") for number in range(6)]
        before = server.client.info("stats")["total_commands_processed"]
        await asyncio.sleep(1.2)  # long enough for the claim loop to come round
        # The sweeps of a second or two; not one look at the queue after the other.
        assert server.client.info("stats")["total_commands_processed"] - before < 50
        assert await node.store.waiting(10) == waiting
        assert gate.begun == []
        gate.open.set()


async def test_no_more_turns_run_than_may_and_the_rest_runs_in_the_order_it_came(server: StoreServer) -> None:
    gate = Gate()
    async with open_node(server.url, gate.agent, max_turns=3) as node:
        ids = [await node.begin(f"t{number}") for number in range(30)]
        assert gate.begun == ["t0", "t1", "t2"]
        assert len(await node.store.waiting(100)) == 27
        gate.open.set()
        # They follow each other without a pause, whenever there is room.
        async with asyncio.timeout(5):
            for task_id in ids:
                await node.until(task_id, states.COMPLETED)
        assert gate.begun == [f"t{number}" for number in range(30)]
        assert gate.most == 3


async def test_another_replica_runs_what_waits(server: StoreServer) -> None:
    gate, other_gate = Gate(), Gate()
    other_gate.open.set()
    async with open_node(server.url, gate.agent, max_turns=1) as full:
        running = await full.begin("runs")
        waiting = [await full.begin(f"w{number}") for number in range(3)]
        async with open_node(server.url, other_gate.agent, "r2") as free:
            for task_id in waiting:
                await full.until(task_id, states.COMPLETED)
            assert gate.begun == ["runs"]
            assert other_gate.begun == ["w0", "w1", "w2"]
            # A replica with room hears at once of what comes later.
            later = await full.begin("later")
            await free.until(later, states.COMPLETED, 0.8)
        gate.open.set()
        await full.until(running, states.COMPLETED)


async def test_a_blocking_call_waits_for_the_replica_that_runs_it(server: StoreServer) -> None:
    gate, other_gate = Gate(), Gate()
    other_gate.open.set()
    async with (
        open_node(server.url, gate.agent, max_turns=1) as full,
        open_node(server.url, other_gate.agent, "r2") as free,
    ):
        await full.begin("runs")
        task = await full.task("waits")
        assert task.status.state == states.COMPLETED
        events = [event.response async for event in full.stream("streams")]
        assert events[0].HasField("task")
        assert events[-1].status_update.status.state == states.COMPLETED
        assert other_gate.begun == ["waits", "streams"]
        gate.open.set()
        assert free.engine.running == 0
        await wait_until(lambda: full.engine.running == 0, "the turns have ended")


async def test_many_replicas_run_each_waiting_turn_once(server: StoreServer) -> None:
    gate = Gate()
    async with open_node(server.url, gate.agent, max_turns=0) as nobody:
        ids = [await nobody.begin(f"t{number}") for number in range(60)]
        gate.open.set()
        async with (
            open_node(server.url, gate.agent, "r2", max_turns=2) as one,
            open_node(server.url, gate.agent, "r3", max_turns=3) as two,
            open_node(server.url, gate.agent, "r4", max_turns=50) as three,
        ):
            for task_id in ids:
                await nobody.until(task_id, states.COMPLETED)
            assert sorted(gate.begun) == sorted(f"t{number}" for number in range(60))
            assert {(await read(nobody.store, task_id)).attempt for task_id in ids} == {1}
            assert one.engine.running == two.engine.running == three.engine.running == 0


async def test_a_full_queue_refuses_and_nothing_is_stored(server: StoreServer) -> None:
    gate = Gate()
    async with open_node(server.url, gate.agent, max_turns=1, max_ready=2) as node:
        ids = [await node.begin(f"t{number}") for number in range(3)]
        keys = server.client.dbsize()
        for _ in range(3):
            with pytest.raises(ResourceExhaustedError) as caught:
                await node.begin("one too many", message_id="again")
            assert caught.value.retry_after
        assert server.client.dbsize() == keys
        assert (await node.list()).total_size == 3
        gate.open.set()
        for task_id in ids:
            await node.until(task_id, states.COMPLETED)
        # The same message, sent again, is new: it was never accepted.
        assert (await node.task("one too many", message_id="again")).status.state == states.COMPLETED


async def test_a_task_for_which_too_much_waits_says_so_and_stores_nothing(server: StoreServer) -> None:
    """It is a limit of the task, and named as one; a full queue is the service's trouble, and no quota."""
    gate = Gate()
    async with open_node(server.url, gate.agent, max_turns=1, max_ready=1) as node:
        task_id = await node.begin("first")
        for number in range(100):
            await node.begin(f"m{number}", task_id)
        with pytest.raises(QuotaExceededError) as crowded:
            await node.begin("one too many", task_id)
        assert crowded.value.quotas == (Violation("task:waiting", "The limit is 100 messages that wait."),)
        assert crowded.value.retry_after
        assert len((await node.get(task_id)).history) == 101
        await node.begin("waits for a place")
        with pytest.raises(ResourceExhaustedError) as full:
            await node.begin("one too many")
        assert full.value.quotas == ()
        await node.cancel(task_id)
        gate.open.set()


async def test_an_answer_that_is_refused_leaves_the_task_parked(server: StoreServer) -> None:
    gate = Gate()

    async def agent(turn: Turn) -> None:
        if turn.text == "ask":
            await turn.require_input("?")
        elif turn.text != "answer":
            await gate(turn)

    async with open_node(server.url, agent, max_turns=1, max_ready=1) as node:
        parked = (await node.task("ask")).id
        await wait_until(lambda: node.engine.running == 0, "the task is parked")
        ids = [await node.begin("blocks"), await node.begin("waits")]
        with pytest.raises(ResourceExhaustedError):
            await node.task("answer", parked)
        assert (await node.get(parked)).status.state == states.INPUT_REQUIRED
        gate.open.set()
        for task_id in ids:
            await node.until(task_id, states.COMPLETED)
        assert (await node.task("answer", parked)).status.state == states.COMPLETED


async def test_a_wake_up_that_was_lost_costs_a_second_at_most(server: StoreServer) -> None:
    gate = Gate()
    gate.open.set()
    async with (
        open_node(server.url, gate.agent, max_turns=0) as nobody,
        open_node(server.url, gate.agent, "r2") as node,
    ):
        server.client.client_kill_filter(_type="pubsub")
        task_id = await nobody.begin("go")
        await node.until(task_id, states.COMPLETED, 2.5)


# -- what nobody waits for any more ----------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", ["a new task", "a follow-up"])
async def test_a_task_whose_caller_left_while_it_was_stored_runs_all_the_same(
    server: StoreServer, answers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is in the store, its answer reaches nobody."""

    async def agent(turn: Turn) -> None:
        await (turn.require_input("?") if turn.text == "ask" else turn.complete(f"re {turn.text}"))

    async with lossy(server) as link, open_node(link.url, agent, timeout=5.0) as node:
        # The server knows both scripts afterwards: what it does not know it is asked again, by those who still wait.
        task_id = (await node.task("ask", (await node.task("ask")).id)).id
        task_id = task_id if answers == "a follow-up" else ""
        await wait_until(lambda: node.engine.running == 0, "nothing runs")
        step = "follow_up" if task_id else "create"
        original = getattr(node.store, step)

        async def held_up(*arguments: Any, **named: Any) -> Any:
            link.hold()
            return await original(*arguments, **named)

        monkeypatch.setattr(node.store, step, held_up)
        call = asyncio.create_task(node.send("go", task_id, message_id="m1"))
        await wait_until(lambda: link.held > 0, "the message is on its way to the store")
        await asyncio.sleep(0.02)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        monkeypatch.undo()
        link.let_go()
        await wait_until(lambda: ended(node), "the task has run", 6.0)
        # The same message again finds what it led to.
        task = await node.task("go", task_id, message_id="m1")
        assert task.status.state == states.COMPLETED
        assert [state for state in await moves(node, task.id) if state == states.COMPLETED] == [states.COMPLETED]


async def answered(node: Node, text: str, message_id: str) -> a2a_pb2.Task | None:
    """The task of a message; None while the store is still on its way back."""
    try:
        return await node.task(text, message_id=message_id)
    except StoreUnavailableError:
        return None


async def ended(node: Node) -> bool:
    return (await node.list(status=states.COMPLETED)).total_size == 1


async def moves(node: Node, task_id: str) -> list[int]:
    log = [event.response for event in await node.store.log(task_id, 0)]
    return [entry.status_update.status.state for entry in log if entry.HasField("status_update")]


async def test_a_claim_that_the_store_took_and_could_not_answer_in_time_is_made_good(server: StoreServer) -> None:
    async def agent(turn: Turn) -> None:
        await turn.complete("done")

    async with open_node(server.url, agent, timeout=0.3) as node:
        await node.task("warm")
        with server.frozen():
            calls = [asyncio.create_task(node.send(f"t{number}", message_id=f"m{number}")) for number in range(5)]
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(result, Exception) for result in results)
        # What the frozen server had in its hands it did when it went on.
        for number in range(5):
            again = partial(answered, node, f"t{number}", f"m{number}")
            task = await wait_until(again, "the store answers again", 10)
            assert task is not None
            assert task.status.state == states.COMPLETED
        await wait_until(lambda: audit(server.client) == [], "all is in order")
        assert (await node.list()).total_size == 6
