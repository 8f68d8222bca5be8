"""INPUT_REQUIRED and AUTH_REQUIRED: who has the word, who waits, which streams go on (3.2.2, 7.6)."""

import asyncio

from a2a_grpc.server.agents import Turn
from a2a_grpc.server.core import states
from tests.engine.nodes import State, history, open_node, words
from tests.support.servers import StoreServer
from tests.support.tasks import read
from tests.support.waiting import wait_until


async def asks(turn: Turn) -> None:
    """Asks until it hears "done"."""
    if turn.text == "done":
        await turn.complete("thanks")
    else:
        await turn.require_input(f"re {turn.text}")


async def test_a_conversation_over_two_replicas(server: StoreServer) -> None:
    async with open_node(server.url, asks) as one, open_node(server.url, asks, "r2") as two:
        task = await one.task("one")
        for node, text in ((two, "two"), (one, "three"), (two, "done")):
            assert task.status.state == states.INPUT_REQUIRED
            task = await node.task(text, task.id)
        assert task.status.state == states.COMPLETED
        assert history(task) == ["one", "re one", "two", "re two", "three", "re three", "done"]


async def test_a_send_stream_closes_at_the_question_and_a_subscription_stays(server: StoreServer) -> None:
    async with open_node(server.url, asks) as one, open_node(server.url, asks, "r2") as two:
        task_id = (await one.task("one")).id
        subscription = two.subscribe(task_id)
        assert (await anext(subscription)).response.task.status.state == states.INPUT_REQUIRED
        sent = [event.response async for event in one.stream("two", task_id)]
        assert [kind.WhichOneof("payload") for kind in sent] == ["task", "status_update"]
        assert sent[-1].status_update.status.state == states.INPUT_REQUIRED
        await one.task("done", task_id)
        seen = [event.response.status_update.status.state async for event in subscription]
        assert seen == [states.WORKING, states.INPUT_REQUIRED, states.WORKING, states.COMPLETED]


async def test_an_answer_resumes_the_task_for_subscribers_before_the_agent_says_anything(server: StoreServer) -> None:
    go = asyncio.Event()

    async def agent(turn: Turn) -> None:
        if turn.text == "one":
            await turn.require_input("?")
        else:
            await go.wait()

    async with open_node(server.url, agent) as one, open_node(server.url, agent, "r2") as two:
        task_id = (await one.task("one")).id
        subscriptions = [node.subscribe(task_id) for node in (one, two)]
        for subscription in subscriptions:
            await anext(subscription)
        await one.begin("two", task_id)
        for subscription in subscriptions:
            event = await asyncio.wait_for(anext(subscription), 2)
            assert event.response.status_update.status.state == states.WORKING
        go.set()
        for subscription in subscriptions:
            assert [event.response.status_update.status.state async for event in subscription] == [states.COMPLETED]


async def test_authorization_is_waited_for_by_the_agent_and_streams_go_on(server: StoreServer) -> None:
    granted = asyncio.Event()

    async def agent(turn: Turn) -> None:
        await turn.require_auth("sign in")
        await granted.wait()
        await turn.working("thank you")
        await turn.complete("done")

    async with open_node(server.url, agent) as one, open_node(server.url, agent, "r2") as two:
        stream = one.stream("go")
        task_id = (await anext(stream)).response.task.id
        assert (await anext(stream)).response.status_update.status.state == states.AUTH_REQUIRED
        # A blocking call returns with the explanation (7.6.1).
        blocked = await two.get(task_id)
        assert (blocked.status.state, words(blocked)) == (states.AUTH_REQUIRED, "sign in")
        granted.set()
        later = [event.response.status_update.status async for event in stream]
        assert [status.state for status in later] == [states.WORKING, states.COMPLETED]


async def test_a_blocking_call_returns_at_both_interrupted_states(server: StoreServer) -> None:
    go = asyncio.Event()

    async def agent(turn: Turn) -> None:
        await (turn.require_auth("sign in") if turn.text == "auth" else turn.require_input("what?"))
        await go.wait()

    async with open_node(server.url, agent) as node:
        for text, state in (("auth", states.AUTH_REQUIRED), ("input", states.INPUT_REQUIRED)):
            async with asyncio.timeout(2):
                assert (await node.task(text)).status.state == state
        go.set()
        await wait_until(lambda: node.engine.running == 0, "the turns have ended")


async def test_a_message_at_auth_required_is_taken_while_the_explanation_stays(server: StoreServer) -> None:
    granted = asyncio.Event()

    async def agent(turn: Turn) -> None:
        if turn.text == "go":
            await turn.require_auth("sign in")
            await granted.wait()
            await turn.working()
        await turn.complete(f"re {turn.text}")

    async with open_node(server.url, agent) as one, open_node(server.url, agent, "r2") as two:
        task_id = (await one.task("go")).id
        await two.begin("hurry", task_id)
        task = await two.get(task_id)
        assert (task.status.state, words(task)) == (states.AUTH_REQUIRED, "sign in")
        assert history(task) == ["go", "hurry"]
        granted.set()
        task = await two.until(task_id, states.COMPLETED)
        assert words(task) == "re hurry"
        assert history(task) == ["go", "hurry", "sign in", "re go"]


async def test_a_task_parked_for_authorization_is_resumed_by_a_message(server: StoreServer) -> None:
    async def agent(turn: Turn) -> None:
        if turn.text == "go":
            await turn.require_auth("sign in")

    async with open_node(server.url, agent) as one, open_node(server.url, agent, "r2") as two:
        task_id = (await one.task("go")).id
        await wait_until(lambda: parked(one, task_id, states.AUTH_REQUIRED), "the task is parked")
        task = await two.task("I did", task_id)
        assert task.status.state == states.COMPLETED
        assert history(task) == ["go", "sign in", "I did"]


async def parked(node: object, task_id: str, state: State) -> bool:
    stored = await read(node.store, task_id)  # type: ignore[attr-defined]
    return stored.state == state and not stored.holder


async def test_a_second_question_in_one_turn_replaces_the_first(server: StoreServer) -> None:
    async def agent(turn: Turn) -> None:
        await turn.require_input("first?")
        await turn.require_input("second?")

    async with open_node(server.url, agent) as node:
        task_id = await node.begin("go")
        await wait_until(lambda: parked(node, task_id, states.INPUT_REQUIRED), "the task is parked")
        task = await node.get(task_id)
        assert words(task) == "second?"
        assert history(task) == ["go", "first?"]
