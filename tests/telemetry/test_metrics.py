"""What a real service tells of itself over its metrics listener, as Prometheus' own parser reads it."""

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.server.bindings.upstream.channel import COMPONENT
from a2a_grpc.server.compose.metrics import measure, watch_upstream
from a2a_grpc.server.compose.tracing import trace
from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.server.settings import load
from a2a_grpc.server.telemetry import instruments
from a2a_grpc.server.telemetry.tracing import TRACES
from tests.conformance.callers import KEYS, Caller, CallError, Connect, say
from tests.conformance.conftest import API_KEYS
from tests.process.gateway import Gateway
from tests.push.config import QUICK
from tests.support.metrics import measuring, scrape
from tests.support.receiver import Answer, Receiver, receiver
from tests.support.replica import Replica, free_ports
from tests.support.waiting import wait_until

AGENT = "tests.telemetry.agent:agent"
CALLS = "rpc_server_call_duration_seconds"
SYSTEMS = {"GRPC": "grpc", "HTTP+JSON": "http_json", "JSONRPC": "jsonrpc"}
SERVICE = "lf.a2a.v1.A2AService"
LOOSE = {"A2A_LIMIT_CALLER_RATES": "change=0.01:1", "A2A_PUSH_ATTEMPTS": "2"}


@pytest.fixture(scope="module")
def addr() -> str:
    """Where the metrics are."""
    [port] = free_ports(1)
    return f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def service(addr: str) -> Iterator[Replica]:
    env = {**QUICK, **LOOSE, "A2A_API_KEYS": API_KEYS, "A2A_METRICS_ADDR": addr, "A2A_LOG_LEVEL": "debug"}
    replica = Replica(agent=AGENT, redis_url=None, env=env)
    try:
        replica.start()
        yield replica
    finally:
        replica.close()


@pytest.fixture
async def caller(connect: Connect, service: Replica) -> Caller:
    return await connect(service, key=KEYS["alice"])


@pytest.fixture
async def failing() -> AsyncIterator[Receiver]:
    """A receiver of webhooks that never takes anything."""

    async def refuse(_: object) -> Answer:
        return Answer(status=500)

    async with receiver() as made:
        made.behave = refuse
        yield made


async def test_calls_by_binding_operation_and_outcome(caller: Caller, addr: str) -> None:
    before = await scrape(addr)
    task = await caller.task("hi")
    for _ in range(3):
        await caller.get(task.id)
    with pytest.raises(CallError):
        await caller.get("nobody-s")
    await caller.events("hi")
    after = await scrape(addr)

    def more(method: str, code: str, reason: str = "") -> float:
        labels = {
            "rpc_system_name": SYSTEMS[caller.binding],
            "rpc_method": f"{SERVICE}/{method}",
            "rpc_response_status_code": code,
            "error_type": reason,
        }
        name = f"{CALLS}_count"
        if reason:
            return after.of(name, **labels) - before.of(name, **labels)
        del labels["error_type"]
        return after.of(name, **labels) - before.of(name, **labels)

    assert more("SendMessage", "OK") == 1
    assert more("GetTask", "OK") == 3
    assert more("GetTask", "NOT_FOUND", "TASK_NOT_FOUND") == 1
    assert more("SendStreamingMessage", "OK") == 1
    assert after.of(f"{CALLS}_count") - before.of(f"{CALLS}_count") == 6
    # All of them, in buckets that only grow, in a plausible time.
    assert after.of(f"{CALLS}_bucket", le="+Inf") == after.of(f"{CALLS}_count")
    assert 0 < after.of(f"{CALLS}_sum") - before.of(f"{CALLS}_sum") < 30


async def test_names_and_kinds(caller: Caller, addr: str) -> None:
    await caller.task("hi")
    reading = await scrape(addr)
    assert reading.kinds[CALLS] == "histogram"
    assert reading.kinds["a2a_turns_active"] == "gauge"
    [target] = reading.labels("target_info")
    facts = dict(target)
    assert facts["service_name"] == "a2a-grpc"
    assert facts["service_version"]
    assert facts["service_instance_id"]


async def test_what_callers_make_up_is_no_label(connect: Connect, caller: Caller, service: Replica, addr: str) -> None:
    """Otherwise one caller fills the memory of the service, and that of Prometheus."""
    made_up = "made-up-" + caller.binding.lower().replace("+", "")
    async with httpx.AsyncClient(trust_env=False, base_url=service.http_url) as http:
        headers = {"x-api-key": KEYS["alice"], "a2a-version": "1.0"}
        await http.get(f"/{made_up}/tasks", headers=headers)
        await http.get(f"/tasks/{made_up}:{made_up}", headers=headers)
        await http.post("/", headers=headers, json={"jsonrpc": "2.0", "id": made_up, "method": made_up})
    stranger = await connect(service, key=made_up, tenant=made_up)
    for one in (stranger, await connect(service, key=KEYS["alice"], tenant=made_up)):
        with contextlib.suppress(CallError):
            await one.get(made_up)
    async with httpx.AsyncClient(trust_env=False) as http:
        assert made_up not in (await http.get(f"http://{addr}/metrics")).text
    methods = {dict(labels)["rpc_method"] for labels in (await scrape(addr)).labels(f"{CALLS}_count")}
    known = {f"{SERVICE}/{method.name}" for method in pb.DESCRIPTOR.services_by_name["A2AService"].methods}
    assert methods <= known | {"_OTHER"}


async def test_failed_authentication(connect: Connect, service: Replica, addr: str) -> None:
    name = "a2a_authentication_failures_total"
    before = await scrape(addr)
    for key in ("wrong", "wrong", ""):
        with pytest.raises(CallError):
            await (await connect(service, key=key)).get("x")
    after = await scrape(addr)
    for labels, count in (
        ({"a2a_auth_scheme": "apiKey", "error_type": "invalid"}, 2),
        ({"error_type": "missing"}, 1),
    ):
        assert after.of(name, **labels) - before.of(name, **labels) == count, labels
    assert after.of(name) - before.of(name) == 3


async def test_limits_that_are_reached(caller: Caller, addr: str) -> None:
    name = "a2a_limit_refusals_total"
    before = await scrape(addr)
    for _ in range(3):
        with pytest.raises(CallError):
            await caller.cancel("nobody-s")
    after = await scrape(addr)
    labels = {"a2a_limit_of": "caller", "a2a_limit": "rate:change"}
    # The first call of all has the only token.
    assert after.of(name, **labels) - before.of(name, **labels) >= 2
    assert after.of(name) == after.of(name, **labels)


@pytest.mark.parametrize("binding", ["GRPC"])
async def test_turns_dead_letters_and_webhooks(caller: Caller, addr: str, failing: Receiver, binding: str) -> None:
    before = await scrape(addr)
    # A turn that runs.
    waits = await caller.task("wait", return_immediately=True)

    async def active() -> bool:
        return (await scrape(addr)).of("a2a_turns_active") == 1

    await wait_until(active, "one turn runs")
    # One that is given up.
    assert (await caller.task("give up")).status.state == pb.TASK_STATE_FAILED
    # A webhook that takes everything, and one that takes nothing.
    async with receiver() as takes:
        for hook in (takes, failing):
            request = say("hi")
            request.configuration.task_push_notification_config.url = hook.url + "/hook"
            await caller.send(request)
        taken = len(await takes.until_end())
    await failing.until(2)

    async def told() -> bool:
        seen = await scrape(addr)
        return seen.of("a2a_dead_letters_total", a2a_dead_letter_kind="webhook") == 1

    await wait_until(told, "the webhook is given up", 10)
    after = await scrape(addr)
    attempts = "a2a_webhook_attempts_total"
    assert after.of(attempts, a2a_webhook_outcome="delivered") - before.of(attempts) == taken
    assert after.of(attempts, a2a_webhook_outcome="failed") == 2
    for outcome in ("delivered", "failed"):
        answered = after.of("a2a_webhook_duration_seconds_count", a2a_webhook_outcome=outcome)
        assert answered == after.of(attempts, a2a_webhook_outcome=outcome)
    assert after.of("a2a_dead_letters_total", a2a_dead_letter_kind="turn") == 1
    assert waits.id


async def test_a_gateway_by_itself(connect_over: Connect, service: Replica) -> None:
    """It counts the calls that came to it, and those that lead nowhere; of turns and tasks it knows nothing."""
    [port] = free_ports(1)
    gateway = Gateway(service.grpc_addr, {"A2A_METRICS_ADDR": f"127.0.0.1:{port}"})
    try:
        await asyncio.to_thread(gateway.start)
        caller = await connect_over(service, over="GRPC", key=KEYS["alice"])
        headers = {"x-api-key": KEYS["alice"], "a2a-version": "1.0"}
        async with httpx.AsyncClient(trust_env=False, base_url=gateway.http_url, headers=headers) as http:
            task = await caller.task("wait", return_immediately=True)
            async with http.stream("GET", f"/tasks/{task.id}:subscribe") as stream:
                await anext(stream.aiter_lines())
                during = await scrape(f"127.0.0.1:{port}")
                assert during.of("a2a_streams_active", rpc_system_name="http_json") == 1
            assert (await http.get("/tasks/none")).status_code == 404
            assert (await http.get("/nowhere/at/all")).status_code == 404
            assert (await http.get(f"/tasks/{task.id}")).status_code == 200
        name = f"{CALLS}_count"
        seen = await scrape(f"127.0.0.1:{port}")
        assert seen.of(name, rpc_system_name="http_json") == seen.of(name) == 4
        labels = {"rpc_response_status_code": "NOT_FOUND", "error_type": "TASK_NOT_FOUND"}
        assert seen.of(name, rpc_method=f"{SERVICE}/GetTask", **labels) == 1
        assert seen.of(name, rpc_method=f"{SERVICE}/GetTask", rpc_response_status_code="OK") == 1
        assert seen.of(name, rpc_method="_OTHER") == 1
        assert seen.of(name, rpc_method=f"{SERVICE}/SubscribeToTask", rpc_response_status_code="CANCELLED") == 1
        assert seen.of("a2a_streams_active") == 0
        assert seen.of("a2a_upstream_ready") == 1
        assert not seen.labels("a2a_turns_limit") | seen.labels("a2a_tasks") | seen.labels("a2a_queue_depth")
    finally:
        await asyncio.to_thread(gateway.close)


async def test_what_opentelemetry_is_told_not_to_do_is_not_done_by_halves() -> None:
    """OTEL_SDK_DISABLED: else Prometheus would find a page without a single number, and take it for good."""
    [port] = free_ports(1)
    env = {"OTEL_SDK_DISABLED": "true", "A2A_METRICS_ADDR": f"127.0.0.1:{port}"}
    settings = load({**env, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})
    async with contextlib.AsyncExitStack() as stack:
        await measure(settings, stack, "replica")
        trace(settings, stack, "replica")
        assert not instruments.CALLS.wanted
        assert not TRACES.on
        with pytest.raises(httpx.ConnectError):
            await scrape(f"127.0.0.1:{port}")


def test_a_gateway_tells_whether_its_upstream_is_there() -> None:
    with measuring() as meters:
        readiness = Readiness()
        watch_upstream(readiness)
        assert meters.read().labels("a2a_upstream_ready") == set()
        for ready in (False, True, False):
            readiness.set(COMPONENT, ready)
            readiness.set("drain", False)
            assert meters.read().samples["a2a_upstream_ready", frozenset()] == ready


async def test_the_listener_knows_one_page(addr: str) -> None:
    async with httpx.AsyncClient(trust_env=False, base_url=f"http://{addr}") as http:
        page = await http.get("/metrics")
        assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert (await http.get("/")).status_code == 404
        assert (await http.get("/tasks")).status_code == 404
        posted = await http.post("/metrics", content=b"x")
        assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")
        assert not re.search("|".join(KEYS.values()), page.text)


async def test_the_default_port_that_is_taken_is_no_reason_not_to_start() -> None:
    """Two services on one machine, as DEPLOY.md starts them."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # somebody else has it: as good
            stack.enter_context(socket.create_server(("0.0.0.0", 9464)))
        replica = Replica(agent=AGENT, redis_url=None, env={"A2A_METRICS_ADDR": ""})
        stack.callback(replica.close)
        replica.start()
        replica.terminate()
        assert replica.wait() == 0
        said = replica.log()
    assert said.count("WARNING") == 2  # this, and that anybody may call
    assert "no metrics of this process can be read: cannot listen on 0.0.0.0:9464: Address already in use." in said
    assert "Set A2A_METRICS_ADDR to an address of this machine that is free" in said
