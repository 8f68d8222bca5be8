"""`a2a-grpc serve --register`: an agent that keeps itself registered, whatever becomes of the registry."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from a2a_grpc.client import A2AClient, ApiKey, RegisteredAgent, message
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.keys import load_signing_keys
from tests.registry.processes import API_KEYS, Agent, Registries, RegistryProcess, connected, key_of, registries
from tests.support.replica import ROOT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wide

HEADER = {"A2A_REGISTER_HEADER": f"X-API-Key: {key_of('alice')}"}
LEASE = 2.0


@pytest.fixture(scope="module")
def signing_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The private key of the agents, in a file."""
    path: Path = tmp_path_factory.mktemp("keys") / "agent.pem"
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(ec.generate_private_key(ec.SECP256R1()).private_bytes(*pem))
    return path


@pytest.fixture(scope="module")
def pair(signing_key: Path) -> Iterator[Registries]:
    trusted = signing_key.with_name("trusted.json")
    trusted.write_bytes(orjson.dumps(load_signing_keys([signing_key]).jwks()))
    with registries(
        A2A_REGISTRY_LEASE_TTL=f"{LEASE:g}",
        A2A_REGISTRY_CHECK_INTERVAL="1",
        A2A_REGISTRY_ALLOW="localhost",
        A2A_REGISTRY_ALLOW_HTTP="true",
        A2A_REGISTRY_TRUSTED_KEYS=str(trusted),
    ) as pair:
        yield pair


@contextlib.contextmanager
def agent(registry_url: str, env: Mapping[str, str] = HEADER) -> Iterator[Agent]:
    """An agent that is ready."""
    one = Agent(registry_url, env)
    try:
        one.start()
        yield one
    finally:
        one.close()


async def found(registry: RegistryProcess | str, **filters: str) -> list[RegisteredAgent]:
    """What alice sees of her own."""
    url = registry if isinstance(registry, str) else registry.http_url
    async with connected(url, "alice") as alice:
        return [one async for one in alice.search(mine=True, **filters)]  # type: ignore[arg-type]


async def until_found(registry: RegistryProcess | str, count: int = 1, **filters: str) -> list[RegisteredAgent]:
    async def look() -> list[RegisteredAgent]:
        agents = await found(registry, **filters)
        return agents if len(agents) == count else []

    return await wait_until(look, f"{count} agents", 15)


async def says(process: Agent, words: str) -> None:
    await wait_until(lambda: words in process.log(None), f"the log says {words!r}", 15)


async def until_none(registry: RegistryProcess | str) -> None:
    async def none() -> bool:
        return not await found(registry)

    await wait_until(none, "nothing is registered", 15)


@pytest.mark.parametrize("binding", [pytest.param(0, id="HTTP", marks=pytest.mark.wide), pytest.param(1, id="gRPC")])
async def test_an_agent_is_there_while_it_runs_and_gone_when_it_stops(
    pair: Registries, binding: int, signing_key: Path
) -> None:
    url = pair.urls[binding]
    settings = {"A2A_SIGNING_KEYS": str(signing_key), "A2A_REGISTER_PUBLIC": "true", "A2A_API_KEYS": API_KEYS}
    with agent(url, HEADER | settings) as one:
        [shown] = await until_found(url, health="healthy")
        assert shown.url == one.http_url
        assert shown.card.name == "a2a-grpc demo"
        assert shown.signature == "verified"

        begun = time.monotonic()
        async with connected(pair.urls[1 - binding]) as stranger:
            [public] = [found async for found in stranger.search("summarize")]
            while time.monotonic() - begun < 1.25 * LEASE:
                assert [found.id async for found in stranger.search("summarize")] == [shown.id]
        # The part of the card that strangers see says how to prove to the agent who calls.
        assert public.detail == "public"
        async with await A2AClient.connect(public.card, credentials=ApiKey(key_of("bob"))) as client:
            reply = await client.send_message(a2a_pb2.SendMessageRequest(message=message("guess")))
            assert reply.task.status.state == a2a_pb2.TASK_STATE_INPUT_REQUIRED

        one.terminate()
        assert one.wait() == 0
        assert await found(url) == [], "it has withdrawn before it ended"
        log = one.log(None)
        assert log.count("is registered with") == 1
        assert key_of("alice") not in log


@pytest.mark.slow  # leases that end are tried in test_registering
async def test_an_agent_that_is_killed_is_forgotten(pair: Registries) -> None:
    with agent(pair.urls[0]) as one:
        await until_found(pair.urls[0])
        one.kill()

        await until_none(pair.urls[0])


async def test_a_registry_that_comes_back_has_its_agents_again(pair: Registries) -> None:
    """Killed, away for longer than a lease, and its store empty when it comes back."""
    registry = pair.replicas[0]
    with agent(registry.http_url) as one:
        [before] = await until_found(registry)
        registry.kill()
        pair.store.client.flushall()
        await says(one, "cannot be registered with")
        one.wait_ready()
        registry.start()

        [after] = await until_found(registry)
        assert after.id == before.id
        # The registry knows of it before the answer is there.
        await says(one, "takes registrations again")
        log = one.log(None)
        assert log.count("cannot be registered with") == 1, "one line for one outage"
        assert "has lost a2a-grpc demo" in log


async def test_a_store_that_lost_all_is_filled_again(pair: Registries) -> None:
    with agent(pair.urls[1]):
        [before] = await until_found(pair.urls[0])
        pair.store.client.flushall()

        [after] = await until_found(pair.urls[0])
        assert after.id == before.id


async def test_the_service_starts_and_stops_without_a_registry(pair: Registries) -> None:
    registry = pair.replicas[1]
    registry.kill()
    try:
        for url in (registry.http_url, registry.grpc_url):
            with agent(url) as one:
                await says(one, "cannot be registered with")
                one.wait_ready()
                one.terminate()
                assert one.wait() == 0
                assert one.log(None).count("cannot be registered with") == 1
    finally:
        registry.start()


async def test_who_may_not_register_goes_on_serving(pair: Registries) -> None:
    with agent("", {"A2A_REGISTER_URL": pair.urls[0]}) as one:
        await says(one, "Only callers with credentials")
        one.wait_ready()
        assert await found(pair.urls[0]) == []


async def test_replicas_behind_one_url_leave_one_by_one(pair: Registries) -> None:
    shared = HEADER | {"A2A_PUBLIC_HTTP_URL": "http://localhost:1", "A2A_PUBLIC_GRPC_ADDR": "localhost:1"}
    with agent(pair.urls[0], shared) as one, agent(pair.urls[1], shared) as other:
        await until_found(pair.urls[0])
        for process in (one, other):
            await says(process, "is registered")
        one.terminate()
        assert one.wait() == 0
        assert len(await found(pair.urls[0])) == 1, "the other one is still there"
        other.terminate()
        assert other.wait() == 0
        assert await found(pair.urls[0]) == []


async def test_each_agent_of_a_file_is_registered(pair: Registries, tmp_path: Path) -> None:
    file = tmp_path / "agents.yaml"
    file.write_text(
        "agents:\n  one:\n    agent: a2a_grpc.server.agents.demo:agent\n    card: {name: One}\n"
        "  two:\n    agent: a2a_grpc.server.agents.demo:agent\n    card: {name: Two}\n"
    )
    with agent(pair.urls[0], HEADER) as one:
        one.terminate()
        one.wait()
        one._agent = str(file)
        one.start()

        agents = await until_found(pair.urls[0], 2, health="healthy")
        assert sorted((found.card.name, found.url) for found in agents) == [
            ("One", f"{one.http_url}/one"),
            ("Two", f"{one.http_url}/two"),
        ]


@pytest.mark.wide
@pytest.mark.parametrize(
    ("arguments", "env", "sentence"),
    [
        (["--register", "registry:8080"], {}, "--register is 'registry:8080', but it must be a URL like"),
        ([], {"A2A_REGISTER_URL": "grpc://registry"}, "A2A_REGISTER_URL is 'grpc://registry', but it must have"),
        ([], {"A2A_REGISTER_HEADER": "secret"}, "A2A_REGISTER_HEADER is ***, but it must be a header as it is sent"),
        (
            ["--register", "https://registry.example.com"],
            {"A2A_REGISTER_CA_FILE": "/nowhere.pem"},
            "A2A_REGISTER_CA_FILE: /nowhere.pem cannot be used: No such file or directory",
        ),
    ],
)
def test_what_cannot_work_is_said_at_start(
    tmp_path: Path, arguments: list[str], env: dict[str, str], sentence: str
) -> None:
    one = Agent("", env | {"A2A_DATA_DIR": str(tmp_path)})
    try:
        command = [sys.executable, "-m", "a2a_grpc.server", *one.arguments(), *arguments]
        ended = subprocess.run(command, env=one.env, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    finally:
        one.close()

    assert ended.returncode == 2
    assert f"a2a-grpc: {sentence}" in ended.stderr
