"""One trace of the whole way, as a collector gets it from real replicas."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import grpc.aio
import pytest
from google.protobuf import json_format

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from tests.push.config import QUICK
from tests.support.collector import Collector, Seen, collecting
from tests.support.receiver import Receiver, receiver
from tests.support.replica import Replica
from tests.support.servers import fresh_store_server
from tests.support.waiting import wait_until

AGENT = "tests.telemetry.traced_agent:agent"
SERVICE = "lf.a2a.v1.A2AService"
TURN = "invoke_agent Traced"


class Trace(NamedTuple):
    """A trace that a caller has begun (W3C Trace Context)."""

    trace_id: str
    span_id: str
    sampled: bool = True
    state: str = ""

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        parent = f"00-{self.trace_id}-{self.span_id}-0{int(self.sampled)}"
        return (("a2a-version", "1.0"), ("traceparent", parent), *([("tracestate", self.state)] if self.state else []))


def begin(number: int, **more: Any) -> Trace:
    return Trace(f"{number:032x}", f"{number + 0xABC:016x}", **more)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with collecting() as made:
        yield made


@pytest.fixture(scope="module")
def replicas(collector: Collector) -> Iterator[tuple[Replica, Replica]]:
    """Of the first a single turn takes all places."""
    env = {
        **QUICK,
        "A2A_LEASE_TTL": "1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-collector-key=very%20secret",
        "OTEL_TRACES_SAMPLER_ARG": "0",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
    }
    with fresh_store_server() as store:
        full = Replica(agent=AGENT, redis_url=store.url, env={**env, "A2A_MAX_TURNS": "1"})
        free = Replica(agent=AGENT, redis_url=store.url, env=env)
        try:
            for one in (full, free):
                one.start(wait=False)
            for one in (full, free):
                one.wait_ready()
            yield full, free
        finally:
            for one in (full, free):
                one.close()


@pytest.fixture
async def stubs(replicas: tuple[Replica, Replica]) -> AsyncIterator[list[Any]]:
    channels = [grpc.aio.insecure_channel(one.grpc_addr) for one in replicas]
    yield [A2AServiceStub(channel) for channel in channels]
    for channel in channels:
        await channel.close()


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    async with receiver() as made:
        yield made


def says(text: str, message_id: str, **message: Any) -> pb.SendMessageRequest:
    return pb.SendMessageRequest(
        message=pb.Message(message_id=message_id, role=pb.ROLE_USER, parts=[pb.Part(text=text)], **message)
    )


def facts(task: pb.Task, name: str) -> dict[str, Any]:
    """What the agent has written."""
    [found] = [artifact for artifact in task.artifacts if artifact.name == name]
    value = json_format.MessageToDict(found.parts[0].data)
    assert isinstance(value, dict)
    return value


def one(spans: list[Seen], name: str) -> Seen:
    """The only one of that name."""
    [found] = [span for span in spans if span.name == name]
    return found


async def test_one_trace_from_the_caller_to_a_second_attempt_and_a_webhook(
    collector: Collector, replicas: tuple[Replica, Replica], stubs: list[Any], hook: Receiver
) -> None:
    _, free = replicas
    hold = says("hold", "holds")
    hold.configuration.return_immediately = True
    # The first is taken by whoever gets it; the second replica has to be the free one.
    held = (await stubs[0].SendMessage(hold, metadata=begin(1, sampled=False).metadata)).task
    trace = begin(2, state="vendor=opaque")
    request = says("once more", "again")
    request.configuration.return_immediately = True
    request.configuration.task_push_notification_config.url = hook.url + "/secret/path"
    request.configuration.task_push_notification_config.token = "secret-token"
    task = (await stubs[0].SendMessage(request, metadata=trace.metadata)).task

    async def working() -> Any:
        now = await stubs[0].GetTask(pb.GetTaskRequest(id=task.id), metadata=begin(1, sampled=False).metadata)
        return now if len(now.artifacts) == 2 else None

    first = facts(await wait_until(working, "the first attempt is at work"), "turn")
    await asyncio.to_thread(free.kill)
    await asyncio.to_thread(free.start)
    await hook.until_end()
    spans = await collector.until(trace.trace_id, f"{SERVICE}/SendMessage", TURN, "POST", "a2a.turn publish")

    assert {span.trace_id for span in spans} == {trace.trace_id}
    call = one(spans, f"{SERVICE}/SendMessage")
    assert (call.kind, call.parent_id, call.state) == ("SERVER", trace.span_id, "vendor=opaque")
    assert call.attributes == {
        "rpc.system.name": "grpc",
        "rpc.method": f"{SERVICE}/SendMessage",
        "rpc.response.status_code": "OK",
        "a2a.task.id": task.id,
        "a2a.context.id": task.context_id,
    }
    created = one(spans, "create")
    assert (created.kind, created.parent_id) == ("CLIENT", call.span_id)
    assert created.attributes == {"db.system.name": "redis", "db.operation.name": "create"}
    published = one(spans, "a2a.turn publish")
    assert (published.kind, published.parent_id) == ("PRODUCER", call.span_id)

    turn = one(spans, TURN)  # the first one never ended
    assert (turn.kind, turn.parent_id, turn.state) == ("CONSUMER", call.span_id, "vendor=opaque")
    assert turn.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "Traced",
        "gen_ai.conversation.id": task.context_id,
        "a2a.task.id": task.id,
        "a2a.skill.id": "work",
        "a2a.attempt": 2,
    }
    assert first["trace"] == trace.trace_id
    assert first["span"] != turn.span_id
    assert turn.links == [(trace.trace_id, first["span"])]
    assert turn.replica != call.replica

    posts = [span for span in spans if span.name == "POST"]
    for post in posts:
        assert (post.kind, post.parent_id) == ("CLIENT", call.span_id)
        assert post.attributes == {
            "http.request.method": "POST",
            "http.response.status_code": 200,
            "server.address": "127.0.0.1",
            "server.port": hook.port,
            "a2a.task.id": task.id,
        }
    for delivery in hook.deliveries:
        assert delivery.header("traceparent").split("-")[:2] == ["00", trace.trace_id]
        assert delivery.header("tracestate") == "vendor=opaque"
    sent = {delivery.header("traceparent").split("-")[2] for delivery in hook.deliveries}
    assert {post.span_id for post in posts} <= sent
    told = " ".join(span.text for span in collector.spans())
    for secret in ("secret", "once more", hook.url):
        assert secret not in told
    assert json.dumps(collector.metadata[0]).count("very secret") == 1
    await stubs[0].CancelTask(pb.CancelTaskRequest(id=held.id), metadata=begin(1, sampled=False).metadata)
