"""Turns of a task: one at a time, in the order of the messages, each message exactly once."""

import asyncio
from collections import Counter
from functools import partial

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Turn
from a2a_grpc.server.core import states
from a2a_grpc.wire.errors import InvalidArgumentError, UnsupportedOperationError
from tests.engine.nodes import Node, artifacts, echo, history, open_node, words
from tests.support.servers import StoreServer
from tests.support.tasks import ALICE, BOB, read
from tests.support.waiting import wait_until


class Stage:
    """What several turns of a test share: each says that it is there and waits until it may go on."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.running = 0
        self.most = 0
        self.go = asyncio.Event()

    async def __call__(self, turn: Turn) -> None:
        self.begun.append(turn.text)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.go.wait()
        finally:
            self.running -= 1


async def test_a_turn_is_given_what_the_caller_sent(server: StoreServer) -> None:
    seen: list[Turn] = []

    async def agent(turn: Turn) -> None:
        seen.append(turn)
        await turn.require_input("more?")

    async with open_node(server.url, agent) as node, open_node(server.url, agent, "r2") as other:
        request = a2a_pb2.SendMessageRequest(
            message=a2a_pb2.Message(
                message_id="m1",
                role=a2a_pb2.ROLE_USER,
                parts=[a2a_pb2.Part(text="one"), a2a_pb2.Part(url="https://example.com"), a2a_pb2.Part(text="two")],
                reference_task_ids=["r1", "r2"],
            )
        )
        request.metadata.update({"key": [1, {"deep": None}]})
        request.configuration.accepted_output_modes.append("text/html")
        task = (await node._unary("SendMessage", request, ALICE)).task
        request.message.message_id, request.message.task_id = "m2", task.id
        del request.message.parts[1:]
        await other._unary("SendMessage", request, ALICE)
    first, second = seen
    assert (first.text, second.text) == ("one\ntwo", "one")
    assert (first.task_id, first.context_id) == (second.task_id, second.context_id) == (task.id, task.context_id)
    assert [part.WhichOneof("content") for part in first.parts] == ["text", "url", "text"]
    assert list(first.references) == ["r1", "r2"]
    assert first.metadata == second.metadata == {"key": [1, {"deep": None}]}
    assert list(first.accepted_output_modes) == ["text/html"]
    assert (first.caller, first.tenant, list(first.extensions)) == ("alice", "", ["urn:active"])
    assert (first.attempt, first.restored, list(first.history)) == (1, None, [])
    assert first.message.context_id == task.context_id
    assert second.history[0].message_id == "m1"
    assert [message.role for message in second.history] == [a2a_pb2.ROLE_USER, a2a_pb2.ROLE_AGENT]


async def test_messages_for_a_running_task_become_turns_in_order(server: StoreServer) -> None:
    """They come from both replicas; no two turns run at once; the end of all but the last becomes WORKING."""
    stage = Stage()

    async def agent(turn: Turn) -> None:
        await stage(turn)
        await turn.stream(turn.text, text=turn.text)
        await turn.complete(f"did {turn.text}")

    async with open_node(server.url, agent) as one, open_node(server.url, agent, "r2") as two:
        task_id = await one.begin("m0")
        for number in range(1, 8):
            await (one, two)[number % 2].begin(f"m{number}", task_id)
        waiting = await read(one.store, task_id)
        assert len(waiting.queue) == 7
        stage.go.set()
        task = await two.until(task_id, states.COMPLETED)
        assert stage.begun == [f"m{number}" for number in range(8)]
        assert stage.most == 1
        assert artifacts(task) == {f"m{number}": [f"m{number}"] for number in range(8)}
        said = history(task)
        assert [text for text in said if text.startswith("m")] == [f"m{number}" for number in range(8)]
        assert [text for text in said if text.startswith("did")] == [f"did m{number}" for number in range(7)]
        assert words(task) == "did m7"
        log = [event.response for event in await one.store.log(task_id, 0)]
        ends = [entry.status_update.status.state for entry in log if entry.HasField("status_update")]
        assert ends.count(states.COMPLETED) == 1
        assert ends[-1] == states.COMPLETED


async def test_a_question_to_which_the_answer_is_there_already_is_no_question_any_more(server: StoreServer) -> None:
    stage = Stage()

    async def agent(turn: Turn) -> None:
        await stage(turn)
        await (turn.complete("thanks") if turn.text == "answer" else turn.require_input("what?"))

    async with open_node(server.url, agent) as node:
        task_id = await node.begin("ask")
        answered = asyncio.create_task(node.task("answer", task_id))
        await wait_until(lambda: waits(node, task_id), "the answer waits")
        stage.go.set()
        task = await answered
        assert (task.status.state, words(task)) == (states.COMPLETED, "thanks")
        assert history(task) == ["ask", "answer", "what?"]


async def waits(node: Node, task_id: str) -> bool:
    return bool((await read(node.store, task_id)).queue)


async def test_a_turn_that_fails_ends_the_task_with_the_messages_that_wait(
    server: StoreServer, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage()

    async def agent(turn: Turn) -> None:
        await stage(turn)
        await turn.complete("not yet")  # a message waits, so this ends nothing
        await turn.flush()
        await turn.fail("now")

    async with open_node(server.url, agent) as node:
        task_id = await node.begin("first")
        blocked = asyncio.create_task(node.task("second", task_id))
        await wait_until(lambda: waits(node, task_id), "the second message waits")
        stage.go.set()
        task = await blocked
        assert (task.status.state, words(task)) == (states.FAILED, "now")
        await wait_until(lambda: node.engine.running == 0, "the run is over")
        stored = await read(node.store, task_id)
        assert (stored.queue, stored.turn, stage.begun) == ((2,), 1, ["first"])
        assert not [record for record in caplog.records if record.levelname == "WARNING"]


async def test_a_function_that_cancels_its_own_task_ends_its_turn_only(server: StoreServer) -> None:
    stage = Stage()

    async def agent(turn: Turn) -> None:
        await stage(turn)
        this = asyncio.current_task()
        assert this is not None
        this.cancel()

    async with open_node(server.url, agent) as node:
        task_id = await node.begin("first")
        await node.begin("second", task_id)
        stage.go.set()
        await node.until(task_id, states.COMPLETED)
        assert stage.begun == ["first", "second"]


async def test_each_caller_gets_the_answer_to_its_own_message(server: StoreServer) -> None:
    stage = Stage()

    async def agent(turn: Turn) -> None:
        await stage(turn)
        await turn.require_input(f"re {turn.text}")

    async with open_node(server.url, agent) as one, open_node(server.url, agent, "r2") as two:
        first = asyncio.create_task(one.task("m1"))
        await wait_until(lambda: stage.begun, "the first turn runs")
        (row,) = (await one.list()).tasks
        second = asyncio.create_task(two.task("m2", row.id))
        await wait_until(lambda: waits(one, row.id), "the second message waits")
        third = asyncio.create_task(one.task("m3", row.id))
        await wait_until(lambda: waits(one, row.id), "the third message waits")
        stage.go.set()
        tasks = await asyncio.gather(first, second, third)
        # The state that all wait for comes when nobody's message waits any more.
        assert [words(task) for task in tasks] == ["re m3"] * 3


async def test_a_message_to_an_ended_task_is_refused_but_the_one_that_ended_it_is_known(server: StoreServer) -> None:
    async def agent(turn: Turn) -> None:
        await (turn.complete("bye") if turn.text == "end" else turn.require_input("?"))

    async with open_node(server.url, agent) as node, open_node(server.url, agent, "r2") as other:
        task_id = (await node.task("begin")).id
        ended = await node.task("end", task_id, message_id="m2")
        assert words(ended) == "bye"
        # The answer was lost; the caller sends the same message again.
        assert await other.task("end", task_id, message_id="m2") == ended
        with pytest.raises(InvalidArgumentError):
            await other.task("something else", task_id, message_id="m2")
        with pytest.raises(UnsupportedOperationError):
            await other.task("more", task_id, message_id="m3")
        assert await node.get(task_id) == ended


@pytest.mark.parametrize("running", [True, False])
async def test_the_same_message_again_is_attached_to_the_same_turn(server: StoreServer, running: bool) -> None:
    stage = Stage()

    async def agent(turn: Turn) -> None:
        await stage(turn)
        await turn.complete(f"re {turn.text}")

    async with open_node(server.url, agent) as one, open_node(server.url, agent, "r2") as two:
        first = asyncio.create_task(one.task("hello", message_id="m1"))
        await wait_until(lambda: stage.begun, "the turn runs")
        if not running:
            stage.go.set()
            await first
        again = [asyncio.create_task(node.task("hello", message_id="m1")) for node in (one, two)]
        await asyncio.sleep(0.05)
        stage.go.set()
        assert len({task.SerializeToString() for task in await asyncio.gather(first, *again)}) == 1
        assert stage.begun == ["hello"]
        # Another caller's message of the same id is another message.
        assert (await two.task("hello", message_id="m1", scope=BOB)).id != first.result().id


async def test_a_checkpoint_is_there_for_the_next_turn_wherever_it_runs(server: StoreServer) -> None:
    async def agent(turn: Turn) -> None:
        seen = (turn.restored or b"").decode()
        await turn.require_input(f"seen {seen}")
        await turn.checkpoint(f"{seen}{turn.text}".encode())

    async with open_node(server.url, agent) as one, open_node(server.url, agent, "r2") as two:
        task = await one.task("a")
        for node, text, seen in ((two, "b", "a"), (two, "c", "ab"), (one, "d", "abc"), (one, "e", "abcd")):
            await wait_until(partial(released, one, task.id), "the turn has ended")
            task = await node.task(text, task.id)
            assert words(task) == f"seen {seen}"


async def released(node: Node, task_id: str) -> bool:
    return not (await read(node.store, task_id)).holder


async def test_an_answer_that_meets_the_turn_before_in_its_last_moments_loses_no_checkpoint(
    server: StoreServer,
) -> None:
    """The caller read the task while its turn was still about to keep something."""
    kept = asyncio.Event()

    async def agent(turn: Turn) -> None:
        await turn.require_input(f"seen {turn.restored!r}")
        await turn.flush()
        if turn.text == "first":
            await kept.wait()
            await turn.checkpoint(b"state")

    async with open_node(server.url, agent) as node:
        task_id = await node.begin("first")
        await node.until(task_id, states.INPUT_REQUIRED)
        stale = await read(node.store, task_id)
        assert stale.holder
        kept.set()
        await wait_until(lambda: released(node, task_id), "the turn has ended")
        original = node.store.read

        async def read_before(asked: str, **settings: bool) -> object:
            node.store.read = original  # type: ignore[method-assign]
            return stale

        node.store.read = read_before  # type: ignore[method-assign, assignment]
        task = await node.task("second", task_id)
        assert words(task) == "seen b'state'"


async def test_a_turn_sees_other_tasks_of_its_caller_and_of_nobody_else(server: StoreServer) -> None:
    found: dict[str, a2a_pb2.Task | None] = {}

    async def agent(turn: Turn) -> None:
        for task_id in turn.references:
            found[task_id] = await turn.reference(task_id)
        await turn.artifact(artifact_id="a", text=turn.text)

    async with open_node(server.url, agent) as one, open_node(server.url, agent, "r2") as two:
        mine, theirs = await one.task("mine"), await one.task("theirs", scope=BOB)
        nobodys = "0" * 32 + "-0"
        await two.task("look", reference_task_ids=[mine.id, theirs.id, nobodys, "junk"])
        assert found == {mine.id: mine, theirs.id: None, nobodys: None, "junk": None}


async def test_many_tasks_run_at_once_and_stay_apart(server: StoreServer) -> None:
    async with open_node(server.url, echo) as one, open_node(server.url, echo, "r2") as two:
        texts = [f"text {number}" for number in range(200)]
        tasks = await asyncio.gather(*((one, two)[at % 2].task(text) for at, text in enumerate(texts)))
        assert [artifacts(task)["echo"] for task in tasks] == [[text] for text in texts]
        assert Counter(task.status.state for task in tasks) == {states.COMPLETED: 200}
        listed = await two.list(page_size=100)
        assert listed.total_size == 200


async def test_a_turn_of_many_chunks_is_whole_everywhere(server: StoreServer) -> None:
    """More than a batch, a snapshot and a buffer hold."""

    async def agent(turn: Turn) -> None:
        for number in range(2500):
            await turn.stream("out", text=str(number))

    async with open_node(server.url, agent, snapshot_events=100) as one, open_node(server.url, agent, "r2") as two:
        stream = one.stream("go")
        events = [await anext(stream)]
        task_id = events[0].response.task.id
        elsewhere = asyncio.create_task(collect(two, task_id))
        events += [event async for event in stream]
        whole = [str(number) for number in range(2500)]
        assert artifacts(await two.get(task_id)) == {"out": whole}
        chunks = [event for event in events if event.response.HasField("artifact_update")]
        assert [event.response.artifact_update.artifact.parts[0].text for event in chunks] == whole
        assert [event.seq for event in events[1:]] == list(range(2, 2503))
        seen = await elsewhere
        assert seen[1:] == events[len(events) - len(seen) + 1 :]


async def test_a_turn_of_large_chunks_costs_nobody_a_connection(server: StoreServer) -> None:
    """The store cuts off a follower for whom 32 MiB wait: 40 MiB in one breath must not be published."""

    async def agent(turn: Turn) -> None:
        await turn.stream("out", text="first")
        for number in range(40):
            await turn.stream("out", text=str(number) + "x" * 2**20)

    def following() -> set[str]:
        return {client["id"] for client in server.client.client_list(_type="pubsub")}

    async with (
        open_node(server.url, agent, timeout=5.0) as one,
        open_node(server.url, agent, "r2", timeout=5.0) as two,
    ):
        before = following()
        task_id = await one.begin("go")
        elsewhere = asyncio.create_task(collect(two, task_id))
        # To read the task again and again until it has ended would move gigabytes.
        async with asyncio.timeout(20):
            await elsewhere
        assert len(artifacts(await two.get(task_id))["out"]) == 41
        assert following() == before


async def test_a_turn_that_writes_much_at_once_is_slowed_down_and_holds_nobody_up(server: StoreServer) -> None:
    """Forty chunks of 500 kB without a pause: other tasks of the replica go on meanwhile."""
    written: list[int] = []

    async def agent(turn: Turn) -> None:
        if turn.text == "much":
            for number in range(40):
                await turn.stream("out", text=f"{number} " + "x" * 500_000)
                written.append(number)

    async with open_node(server.url, agent, timeout=1.0) as one, open_node(server.url, agent, "r2") as two:
        much = asyncio.create_task(one.task("much"))
        await wait_until(lambda: len(written) > 0, "it has begun")
        assert len(written) < 40, "nothing slowed it down"
        little = [await one.task("little") for _ in range(5)]
        assert [task.status.state for task in little] == [states.COMPLETED] * 5
        task = await two.until((await much).id, states.COMPLETED)
        assert [text.partition(" ")[0] for text in artifacts(task)["out"]] == [str(number) for number in range(40)]


async def collect(node: Node, task_id: str) -> list[object]:
    return [event async for event in node.subscribe(task_id)]
