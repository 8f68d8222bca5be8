"""Registering, renewing and withdrawing, on two replicas and over both bindings; who may, and who sees what."""

import asyncio
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc.aio
import httpx
import pytest
from google.protobuf.struct_pb2 import Struct
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from a2a_grpc.client import (
    ApiKey,
    CredentialsError,
    InvalidArgumentError,
    PayloadTooLargeError,
    Registry,
    ResourceExhaustedError,
    RouteNotFoundError,
    UnauthenticatedError,
    UnavailableError,
)
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.registry.v1 import registry_pb2 as pb
from a2a_grpc.registry.v1.registry_pb2_grpc import RegistryServiceStub
from a2a_grpc.wire import protojson
from tests.registry.processes import Registries, card, connected, headers_of, registries
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wide

MOST = 4
"""Agents that one owner may have."""


DEEP: Any = []
for _ in range(40):
    DEEP = [DEEP]


@pytest.fixture(scope="module")
def pair() -> Iterator[Registries]:
    with registries(
        A2A_REGISTRY_MAX_PER_OWNER=str(MOST),
        A2A_REGISTRY_MAX_CARD_BYTES="2048",
        A2A_REGISTRY_LEASE_TTL="60",
        A2A_REGISTRY_CHECK_INTERVAL="0",
    ) as pair:
        yield pair


@pytest.fixture(autouse=True)
def empty(pair: Registries) -> None:
    pair.store.client.flushall()


async def post(pair: Registries, path: str, body: object, caller: str = "alice") -> httpx.Response:
    """A call as curl would make it."""
    async with httpx.AsyncClient(trust_env=False) as client:
        return await client.post(f"{pair.urls[0]}{path}", json=body, headers=headers_of(caller))


def as_json(message: a2a_pb2.AgentCard) -> Any:
    return protojson.to_dict(message)


async def test_what_one_replica_takes_over_http_the_other_gives_over_grpc(pair: Registries) -> None:
    over_http, over_grpc = pair.urls
    async with connected(over_http, "alice") as one, connected(over_grpc, "alice") as other:
        begun = datetime.now(UTC)
        made = await one.register(card(), url="https://agent.example.com/a/", ttl=20)

        assert made.card == card()
        assert made.url == "https://agent.example.com/a/"
        assert (made.detail, made.health, made.signature) == ("owner", "unknown", "unsigned")
        assert made.expires is not None
        assert timedelta(seconds=15) < made.expires - begun < timedelta(seconds=25)
        assert await other.get(made.id) == made
        assert [agent async for agent in other.search()] == [made]

        renewed = await other.renew(made.id, ttl=40)
        assert timedelta(seconds=35) < renewed - begun < timedelta(seconds=45)
        assert (await one.get(made.id)).expires == renewed

        assert await other.withdraw(made.id)
        with pytest.raises(RouteNotFoundError):
            await one.get(made.id)
        assert await one.withdraw(made.id), "one that is gone already is no error"


async def test_a_repeated_call_makes_no_second_entry_and_a_new_card_replaces_the_old_one(pair: Registries) -> None:
    async with connected(pair.urls[0], "alice") as one, connected(pair.urls[1], "alice") as other:
        first = await one.register(card(), url="https://agent.example.com")
        again = await asyncio.gather(
            *(registry.register(card(), url="https://AGENT.example.com:443/") for registry in (one, other) * 5)
        )
        assert {agent.id for agent in again} == {first.id}

        await other.register(card("Renamed"), url="https://agent.example.com")
        assert [agent.card.name async for agent in one.search()] == ["Renamed"]

        elsewhere = await one.register(card(), url="https://agent.example.com/other")
        assert elsewhere.id != first.id


async def test_the_same_url_of_another_owner_is_another_entry(pair: Registries) -> None:
    async with connected(pair.urls[0], "alice") as alice, connected(pair.urls[1], "bob") as bob:
        hers = await alice.register(card("Hers"), url="https://agent.example.com")
        his = await bob.register(card("His"), url="https://agent.example.com")

        assert hers.id != his.id
        assert [agent.card.name async for agent in alice.search(mine=True)] == ["Hers"]
        assert [agent.card.name async for agent in alice.search()] == ["His", "Hers"]


async def test_nobody_touches_the_entry_of_somebody_else(pair: Registries) -> None:
    async with connected(pair.urls[0], "alice") as alice, connected(pair.urls[1], "bob") as bob:
        hers = await alice.register(card())

        with pytest.raises(RouteNotFoundError):
            await bob.renew(hers.id, ttl=1)
        with pytest.raises(RouteNotFoundError):
            await bob.withdraw(hers.id)
        with pytest.raises(RouteNotFoundError):
            await bob.renew("0" * 32)
        assert (await alice.get(hers.id)).expires == hers.expires


@pytest.mark.parametrize("url", [0, 1], ids=["HTTP", "gRPC"])
async def test_strangers_neither_register_nor_renew_nor_withdraw(pair: Registries, url: int) -> None:
    async with connected(pair.urls[0], "alice") as alice, connected(pair.urls[url]) as stranger:
        hers = await alice.register(card(), public=True)

        for call in (stranger.register(card()), stranger.renew(hers.id), stranger.withdraw(hers.id)):
            with pytest.raises(UnauthenticatedError, match="credentials"):
                await call
        assert (await stranger.get(hers.id)).id == hers.id


async def test_bad_credentials_are_worse_than_none(pair: Registries) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"{pair.urls[0]}/v1/agents", headers={"x-api-key": "wrong"})

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'ApiKey header="x-api-key"'


async def test_each_caller_sees_what_is_for_him(pair: Registries) -> None:
    full = card(
        provider={"organization": "Example", "url": "https://example.com"},
        securitySchemes={"key": {"apiKeySecurityScheme": {"location": "header", "name": "x-key"}}},
        securityRequirements=[{"schemes": {"key": {"list": []}}}],
        documentationUrl="https://example.com/docs",
    )
    async with (
        connected(pair.urls[0], "alice") as alice,
        connected(pair.urls[1], "bob") as bob,
        connected(pair.urls[1]) as stranger,
    ):
        open_ = await alice.register(full, url="https://agent.example.com/open", public=True)
        closed = await alice.register(full, url="https://agent.example.com/closed")

        for mine in (open_, closed):
            his = await bob.get(mine.id)
            assert his.detail == "full"
            assert his.card == full
            assert his.url == mine.url
            assert his.expires is None
        seen = await stranger.get(open_.id)
        assert (seen.detail, seen.url, seen.expires) == ("public", "", None)
        assert json.loads(seen.document) == {
            name: as_json(full)[name]
            for name in (
                "name", "description", "version", "supportedInterfaces", "capabilities", "defaultInputModes",
                "defaultOutputModes", "skills", "securitySchemes", "securityRequirements",
            )
        }  # fmt: skip
        with pytest.raises(RouteNotFoundError):
            await stranger.get(closed.id)
        assert [agent.id async for agent in stranger.search()] == [open_.id]


async def test_the_owner_alone_sees_lease_and_history(pair: Registries) -> None:
    made = (await post(pair, "/v1/agents", {"card": as_json(card()), "public": True})).json()["agent"]

    def path(caller: str) -> Any:
        answer = httpx.get(f"{pair.urls[0]}/v1/agents/{made['id']}", headers=headers_of(caller), trust_env=False)
        return answer.json()["agent"]

    hers, his, others = [await asyncio.to_thread(path, caller) for caller in ("alice", "bob", "")]
    assert hers["lease"]["ttlSeconds"] == 60
    assert {"lease", "history"} & his.keys() == set()
    assert his.keys() - others.keys() == {"url"}


async def test_an_entry_ends_with_its_lease(pair: Registries) -> None:
    async with connected(pair.urls[0], "alice") as one, connected(pair.urls[1], "alice") as other:
        short = await one.register(card(), url="https://short.example.com", ttl=1)
        kept = await one.register(card(), url="https://kept.example.com", ttl=30)

        async def found() -> list[str]:
            return [agent.id async for agent in other.search()]

        assert await found() == [kept.id, short.id]

        async def only_one_left() -> bool:
            return await found() == [kept.id]

        await wait_until(only_one_left, "the short lease ends")
        with pytest.raises(RouteNotFoundError):
            await other.renew(short.id)
        again = await other.register(card(), url="https://short.example.com", ttl=30)
        assert again.id == short.id
        assert await found() == [again.id, kept.id], "an entry that was lost is a new one"


async def test_a_lease_is_no_longer_than_the_registry_grants(pair: Registries) -> None:
    async with connected(pair.urls[1], "alice") as alice:
        made = await alice.register(card(), ttl=0)
        for ttl in (0, 3600):
            made = await alice.register(card(), ttl=ttl)
            assert made.expires is not None
            assert made.expires - datetime.now(UTC) < timedelta(seconds=61)
        assert await alice.renew(made.id, ttl=10**8) - datetime.now(UTC) < timedelta(seconds=61)


async def test_each_process_behind_a_url_withdraws_for_itself(pair: Registries) -> None:
    async with connected(pair.urls[0], "alice") as one, connected(pair.urls[1], "alice") as other:
        made = await one.register(card(), instance="a")
        await other.register(card(), instance="b")
        await other.renew(made.id, instance="b", ttl=30)

        assert not await one.withdraw(made.id, instance="a")
        assert (await one.get(made.id)).id == made.id
        assert await other.withdraw(made.id, instance="b")
        with pytest.raises(RouteNotFoundError):
            await one.get(made.id)

        await one.register(card(), instance="a")
        await one.register(card(), instance="b")
        assert await one.withdraw(made.id), "without a name: for all"


async def test_an_instance_that_died_keeps_nothing_for_longer_than_its_lease(pair: Registries) -> None:
    async with connected(pair.urls[0], "alice") as alice:
        made = await alice.register(card(), instance="dies", ttl=1)
        await alice.register(card(), instance="lives", ttl=30)

        async def withdrawn() -> bool:
            await alice.register(card(), instance="lives", ttl=30)
            return await alice.withdraw(made.id, instance="lives")

        await wait_until(withdrawn, "what the dead one said is over")


async def test_an_owner_has_so_many_and_one_who_leaves_makes_room(pair: Registries) -> None:
    async with connected(pair.urls[0], "alice") as alice, connected(pair.urls[1], "bob") as bob:
        ids = [(await alice.register(card(), url=f"https://{at}.example.com")).id for at in range(MOST)]

        with pytest.raises(ResourceExhaustedError, match=f"{MOST} agents") as refused:
            await alice.register(card(), url="https://more.example.com")
        assert refused.value.quotas[0].field == "owner:agents"
        await alice.register(card("Again"), url="https://0.example.com")
        await bob.register(card())
        await alice.withdraw(ids[1])
        await alice.register(card(), url="https://more.example.com", ttl=1)

        async def room() -> bool:
            try:
                await alice.register(card(), url="https://later.example.com")
            except ResourceExhaustedError:
                return False
            return True

        await wait_until(room, "a lease that ended makes room")


async def test_every_key_has_a_life_time(pair: Registries) -> None:
    async with connected(pair.urls[0], "alice") as alice:
        await alice.register(card(), ttl=30)

    store = pair.store.client
    lives = {name.decode().removeprefix("a2a:{agents}:"): store.pttl(name) for name in store.scan_iter("*agents*")}
    assert {name.partition(":")[0] for name in lives} - {"mark"} == {"agent", "all", "leases", "checks", "owner"}
    assert all(0 < life <= 90_000 for life in lives.values()), lives
    assert set(store.scan_iter()) == set(store.scan_iter("a2a:{agents}:*")), "one slot of a cluster holds them all"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, {"url"}),
        ({"url": "ftp://agent.example.com", "card": {}}, None),
        ({"card": {"name": 1}}, {"card.name"}),
        ({"card": {"name": "x"}}, {"card.description", "card.supportedInterfaces", "card.version", "card.capabilities",
                                   "card.defaultInputModes", "card.defaultOutputModes"}),
        ({"url": "https://user:secret@agent.example.com", "card": "VALID"}, {"url"}),
        ({"url": "https://2130706433/", "card": "VALID"}, {"url"}),
        ({"url": "grpc://agent.example.com:50051/path", "card": "VALID"}, {"url"}),
        ({"url": "grpc://agent.example.com:50051"}, {"card"}),
        ({"card": {"deep": DEEP}}, {"card"}),
        ({"card": [1]}, {"card"}),
        ({"card": "VALID", "ttlSeconds": -1}, {"ttlSeconds"}),
        ({"card": "VALID", "instance": "x" * 257}, {"instance"}),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_named(pair: Registries, body: dict[str, Any], fields: set[str] | None) -> None:
    answer = await post(pair, "/v1/agents", body | ({"card": as_json(card())} if body.get("card") == "VALID" else {}))

    assert answer.status_code == 400, answer.text
    details = {detail["@type"].rpartition(".")[2]: detail for detail in answer.json()["error"]["details"]}
    assert details["ErrorInfo"]["domain"] == "a2a-protocol.org"
    found = {violation["field"] for violation in details["BadRequest"]["fieldViolations"]}
    assert found == fields if fields is not None else found
    assert "secret" not in answer.text


async def test_what_json_could_not_carry_is_refused_over_grpc_too(pair: Registries) -> None:
    deep = Struct()
    deep.update({"deep": DEEP})
    number = Struct()
    number.update({"number": math.inf})
    unknown = pb.SearchAgentsRequest()
    unknown.ParseFromString(b"\x48\x63")  # health: 99
    metadata = tuple(headers_of("alice").items())
    async with grpc.aio.insecure_channel(pair.replicas[1].grpc_addr) as channel:
        stub: Any = RegistryServiceStub(channel)
        for method, request, field in (
            ("RegisterAgent", pb.RegisterAgentRequest(card=deep), "card"),
            ("RegisterAgent", pb.RegisterAgentRequest(card=number), "card"),
            ("GetAgent", pb.GetAgentRequest(), "id"),
            ("GetAgent", pb.GetAgentRequest(id="x" * 300), "id"),
            ("SearchAgents", unknown, "health"),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await getattr(stub, method)(request, metadata=metadata)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT, request
            assert field in (refused.value.details() or "")


async def test_a_card_that_is_too_large_is_refused(pair: Registries) -> None:
    for url in pair.urls:
        async with connected(url, "alice") as alice:
            with pytest.raises(PayloadTooLargeError, match="2048"):
                await alice.register(card(description="x" * 2048))
            with pytest.raises(InvalidArgumentError) as refused:
                await alice.register(card(), ttl=-1)
            assert refused.value.violations[0].field in {"ttl_seconds", "ttlSeconds"}


async def test_a_card_comes_back_as_the_document_that_it_was(pair: Registries) -> None:
    document = as_json(card()) | {"fromANewerVersion": {"levels": [1, 2.5, None, True]}}

    answer = (await post(pair, "/v1/agents", {"card": document})).json()

    assert answer["created"] is True
    assert answer["agent"]["card"] == document


async def test_a_card_in_the_spelling_of_the_proto_is_shown_to_strangers_as_well(pair: Registries) -> None:
    document = as_json(card()) | {"skills": None, "provider": None}
    document["supported_interfaces"] = document.pop("supportedInterfaces")
    made = (await post(pair, "/v1/agents", {"card": document, "public": True})).json()["agent"]

    async with connected(pair.urls[1]) as stranger:
        seen = await stranger.get(made["id"])
    assert [interface.url for interface in seen.card.supported_interfaces] == ["https://agent.example.com"]
    assert made["card"] == document


async def test_secrets_are_not_sent_in_plain_text_to_another_machine() -> None:
    for url in ("http://registry.example.com", "grpc://registry.example.com:50051"):
        with pytest.raises(CredentialsError, match="plain text"):
            await Registry.connect(url, credentials=ApiKey("secret"))
    allowed = await Registry.connect(
        "http://registry.example.com", credentials=ApiKey("secret"), allow_origins=["http://registry.example.com"]
    )
    await allowed.aclose()


async def test_a_store_that_is_away_makes_no_entry_and_no_error_of_the_callers(pair: Registries) -> None:
    one, other = pair.replicas
    async with connected(one.http_url, "alice") as alice, connected(other.grpc_url, "alice") as too:
        made = await alice.register(card())
        pair.store.kill()
        for call in (alice.get(made.id), too.renew(made.id), too.register(card())):
            with pytest.raises(UnavailableError) as refused:
                await call
            assert refused.value.retry_after
        async with httpx.AsyncClient(trust_env=False) as client:

            async def away() -> bool:
                return (await client.get(f"{one.http_url}/readyz")).status_code == 503

            await wait_until(away, "the registry is not ready")
            assert (await client.get(f"{one.http_url}/healthz")).status_code == 200
            pair.store.start()
            for replica in pair.replicas:
                replica.wait_ready()
        assert (await too.get(made.id)).id == made.id


async def test_health_of_the_registry_itself(pair: Registries) -> None:
    async with grpc.aio.insecure_channel(pair.replicas[1].grpc_addr) as channel:
        health: Any = HealthStub(channel)
        for service in ("", "a2a_grpc.registry.v1.RegistryService", "liveness"):
            assert (await health.Check(HealthCheckRequest(service=service))).status == HealthCheckResponse.SERVING


async def test_limits_on_callers_count_whichever_replica_is_asked() -> None:
    with registries(A2A_LIMIT_CALLER_RATES="read=0.01:3,change=0.01:1", A2A_REGISTRY_CHECK_INTERVAL="0") as limited:
        async with (
            connected(limited.urls[0], "bob") as bob,
            connected(limited.urls[1], "bob") as again,
            connected(limited.urls[1]) as stranger,
        ):
            made = await bob.register(card(), public=True)
            await bob.get(made.id)
            await again.find()
            await bob.get(made.id)
            for call in (again.get(made.id), bob.find(), again.register(card())):
                with pytest.raises(ResourceExhaustedError, match="limit") as refused:
                    await call
                assert refused.value.retry_after
            assert (await stranger.find()).id == made.id, "another caller has a limit of its own"


def test_a_registry_stops_when_it_is_told_to() -> None:
    with registries() as pair:
        for replica in pair.replicas:
            replica.terminate()
        assert [replica.wait() for replica in pair.replicas] == [0, 0]
        assert "anybody may" not in pair.replicas[0].log(None)


async def test_paths_that_are_none(pair: Registries) -> None:
    async with httpx.AsyncClient(base_url=pair.urls[0], trust_env=False) as client:
        nothing = await client.get("/")
        assert (nothing.status_code, nothing.headers["content-type"]) == (404, "application/json")
        assert (await client.get("/v1/agents")).headers["content-type"] == "application/json"
        assert (await client.get("/.well-known/agent-card.json")).status_code == 404
        wrong = await client.put("/v1/agents")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD, POST, OPTIONS")
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.post("/v1/agents", content=b"[", headers=headers_of("alice"))).status_code == 400
