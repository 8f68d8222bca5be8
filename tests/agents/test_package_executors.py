"""Executors of packages from PyPI, unchanged: what their agents say arrives, and a cancel ends them."""

import json

import pytest

from a2a_grpc.client import ArtifactChunk, Canceled, Completed, Failed, RemoteAgent, Reply, StatusUpdate
from a2a_grpc.pb import a2a_pb2
from tests.support.replica import Pair
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wide

PACKAGES = "tests.agents.package_executors"
adapter = pytest.mark.agent(f"--executor={PACKAGES}:adapter_executor --card={PACKAGES}:adapter_card")
lite = pytest.mark.agent(f"--executor={PACKAGES}:lite_executor --card={PACKAGES}:lite_card")


@pytest.fixture(params=["GRPC", "HTTP+JSON", "JSONRPC"])
def bindings(request: pytest.FixtureRequest) -> list[str]:
    return [str(request.param)]


@adapter
async def test_a2a_adapter_streams_a_function(two_replicas: Pair, bindings: list[str]) -> None:
    one, other = two_replicas.replicas
    async with await RemoteAgent.connect(one.http_url, bindings=bindings) as agent:
        assert agent.name == "Words"
        seen = [update async for update in agent.run_stream("one two three")]
        result = seen[-1]
        assert isinstance(result, Completed)
        assert [part.text for part in result.artifacts[0].parts] == ["one ", "two ", "three "]
        assert result.said == "one two three "
        last = [update for update in seen if isinstance(update, ArtifactChunk)][-1]
        assert last.last
        broken = await agent.run("one break")
        assert isinstance(broken, Failed)
        assert broken.text == "Agent execution failed: out of words"
    async with await RemoteAgent.connect(other.http_url, bindings=bindings) as agent:
        assert await agent.client.get_task(a2a_pb2.GetTaskRequest(id=result.task_id)) == result.task


@adapter
async def test_a2a_adapter_is_canceled_on_another_replica(two_replicas: Pair, bindings: list[str]) -> None:
    one, other = two_replicas.replicas
    async with await RemoteAgent.connect(one.http_url, bindings=bindings) as agent:
        place = await agent.start("one two hang")
        assert not isinstance(place, Reply)
    async with await RemoteAgent.connect(other.http_url, bindings=bindings) as agent:

        async def at_work() -> bool:
            task = await agent.client.get_task(a2a_pb2.GetTaskRequest(id=place.task_id))
            return bool(task.artifacts)

        await wait_until(at_work, "the first word is there")
        assert isinstance(await agent.cancel(place.task_id), Canceled)


def ask(skill: str, **params: object) -> str:
    """A message in the form in which a2a-lite takes it."""
    return json.dumps({"skill": skill, "params": params})


@lite
async def test_a2a_lite_replies_streams_and_tells_how_it_goes(two_replicas: Pair, bindings: list[str]) -> None:
    one, other = two_replicas.replicas
    async with await RemoteAgent.connect(one.http_url, bindings=bindings) as agent:
        assert agent.card is not None
        assert [skill.id for skill in agent.card.skills] == ["greet", "count", "order"]
        reply = await agent.run(ask("greet", name="Ada"))
        assert isinstance(reply, Reply)
        assert reply.text == "Hello, Ada!"

        told = [update async for update in agent.run_stream(ask("count", to=3))]
        assert [update.text for update in told if isinstance(update, StatusUpdate) and update.text] == ["1", "2", "3"]
        assert isinstance(told[-1], Completed)

        order = await agent.run(ask("order", what="tea"))
        assert isinstance(order, Completed)
        assert order.text == "tea is ready"

        # It makes an answer of its own of what it does not know.
        unknown = await agent.run(ask("sing"))
        assert isinstance(unknown, Reply)
        assert "sing" in unknown.text
    async with await RemoteAgent.connect(other.http_url, bindings=bindings) as agent:
        assert await agent.client.get_task(a2a_pb2.GetTaskRequest(id=order.task_id)) == order.task


@lite
async def test_a2a_lite_is_canceled_on_another_replica(two_replicas: Pair, bindings: list[str]) -> None:
    one, other = two_replicas.replicas
    async with await RemoteAgent.connect(one.http_url, bindings=bindings) as agent:
        place = await agent.start(ask("order", what="nothing"))
        assert not isinstance(place, Reply)
    async with await RemoteAgent.connect(other.http_url, bindings=bindings) as agent:
        assert isinstance(await agent.cancel(place.task_id), Canceled)
