"""One trace of the whole way, as a collector gets it from real replicas."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import grpc.aio
import httpx
import pytest
from google.protobuf import json_format
from opentelemetry import trace

from a2a_grpc.client import A2AClient
from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from tests.process.gateway import Gateway
from tests.push.config import QUICK
from tests.support.collector import Collector, Seen, collecting
from tests.support.receiver import Receiver, receiver
from tests.support.replica import ROOT, Replica, replica
from tests.support.servers import fresh_store_server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wide

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
    def context(self) -> trace.SpanContext:
        """The same for OpenTelemetry."""
        flags = trace.TraceFlags(int(self.sampled))
        return trace.SpanContext(int(self.trace_id, 16), int(self.span_id, 16), is_remote=False, trace_flags=flags)

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
def replicas(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Replica, Replica]]:
    """Of the first a single turn takes all places."""
    agents = tmp_path_factory.mktemp("agents") / "agents.yaml"
    agents.write_text(json.dumps({"agents": {"": AGENT, "acme": AGENT}}))
    env = {
        **QUICK,
        "A2A_LEASE_TTL": "1",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-collector-key=very%20secret",
        "OTEL_TRACES_SAMPLER_ARG": "0",
        "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        "A2A_LOG_FORMAT": "json",
    }
    with fresh_store_server() as store:
        full = Replica(agent=str(agents), redis_url=store.url, env={**env, "A2A_MAX_TURNS": "1"})
        free = Replica(agent=str(agents), redis_url=store.url, env=env)
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
    began = begin(2, state="vendor=opaque")
    request = says("once more", "again")
    request.configuration.return_immediately = True
    request.configuration.task_push_notification_config.url = hook.url + "/secret/path"
    request.configuration.task_push_notification_config.token = "secret-token"
    task = (await stubs[0].SendMessage(request, metadata=began.metadata)).task

    async def working() -> Any:
        now = await stubs[0].GetTask(pb.GetTaskRequest(id=task.id), metadata=begin(1, sampled=False).metadata)
        return now if len(now.artifacts) == 2 else None

    first = facts(await wait_until(working, "the first attempt is at work"), "turn")
    await asyncio.to_thread(free.kill)
    await asyncio.to_thread(free.start)
    await hook.until_end()
    spans = await collector.until(began.trace_id, f"{SERVICE}/SendMessage", TURN, "POST", "a2a.turn publish")

    assert {span.trace_id for span in spans} == {began.trace_id}
    call = one(spans, f"{SERVICE}/SendMessage")
    assert (call.kind, call.parent_id, call.state) == ("SERVER", began.span_id, "vendor=opaque")
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
    assert published.attributes == {
        "messaging.system": "redis",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "ready",
        "a2a.task.id": task.id,
    }

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
    assert first["trace"] == began.trace_id
    assert first["span"] != turn.span_id
    assert turn.links == [(began.trace_id, first["span"])]
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
        assert delivery.header("traceparent").split("-")[:2] == ["00", began.trace_id]
        assert delivery.header("tracestate") == "vendor=opaque"
    sent = {delivery.header("traceparent").split("-")[2] for delivery in hook.deliveries}
    assert {post.span_id for post in posts} <= sent
    told = " ".join(span.text for span in collector.spans())
    for secret in ("secret", "once more", hook.url):
        assert secret not in told
    assert json.dumps(collector.metadata[0]).count("very secret") == 1
    await stubs[0].CancelTask(pb.CancelTaskRequest(id=held.id), metadata=begin(1, sampled=False).metadata)


def around(task: pb.Task) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was current in the agent's function, and in a thread within a span of its own."""
    return facts(task, "turn"), facts(task, "thread")


@pytest.mark.parametrize("binding", ["GRPC", "HTTP+JSON", "JSONRPC"])
async def test_the_span_of_a_caller_is_where_the_trace_of_its_call_begins(
    collector: Collector, replicas: tuple[Replica, Replica], binding: str
) -> None:
    """Our client sends what OpenTelemetry takes for current, over every binding; the spans of the agent nest."""
    free = replicas[1]
    began = begin(10 + ["GRPC", "HTTP+JSON", "JSONRPC"].index(binding))
    async with await A2AClient.connect(free.http_url, bindings=[binding]) as client:
        with trace.use_span(trace.NonRecordingSpan(began.context)):
            task = (await client.send_message(says("hi", binding))).task
    spans = await collector.until(began.trace_id, f"{SERVICE}/SendMessage", TURN, "think")
    call, turn, think = (one(spans, name) for name in (f"{SERVICE}/SendMessage", TURN, "think"))
    assert (call.parent_id, turn.parent_id, think.parent_id) == (began.span_id, call.span_id, turn.span_id)
    systems = {"GRPC": "grpc", "HTTP+JSON": "http_json", "JSONRPC": "jsonrpc"}
    assert call.attributes["rpc.system.name"] == systems[binding]
    assert (turn.kind, turn.links, turn.failed) == ("INTERNAL", [], False)
    assert think.attributes == {"by": "agent"}
    in_turn, in_thread = around(task)
    assert in_turn == {"trace": began.trace_id, "span": turn.span_id, "sampled": True}
    assert in_thread == {"trace": began.trace_id, "span": think.span_id, "sampled": True}
    assert call.resource["service.name"] == "a2a-grpc"
    assert call.resource["deployment.environment.name"] == "test"


async def test_a_caller_who_does_not_record_is_not_recorded_and_its_trace_goes_on(
    collector: Collector, stubs: list[Any], hook: Receiver
) -> None:
    began = begin(20, sampled=False, state="a=1")
    request = says("hi", "unrecorded")
    request.configuration.task_push_notification_config.url = hook.url
    task = (await stubs[1].SendMessage(request, metadata=began.metadata)).task
    for current in around(task):
        assert (current["trace"], current["sampled"]) == (began.trace_id, False)
    for delivery in await hook.until_end():
        assert delivery.header("traceparent") == f"00-{began.trace_id}-{began.span_id}-00"
        assert delivery.header("tracestate") == "a=1"
    seen = begin(21)
    await stubs[1].GetTask(pb.GetTaskRequest(id=task.id), metadata=seen.metadata)
    await collector.until(seen.trace_id, f"{SERVICE}/GetTask")  # what came before it is there as well
    assert collector.spans(began.trace_id) == []


async def test_what_is_refused_is_no_failure_and_ids_are_cut(collector: Collector, stubs: list[Any]) -> None:
    made_up = "x" * 5000
    for number, task_id, reason in ((30, "nobody-s", "TASK_NOT_FOUND"), (31, made_up, "INVALID_ARGUMENT")):
        began = begin(number)
        with pytest.raises(grpc.aio.AioRpcError):
            await stubs[1].GetTask(pb.GetTaskRequest(id=task_id, tenant=""), metadata=began.metadata)
        [call] = await collector.until(began.trace_id, f"{SERVICE}/GetTask")
        assert call.attributes["error.type"].endswith(reason) or call.attributes["rpc.response.status_code"] == reason
        assert not call.failed
        assert call.attributes["a2a.task.id"] == task_id[:256]


async def test_a_turn_that_fails_or_is_canceled_says_so_in_a_word(collector: Collector, stubs: list[Any]) -> None:
    began = begin(40)
    await stubs[1].SendMessage(says("fail", "fails"), metadata=began.metadata)
    turn = one(await collector.until(began.trace_id, TURN), TURN)
    assert (turn.failed, turn.attributes["error.type"]) == (True, "failed")
    assert "secret" not in turn.text

    began = begin(41)
    hold = says("hold", "canceled")
    hold.configuration.return_immediately = True
    task = (await stubs[1].SendMessage(hold, metadata=began.metadata)).task
    await stubs[1].CancelTask(pb.CancelTaskRequest(id=task.id), metadata=begin(42).metadata)
    turn = one(await collector.until(began.trace_id, TURN), TURN)
    assert (turn.failed, turn.attributes["error.type"]) == (False, "canceled")


async def test_each_turn_of_a_task_is_in_the_trace_of_its_own_message(collector: Collector, stubs: list[Any]) -> None:
    asked, answered = begin(50), begin(51)
    task = (await stubs[1].SendMessage(says("ask", "asks"), metadata=asked.metadata)).task
    await stubs[1].SendMessage(says("this", "answers", task_id=task.id), metadata=answered.metadata)
    for began in (asked, answered):
        spans = await collector.until(began.trace_id, f"{SERVICE}/SendMessage", TURN)
        assert one(spans, TURN).parent_id == one(spans, f"{SERVICE}/SendMessage").span_id
        assert one(spans, TURN).attributes["a2a.task.id"] == task.id


@pytest.mark.parametrize("skill", ["still", "mixed"])
async def test_what_the_store_is_asked_is_part_of_who_asks(collector: Collector, stubs: list[Any], skill: str) -> None:
    """The last thing as well, the end of the turn: here it is all that the turn writes."""
    sent, got = begin(52 + (skill == "mixed")), begin(82 + (skill == "mixed"))
    task = (await stubs[1].SendMessage(says(skill, skill), metadata=sent.metadata)).task
    assert task.status.state == pb.TASK_STATE_COMPLETED
    await stubs[1].GetTask(pb.GetTaskRequest(id=task.id), metadata=got.metadata)
    spans = await collector.until(sent.trace_id, f"{SERVICE}/SendMessage", TURN, "create", "append")
    call, turn, ended = (one(spans, name) for name in (f"{SERVICE}/SendMessage", TURN, "append"))
    assert (one(spans, "create").parent_id, turn.parent_id) == (call.span_id, call.span_id)
    assert (ended.kind, ended.parent_id) == ("CLIENT", turn.span_id)
    assert ended.attributes == {"db.system.name": "redis", "db.operation.name": "append"}
    assert turn.begun_ns <= ended.begun_ns <= ended.ended_ns <= turn.ended_ns
    spans = await collector.until(got.trace_id, f"{SERVICE}/GetTask", "read")
    assert one(spans, "read").parent_id == one(spans, f"{SERVICE}/GetTask").span_id


async def test_a_turn_that_is_answered_with_a_message_is_in_the_trace(collector: Collector, stubs: list[Any]) -> None:
    began = begin(54)
    answer = await stubs[1].SendMessage(says("mixed reply", "is replied"), metadata=began.metadata)
    assert answer.HasField("message")
    turn = one(await collector.until(began.trace_id, f"{SERVICE}/SendMessage", TURN), TURN)
    assert (turn.failed, "error.type" in turn.attributes) == (False, False)


async def test_spans_and_records_of_the_log_tell_the_tenant_and_records_the_span(
    collector: Collector, replicas: tuple[Replica, Replica], stubs: list[Any]
) -> None:
    began = begin(59)
    request = says("still", "of acme")
    request.tenant = "acme"
    task = (await stubs[1].SendMessage(request, metadata=began.metadata)).task
    spans = await collector.until(began.trace_id, f"{SERVICE}/SendMessage", TURN)
    assert {span.attributes.get("a2a.tenant") for span in spans if span.kind != "CLIENT"} == {"acme"}

    def written() -> dict[str, dict[str, Any]]:
        lines = [json.loads(line) for one in replicas for line in one.log(None).splitlines() if line[0] == "{"]
        return {line["logger"]: line for line in lines if line.get("trace_id") == began.trace_id}

    agents = "tests.telemetry.traced_agent"
    records = await wait_until(
        lambda: found if (found := written()).keys() >= {"a2a_grpc.access", agents} else {}, "both are written"
    )
    for logger, span in (("a2a_grpc.access", one(spans, f"{SERVICE}/SendMessage")), (agents, one(spans, TURN))):
        assert (
            records[logger].items()
            >= {
                "span_id": span.span_id,
                "trace_flags": "01",
                "tenant": "acme",
                "task_id": task.id,
                "context_id": task.context_id,
            }.items()
        )


async def test_the_span_of_a_stream_is_as_long_as_the_stream(collector: Collector, stubs: list[Any]) -> None:
    read, left = begin(55), begin(56)
    responses = stubs[1].SendStreamingMessage(says("hi", "streams"), metadata=read.metadata)
    assert [response async for response in responses]
    responses = stubs[1].SendStreamingMessage(says("hold", "is left"), metadata=left.metadata)
    task = (await responses.read()).task
    responses.cancel()
    name = f"{SERVICE}/SendStreamingMessage"
    whole, cut = (
        one(await collector.until(read.trace_id, name, TURN), name),
        one(await collector.until(left.trace_id, name), name),
    )
    assert (whole.attributes["rpc.response.status_code"], whole.failed) == ("OK", False)
    assert (cut.attributes["rpc.response.status_code"], cut.failed) == ("CANCELLED", False)
    assert cut.attributes["a2a.task.id"] == task.id
    turn = one(collector.spans(read.trace_id), TURN)
    assert whole.begun_ns <= turn.begun_ns <= turn.ended_ns <= whole.ended_ns
    await stubs[1].CancelTask(pb.CancelTaskRequest(id=task.id), metadata=begin(57, sampled=False).metadata)


async def test_a_turn_that_asks_for_another_attempt_is_linked_as_well(collector: Collector, stubs: list[Any]) -> None:
    began = begin(58)
    await stubs[1].SendMessage(says("retry", "retries"), metadata=began.metadata)

    def runs() -> list[Seen]:
        return sorted(
            (span for span in collector.spans(began.trace_id) if span.name == TURN), key=lambda span: span.begun_ns
        )

    await wait_until(lambda: len(runs()) == 2, "both attempts", 10)
    first, second = runs()
    assert (first.attributes["error.type"], first.attributes["a2a.attempt"], first.links) == ("retry", 1, [])
    assert (second.attributes["a2a.attempt"], second.links) == (2, [(began.trace_id, first.span_id)])


@pytest.mark.parametrize(
    "sent",
    [
        ["00-{}-0000000000000000-01"],
        ["00-{}-00f067aa0ba902b7-01-more"],
        ["00-{}-00f067aa0ba902b7-01", "00-{}-00f067aa0ba902b7-01"],
        ["00-{}-00f067aa0ba902b7-01" + "-" * 5000],
    ],
    ids=["no span", "too much", "twice", "long"],
)
async def test_a_bad_traceparent_harms_no_call(collector: Collector, stubs: list[Any], sent: list[str]) -> None:
    """The call is one without a trace, of which none is recorded here."""
    bad, seen = begin(60), begin(61)
    metadata = [("traceparent", value.replace("{}", bad.trace_id)) for value in sent]
    await stubs[1].ListTasks(pb.ListTasksRequest(), metadata=(("a2a-version", "1.0"), *metadata))
    await stubs[1].ListTasks(pb.ListTasksRequest(), metadata=seen.metadata)
    await collector.until(seen.trace_id, f"{SERVICE}/ListTasks")  # what came before it is there as well
    assert collector.spans(bad.trace_id) == []


async def test_a_long_tracestate_is_dropped_by_itself(collector: Collector, stubs: list[Any]) -> None:
    seen = begin(70, state=f"a={'x' * 255},b={'x' * 255}")
    await stubs[1].ListTasks(pb.ListTasksRequest(), metadata=seen.metadata)
    [call] = [span for span in await collector.until(seen.trace_id, f"{SERVICE}/ListTasks") if span.kind == "SERVER"]
    assert (call.parent_id, call.state) == (seen.span_id, "")


async def test_a_gateway_stands_between_the_caller_and_the_service(
    collector: Collector, replicas: tuple[Replica, Replica]
) -> None:
    began = begin(80, state="a=1")
    gateway = Gateway(replicas[1].grpc_addr, {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint})
    try:
        await asyncio.to_thread(gateway.start)
        async with httpx.AsyncClient(base_url=gateway.http_url, trust_env=False) as http:
            await http.get("/tasks", headers=dict(began.metadata))

        def calls() -> list[Seen]:
            return [span for span in collector.spans(began.trace_id) if span.kind == "SERVER"]

        await wait_until(lambda: len(calls()) == 2, "both calls", 10)
        outer, inner = sorted(calls(), key=lambda span: span.begun_ns)
        assert (outer.name, inner.name) == (f"{SERVICE}/ListTasks",) * 2
        assert (outer.kind, outer.parent_id, outer.state) == ("SERVER", began.span_id, "a=1")
        assert (inner.kind, inner.parent_id, inner.state) == ("SERVER", outer.span_id, "a=1")
        assert (outer.attributes["rpc.system.name"], inner.attributes["rpc.system.name"]) == ("http_json", "grpc")
        assert outer.replica != inner.replica
    finally:
        await asyncio.to_thread(gateway.close)


@pytest.mark.parametrize("traced", [False, pytest.param(True, marks=pytest.mark.wide)])
async def test_without_a_collector_nothing_of_opentelemetry_is_loaded(traced: bool, collector: Collector) -> None:
    """In a fresh interpreter, with the metrics switched off."""
    env = {"PYTHONPATH": f"{ROOT}", **({"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint} if traced else {})}
    async with replica(agent="tests.telemetry.loaded_agent:agent", env=env) as one_replica:
        async with grpc.aio.insecure_channel(one_replica.grpc_addr) as channel:
            stub: Any = A2AServiceStub(channel)
            task = (await stub.SendMessage(says("tell", "tells"), metadata=begin(90, sampled=False).metadata)).task
        told = task.status.message.parts[0].text
        assert (told == "nothing") is not traced, told


@pytest.mark.parametrize("silent", [False, True])
async def test_a_collector_that_is_away_costs_no_call_and_no_stop(silent: bool) -> None:
    """Nobody listens there, or somebody who never says a word."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        if silent:
            deaf.listen()
        # The drain leaves one second, of which the collector may have half.
        times = {"A2A_DRAIN_GRACE": "1.2", "A2A_DRAIN_TIMEOUT": "2.2"}
        env = {**times, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{deaf.getsockname()[1]}"}
        async with replica(agent=AGENT, env={**env, "OTEL_TRACES_SAMPLER": "always_on"}) as lonely:
            async with grpc.aio.insecure_channel(lonely.grpc_addr) as channel:
                stub: Any = A2AServiceStub(channel)
                for number in range(20):
                    metadata = (("a2a-version", "1.0"),)
                    task = (await stub.SendMessage(says("hi", f"hi {number}"), metadata=metadata)).task
                    assert task.status.state == pb.TASK_STATE_COMPLETED
            lonely.terminate()
            assert await asyncio.to_thread(lonely.wait) == 0, "not ended by A2A_DRAIN_TIMEOUT"
            told = lonely.log(None)
            assert "Traceback" not in told
            assert told.count("opentelemetry") <= 3, told


async def test_the_collector_has_the_metrics_as_well(collector: Collector, stubs: list[Any]) -> None:
    """Those that the SDK counts, and those that add themselves up; nobody else reads them here."""
    await stubs[1].ListTasks(pb.ListTasksRequest(), metadata=begin(95, sampled=False).metadata)

    def calls() -> int:
        counted = 0
        for metric in collector.all_metrics():
            if metric.name == "rpc.server.call.duration":
                for point in metric.histogram.data_points:
                    labels = {pair.key: pair.value.string_value for pair in point.attributes}
                    counted += point.count * (labels["rpc.method"] == f"{SERVICE}/ListTasks")
        return counted

    await wait_until(lambda: calls() > 0, "the calls are counted", 10)
    assert "a2a.turns.active" in {metric.name for metric in collector.all_metrics()}
