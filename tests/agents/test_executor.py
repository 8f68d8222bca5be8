"""Executors of a2a-sdk as they are, served over each binding by two replicas: what they say is what callers get."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from a2a_grpc.client import (
    A2AClient,
    AuthRequired,
    Canceled,
    Completed,
    Failed,
    InputRequired,
    RemoteAgent,
    Reply,
    TaskUpdate,
    message,
)
from a2a_grpc.pb import a2a_pb2
from tests.support.replica import Pair
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.wide,
    pytest.mark.agent("--executor=tests.agents.executors:Dispatch", A2A_LEASE_TTL="1", A2A_MIXED_TIMEOUT="0.5"),
]


BINDINGS = ("GRPC", "HTTP+JSON", "JSONRPC")


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def agent(two_replicas: Pair, binding: str) -> AsyncIterator[RemoteAgent]:
    async with await RemoteAgent.connect(two_replicas.replicas[0].http_url, bindings=[binding]) as agent:
        yield agent


@pytest.fixture
async def elsewhere(two_replicas: Pair, binding: str) -> AsyncIterator[A2AClient]:
    """A client of the other replica."""
    async with await A2AClient.connect(two_replicas.replicas[1].http_url, bindings=[binding]) as client:
        yield client


async def test_its_card_says_where_this_service_is_and_not_where_its_author_served_it(agent: RemoteAgent) -> None:
    assert agent.card is not None
    assert agent.card.name == "Executors"
    assert {one.protocol_binding for one in agent.card.supported_interfaces} == set(BINDINGS)
    assert all("9999" not in one.url for one in agent.card.supported_interfaces)


async def test_a_message_is_the_whole_answer(agent: RemoteAgent) -> None:
    result = await agent.run("hello")
    assert isinstance(result, Reply)
    assert result.text == "Hello World"
    assert not result.message.task_id


async def test_it_asks_and_goes_on_with_the_answer_on_another_replica(agent: RemoteAgent, elsewhere: A2AClient) -> None:
    session = agent.session()
    asked = await session.run("convert 100 USD")
    assert isinstance(asked, InputRequired)
    assert asked.text == "Into which currency?"

    answer = await RemoteAgent(elsewhere).session(token=session.to_token()).run("EUR please")
    assert isinstance(answer, Completed)
    assert answer.task_id == asked.task_id
    assert answer.text == "90 EUR, asked by 'convert 100 USD'"
    # The question of the agent, and each message once.
    assert [part.text for said in answer.task.history for part in said.parts] == [
        "convert 100 USD",
        "Looking up the rates…",
        "Into which currency?",
        "EUR please",
        "Looking up the rates…",
    ]


async def test_it_is_canceled_on_another_replica_with_its_own_last_words(
    agent: RemoteAgent, elsewhere: A2AClient
) -> None:
    place = await agent.start("long")
    assert not isinstance(place, Reply)

    async def at_work() -> bool:
        task = await elsewhere.get_task(a2a_pb2.GetTaskRequest(id=place.task_id))
        return bool(task.artifacts)

    await wait_until(at_work, "the executor is at work")
    canceled = await elsewhere.cancel_task(a2a_pb2.CancelTaskRequest(id=place.task_id))
    assert canceled.status.state == a2a_pb2.TASK_STATE_CANCELED
    assert canceled.status.message.parts[0].text == "Stopped half-way."
    assert isinstance(await agent.result(place), Canceled)


async def test_a_thousand_chunks_are_one_artifact_with_each_chunk_in_its_place(
    agent: RemoteAgent, elsewhere: A2AClient
) -> None:
    chunks: list[str] = []
    result: Completed | None = None
    async for update in agent.run_stream("chunks 1000"):
        if isinstance(update, Completed):
            result = update
        elif isinstance(update, TaskUpdate):
            chunks += [part.text for artifact in update.task.artifacts for part in artifact.parts]
        elif hasattr(update, "last"):
            chunks.append(update.text)
    assert chunks == [f"{number} " for number in range(1000)]
    assert result is not None
    (artifact,) = result.artifacts
    assert (artifact.artifact_id, artifact.name) == ("a1", "count")
    stored = await elsewhere.get_task(a2a_pb2.GetTaskRequest(id=result.task_id))
    assert [part.text for part in stored.artifacts[0].parts] == chunks


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("raises", "The agent failed."),
        ("refuses", "Say more."),
        ("elsewhere", "The agent failed."),
    ],
)
async def test_what_goes_wrong_is_a_failed_task_that_gives_nothing_away(
    agent: RemoteAgent, how: str, said: str
) -> None:
    result = await agent.run(f"broken {how}")
    assert isinstance(result, Failed)
    assert result.text == said


async def test_what_comes_after_the_end_is_left_out(agent: RemoteAgent) -> None:
    result = await agent.run("broken late")
    assert isinstance(result, Completed)
    assert not result.artifacts


async def test_its_data_is_held_to_the_schema_in_its_card(agent: RemoteAgent) -> None:
    good = await agent.run("score 99")
    assert isinstance(good, Completed)
    assert good.data == [99]
    for number in (101, 1001):
        refused = await agent.run(f"score {number}")
        assert isinstance(refused, Failed)
        assert refused.text == (
            "The agent answered with an artifact 'score' that does not match its schema: "
            "the data does not keep to maximum 100."
        )
        assert not refused.artifacts


async def test_a_task_may_come_as_a_whole(agent: RemoteAgent) -> None:
    result = await agent.run("shape whole")
    assert isinstance(result, Completed)
    assert (result.text, result.said) == ("everything", "All of it.")
    assert [part.text for said in result.task.history for part in said.parts] == ["shape whole"]


@pytest.fixture
async def one(two_replicas: Pair) -> AsyncIterator[RemoteAgent]:
    """The agent over gRPC, where the binding does not matter."""
    async with await RemoteAgent.connect(two_replicas.replicas[0].http_url, bindings=["GRPC"]) as agent:
        yield agent


async def test_an_executor_that_returns_without_an_end_has_completed_its_task(one: RemoteAgent) -> None:
    result = await one.run("shape silent")
    assert isinstance(result, Completed)
    assert result.text == ""


async def test_what_was_submitted_already_can_be_submitted_without_harm(one: RemoteAgent) -> None:
    result = await one.run("shape submits")
    assert isinstance(result, Completed)
    assert result.said == "Done."


async def test_a_message_that_takes_long_completes_the_task_that_there_is_by_then(one: RemoteAgent) -> None:
    result = await one.run("shape ponders")
    assert isinstance(result, Completed)
    assert result.said == "Forty-two."


async def test_an_authorization_may_come_while_the_executor_waits(one: RemoteAgent) -> None:
    asked = await one.run("shape authorizes")
    assert isinstance(asked, AuthRequired)
    assert asked.text == "Approve it."
    result = await one.result(asked.continuation)
    assert isinstance(result, Completed)
    assert result.said == "Approved."


async def test_it_sees_who_calls_with_what(one: RemoteAgent) -> None:
    earlier = await one.run("shape submits")
    assert isinstance(earlier, Completed)
    request = a2a_pb2.SendMessageRequest(message=message("shape looks"))
    request.message.reference_task_ids.append(earlier.task_id)
    request.metadata.update({"depth": 3})
    result = await one.run(request)
    assert isinstance(result, Reply)
    active = ["urn:a2a-grpc:extension:event-sequence:v1"]
    assert result.text == f"['', False, '', {active}] {{'depth': 3.0}} ['Done.']"


async def test_another_replica_goes_on_where_one_stops(two_replicas: Pair) -> None:
    """That is no attempt, and still the executor sees what is there."""
    one, other = two_replicas.replicas
    async with await RemoteAgent.connect(one.http_url, bindings=["GRPC"]) as agent:
        place = await agent.start("recover")
        assert not isinstance(place, Reply)
    async with await RemoteAgent.connect(other.http_url) as agent:

        async def at_work() -> bool:
            return bool((await agent.client.get_task(a2a_pb2.GetTaskRequest(id=place.task_id))).artifacts)

        await wait_until(at_work, "the executor is at work")
        one.terminate()
        result = await agent.result(place, timeout=20)
        assert await asyncio.to_thread(one.wait) == 0
    assert isinstance(result, Completed)
    assert result.text == "begun\nattempt 1, found ['begun']"


async def test_another_replica_goes_on_where_one_was_killed(two_replicas: Pair) -> None:
    one, other = two_replicas.replicas
    async with await RemoteAgent.connect(one.http_url, bindings=["GRPC"]) as agent:
        place = await agent.start("recover")
        assert not isinstance(place, Reply)
    async with await RemoteAgent.connect(other.http_url) as agent:

        async def at_work() -> bool:
            return bool((await agent.client.get_task(a2a_pb2.GetTaskRequest(id=place.task_id))).artifacts)

        await wait_until(at_work, "the executor is at work")
        await asyncio.to_thread(one.kill)
        result = await agent.result(place, timeout=20)
    assert isinstance(result, Completed)
    assert result.text == "begun\nattempt 2, found ['begun']"
