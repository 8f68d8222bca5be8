"""8.4.3: a resolver that is told whom to trust gives out no card of anybody else."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from a2a_grpc.client import A2AClient, CardResolver, CardSignatureError, InvalidArgumentError, UnavailableError
from a2a_grpc.client import verifying as module
from a2a_grpc.client.cli.card import card as card_command
from a2a_grpc.client.verifying import CardVerifier, verify_card
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.card.signing import CardSigner
from a2a_grpc.server.keys import SigningKeys, signing_key
from a2a_grpc.wire import protojson
from tests.client.peers import HttpPeer, Request, card, http_peer, response

OLD = SigningKeys((signing_key(ec.generate_private_key(ec.SECP256R1())),))
NEW = SigningKeys((signing_key(ed25519.Ed25519PrivateKey.generate()),))
JWKS = "/keys.json"


@dataclass
class Agent:
    """Serves a card that `keys` sign, and publishes `published`."""

    keys: SigningKeys = OLD
    published: SigningKeys = OLD
    status: int = 200
    spoilt: bytes = b""
    etag: str = '"1"'
    asked: list[str] = field(default_factory=list)

    def signed(self) -> bytes:
        made = card(("GRPC", "1.0", "127.0.0.1:1"))
        CardSigner(self.keys, "https://evil.example/keys").sign(made)
        return protojson.dumps(made).replace(*((b"GRPC", self.spoilt) if self.spoilt else (b"", b"")))


@pytest.fixture
async def agent() -> Agent:
    return Agent()


@pytest.fixture
async def peer(agent: Agent) -> AsyncIterator[HttpPeer]:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        agent.asked.append(request.target)
        if request.target == JWKS:
            body = json.dumps(agent.published.jwks()).encode()
            writer.write(response(agent.status, body=body, media_type="application/jwk-set+json"))
        elif request.headers.get("if-none-match") == agent.etag:
            writer.write(response(304, headers={"etag": agent.etag}))
        else:
            headers = {"etag": agent.etag, "cache-control": "max-age=0"}
            writer.write(response(body=agent.signed(), media_type="application/json", headers=headers))

    async with http_peer(respond) as peer:
        yield peer


async def test_a_card_of_whom_one_trusts_and_one_that_was_changed(agent: Agent, peer: HttpPeer) -> None:
    async with CardVerifier(jwks_urls=[peer.url + JWKS]) as verifier, CardResolver(verifier=verifier) as resolver:
        assert (await resolver.resolve(peer.url)).supported_interfaces[0].protocol_binding == "GRPC"
        agent.spoilt, agent.etag = b"EVIL", '"2"'
        with pytest.raises(CardSignatureError, match="does not belong to this content"):
            await resolver.resolve(peer.url)
        with pytest.raises(CardSignatureError):
            await A2AClient.connect(peer.url, resolver=resolver)
    # Where a card says that its keys are, nobody went.
    assert agent.asked.count(JWKS) <= 2


async def test_an_unsigned_card_is_not_trusted(agent: Agent, peer: HttpPeer) -> None:
    agent.keys = SigningKeys()
    async with CardVerifier(jwks=OLD.jwks()) as verifier, CardResolver(verifier=verifier) as resolver:
        with pytest.raises(CardSignatureError, match="not signed"):
            await resolver.resolve(peer.url)


async def test_a_new_key_is_fetched_when_a_card_names_it(
    agent: Agent, peer: HttpPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AGAIN_SECONDS", 0.0)
    async with CardVerifier(jwks_urls=[peer.url + JWKS]) as verifier:
        assert (await verifier.verify(agent.signed())).algorithm == "ES256"
        await verifier.verify(agent.signed())
        assert agent.asked.count(JWKS) == 1
        agent.keys = agent.published = NEW
        assert (await verifier.verify(agent.signed())).algorithm == "EdDSA"
        assert agent.asked.count(JWKS) == 2
        # The old key is not in the set any more.
        agent.keys = OLD
        with pytest.raises(CardSignatureError, match="no key that is trusted"):
            await verifier.verify(agent.signed())


async def test_unknown_keys_do_not_make_it_fetch_again_and_again(agent: Agent, peer: HttpPeer) -> None:
    agent.keys = NEW
    async with CardVerifier(jwks_urls=[peer.url + JWKS]) as verifier:
        for _ in range(5):
            with pytest.raises(CardSignatureError):
                await verifier.verify(agent.signed())
    assert agent.asked.count(JWKS) == 1


async def test_a_key_that_is_gone_ends_the_trust_in_a_card_that_has_not_changed(
    agent: Agent, peer: HttpPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_KEPT_SECONDS", 0.0)
    async with CardVerifier(jwks_urls=[peer.url + JWKS]) as verifier, CardResolver(verifier=verifier) as resolver:
        await resolver.resolve(peer.url)
        await resolver.resolve(peer.url)
        agent.published = NEW
        with pytest.raises(CardSignatureError):
            await resolver.resolve(peer.url)


async def test_keys_that_cannot_be_had_are_no_judgement_of_the_card(agent: Agent, peer: HttpPeer) -> None:
    agent.status = 503
    async with CardVerifier(jwks_urls=[peer.url + JWKS]) as verifier:
        with pytest.raises(UnavailableError, match="status 503"):
            await verifier.verify(agent.signed())
        agent.status, agent.published = 200, SigningKeys()
        with pytest.raises(UnavailableError, match="no public key for signatures"):
            await verifier.verify(agent.signed())
        agent.published = OLD
        await verifier.verify(agent.signed())


def test_a_card_in_hand() -> None:
    signed = Agent().signed()
    assert verify_card(signed, OLD.jwks()).kid == OLD.keys[0].kid
    assert verify_card(protojson.loads(signed, a2a_pb2.AgentCard), json.dumps(OLD.jwks()).encode()).algorithm == "ES256"
    with pytest.raises(CardSignatureError):
        verify_card(signed, NEW.jwks())
    with pytest.raises(InvalidArgumentError, match="key set"):
        verify_card(signed, {"keys": []})


@pytest.mark.parametrize(
    "url", ["http://agent.example.com/k", "ftp://x/k", "file:///k", "https://", "localhost/k", "https://[::1/k"]
)
async def test_keys_do_not_come_over_plain_networks(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"over https|no URL"):
        CardVerifier(jwks_urls=[url])
    with pytest.raises(InvalidArgumentError, match="needs keys"):
        CardVerifier()


async def test_the_command_prints_only_what_is_signed(
    agent: Agent, peer: HttpPeer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keys").write_text(json.dumps(OLD.jwks()))
    (tmp_path / "other").write_text(json.dumps(NEW.jwks()))

    async def run(keys: str) -> int:
        return await asyncio.to_thread(card_command, ["get", "-a", peer.url, "--signed", "--keys", keys])

    assert await run(str(tmp_path / "keys")) == 0
    assert await run(peer.url + JWKS) == 0
    assert capsys.readouterr().out.count("Signature: verified (") == 2
    assert await run(str(tmp_path / "other")) == 1
    assert await run(str(tmp_path / "none")) == 2
    said = capsys.readouterr()
    assert said.out == "" and "cannot be trusted" in said.err and "cannot be read" in said.err


async def test_the_command_checks_a_card_in_a_file(
    agent: Agent, peer: HttpPeer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, card = tmp_path / "keys", tmp_path / "card.json"
    keys.write_text(json.dumps(OLD.jwks()))

    async def run(agent: str, *argv: str) -> int:
        return await asyncio.to_thread(card_command, ["get", "-a", agent, "-o", "json", *argv])

    assert await run(peer.url) == 0
    printed = capsys.readouterr().out
    card.write_text(printed)
    assert await run(str(card), "--signed", "--keys", str(keys)) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(printed)
    card.write_text(printed.replace(json.loads(printed)["name"], "Somebody else"))
    assert await run(str(card), "--signed", "--keys", str(keys)) == 1
    [error] = json.loads(capsys.readouterr().out).values()
    assert error["code"] == "A2ACLI_ERR_CARD_INVALID" and "does not belong to this content" in error["message"]
