"""`a2a-grpc discover`, and agents of a registry wherever an agent is named (a2a-cli specification 0.2, 10.1)."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from a2a_grpc.client import Registry
from a2a_grpc.client.card import CardResolver
from a2a_grpc.server.card.signing import CardSigner
from a2a_grpc.server.keys import SigningKeys, signing_key
from tests.registry.processes import Registries, card, headers_of, key_of, registries
from tests.support.commands import Outcome, Run, running
from tests.support.replica import Pair

pytestmark = pytest.mark.agent("tests.client.cli_agent:agent")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return running(capsys)


class Listed(NamedTuple):
    """A registry, and what alice has registered there."""

    url: str
    agent_id: str
    other_id: str


@pytest.fixture(scope="module")
def pair() -> Iterator[Registries]:
    with registries(A2A_REGISTRY_ALLOW="localhost", A2A_REGISTRY_ALLOW_HTTP="true") as found:
        yield found


@pytest.fixture
async def listed(pair: Registries, two_replicas: Pair) -> Listed:
    async with await Registry.connect(pair.urls[0], headers=headers_of("alice")) as registry, CardResolver() as cards:
        other = await registry.register(card("Screening"), public=True)
        mine = await registry.register(await cards.resolve(two_replicas.replicas[0].http_url), public=True)
    return Listed(pair.urls[0], mine.id, other.id)


def test_agents_at_addresses(run: Run, two_replicas: Pair) -> None:
    one, other = two_replicas.replicas
    host = one.http_url.removeprefix("http://")
    done = run("discover", host, other.http_url)

    assert (done.code, done.err) == (0, "")
    found = done.fields
    assert found["Agent"] == [host, other.http_url]
    assert found["Name"] == ["Command test agent 1.0"] * 2
    assert f"GRPC 1.0 {one.grpc_addr}" in found["Interface"]
    assert found["Skill"] == ["do: Does what the first word says."] * 2
    assert found["Agents"] == ["2"]

    (answer,) = run("discover", host, "-o", "json").json
    (agent,) = answer["agents"]
    assert agent["agentCard"] == host
    assert agent["card"] == run("card", "get", "-a", host, "-o", "json").json[0]


def test_an_address_without_an_agent(run: Run, tmp_path: object) -> None:
    assert run("discover", "http://127.0.0.1:1").code == 3
    assert run("discover", f"file://{tmp_path}/none.json").code == 3
    assert run("discover", "grpc://127.0.0.1:1").code == 3


async def test_agents_in_a_registry(run: Run, listed: Listed) -> None:
    def search(*argv: str) -> list[str]:
        done = run("discover", "--registry", listed.url, *argv)
        assert (done.code, done.err) == (0, "")
        assert done.fields["Agents"] == [str(len(done.fields.get("Agent", [])))]
        return done.fields.get("Agent", [])

    mine, other = f"registry:{listed.agent_id}", f"registry:{listed.other_id}"
    assert await asyncio.to_thread(search) == [mine, other]
    assert await asyncio.to_thread(search, "--text", "candidates") == [other]
    assert await asyncio.to_thread(search, "--skill", "do") == [mine]
    assert await asyncio.to_thread(search, "--tag", "hr") == [other]
    assert await asyncio.to_thread(search, "--binding", "GRPC", "--capability", "streaming") == [mine]
    assert await asyncio.to_thread(search, "--health", "unreachable", "--skill", "do") == []
    assert await asyncio.to_thread(search, "--text", "nobody says this") == []
    assert await asyncio.to_thread(search, "--limit", "1") == [mine]

    lines = (await asyncio.to_thread(run, "discover", "--registry", listed.url, "-o", "json", "--stream")).json
    assert [line["agentCard"] for line in lines] == [mine, other]
    assert lines[1]["signature"] == "unsigned"
    assert lines[1]["card"]["name"] == "Screening"


async def test_a2acli_card_get_005_a_registered_agent_wherever_an_agent_is_named(
    run: Run, listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2ACLI_REGISTRY", listed.url)
    monkeypatch.setenv("A2ACLI_REGISTRY_API_KEY", key_of("alice"))
    monkeypatch.setenv("A2ACLI_AGENT_CARD", f"registry:{listed.agent_id}")

    assert (await asyncio.to_thread(run, "card", "get")).fields["Name"] == ["Command test agent"]
    for binding in ("GRPC", "JSONRPC"):
        done = await asyncio.to_thread(run, "send", "echo hello", "--transport", binding)
        assert done.fields["Text"] == ["hello"]

    gone = await asyncio.to_thread(run, "send", "hello", "-a", "registry:nobody")
    assert gone.code == 3
    assert "A2ACLI_ERR_CARD_NOT_FOUND" in gone.err


async def test_a2acli_card_get_004_what_a_stranger_cannot_tell_of_signatures(
    run: Run, pair: Registries, tmp_path: Path
) -> None:
    """Of the part of a card that a registry shows to strangers nobody can say that it is signed, or that it is not."""
    keys = SigningKeys((signing_key(ec.generate_private_key(ec.SECP256R1())),))
    (tmp_path / "keys.json").write_text(json.dumps(keys.jwks()))
    signed = card("Signed")
    CardSigner(keys, "https://agent.example.com/jwks.json").sign(signed)
    async with await Registry.connect(pair.urls[0], headers=headers_of("alice")) as registry:
        one = await registry.register(signed, url="https://signed.example.com", public=True)
        other = await registry.register(card("Plain"), url="https://plain.example.com", public=True)

    async def get(agent_id: str, *argv: str) -> Outcome:
        where = ("-a", f"registry:{agent_id}", "--registry", pair.urls[0], "--keys", str(tmp_path / "keys.json"))
        return await asyncio.to_thread(run, "card", "get", *where, *argv)

    partly = "unverifiable (the registry shows only a part of the card)"
    assert (await get(one.id)).fields["Signature"] == [partly]
    assert partly in (await get(one.id, "-o", "json")).err
    assert partly in (await get(one.id, "--signed")).err
    assert (await get(other.id)).fields["Signature"] == ["absent"]
    known = ("--registry-api-key", key_of("alice"))
    (told,) = (await get(one.id, "--signed", *known)).fields["Signature"]
    assert told.startswith("verified (key ")
    assert (await get(other.id, *known)).fields["Signature"] == ["absent"]


async def test_how_to_go_on_names_the_registry_that_was_named(
    run: Run, listed: Listed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the agent: what came as a flag is in the command, so that it can be pasted."""
    agent = f"registry:{listed.agent_id}"
    argv = ("send", "echo hello", "-a", agent, "--registry", listed.url)
    done = await asyncio.to_thread(run, *argv)
    (context_id,) = done.fields["Context"]
    assert done.fields["Resume"] == [
        f'a2a-grpc send --context-id {context_id} --agent-card {agent} --registry {listed.url} "MESSAGE"'
    ]
    # Where the environment names it, it does so next time as well.
    monkeypatch.setenv("A2ACLI_REGISTRY", listed.url)
    monkeypatch.setenv("A2ACLI_AGENT_CARD", agent)
    done = await asyncio.to_thread(run, "send", "echo hello")
    assert done.fields["Resume"] == [f'a2a-grpc send --context-id {done.fields["Context"][0]} "MESSAGE"']
    done = await asyncio.to_thread(run, "send", "echo hello", "--registry", listed.url)
    assert f"--registry {listed.url} " in done.fields["Resume"][0]


def test_what_cannot_be_searched(run: Run) -> None:
    for argv, text in (
        (["discover"], "A registry is needed"),
        (["discover", "--skill", "x"], "A registry is needed"),
        (["discover", "http://x", "--skill", "x"], "not both"),
        (["card", "get", "-a", "registry:x"], "A registry is needed"),
        (["discover", "--capability", "flying"], "invalid choice"),
    ):
        done = run(*argv)
        assert done.code == 2
        assert text in done.err


def test_a_registry_is_not_shown_the_credentials_of_agents(run: Run, pair: Registries) -> None:
    """AUTH_008: whoever gives out cards has declared no scheme."""
    own = run("discover", "--registry", pair.urls[0], "--registry-api-key", "wrong-key")
    assert own.code == 4
    assert "A2ACLI_ERR_AUTH_FAILED" in own.err
    assert "wrong-key" not in own.err
    assert run("card", "get", "-a", "registry:x", "--registry", pair.urls[0], "--api-key", "wrong-key").code == 3
