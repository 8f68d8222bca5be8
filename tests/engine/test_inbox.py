"""`turn.inbox`: messages that reach the running turn, each once; what nobody takes becomes a turn of its own."""

import asyncio
import contextlib
import itertools

import pytest

from a2a_grpc.server.agents import Turn
from a2a_grpc.server.core import states
from tests.engine.nodes import artifacts, history, open_node, words
from tests.support.servers import StoreServer
from tests.support.tasks import read
from tests.support.waiting import wait_until


async def listener(turn: Turn) -> None:
    """Says again what comes, until "bye"."""
    await turn.working("listening")
    async for message in turn.inbox:
        text = message.parts[0].text
        if text == "bye":
            return
        await turn.stream("heard", text=text)


async def test_messages_reach_the_running_turn_in_order(server: StoreServer) -> None:
    async with open_node(server.url, listener) as one, open_node(server.url, listener, "r2") as two:
        task_id = await one.begin("hello")
        texts = [f"m{number}" for number in range(20)]
        for at, text in enumerate(texts):
            await (one, two)[at % 2].begin(text, task_id)
        task = await two.task("bye", task_id)
        assert task.status.state == states.COMPLETED
        assert artifacts(task) == {"heard": texts}
        assert [text for text in history(task) if text != "listening"] == ["hello", *texts, "bye"]
        stored = await read(one.store, task_id)
        assert (stored.queue, stored.attempt) == ((), 1)


async def test_what_the_turn_leaves_becomes_a_turn_of_its_own(server: StoreServer) -> None:
    async def takes_one(turn: Turn) -> None:
        message = await turn.inbox.get()
        await turn.stream("heard", text=f"{turn.text} heard {message.parts[0].text}")

    async with open_node(server.url, takes_one) as node:
        task_id = await node.begin("a")
        for text in "bcdef":
            await node.begin(text, task_id)
        task = await node.until(task_id, states.COMPLETED)
        # A new turn begins its artifact anew: the last one says what it took.
        assert artifacts(task) == {"heard": ["e heard f"]}
        assert [text for text in history(task) if len(text) == 1] == list("abcdef")


@pytest.mark.parametrize("wait", [0.0, 0.001, 0.01])
async def test_who_stops_waiting_loses_no_message(server: StoreServer, wait: float) -> None:
    async def impatient(turn: Turn) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    message = await turn.inbox.get()
                    text = message.parts[0].text
                    if text == "bye":
                        return
                    await turn.stream("heard", text=text)
            await asyncio.sleep(0.001)

    async with open_node(server.url, impatient) as node:
        task_id = await node.begin("hello")
        texts = [f"m{number}" for number in range(30)]
        for text in texts:
            await node.begin(text, task_id)
        task = await node.task("bye", task_id)
        assert artifacts(task) == {"heard": texts}


async def test_a_message_that_was_asked_for_and_not_waited_for_is_the_next_turn(server: StoreServer) -> None:
    """It has left the queue when the function ends, so it must stand against the end by itself."""
    for ending, pauses in itertools.product(("complete", "ask", "return"), (1, 2, 3, 5)):
        turns: list[str] = []

        async def agent(turn: Turn, ending: str = ending, turns: list[str] = turns, pauses: int = pauses) -> None:
            turns.append(turn.text)
            if turn.text != "first":
                await turn.complete("re second")
                return
            await wait_until(waiting, "the message waits")
            getting = asyncio.create_task(turn.inbox.get())
            # The request may be about to be made, or on its way.
            for _ in range(pauses):
                await asyncio.sleep(0)
            getting.cancel()
            if ending == "complete":
                await turn.complete("done")
            elif ending == "ask":
                await turn.require_input("what?")

        async with open_node(server.url, agent) as node:
            task_id = await node.begin("first")

            async def waiting(node: object = node, task_id: str = task_id) -> bool:
                return bool((await read(node.store, task_id)).queue)  # type: ignore[attr-defined]

            task = await node.task("second", task_id)
            assert turns == ["first", "second"], (ending, pauses)
            assert (task.status.state, words(task)) == (states.COMPLETED, "re second"), (ending, pauses)


async def test_two_readers_share_the_messages(server: StoreServer) -> None:
    heard: list[list[str]] = [[], []]

    async def agent(turn: Turn) -> None:
        async def read_on(into: list[str]) -> None:
            async for message in turn.inbox:
                text = message.parts[0].text
                if text == "bye":
                    raise asyncio.CancelledError
                into.append(text)

        readers = [asyncio.create_task(read_on(into)) for into in heard]
        await asyncio.wait(readers, return_when=asyncio.FIRST_COMPLETED)
        for reader in readers:
            reader.cancel()

    async with open_node(server.url, agent) as node:
        task_id = await node.begin("hello")
        texts = [f"m{number}" for number in range(20)]
        for text in texts:
            await node.begin(text, task_id)
        await node.task("bye", task_id)
        assert sorted(heard[0] + heard[1], key=texts.index) == texts
        assert all(heard)


async def test_an_answer_may_come_through_the_inbox(server: StoreServer) -> None:
    async def asks(turn: Turn) -> None:
        for number in range(3):
            await turn.require_input(f"question {number}")
            answer = await turn.inbox.get()
            await turn.artifact(artifact_id=f"answer {number}", text=answer.parts[0].text)
        await turn.complete("thanks")

    async with open_node(server.url, asks) as one, open_node(server.url, asks, "r2") as two:
        task = await one.task("begin")
        for number in range(3):
            assert (task.status.state, words(task)) == (states.INPUT_REQUIRED, f"question {number}")
            # The caller waits for what the agent makes of the answer, not for the question it has just answered.
            task = await (two, one)[number % 2].task(f"reply {number}", task.id)
        assert (task.status.state, words(task)) == (states.COMPLETED, "thanks")
        assert artifacts(task) == {f"answer {number}": [f"reply {number}"] for number in range(3)}
        assert history(task) == [
            "begin", "question 0", "reply 0", "question 1", "reply 1", "question 2", "reply 2"
        ]  # fmt: skip


async def test_a_turn_that_listens_can_be_canceled(server: StoreServer) -> None:
    async with open_node(server.url, listener) as one, open_node(server.url, listener, "r2") as two:
        task_id = await one.begin("hello")
        await one.begin("m1", task_id)
        await wait_until(lambda: hears(one, task_id), "the message was heard")
        assert (await two.cancel(task_id)).status.state == states.CANCELED


async def hears(node: object, task_id: str) -> bool:
    return "heard" in artifacts(await node.get(task_id))  # type: ignore[attr-defined]
