"""Callers, agents and registries that mean harm, and what the registry has in common with a service: limits, audit."""

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from a2a_grpc.client import InvalidArgumentError, ResourceExhaustedError, UnauthenticatedError
from a2a_grpc.registry.v1 import registry_pb2 as pb
from a2a_grpc.wire import protojson
from tests.client.peers import Request, http_peer, response
from tests.registry.processes import (
    Agent,
    Registries,
    RegistryProcess,
    card,
    connected,
    key_of,
    registries,
)
from tests.support.metrics import scrape
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wide


@pytest.fixture(scope="module")
def pair() -> Iterator[Registries]:
    with registries(
        A2A_REGISTRY_ALLOW="127.0.0.0/8",
        A2A_REGISTRY_ALLOW_HTTP="true",
        A2A_REGISTRY_CHECK_INTERVAL="0",
    ) as pair:
        yield pair


async def test_a_card_that_cannot_be_shown_is_not_taken(pair: Registries) -> None:
    """A field that this version does not know may be anything; one such entry would spoil all searches."""
    deep: Any = "x"
    for _ in range(90):
        deep = {"a": deep}
    document = json.dumps({**json.loads(protojson.dumps(card("Deep"))), "newer": deep}).encode()

    async def respond(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(body=document))

    async with (
        http_peer(respond) as peer,
        connected(pair.urls[0], "alice") as alice,
        connected(pair.urls[1]) as stranger,
    ):
        kept = await alice.register(card("Good"), public=True)
        with pytest.raises(InvalidArgumentError, match="nests too deep"):
            await alice.register(url=peer.url, public=True)
        for searching in (alice, stranger):
            assert [agent.id async for agent in searching.search()] == [kept.id]
        await alice.withdraw(kept.id)


async def test_who_shows_bad_credentials_too_often_is_not_listened_to() -> None:
    """On any replica and over any binding; what happened is in the audit trail and in the metrics."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        metrics = f"127.0.0.1:{free.getsockname()[1]}"
    env = {"A2A_LIMIT_FAILED_AUTHENTICATION": "0.01:3", "A2A_REGISTRY_CHECK_INTERVAL": "0"}
    with registries(**env) as pair:
        one = RegistryProcess(pair.store.url, {**env, "A2A_METRICS_ADDR": metrics, "A2A_API_KEYS": "alice:" + "0" * 64})
        try:
            one.start()
            for url in (one.http_url, one.grpc_url, one.http_url):
                async with connected(url, "bob") as bob:
                    with pytest.raises(UnauthenticatedError):
                        await bob.find()
            for url in (one.grpc_url, one.http_url):
                async with connected(url, "alice") as alice:
                    with pytest.raises(ResourceExhaustedError) as refused:
                        await alice.find()
                assert refused.value.quotas[0].field == "peer:authentication"
            seen = await scrape(metrics)
            assert seen.of("a2a_limit_refusals_total", a2a_limit_of="peer", a2a_limit="authentication") == 2
            method = "a2a_grpc.registry.v1.RegistryService/SearchAgents"
            codes = ("UNAUTHENTICATED", 3), ("RESOURCE_EXHAUSTED", 2)
            for code, count in codes:
                found = {"rpc_method": method, "rpc_response_status_code": code}
                assert seen.of("rpc_server_call_duration_seconds_count", **found) == count
            log = one.log(None)
            assert (log.count("authentication-failed"), log.count("limit-reached")) == (3, 1)
            assert key_of("bob") not in log and key_of("alice") not in log
        finally:
            one.close()
        store = pair.store.client
        assert [name for name in store.scan_iter() if store.pttl(name) < 0] == []


async def test_who_registers_and_withdraws_is_in_the_audit_trail(pair: Registries) -> None:
    async with connected(pair.urls[0], "alice") as alice:
        made = await alice.register(card(), url="https://audited.example.com")
        await alice.register(card("Again"), url="https://audited.example.com")
        await alice.withdraw(made.id)
    log = pair.replicas[0].log(None)
    records = [line for line in log.splitlines() if made.id in line]
    assert ["agent-registered" in line for line in records] == [True, False]
    assert ["agent-withdrawn" in line for line in records] == [False, True]
    assert all("alice" in line for line in records)


async def test_one_registers_while_others_renew_withdraw_and_search(pair: Registries) -> None:
    """Forty at once on both replicas: no entry is lost, none is left, and nobody has an internal error."""

    async def live(at: int) -> None:
        async with connected(pair.urls[at % 2], "alice") as one, connected(pair.urls[1 - at % 2], "alice") as other:
            url = f"https://{at % 10}.race.example.com"
            made = await one.register(card(), url=url, instance=f"i{at}")
            await asyncio.gather(
                one.renew(made.id, instance=f"i{at}"), other.renew(made.id, instance=f"i{at}"), other.get(made.id)
            )
            assert made.id in [agent.id async for agent in other.search(mine=True)]
            await one.withdraw(made.id, instance=f"i{at}")

    await asyncio.gather(*(live(at) for at in range(40)))
    async with connected(pair.urls[0], "alice") as alice:
        assert [agent.url async for agent in alice.search(mine=True)] == []
    left = [name for name in pair.store.client.scan_iter("a2a:{agents}:*") if b"mark" not in name]
    assert left == []


@pytest.mark.parametrize(
    "answer", ["endless", "rubbish", "bomb", "redirect", pytest.param("silence", marks=pytest.mark.slow)]
)
async def test_a_registry_that_answers_anything_else_does_not_harm_the_service(answer: str) -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        match answer:
            case "endless":
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    writer.write(b"x" * 65536)
                    await writer.drain()
            case "rubbish":
                writer.write(response(body=b"<html>"))
            case "bomb":
                writer.write(response(body=b"\x1f\x8b", headers={"content-encoding": "gzip, gzip"}))
            case "redirect":
                writer.write(response(307, headers={"location": "http://127.0.0.1:1/"}))
            case _:
                await asyncio.Event().wait()

    async with http_peer(respond) as peer:
        one = Agent(peer.url, {"A2A_REGISTER_HEADER": f"X-API-Key: {key_of('alice')}"})
        try:
            await asyncio.to_thread(one.start)
            await wait_until(lambda: "cannot be registered with" in one.log(None), "it says so", 15)
            async with httpx.AsyncClient(trust_env=False) as client:
                assert (await client.get(f"{one.http_url}/healthz")).status_code == 200
            one.terminate()
            assert await asyncio.to_thread(one.wait) == 0
        finally:
            one.close()
        log = one.log(None)
        assert "Traceback" not in log and key_of("alice") not in log
        assert all(request.headers["x-api-key"] == key_of("alice") for request in peer.requests)


async def test_what_is_being_registered_when_the_service_stops_is_withdrawn() -> None:
    begun, withdrawn = asyncio.Event(), asyncio.Event()

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.verb == "DELETE":
            assert request.target.startswith("/v1/agents/the-id")
            withdrawn.set()
            writer.write(response(body=b"{}"))
            return
        begun.set()
        await asyncio.sleep(0.7)
        made = pb.RegisterAgentResponse(agent=pb.Agent(id="the-id", lease=pb.Lease(ttl_seconds=60)))
        writer.write(response(body=protojson.dumps(made)))

    async with http_peer(respond) as peer:
        one = Agent(peer.url, {})
        try:
            await asyncio.to_thread(one.start)
            await asyncio.wait_for(begun.wait(), 10)
            one.terminate()
            assert await asyncio.to_thread(one.wait) == 0
        finally:
            one.close()
    assert withdrawn.is_set()
