"""Who sees which card of a real service, and whether it is signed: 8.2, 8.4, 8.6, 13.3."""

import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
from a2a.client import A2ACardResolver
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from jwt import PyJWK

from a2a_grpc.card.v1.card_pb2 import GetAgentCardRequest, GetAgentCardResponse, GetKeySetRequest
from a2a_grpc.card.v1.card_pb2_grpc import AgentCardServiceStub
from a2a_grpc.client import CardResolver
from a2a_grpc.client.verifying import CardVerifier, verify_card
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from tests.auth.conftest import API_KEYS, serving, trusting
from tests.auth.issuer import Issuer, issuing
from tests.conformance.callers import BINDINGS, CALLERS, KEYS, VERSION, Caller, CallError, texts
from tests.process.gateway import Gateway
from tests.support.leaks import MARKER, secret
from tests.support.replica import Replica

pytestmark = pytest.mark.wide

CARD = "/.well-known/agent-card.json"
JWKS = "/.well-known/jwks.json"
SCOPED = "tests.card.scoped_agent:agent"


def write_key(path: Path, key: Any) -> str:
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(path)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The files of two keys."""
    folder = tmp_path_factory.mktemp("keys")
    pair = (ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate())
    return ",".join(write_key(folder / f"{number}.pem", key) for number, key in enumerate(pair))


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as one:
        yield one


@pytest.fixture(scope="module")
def scoped(issuer: Issuer, keys: str) -> Iterator[Replica]:
    """Signed cards, and skills by scope; callers have tokens."""
    with serving(SCOPED, **trusting(issuer), A2A_SIGNING_KEYS=keys) as one:
        yield one


@pytest.fixture(scope="module")
def keyed(keys: str) -> Iterator[Replica]:
    """A signed card that everybody may read; callers have API keys, whose requirement has no scopes in the card."""
    with serving(A2A_API_KEYS=API_KEYS, A2A_SIGNING_KEYS=keys) as one:
        yield one


@pytest.fixture(scope="module")
def closed(keys: str) -> Iterator[Replica]:
    """The public card is for callers alone."""
    with serving(A2A_API_KEYS=API_KEYS, A2A_CARD_ACCESS="authenticated", A2A_SIGNING_KEYS=keys) as one:
        yield one


@pytest.fixture(scope="module")
def behind(closed: Replica) -> Iterator[Gateway]:
    """A gateway in front of it."""
    gateway = Gateway(closed.grpc_addr)
    try:
        gateway.start()
        yield gateway
    finally:
        gateway.close()


async def get(service: Replica, path: str, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=service.http_url, trust_env=False) as client:
        return await client.get(path, headers={name.replace("_", "-"): value for name, value in headers.items()})


@contextlib.asynccontextmanager
async def connected(service: Replica, binding: str, token: str) -> AsyncIterator[Caller]:
    given = {**VERSION, **({"authorization": f"Bearer {token}"} if token else {})}
    async with CALLERS[binding](service, given) as caller:
        yield caller


async def extended(service: Replica, binding: str, token: str) -> a2a_pb2.AgentCard:
    async with connected(service, binding, token) as caller:
        card: a2a_pb2.AgentCard = (await caller.answer("GetExtendedAgentCard")).message
        return card


def skills(card: a2a_pb2.AgentCard) -> list[str]:
    return [skill.id for skill in card.skills]


# -- signatures --------------------------------------------------------------------------------------------------------


async def test_the_card_that_is_served_is_signed_by_every_key_and_the_keys_are_published(keyed: Replica) -> None:
    card, published = await get(keyed, CARD), await get(keyed, JWKS)
    jwks = published.json()
    assert published.headers["content-type"] == "application/jwk-set+json"
    assert published.headers["cache-control"] == "public, max-age=300"
    assert published.headers["access-control-allow-origin"] == "*"
    assert [key["alg"] for key in jwks["keys"]] == ["ES256", "EdDSA"]
    assert not any("d" in key for key in jwks["keys"])
    for key in jwks["keys"]:
        assert verify_card(card.content, {"keys": [key]}).kid == key["kid"]
    fresh = await get(keyed, JWKS, if_none_match=published.headers["etag"])
    assert (fresh.status_code, fresh.content) == (304, b"")
    async with httpx.AsyncClient(base_url=keyed.http_url, trust_env=False) as client:
        assert (await client.post(JWKS)).status_code == 405
        assert (await client.head(JWKS)).headers["etag"] == published.headers["etag"]


async def test_b095_a_restart_changes_nothing_of_a_signed_card(keyed: Replica) -> None:
    before = await get(keyed, CARD)
    keyed.kill()
    keyed.start()
    after = await get(keyed, CARD)
    assert (after.content, after.headers["etag"]) == (before.content, before.headers["etag"])


async def test_the_official_sdk_verifies_the_card_that_is_served(keyed: Replica) -> None:
    published = {key["kid"]: PyJWK.from_dict(key) for key in (await get(keyed, JWKS)).json()["keys"]}
    asked: list[str | None] = []

    def provide(kid: str | None, jku: str | None) -> PyJWK:
        asked.append(jku)
        return published[kid or ""]

    async with httpx.AsyncClient(trust_env=False) as client:
        resolver = A2ACardResolver(client, keyed.http_url)
        card = await resolver.get_agent_card(signature_verifier=create_signature_verifier(provide, ["ES256", "EdDSA"]))
        assert card.name == "Guarded"
        other = PyJWK.from_dict({**(await get(keyed, JWKS)).json()["keys"][1], "x": "A" * 43})
        with pytest.raises(InvalidSignaturesError):
            await resolver.get_agent_card(signature_verifier=create_signature_verifier(lambda *_: other, ["EdDSA"]))
    assert set(asked) == {keyed.http_url + JWKS}


async def test_our_resolver_verifies_the_card_that_is_served(keyed: Replica) -> None:
    async with CardVerifier(jwks_urls=[keyed.http_url + JWKS]) as verifier, CardResolver(verifier=verifier) as resolver:
        assert (await resolver.resolve(keyed.http_url)).name == "Guarded"


async def test_over_grpc_card_and_keys_are_the_same_bytes(keyed: Replica) -> None:
    async with grpc.aio.insecure_channel(keyed.grpc_addr) as channel:
        stub = AgentCardServiceStub(channel)
        card: GetAgentCardResponse = await stub.GetAgentCard(GetAgentCardRequest())
        published = await stub.GetKeySet(GetKeySetRequest())
    assert (card.body, card.private) == ((await get(keyed, CARD)).content, False)
    assert published.body == (await get(keyed, JWKS)).content


async def test_without_keys_nothing_is_signed_and_nothing_published() -> None:
    with serving(A2A_API_KEYS=API_KEYS) as plain:
        assert "signatures" not in (await get(plain, CARD)).json()
        assert (await get(plain, JWKS)).status_code == 404


# -- the extended card -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", BINDINGS)
async def test_13_3_each_caller_sees_the_skills_of_its_scopes(binding: str, scoped: Replica, issuer: Issuer) -> None:
    assert skills(await extended(scoped, binding, issuer.token())) == ["echo", "known"]
    assert skills(await extended(scoped, binding, issuer.token(scope="read admin"))) == ["echo", "admin", "known"]
    with pytest.raises(CallError) as caught:
        await extended(scoped, binding, "")
    assert caught.value.reason == "UNAUTHENTICATED"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_8_4_extended_cards_are_signed(binding: str, scoped: Replica, issuer: Issuer) -> None:
    jwks = (await get(scoped, JWKS)).json()
    for token in (issuer.token(), issuer.token(scope="admin")):
        card = await extended(scoped, binding, token)
        assert verify_card(card, jwks).algorithm == "ES256"
        assert card.signatures[0].signature != read(await get(scoped, CARD)).signatures[0].signature


def read(response: httpx.Response) -> a2a_pb2.AgentCard:
    assert response.status_code == 200
    return protojson.loads(response.content, a2a_pb2.AgentCard)


async def test_b097_the_public_card_never_has_what_only_some_may_see(scoped: Replica) -> None:
    response = await get(scoped, CARD)
    assert skills(read(response)) == ["echo"] and read(response).capabilities.extended_agent_card
    assert b"admin" not in response.content and b"known" not in response.content.replace(b"unknown", b"")


@pytest.mark.parametrize("binding", BINDINGS)
async def test_who_does_not_see_a_skill_cannot_use_it(binding: str, scoped: Replica, issuer: Issuer) -> None:
    async def done(text: str, token: str) -> str:
        async with connected(scoped, binding, token) as caller:
            return texts(await caller.task(text))[0]

    assert await done("admin: do it", issuer.token(scope="admin")) == "echo"  # no word of its own
    assert await done("admin do it", issuer.token(scope="admin")) == "admin"
    assert await done("known", issuer.token()) == "known"
    # What nobody names goes to the first skill that is for everybody, not to the first of all.
    assert await done("do it", issuer.token()) == "echo"
    with pytest.raises(CallError) as caught:
        await done("admin do it", issuer.token(scope="read"))
    assert "the scope admin" in caught.value.message
    assert caught.value.reason == "PERMISSION_DENIED"
    assert "insufficient_scope" in caught.value.parameters["www-authenticate"]


async def test_13_3_the_extended_card_is_kept_by_its_caller_alone(scoped: Replica, issuer: Issuer) -> None:
    async def ask(token: str, tag: str = "") -> httpx.Response:
        more = {"if_none_match": tag} if tag else {}
        return await get(scoped, "/extendedAgentCard", a2a_version="1.0", authorization=f"Bearer {token}", **more)

    one, other = await ask(issuer.token()), await ask(issuer.token(scope="admin"))
    for response in (one, other):
        assert response.headers["cache-control"] == "private, no-cache"
        assert response.headers["vary"] == "authorization"
    assert one.headers["etag"] != other.headers["etag"]
    fresh = await ask(issuer.token(), one.headers["etag"])
    assert (fresh.status_code, fresh.content, fresh.headers["cache-control"]) == (304, b"", "private, no-cache")
    assert (await ask(issuer.token(scope="admin"), one.headers["etag"])).status_code == 200
    refused = await get(scoped, "/extendedAgentCard", a2a_version="1.0", if_none_match=one.headers["etag"])
    assert (refused.status_code, refused.headers["cache-control"]) == (401, "no-store")


@pytest.fixture(scope="module")
def by_caller(issuer: Issuer, keys: str) -> Iterator[Replica]:
    with serving("tests.card.scoped_agent:by_caller", **trusting(issuer), A2A_SIGNING_KEYS=keys) as one:
        yield one


@pytest.mark.parametrize("binding", BINDINGS)
async def test_an_extended_card_may_be_a_function_of_the_caller(
    binding: str, by_caller: Replica, issuer: Issuer
) -> None:
    jwks = (await get(by_caller, JWKS)).json()
    plain = await extended(by_caller, binding, issuer.token(sub="carol"))
    assert (plain.description, skills(plain)) == ("For carol: []", ["echo"])
    more = await extended(by_caller, binding, issuer.token(sub="dave", scope="admin read"))
    assert (more.description, skills(more)) == ("For dave: ['admin', 'read']", ["echo", "admin"])
    public = read(await get(by_caller, CARD))
    for card in (plain, more):
        assert card.supported_interfaces == public.supported_interfaces
        assert card.security_schemes == public.security_schemes and card.capabilities == public.capabilities
        assert verify_card(card, jwks)
    # None of the function: the public card with what the caller may see.
    assert skills(await extended(by_caller, binding, issuer.token(sub="bob", scope="admin"))) == ["echo", "admin"]
    with pytest.raises(CallError) as caught:
        await extended(by_caller, binding, issuer.token(sub="eve"))
    assert caught.value.reason == "INTERNAL_ERROR"


# -- the public card for callers alone ---------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["closed", "behind"])
async def test_a_card_that_is_kept_to_callers(place: str, request: pytest.FixtureRequest) -> None:
    """The service itself, and a gateway in front of it."""
    service: Replica = request.getfixturevalue(place)
    for headers in ({}, {"x_api_key": "wrong"}):
        refused = await get(service, CARD, **headers)
        assert (refused.status_code, refused.headers["cache-control"]) == (401, "no-store")
        assert refused.headers["www-authenticate"] == 'ApiKey header="x-api-key"'
        assert refused.json()["error"]["details"][0]["reason"] == "UNAUTHENTICATED"
        assert b"Guarded" not in refused.content
    allowed = await get(service, CARD, x_api_key=KEYS["alice"])
    assert read(allowed).name == "Guarded"
    assert allowed.headers["cache-control"] == "private, max-age=300"
    assert "x-api-key" in allowed.headers["vary"].split(", ")
    tag = allowed.headers["etag"]
    assert (await get(service, CARD, x_api_key=KEYS["bob"], if_none_match=tag)).status_code == 304
    assert (await get(service, CARD, if_none_match=tag)).status_code == 401
    # Keys are public whoever reads the card.
    assert verify_card(allowed.content, (await get(service, JWKS)).json())


async def test_a_card_that_is_kept_to_callers_over_grpc(closed: Replica) -> None:
    async with grpc.aio.insecure_channel(closed.grpc_addr) as channel:
        stub = AgentCardServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetAgentCard(GetAgentCardRequest())
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        trailers = dict(caught.value.trailing_metadata() or ())
        assert trailers["www-authenticate"] == 'ApiKey header="x-api-key"'
        metadata = (("x-api-key", KEYS["alice"]),)
        answer: GetAgentCardResponse = await stub.GetAgentCard(GetAgentCardRequest(), metadata=metadata)
    assert answer.private and b"Guarded" in answer.body


async def test_refused_readers_are_on_record_without_what_they_sent(closed: Replica) -> None:
    await get(closed, CARD, x_api_key=secret("wrong"))
    [*_, last] = [json.loads(line) for line in closed.log().splitlines() if "authentication-failed" in line]
    assert (last["event"], last["method"], last["binding"]) == ("authentication-failed", "GetAgentCard", "HTTP+JSON")
    assert MARKER not in closed.log()


def test_a_card_for_callers_where_there_can_be_none_is_refused_at_start() -> None:
    service = Replica(agent=SCOPED, redis_url=None, env={"A2A_CARD_ACCESS": "authenticated"})
    try:
        service.start(wait=False)
        assert service.wait(20) == 2
        assert "A2A_CARD_ACCESS is authenticated, but no scheme of authentication is configured" in service.log()
    finally:
        service.close()
