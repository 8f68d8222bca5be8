"""`a2a-grpc card get` (a2a-cli specification 0.2, 10.1)."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from a2a_grpc.client.cli.agent import reference
from a2a_grpc.client.cli.failures import CommandError
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.card.signing import CardSigner
from a2a_grpc.server.keys import SigningKeys, signing_key
from a2a_grpc.wire import protojson
from tests.client.peers import HttpPeer, Request, card, http_peer, response
from tests.support.commands import Run, running
from tests.support.replica import Pair

pytestmark = pytest.mark.agent("tests.client.cli_agent:agent")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return running(capsys)


def test_a2acli_card_get_001_from_a_host_a_url_and_a_file(run: Run, two_replicas: Pair, tmp_path: Path) -> None:
    one = two_replicas.replicas[0]
    (found,) = run("card", "get", "-a", one.http_url, "-o", "json").json
    file = tmp_path / "card.json"
    file.write_text(json.dumps(found))

    for said in (
        one.http_url.removeprefix("http://"),
        f"{one.http_url}/",
        f"{one.http_url}/.well-known/agent-card.json",
        f"file://{file}",
        str(file),
    ):
        done = run("card", "get", "-a", said)
        assert (done.code, done.err) == (0, "")
        assert done.fields["Name"] == ["Command test agent"]
        assert done.fields["Interface"] == [
            f"GRPC 1.0 {one.grpc_addr}",
            f"HTTP+JSON 1.0 {one.http_url}",
            f"JSONRPC 1.0 {one.http_url}/",
        ]
        assert done.fields["Streaming"] == ["yes"]
        assert done.fields["Skill"] == ["do: Does what the first word says."]
        assert done.fields["Signature"] == ["absent"]
        assert run("card", "get", "-a", said, "-o", "json").json == [found]
        assert run("card", "get", "-a", said, "-o", "json", "--stream").json == [found]
        assert run("send", "-a", said, "echo hello").fields["Text"] == ["hello"]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("agent.example.com", "https://agent.example.com"),
        ("agent.example.com:8443/agents/1", "https://agent.example.com:8443/agents/1"),
        ("localhost", "http://localhost"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("[2001:db8::1]", "https://[2001:db8::1]"),
        ("HTTPS://agent.example.com/x", "https://agent.example.com/x"),
        ("grpc://agent.example.com:50051", "grpc://agent.example.com:50051"),
    ],
)
def test_what_a_reference_means(said: str, meant: str) -> None:
    assert reference(said) == meant


@pytest.mark.parametrize("said", ["ftp://x", "./no.json", "no.json", "/no/card", "file:///no/card", "a b", "../x"])
def test_what_is_no_reference(said: str) -> None:
    with pytest.raises(CommandError, match="is no agent") as caught:
        reference(said)
    assert caught.value.code == "A2ACLI_ERR_CARD_NOT_FOUND"


@pytest.mark.parametrize(
    ("status", "body", "code", "exit_code"),
    [
        (404, b"", "A2ACLI_ERR_CARD_NOT_FOUND", 3),
        (200, b"<html>", "A2ACLI_ERR_CARD_INVALID", 1),
        (200, b'{"name": 1}', "A2ACLI_ERR_CARD_INVALID", 1),
        (401, b"", "A2ACLI_ERR_CREDENTIALS_MISSING", 4),
        (403, b"", "PermissionDeniedError", 1),
        (503, b"", "A2ACLI_ERR_UNREACHABLE", 3),
    ],
)
async def test_a2acli_out_004_what_is_wrong_with_a_card(
    run: Run, status: int, body: bytes, code: str, exit_code: int
) -> None:
    async def respond(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(status, body))

    async with http_peer(respond) as peer:
        for argv in (("card", "get"), ("send", "hello")):
            done = await asyncio.to_thread(run, *argv, "-a", peer.url, "-o", "json")
            assert done.json[0]["error"]["code"] == code
            assert done.code == exit_code


@pytest.fixture
async def peer() -> AsyncIterator[HttpPeer]:
    """Serves a card that lacks things, and an extended one to whoever shows the key."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        found = protojson.to_dict(card(("HTTP+JSON", "1.0", served.url)))
        found |= {
            "capabilities": {"extendedAgentCard": True},
            "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": "x-key"}}},
            "securityRequirements": [{"schemes": {"key": {"list": []}}}],
            "skills": [{"id": "s", "name": "", "description": "A skill.", "tags": ["t"]}],
        }
        if request.target == "/extendedAgentCard":
            status = 200 if request.headers.get("x-key") == "right" else 401
            body = json.dumps(found | {"name": "Extended", "skills": []}).encode()
            writer.write(response(status, body if status == 200 else b""))
        else:
            writer.write(response(body=json.dumps(found).encode()))

    async with http_peer(respond) as served:
        yield served


async def test_a2acli_card_get_002_validates(run: Run, peer: HttpPeer, two_replicas: Pair) -> None:
    good = await asyncio.to_thread(run, "card", "get", "-a", two_replicas.replicas[0].http_url, "--validate")
    assert good.code == 0

    bad = await asyncio.to_thread(run, "card", "get", "-a", peer.url, "--validate")
    assert bad.code == 1
    assert bad.out == ""
    assert "lacks what the protocol requires: skills[0].name. (A2ACLI_ERR_CARD_INVALID)" in bad.err
    assert (await asyncio.to_thread(run, "card", "get", "-a", peer.url)).code == 0


async def test_a2acli_card_get_003_the_extended_card(run: Run, peer: HttpPeer) -> None:
    argv = ("card", "get", "-a", peer.url, "--extended")
    assert (await asyncio.to_thread(run, *argv)).code == 4
    assert (await asyncio.to_thread(run, *argv, "--bearer", "right")).code == 4
    assert (await asyncio.to_thread(run, *argv, "--api-key", "wrong")).code == 4
    shown = await asyncio.to_thread(run, *argv, "--api-key", "right")
    assert shown.code == 0
    assert shown.fields["Name"] == ["Extended"]
    assert shown.fields["Security scheme"] == ["key (API key in header x-key)"]
    assert shown.fields["Security requirement"] == ["key"]


def test_a2acli_card_get_004_says_what_is_to_be_thought_of_signatures(run: Run, tmp_path: Path) -> None:
    keys, others = (SigningKeys((signing_key(ec.generate_private_key(ec.SECP256R1())),)) for _ in range(2))
    signed = card(("GRPC", "1.0", "127.0.0.1:1"))
    unsigned = a2a_pb2.AgentCard()
    unsigned.CopyFrom(signed)
    CardSigner(keys, "https://evil.example/keys").sign(signed)
    for name, found in (("signed", signed), ("unsigned", unsigned)):
        (tmp_path / name).write_bytes(protojson.dumps(found))
    for name, known in (("keys", keys), ("others", others)):
        (tmp_path / name).write_text(json.dumps(known.jwks()))

    def get(name: str, *argv: str) -> tuple[int, str]:
        done = run("card", "get", "-a", str(tmp_path / name), *argv)
        return done.code, done.fields["Signature"][0] if done.code == 0 else done.err

    good, bad = ("--keys", str(tmp_path / "keys")), ("--keys", str(tmp_path / "others"))
    assert get("unsigned") == get("unsigned", *good) == (0, "absent")
    assert get("signed") == (0, "unverifiable (no --keys)")
    code, said = get("signed", *good)
    assert (code, said.startswith("verified (key ")) == (0, True)
    code, said = get("signed", *bad)
    assert (code, said.startswith("unverifiable (")) == (0, True)

    assert get("signed", *good, "--signed")[0] == 0
    for name, more in (("signed", bad), ("unsigned", good)):
        code, said = get(name, *more, "--signed")
        assert code == 1
        assert "A2ACLI_ERR_CARD_INVALID" in said
    as_json = run("card", "get", "-a", str(tmp_path / "signed"), *bad, "-o", "json")
    assert as_json.json[0]["name"] == "Peer"
    assert "the signature of the card is unverifiable" in as_json.err
