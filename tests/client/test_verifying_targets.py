"""8.4.3: with a verifier no card of anybody else is used, wherever it comes from, and what "if signed" lets pass."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from google.protobuf.struct_pb2 import Struct

from a2a_grpc.client import (
    A2AClient,
    CardNotFoundError,
    CardResolver,
    CardSignatureError,
    InvalidArgumentError,
    RemoteAgent,
)
from a2a_grpc.client.registry import _registered
from a2a_grpc.client.verifying import CardVerifier
from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.registry.v1.registry_pb2 import DETAIL_FULL, Agent
from a2a_grpc.server.card.signing import CardSigner
from a2a_grpc.server.keys import SigningKeys, signing_key
from a2a_grpc.wire import protojson
from tests.client.peers import HttpPeer, Request, card, http_peer, response

OWN = SigningKeys((signing_key(ec.generate_private_key(ec.SECP256R1())),))
OTHER = SigningKeys((signing_key(ed25519.Ed25519PrivateKey.generate()),))
WHERE = "http://127.0.0.1:1"

Target = str | Path | pb.AgentCard
Made = Callable[[bytes], Target]


def signed(keys: SigningKeys | None) -> bytes:
    made = card(("HTTP+JSON", "1.0", WHERE))
    if keys is not None:
        CardSigner(keys, "https://evil.example/keys").sign(made)
    return protojson.dumps(made)


TRUSTED, UNSIGNED, STRANGE = signed(OWN), signed(None), signed(OTHER)
CHANGED = TRUSTED.replace(b"A peer.", b"A pear.")


@pytest.fixture
async def served() -> AsyncIterator[HttpPeer]:
    """Serves the card that stands in the request, in its query."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        name = request.target.rpartition("?")[2]
        writer.write(response(body=globals()[name], media_type="application/json"))

    async with http_peer(respond) as peer:
        yield peer


@pytest.fixture(params=["URL", "file", "name of a file", "card", "registry"])
def target(request: pytest.FixtureRequest, tmp_path: Path, served: HttpPeer) -> Made:
    """Makes a target that leads to this card."""

    def made(document: bytes) -> Target:
        file = tmp_path / "card.json"
        file.write_bytes(document)
        names = {TRUSTED: "TRUSTED", UNSIGNED: "UNSIGNED", STRANGE: "STRANGE", CHANGED: "CHANGED"}
        found: dict[str, Target] = {
            "URL": f"{served.url}?{names[document]}",
            "file": file,
            "name of a file": str(file),
            "card": protojson.loads(document, pb.AgentCard),
            "registry": _registered(Agent(card=protojson.loads(document, Struct), detail=DETAIL_FULL)).card,
        }
        return found[request.param]

    return made


async def refusal(target: Target, verifier: CardVerifier | None) -> str:
    """Why the card is refused, by each of the two that connect; "" where it is taken."""
    said: list[str] = []
    async with CardResolver(verifier=verifier) as resolver:
        for kind in (A2AClient, RemoteAgent):
            try:
                async with await kind.connect(target, resolver=resolver) as connected:
                    assert connected.card is not None and connected.card.name == "Peer"
                said.append("")
            except CardSignatureError as error:
                said.append(error.message)
    assert said[0] == said[1]
    return said[0]


async def test_by_default_every_card_has_to_be_signed(target: Made) -> None:
    async with CardVerifier(jwks=OWN.jwks()) as verifier:
        assert await refusal(target(TRUSTED), verifier) == ""
        assert "not signed" in await refusal(target(UNSIGNED), verifier)
        assert "no key that is trusted" in await refusal(target(STRANGE), verifier)
        assert "does not belong to this content" in await refusal(target(CHANGED), verifier)


async def test_if_signed_it_has_to_be_by_a_key_that_is_trusted(target: Made) -> None:
    async with CardVerifier(jwks=OWN.jwks(), policy="if signed") as verifier:
        assert await refusal(target(TRUSTED), verifier) == ""
        assert await refusal(target(UNSIGNED), verifier) == ""
        assert "no key that is trusted" in await refusal(target(STRANGE), verifier)
        assert "does not belong to this content" in await refusal(target(CHANGED), verifier)


async def test_without_keys_nothing_can_be_verified(target: Made) -> None:
    for document in (TRUSTED, UNSIGNED, STRANGE, CHANGED):
        assert await refusal(target(document), None) == ""


async def test_a_file_is_verified_as_it_is_written(tmp_path: Path) -> None:
    """A field that is not known here is signed, too."""
    [key] = OWN.keys
    content = orjson.loads(UNSIGNED) | {"fieldOfTomorrow": "x"}
    protected, signature = key.sign(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), {"typ": "JOSE"})
    file = tmp_path / "card.json"
    file.write_bytes(orjson.dumps(content | {"signatures": [{"protected": protected, "signature": signature}]}))
    async with CardVerifier(jwks=OWN.jwks()) as verifier:
        assert await refusal(file, verifier) == ""
        file.write_bytes(file.read_bytes().replace(b"fieldOfTomorrow", b"fieldOfYesterday"))
        assert "does not belong to this content" in await refusal(file, verifier)


async def test_what_has_no_card_is_called_without_one() -> None:
    interface = pb.AgentInterface(url=WHERE, protocol_binding="HTTP+JSON", protocol_version="1.0")
    async with (
        CardVerifier(jwks=OWN.jwks()) as verifier,
        CardResolver(verifier=verifier) as resolver,
        await A2AClient.connect(interface, resolver=resolver) as client,
    ):
        assert client.card is None


async def test_a_file_that_is_not_there_is_said_as_without_a_verifier(tmp_path: Path) -> None:
    async with CardVerifier(jwks=OWN.jwks()) as verifier:
        for given in (None, verifier):
            async with CardResolver(verifier=given) as resolver:
                with pytest.raises(CardNotFoundError, match="cannot be read: No such file"):
                    await A2AClient.connect(tmp_path / "none.json", resolver=resolver)
                with pytest.raises(InvalidArgumentError, match="is no agent"):
                    await A2AClient.connect(str(tmp_path / "none.json"), resolver=resolver)


async def test_an_unsigned_card_that_may_pass_has_no_keys_fetched_for_it() -> None:
    """Nor is it said to be signed by anybody; who asks for the signer is told that there is none."""
    verifier = CardVerifier(jwks_urls=["https://keys.invalid/jwks.json"], policy="if signed")
    async with verifier:
        assert await verifier.check(UNSIGNED) is None
        assert await verifier.check(protojson.loads(UNSIGNED, pb.AgentCard)) is None
    async with CardVerifier(jwks=OWN.jwks(), policy="if signed") as verifier:
        signer = await verifier.check(TRUSTED)
        assert signer is not None and signer.algorithm == "ES256"
        with pytest.raises(CardSignatureError, match="not signed"):
            await verifier.verify(UNSIGNED)


def test_a_policy_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="'never' is no policy"):
        CardVerifier(jwks=OWN.jwks(), policy="never")  # type: ignore[arg-type]
