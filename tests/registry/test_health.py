"""Who answers, and where the registry never connects to; what signatures are worth."""

import re
import socket
import time
from collections.abc import Iterator
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path

import grpc.aio
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from a2a_grpc.client import InvalidArgumentError, RegisteredAgent, Registry
from a2a_grpc.client.verifying import verify_card
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.registry.v1 import registry_pb2 as pb
from a2a_grpc.server.card.signing import CardSigner
from a2a_grpc.server.keys import SigningKeys, signing_key
from a2a_grpc.wire import protojson
from tests.registry.processes import Registries, RegistryProcess, card, connected, registries
from tests.support.receiver import SILENT, Answer, Delivery, receiver
from tests.support.replica import free_ports
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wide

INTERVAL = 1.0
TRUSTED = SigningKeys((signing_key(ec.generate_private_key(ec.SECP256R1())),))
OTHERS = SigningKeys((signing_key(ec.generate_private_key(ec.SECP256R1())),))
CHECKING = {
    "A2A_REGISTRY_CHECK_INTERVAL": f"{INTERVAL:g}",
    "A2A_REGISTRY_CHECK_TIMEOUT": "1",
    "A2A_REGISTRY_ALLOW_HTTP": "true",
    "A2A_REGISTRY_MAX_CARD_BYTES": "4096",
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registries]:
    """It may connect to this machine."""
    trusted: Path = tmp_path_factory.mktemp("keys") / "trusted.json"
    trusted.write_bytes(orjson.dumps(TRUSTED.jwks()))
    with registries(**CHECKING, A2A_REGISTRY_ALLOW="localhost", A2A_REGISTRY_TRUSTED_KEYS=str(trusted)) as pair:
        yield pair


@pytest.fixture(scope="module")
def strict(pair: Registries) -> Iterator[RegistryProcess]:
    """It may connect to the public internet only."""
    with registries(**CHECKING) as strict:
        yield strict.replicas[0]


CARD = card()
IT_IS_HERE = Answer(body=protojson.dumps(CARD), headers={"content-type": "application/json"})


async def here(_: Delivery) -> Answer:
    """An agent that gives its card."""
    return IT_IS_HERE


async def seen(registry: Registry, agent: RegisteredAgent, state: str) -> str:
    """Why the agent is in `state`, once it was looked for and found there."""

    async def look() -> list[RegisteredAgent]:
        found = await registry.get(agent.id)
        return [found] if found.health == state and found.entry.health.HasField("check_time") else []

    [found] = await wait_until(look, f"the agent is {state}", 15)
    return found.entry.health.reason


async def test_an_agent_is_healthy_as_long_as_it_gives_its_card(pair: Registries) -> None:
    async with receiver(here) as agent, connected(pair.urls[0], "alice") as alice, connected(pair.urls[1]) as other:
        made = await alice.register(CARD, url=f"{agent.url}/base", public=True)
        assert made.health == "unknown"
        assert await seen(alice, made, "healthy") == ""
        assert agent.deliveries[0].target == "/base/.well-known/agent-card.json"

        async def breaks(_: Delivery) -> Answer:
            return Answer(500)

        agent.behave = breaks
        assert await seen(alice, made, "unreachable") == "it answered 500"
        agent.behave = here
        await seen(alice, made, "healthy")
        history = (await alice.get(made.id)).entry.history
        assert [(pb.HealthState.Name(entry.state), entry.reason) for entry in history] == [
            ("HEALTH_STATE_UNREACHABLE", "it answered 500"),
            ("HEALTH_STATE_HEALTHY", ""),
            ("HEALTH_STATE_UNKNOWN", ""),
        ]
        stranger = await other.get(made.id)
        assert stranger.health == "healthy"
        assert [found.id async for found in other.search(health="healthy")] == [made.id]
        assert await alice.withdraw(made.id)


@pytest.mark.parametrize(
    ("answer", "state", "reason"),
    [
        (Answer(401), "healthy", ""),
        (Answer(404), "unreachable", "it answered 404"),
        (Answer(200, body=b"<html>"), "unreachable", "what it answered is no agent card"),
        (Answer(200, body=b"x" * 5000), "unreachable", "its card has more than 4096 bytes"),
        (Answer(cut=True), "unreachable", "it does not speak HTTP"),
        (SILENT, "unreachable", "it did not answer within 1 s"),
    ],
    ids=["keeps its card", "has none", "another page", "endless", "hangs up", "silent"],
)
async def test_what_else_an_agent_may_answer(pair: Registries, answer: Answer, state: str, reason: str) -> None:
    async def behave(_: Delivery) -> Answer:
        return answer

    async with receiver(behave) as agent, connected(pair.urls[0], "alice") as alice:
        made = await alice.register(CARD, url=agent.url)

        assert await seen(alice, made, state) == reason
        await alice.withdraw(made.id)


async def test_agents_that_speak_grpc(pair: Registries) -> None:
    async with connected(pair.urls[1], "alice") as alice, receiver(here) as http_only:
        # Another server with a health service, and one without.
        bare = grpc.aio.server()
        port = bare.add_insecure_port("127.0.0.1:0")
        await bare.start()
        [nobody] = free_ports(1)
        with_health = await alice.register(CARD, url=pair.replicas[0].grpc_url)
        without = await alice.register(CARD, url=f"grpc://localhost:{port}")
        gone = await alice.register(CARD, url=f"grpc://127.0.0.1:{nobody}")
        other = await alice.register(CARD, url=f"grpc://127.0.0.1:{http_only.port}")

        assert await seen(alice, with_health, "healthy") == ""
        assert await seen(alice, without, "healthy") == ""
        assert await seen(alice, gone, "unreachable") == "it cannot be reached"
        assert await seen(alice, other, "unreachable") in {"it cannot be reached", "it did not answer within 1 s"}
        await bare.stop(None)
        await seen(alice, without, "unreachable")
        for made in (with_health, without, gone, other):
            await alice.withdraw(made.id)


async def test_one_replica_at_a_time_looks(pair: Registries) -> None:
    times: list[float] = []

    async def note(_: Delivery) -> Answer:
        times.append(time.monotonic())
        return IT_IS_HERE

    async with receiver(note) as agent, connected(pair.urls[0], "alice") as alice:
        made = await alice.register(CARD, url=agent.url)
        await wait_until(lambda: len(times) >= 4, "four looks", 20)
        await alice.withdraw(made.id)

    # The clock of the store says when a look is due, and a replica sees it within half a second.
    assert all(later - earlier > 0.9 * INTERVAL for earlier, later in pairwise(times)), times


async def test_a_card_is_fetched_where_only_the_url_is_given(pair: Registries) -> None:
    async with receiver(here) as agent, connected(pair.urls[1], "alice") as alice:
        made = await alice.register(url=f"{agent.url}/.well-known/agent-card.json")

        assert made.card == CARD
        assert agent.deliveries[0].target == "/.well-known/agent-card.json"
        assert not agent.deliveries[0].has("x-api-key")
        await alice.withdraw(made.id)

        async def nothing(_: Delivery) -> Answer:
            return Answer(404)

        agent.behave = nothing
        with pytest.raises(InvalidArgumentError, match="it answered 404"):
            await alice.register(url=agent.url)


async def test_no_redirect_is_followed(pair: Registries) -> None:
    async with receiver(here) as inside, connected(pair.urls[0], "alice") as alice:

        async def elsewhere(_: Delivery) -> Answer:
            return Answer(302, headers={"location": inside.url})

        async with receiver(elsewhere) as agent:
            made = await alice.register(CARD, url=agent.url)
            assert await seen(alice, made, "unreachable") == "it answered 302"
            with pytest.raises(InvalidArgumentError, match="it answered 302"):
                await alice.register(url=agent.url)
            await alice.withdraw(made.id)
        assert inside.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}",
        "http://localhost:{port}",
        "http://[::1]:{port}",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1",
        "http://[64:ff9b::7f00:1]:{port}",
        "grpc://127.0.0.1:{port}",
        "grpc://localhost:{port}",
        "grpcs://192.168.0.1:443",
    ],
)
async def test_the_registry_connects_to_nothing_within_its_own_network(strict: RegistryProcess, url: str) -> None:
    """SSRF: a card may be registered from anywhere, but nobody looks there, and nothing is told about it."""
    async with receiver(here) as inside, connected(strict.http_url, "alice") as alice:
        where = url.format(port=inside.port)
        made = await alice.register(CARD, url=where)

        assert await seen(alice, made, "unknown") == "it is where this registry does not connect to"
        if not where.startswith("grpc"):
            with pytest.raises(InvalidArgumentError, match="public address"):
                await alice.register(url=where)
        await alice.withdraw(made.id)
        assert inside.connections == 0


async def test_a_name_that_leads_inside_is_found_out_when_it_is_looked_up(strict: RegistryProcess) -> None:
    """The machine's own name, which no rule about names knows."""
    name = socket.gethostname()
    try:
        found = {str(address[0]) for *_, address in socket.getaddrinfo(name, 80)}
    except OSError:
        pytest.skip("the name of this machine leads nowhere")
    if not re.fullmatch(r"[a-z0-9.-]+", name) or any(ip_address(one).is_global for one in found):
        pytest.skip("the name of this machine is not one of its own network")
    async with receiver(here, host="0.0.0.0") as inside, connected(strict.grpc_url, "alice") as alice:
        for scheme in ("http", "grpc"):
            made = await alice.register(CARD, url=f"{scheme}://{name}:{inside.port}")
            assert await seen(alice, made, "unknown") == "it is where this registry does not connect to"
            await alice.withdraw(made.id)
        with pytest.raises(InvalidArgumentError) as refused:
            await alice.register(url=f"http://{name}:{inside.port}")
        assert not any(one in str(refused.value) for one in found), "what names mean inside is not told"
        assert inside.connections == 0


async def test_without_permission_nothing_is_looked_for_in_plain_text() -> None:
    with registries(**CHECKING | {"A2A_REGISTRY_ALLOW_HTTP": "false", "A2A_REGISTRY_ALLOW": "localhost"}) as pair:
        async with receiver(here) as agent, connected(pair.urls[0], "alice") as alice:
            made = await alice.register(CARD, url=agent.url)
            assert await seen(alice, made, "unknown") == "it is where this registry does not connect to"
            assert agent.connections == 0


def signed(keys: SigningKeys) -> a2a_pb2.AgentCard:
    made = card("Signed")
    CardSigner(keys, "https://agent.example.com/jwks.json").sign(made)
    return made


async def test_signatures_are_worth_what_their_keys_are(pair: Registries) -> None:
    forged = signed(TRUSTED)
    forged.name = "Forged"
    async with connected(pair.urls[0], "alice") as alice, connected(pair.urls[1]) as stranger:
        for at, (one, state) in enumerate(
            ((signed(TRUSTED), "verified"), (signed(OTHERS), "untrusted"), (forged, "untrusted"), (card(), "unsigned"))
        ):
            made = await alice.register(one, url=f"https://{at}.example.com", public=True)
            assert made.signature == state
            assert (await stranger.get(made.id)).signature == state
            if state == "verified":
                assert made.entry.signature_key_id == TRUSTED.jwks()["keys"][0]["kid"]
                verify_card(made.document, TRUSTED.jwks())
                assert [agent.id async for agent in stranger.search(signature="verified")] == [made.id]
        async for agent in alice.search(mine=True):
            await alice.withdraw(agent.id)
