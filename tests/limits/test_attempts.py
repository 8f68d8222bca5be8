"""Bad credentials are listened to a number of times; then nobody of that address is, for a while."""

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path

import grpc.aio
import httpx
import pytest

from a2a_grpc.card.v1 import card_pb2, card_pb2_grpc
from a2a_grpc.server.auth.refusals import NotAdmittedError
from a2a_grpc.server.hosting import attempts as module
from a2a_grpc.server.hosting.attempts import Attempts
from a2a_grpc.server.store.quotas import Quotas
from a2a_grpc.server.store.stock import Rate
from a2a_grpc.wire.errors import QuotaExceededError
from tests.conformance.callers import BINDINGS, KEYS, CallError, Connect, refused
from tests.conformance.conftest import API_KEYS
from tests.conformance.expected import Row
from tests.limits.test_service import RESOURCE_EXHAUSTED, is_told_when
from tests.support.metrics import scrape
from tests.support.replica import Pair, Replica, free_ports, pair
from tests.support.servers import StoreServer
from tests.support.tasks import open_store
from tests.support.waiting import wait_until

AGENT = "tests.limits.agent:agent"
UNAUTHENTICATED = Row("UNAUTHENTICATED", "UNAUTHENTICATED", 401, -32010)
LIMIT = {"A2A_API_KEYS": API_KEYS, "A2A_LIMIT_FAILED_AUTHENTICATION": "0.01:3", "A2A_CARD_ACCESS": "authenticated"}


@pytest.fixture
def service() -> Iterator[Pair]:
    with pair(AGENT, LIMIT) as two:
        yield two


async def test_who_fails_too_often_is_not_listened_to(connect_over: Connect, service: Pair) -> None:
    """All bindings and all replicas count together, since all these callers are 127.0.0.1."""
    first, second = service.replicas
    for binding in BINDINGS:
        nobody = await connect_over(first, over=binding)
        for _ in range(2):  # to ask what is wanted is no attempt
            await refused(UNAUTHENTICATED, nobody.page())
    for binding in BINDINGS:
        wrong = await connect_over(first, over=binding, key="wrong")
        await refused(UNAUTHENTICATED, wrong.page())
    for binding in BINDINGS:
        for key in ("wrong", KEYS["alice"], ""):
            caller = await connect_over(first, over=binding, key=key)
            is_told_when(await refused(RESOURCE_EXHAUSTED, caller.page()), "peer:authentication", 80, 100)
    await _cards_are_refused(first)
    # The other replica hears of it with the next failure there.
    good, wrong = [await connect_over(second, over="GRPC", key=key) for key in (KEYS["alice"], "wrong")]
    await good.page()
    await refused(UNAUTHENTICATED, wrong.page())
    await wait_until(lambda: _refuses(good), "the other replica knows")
    is_told_when(await refused(RESOURCE_EXHAUSTED, good.page()), "peer:authentication", 80, 200)


async def _cards_are_refused(replica: Replica) -> None:
    async with httpx.AsyncClient(trust_env=False, base_url=replica.http_url) as http:
        response = await http.get("/.well-known/agent-card.json", headers={"x-api-key": KEYS["alice"]})
    assert response.status_code == 429
    assert 80 <= int(response.headers["retry-after"]) <= 100
    async with grpc.aio.insecure_channel(replica.grpc_addr) as channel:
        stub = card_pb2_grpc.AgentCardServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await stub.GetAgentCard(card_pb2.GetAgentCardRequest(), metadata=(("x-api-key", KEYS["alice"]),))
    assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_bad_keys_at_a_card_that_is_not_public_count(service: Pair) -> None:
    """Else they could be tried there."""
    replica = service.replicas[0]
    path, wrong = "/.well-known/agent-card.json", {"x-api-key": "wrong"}
    async with httpx.AsyncClient(base_url=replica.http_url, trust_env=False) as http:
        for _ in range(5):  # to ask what is wanted is no attempt
            assert (await http.get(path)).status_code == 401
        for _ in range(2):
            assert (await http.get(path, headers=wrong)).status_code == 401
        async with grpc.aio.insecure_channel(replica.grpc_addr) as channel:
            stub = card_pb2_grpc.AgentCardServiceStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.GetAgentCard(card_pb2.GetAgentCardRequest(), metadata=tuple(wrong.items()))
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        for key in ("wrong", KEYS["alice"]):
            answer = await http.get(path, headers={"x-api-key": key})
            assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (429, True)


async def _refuses(caller: object) -> bool:
    try:
        await caller.page()  # type: ignore[attr-defined]
    except CallError as error:
        return error.is_of(RESOURCE_EXHAUSTED)
    return False


async def test_the_time_is_up_and_the_store_may_be_away(connect_over: Connect, one_store_server: StoreServer) -> None:
    """Without the store each replica counts by itself, and nobody waits for it."""
    [port] = free_ports(1)
    env = {**LIMIT, "A2A_LIMIT_FAILED_AUTHENTICATION": "1:2", "A2A_METRICS_ADDR": f"127.0.0.1:{port}"}
    replica = Replica(agent=AGENT, redis_url=one_store_server.url, env=env)
    try:
        replica.start()
        good, wrong = [await connect_over(replica, over="GRPC", key=key) for key in (KEYS["alice"], "wrong")]
        one_store_server.kill()
        began = asyncio.get_running_loop().time()
        for _ in range(2):
            await refused(UNAUTHENTICATED, wrong.answer("GetExtendedAgentCard"))
        failure = await refused(RESOURCE_EXHAUSTED, good.answer("GetExtendedAgentCard"))
        assert asyncio.get_running_loop().time() - began < 2, "the time of one call to the store"
        assert failure.retry_after is not None
        assert 0 < failure.retry_after <= 1
        await asyncio.sleep(failure.retry_after)
        await good.answer("GetExtendedAgentCard")

        async def uncounted() -> bool:
            return (await scrape(f"127.0.0.1:{port}")).of("a2a_limit_unchecked_total") == 2

        await wait_until(uncounted, "what the store did not hear is counted")
        seen = await scrape(f"127.0.0.1:{port}")
        assert seen.of("a2a_limit_refusals_total", a2a_limit_of="peer", a2a_limit="authentication") == 1
    finally:
        replica.close()
        one_store_server.revive()


async def test_of_many_addresses_the_store_remembers_those_that_are_forgotten_here(
    one_store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has many addresses fills no memory of ours, and gets no second chance from the first one."""
    monkeypatch.setattr(module, "_REMEMBERED", 10)
    bad = NotAdmittedError("no", scheme="apiKey")
    async with open_store(one_store_server.url) as store:
        attempts = Attempts(Quotas(store), Rate(0.01, 2))
        for number in range(20):
            for _ in range(2):
                attempts.failed(f"192.0.2.{number}:1", bad)
        assert len(attempts._left) == 10
        with pytest.raises(QuotaExceededError):
            attempts.check("192.0.2.19:2")
        await wait_until(lambda: not attempts._telling, "the store knows all")
        attempts.check("192.0.2.0:1")
        attempts.failed("192.0.2.0:1", bad)
        await wait_until(lambda: not attempts._telling, "the store has answered")
        with pytest.raises(QuotaExceededError):
            attempts.check("192.0.2.0:1")
        client = one_store_server.client
        assert all(0 < client.pttl(name) <= 260_000 for name in client.keys("*:rate:*"))


async def test_bad_credentials_of_any_tenants_kind_count(one_store_server: StoreServer, tmp_path: Path) -> None:
    """Where the tenant would stand in a body that is not read yet."""
    digest = hashlib.sha256(b"right").hexdigest()
    entry = f"{{{{agent: {AGENT}, auth: {{{{api_keys: {{{{keys: {{{{alice: {digest}}}}}, name: {{name}}}}}}}}}}}}}}"
    path = tmp_path / "agents.yaml"
    path.write_text(f"agents:\n  one: {entry.format(name='x-one')}\n  two: {entry.format(name='x-two')}\n")
    env = {"A2A_LIMIT_FAILED_AUTHENTICATION": "0.01:2"}
    replica = Replica(agent=str(path), redis_url=one_store_server.url, env=env)
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"tenant": "two"}}
    try:
        replica.start()
        async with httpx.AsyncClient(
            trust_env=False, base_url=replica.http_url, headers={"a2a-version": "1.0"}
        ) as http:
            answers = [await http.post("/", json=body, headers={"x-two": key}) for key in ("right", *["wrong"] * 3)]
        assert [answer.status_code for answer in answers] == [200, 401, 401, 429]
    finally:
        replica.close()
