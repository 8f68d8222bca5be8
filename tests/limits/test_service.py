"""Limits as callers meet them: the same on every binding and every replica."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path

import httpx
import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import KEYS, VERSION, Caller, CallError, Connect, refused, say
from tests.conformance.conftest import API_KEYS
from tests.conformance.expected import PAYLOAD_TOO_LARGE, Row
from tests.support.replica import Pair, Replica, pair
from tests.support.servers import StoreServer
from tests.support.waiting import wait_until

AGENT = "tests.limits.agent:agent"
RESOURCE_EXHAUSTED = Row("RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", 429, -32016)

FILE = f"""
agents:
  # Each limit has a tenant of its own, so that no test has to wait for another's tokens.
  rates: {{agent: {AGENT}, limits: {{caller: {{rates: {{send: {{rate: 0.01, burst: 4}}}}}}}}}}
  together: {{agent: {AGENT}, limits: {{tenant: {{rates: {{read: {{rate: 0.01, burst: 4}}}}}}}}}}
  streams: {{agent: {AGENT}, limits: {{caller: {{streams: 2}}, tenant: {{streams: 3}}}}}}
  calls: {{agent: {AGENT}, limits: {{caller: {{calls: 1}}}}}}
  turns: {{agent: {AGENT}, limits: {{caller: {{tasks: 2}}}}}}
  free: {{agent: {AGENT}}}
  strangers: {{agent: {AGENT}, auth: anonymous, limits: {{caller: {{rates: {{read: {{rate: 0.01, burst: 2}}}}}}}}}}
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    path = tmp_path_factory.mktemp("limits") / "agents.yaml"
    path.write_text(FILE)
    with pair(str(path), {"A2A_API_KEYS": API_KEYS}) as two:
        yield two


@pytest.fixture(autouse=True)
def fresh(service: Pair) -> None:
    """Every binding begins with full buckets."""
    client = service.store.client
    if names := client.keys("*:rate:*") + client.keys("*:places:*"):
        client.delete(*names)


async def both(connect: Connect, service: Pair, tenant: str, who: str = "alice") -> tuple[Caller, Caller]:
    """A caller, on either replica."""
    one, two = [await connect(replica, tenant=tenant, key=KEYS[who]) for replica in service.replicas]
    return one, two


def is_told_when(failure: CallError, subject: str, low: float, high: float) -> None:
    """A refusal says what was reached and when to come again, in the ways of its binding."""
    assert list(failure.quotas) == [subject]
    assert failure.quotas[subject].startswith("The limit is ")
    assert failure.retry_after is not None
    assert low <= failure.retry_after <= high
    if failure.binding != "GRPC":
        assert failure.http == 429
        assert failure.retry_after <= int(failure.parameters["retry-after"]) <= failure.retry_after + 1


async def test_two_replicas_share_the_rate_of_a_caller(connect: Connect, service: Pair) -> None:
    one, two = await both(connect, service, "rates")
    for caller in (one, two, one, two):
        await caller.task("hi")
    for caller in (one, two):
        is_told_when(await refused(RESOURCE_EXHAUSTED, caller.send(say("hi"))), "caller:rate:send", 80, 100)
        with pytest.raises(CallError) as streaming:
            await caller.events("hi")
        assert streaming.value.is_of(RESOURCE_EXHAUSTED)
    # Others, and other operations, go on.
    assert (await one.page()).total_size >= 4
    bob, _ = await both(connect, service, "rates", "bob")
    await bob.task("hi")


async def test_callers_of_a_tenant_share_its_rate(connect: Connect, service: Pair) -> None:
    alice, _ = await both(connect, service, "together")
    _, bob = await both(connect, service, "together", "bob")
    for caller in (alice, bob, alice, bob):
        await caller.page()
    for caller in (alice, bob):
        failure = await refused(RESOURCE_EXHAUSTED, caller.page())
        is_told_when(failure, "tenant:rate:read", 80, 100)
        assert failure.message.startswith("All callers together")
    elsewhere, _ = await both(connect, service, "free")
    for _ in range(10):
        await elsewhere.page()


async def test_strangers_are_told_apart_by_their_address(connect: Connect, service: Pair) -> None:
    one, two = [await connect(replica, tenant="strangers") for replica in service.replicas]
    await one.page()
    await two.page()
    is_told_when(await refused(RESOURCE_EXHAUSTED, one.page()), "caller:rate:read", 80, 100)


async def test_what_is_said_to_be_forwarded_is_not_believed(connect: Connect, service: Pair) -> None:
    """Anybody can say so; whoever does would be as many callers as it likes."""
    names = ("x-forwarded-for", "forwarded", "x-real-ip", "true-client-ip", "cf-connecting-ip")
    for number, replica in enumerate((*service.replicas, service.replicas[0])):
        said = {name: f"for=198.51.100.{number}" if name == "forwarded" else f"198.51.100.{number}" for name in names}
        caller = await connect(replica, tenant="strangers", parameters={**VERSION, **said})
        if number < 2:
            await caller.page()
        else:
            is_told_when(await refused(RESOURCE_EXHAUSTED, caller.page()), "caller:rate:read", 80, 100)


async def test_a_burst_over_both_replicas(connect: Connect, service: Pair) -> None:
    """Of all that come at once as many get in as there are tokens, and others are not held up."""
    one, two = await both(connect, service, "rates")
    bob, _ = await both(connect, service, "rates", "bob")
    outcomes = await asyncio.gather(
        *((one, two)[number % 2].send(say("hi")) for number in range(60)),
        *(bob.send(say("hi")) for _ in range(4)),
        return_exceptions=True,
    )
    assert [isinstance(outcome, CallError) for outcome in outcomes[:60]].count(False) == 4
    assert not [outcome for outcome in outcomes[60:] if isinstance(outcome, BaseException)]


@pytest.mark.parametrize("binding", ["HTTP+JSON"])
async def test_429_on_the_wire(connect: Connect, service: Pair, binding: str) -> None:
    """What the two HTTP bindings send, member by member (11.6, 9.5; AIP-193; RFC 6585)."""
    alice, _ = await both(connect, service, "rates")
    for _ in range(4):
        await alice.task("hi")
    headers = {**VERSION, "x-api-key": KEYS["alice"]}
    params = {"message": {"messageId": "refused", "role": "ROLE_USER", "parts": [{"text": "hi"}]}}
    envelope = {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": params}
    tasks = sorted(service.store.client.keys("*:task:*"))
    async with httpx.AsyncClient(trust_env=False, base_url=service.replicas[0].http_url, headers=headers) as http:
        rest = await http.post("/rates/message:send", json=params)
        rpc = await http.post("/rates/", json=envelope)
    for response in (rest, rpc):
        assert response.status_code == 429
        assert 80 <= int(response.headers["retry-after"]) <= 100
    error = rest.json()["error"]
    assert list(rest.json()) == ["error"]
    assert (error["code"], error["status"]) == (429, "RESOURCE_EXHAUSTED")
    assert {key: rpc.json()[key] for key in ("jsonrpc", "id")} == {"jsonrpc": "2.0", "id": 7}
    assert rpc.json()["error"]["code"] == -32016
    text = "You have reached the limit of 0.01 calls a second, 4 at once (rate:send). Try again later."
    for failure, key in ((error, "details"), (rpc.json()["error"], "data")):
        assert failure["message"] == text
        by_type = {detail["@type"].rpartition("/")[2]: detail for detail in failure[key]}
        assert set(by_type) == {"google.rpc.ErrorInfo", "google.rpc.RetryInfo", "google.rpc.QuotaFailure"}
        assert by_type["google.rpc.ErrorInfo"]["reason"] == "RESOURCE_EXHAUSTED"
        assert by_type["google.rpc.QuotaFailure"]["violations"] == [
            {"subject": "caller:rate:send", "description": "The limit is 0.01 calls a second, 4 at once."}
        ]
        assert 80 <= float(by_type["google.rpc.RetryInfo"]["retryDelay"].removesuffix("s")) <= 100
    # Nothing of it is kept, so that the same message makes a task once there is a token.
    client = service.store.client
    assert sorted(client.keys("*:task:*")) == tasks
    client.delete(*client.keys("*:rate:*"))
    async with httpx.AsyncClient(trust_env=False, base_url=service.replicas[1].http_url, headers=headers) as http:
        assert (await http.post("/rates/message:send", json=params)).status_code == 200
    assert len(client.keys("*:task:*")) == len(tasks) + 1


@contextlib.asynccontextmanager
async def open_stream(caller: Caller) -> AsyncIterator[str]:
    async with caller.stream("SendStreamingMessage", say("wait")) as stream:
        async for event in stream:
            yield event.task.id
            return


async def test_open_streams_are_counted_over_replicas(connect: Connect, service: Pair) -> None:
    one, two = await both(connect, service, "streams")
    bob, _ = await both(connect, service, "streams", "bob")
    async with open_stream(one) as task_id, open_stream(two):
        with pytest.raises(CallError) as refusal:
            await two.events("hi")
        assert refusal.value.is_of(RESOURCE_EXHAUSTED)
        is_told_when(refusal.value, "caller:streams", 1, 1)
        with pytest.raises(CallError) as subscribing:
            async with one.subscribe(task_id):
                pass
        assert subscribing.value.is_of(RESOURCE_EXHAUSTED)
        # Unary calls go on; Bob has one place left of the tenant's three.
        assert (await one.get(task_id)).id == task_id
        async with open_stream(bob):
            with pytest.raises(CallError) as together:
                await bob.events("hi")
            is_told_when(together.value, "tenant:streams", 1, 1)

    async def free() -> bool:
        with contextlib.suppress(CallError):
            return bool(await one.events("hi"))
        return False

    await wait_until(free, "the places are given back")


@pytest.mark.parametrize("binding", ["HTTP+JSON"])
async def test_a_stream_that_is_cut_gives_its_place_back(connect: Connect, service: Pair, binding: str) -> None:
    """A reader whose connection is reset follows on at the other replica, although it may have two streams alone."""
    one, two = await both(connect, service, "streams")
    address = service.replicas[0].http_url.removeprefix("http://").split(":")
    async with open_stream(one) as task_id:
        path = f"/streams/tasks/{task_id}:subscribe"
        reader, writer = await asyncio.open_connection(address[0], int(address[1]))
        head = f"GET {path} HTTP/1.1\r\nhost: x\r\na2a-version: 1.0\r\nx-api-key: {KEYS['alice']}\r\n\r\n"
        writer.write(head.encode())
        assert b" 200 " in await reader.readline()
        with pytest.raises(CallError):
            await two.events("hi")
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

        async def follows() -> bool:
            with contextlib.suppress(CallError):
                async with two.subscribe(task_id):
                    return True
            return False

        await wait_until(follows, "the place is free", 3)


async def test_calls_in_progress_are_counted_over_replicas(connect: Connect, service: Pair) -> None:
    one, two = await both(connect, service, "calls")
    task = await one.task("ask")
    client = service.store.client
    # An answer does not wait until the place is given back.
    await wait_until(lambda: not client.keys("*:places:*"), "the place of the first call is free")
    # A blocking call that lasts; its place is seen in the store before the next call is made.
    async with contextlib.AsyncExitStack() as stack:
        waiting = await stack.enter_async_context(_running(one.send(say("wait", task_id=task.id))))
        await wait_until(lambda: client.keys("*:places:*"), "the call has its place")
        is_told_when(await refused(RESOURCE_EXHAUSTED, two.get(task.id)), "caller:calls", 1, 1)
        waiting.cancel()

    async def free() -> bool:
        with contextlib.suppress(CallError):
            return (await two.get(task.id)).id == task.id
        return False

    await wait_until(free, "who hangs up gives the place back")


@contextlib.asynccontextmanager
async def _running(work: Awaitable[object]) -> AsyncIterator[asyncio.Future[object]]:
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_unfinished_tasks_are_counted(connect: Connect, service: Pair) -> None:
    one, two = await both(connect, service, "turns")
    parked = await one.task("ask")
    first, second = [await caller.task("wait", return_immediately=True) for caller in (one, two)]
    for caller in (one, two):
        is_told_when(await refused(RESOURCE_EXHAUSTED, caller.send(say("hi"))), "caller:tasks", 1, 1)
    # A task that waits for its caller counts nothing, and a message to it begins no new one.
    await two.send(say("hi", task_id=parked.id))
    await one.cancel(first.id)
    await two.task("hi")
    await one.cancel(second.id)


async def test_refused_calls_do_nothing(connect: Connect, service: Pair) -> None:
    one, _ = await both(connect, service, "rates")
    for _ in range(4):
        await one.task("hi")
    before = (await one.page()).total_size
    request = say("hi")
    for _ in range(3):
        await refused(RESOURCE_EXHAUSTED, one.send(request))
    assert (await one.page()).total_size == before


async def test_who_is_not_let_in_uses_up_nothing(connect: Connect, service: Pair) -> None:
    """Otherwise anybody could lock out a tenant."""
    stranger = await connect(service.replicas[0], tenant="together", key="wrong")
    for _ in range(10):
        with pytest.raises(CallError):
            await stranger.page()
    alice, _ = await both(connect, service, "together")
    for _ in range(4):
        await alice.page()


async def test_without_limits_nothing_is_written(connect: Connect, service: Pair) -> None:
    one, two = await both(connect, service, "free")
    for caller in (one, two):
        await caller.task("hi")
        await caller.events("hi")
        await caller.page()
    assert service.store.client.keys("*:rate:*") + service.store.client.keys("*:places:*") == []


async def test_the_settings_are_the_limits_of_an_agent_alone(connect: Connect, one_store_server: StoreServer) -> None:
    """The tenants that callers may name then share the limits: a new name is no way around them."""
    env = {
        "A2A_LIMIT_CALLER_RATES": "read=0.01:2",
        "A2A_MAX_MESSAGE_BYTES": "2048",
    }
    replica = Replica(agent=AGENT, redis_url=one_store_server.url, env=env)
    try:
        replica.start()
        for tenant in ("", "one"):
            await (await connect(replica, tenant=tenant)).page()
        caller = await connect(replica, tenant="two")
        is_told_when(await refused(RESOURCE_EXHAUSTED, caller.page()), "caller:rate:read", 80, 100)
        await refused(PAYLOAD_TOO_LARGE, caller.send(say("x" * 4000)))
    finally:
        replica.close()


@pytest.mark.slow
@pytest.mark.parametrize("binding", ["GRPC"])
async def test_places_of_a_killed_replica_come_back(connect: Connect, service: Pair, binding: str) -> None:
    """Within the lease of 15 s."""
    first, second = service.replicas
    one, two = await both(connect, service, "streams")
    with contextlib.suppress(CallError):
        async with open_stream(one), open_stream(one):
            with pytest.raises(CallError):
                await two.events("hi")
            first.kill()

    async def free() -> bool:
        with contextlib.suppress(CallError):
            return bool(await two.events("hi"))
        return False

    await wait_until(free, "the places are free", 20)
    service.repair()
    assert second.alive


@pytest.mark.parametrize("binding", ["GRPC", "HTTP+JSON"])
async def test_while_the_store_is_away_nobody_is_refused_for_a_limit(
    connect: Connect, one_store_server: StoreServer, tmp_path: Path, binding: str
) -> None:
    """What a call wants of the store is another matter; the extended card wants nothing."""
    path = tmp_path / "agents.yaml"
    path.write_text(
        f"agents: {{x: {{agent: {AGENT}, limits: {{caller: {{rates: {{read: {{rate: 0.01, burst: 1}}}}}}}}}}}}"
    )
    env = {"A2A_API_KEYS": API_KEYS, "A2A_STORE_TIMEOUT": "0.5"}
    replica = Replica(agent=str(path), redis_url=one_store_server.url, env=env)
    try:
        replica.start()
        caller = await connect(replica, tenant="x", key=KEYS["alice"])
        await caller.answer("GetExtendedAgentCard")
        await refused(RESOURCE_EXHAUSTED, caller.answer("GetExtendedAgentCard"))
        one_store_server.kill()
        for _ in range(3):
            assert isinstance((await caller.answer("GetExtendedAgentCard")).message, pb.AgentCard)
        assert "calls are let in without being counted" in replica.log()
        one_store_server.revive()
        await wait_until(lambda: _refused(caller), "calls are counted again", 10)
    finally:
        replica.close()
        one_store_server.revive()


async def _refused(caller: Caller) -> bool:
    try:
        await caller.answer("GetExtendedAgentCard")
    except CallError as error:
        return error.is_of(RESOURCE_EXHAUSTED)
    return False
