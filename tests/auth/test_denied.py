"""Deny by default: every operation and the card, over every binding, through a gateway too, with every scheme.

One service has a tenant for each scheme, so that what opens one door can be tried at all the others.
"""

import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import grpc.aio
import httpx
import pytest
import yaml
from cryptography import x509

from a2a_grpc.card.v1.card_pb2 import GetAgentCardRequest
from a2a_grpc.card.v1.card_pb2_grpc import AgentCardServiceStub
from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from tests.auth.conftest import AGENT, challenges
from tests.auth.issuer import Issuer, private_key
from tests.conformance.callers import CALLERS, OPERATIONS, VERSION, Caller, CallError, GrpcCaller, refused
from tests.conformance.expected import UNAUTHENTICATED
from tests.conformance.test_versions import valid_request
from tests.process.gateway import Gateway
from tests.support.certificates import Authority, Files
from tests.support.leaks import secret
from tests.support.replica import Replica
from tests.support.secure import SecureReplica, serving, trusting

METHODS = [method.name for method in pb.DESCRIPTOR.services_by_name["A2AService"].methods]
SCHEMES = ("header", "query", "cookie", "jwt", "oidc", "oauth2", "together", "mtls")
ROUTES = (
    "GRPC",
    "HTTP+JSON",
    "JSONRPC",
    pytest.param("gateway HTTP+JSON", marks=pytest.mark.wide),
    pytest.param("gateway JSONRPC", marks=pytest.mark.wide),
)
KEYS = {scheme: secret(f"of-{scheme}") for scheme in (*SCHEMES, "wrong")}


@dataclass(frozen=True)
class Sent:
    """Credentials in all their places."""

    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    cookies: Mapping[str, str] = field(default_factory=dict)
    shown: str = ""
    """Which certificate, over HTTP; over gRPC the service asks for none."""

    def __or__(self, other: "Sent") -> "Sent":
        return Sent(
            {**self.headers, **other.headers},
            {**self.query, **other.query},
            {**self.cookies, **other.cookies},
            other.shown or self.shown,
        )


def keyed(scheme: str, key: str) -> Sent:
    """A key where the scheme has it."""
    match scheme:
        case "query":
            return Sent(query={"key-of-query": key})
        case "cookie":
            return Sent(cookies={"key-of-cookie": key})
        case _:
            return Sent({f"key-of-{scheme}": key})


def bearing(token: str) -> Sent:
    return Sent({"authorization": f"Bearer {token}"})


def good(scheme: str, issuer: Issuer) -> Sent:
    """What opens the tenant of a scheme, and no other."""
    match scheme:
        case "header" | "query" | "cookie":
            return keyed(scheme, KEYS[scheme])
        case "together":
            return bearing(issuer.token(aud=scheme)) | keyed(scheme, KEYS[scheme])
        case "mtls":
            return Sent(shown="alice")
        case _:
            return bearing(issuer.token(aud=scheme))


def bad(scheme: str, issuer: Issuer) -> Iterator[tuple[str, Sent]]:
    yield "nothing", Sent()
    wrong = bearing(issuer.token(aud=scheme, key=private_key("EC")))
    for place in ("header", "query", "cookie", "together"):
        wrong |= keyed(place, KEYS["wrong"])
    yield "what is wrong", wrong | Sent({"cookie": "nonsense"}, shown="nameless")
    others = Sent()
    for other in SCHEMES:
        if other != scheme:
            others |= good(other, issuer)
    yield "what opens the others", others
    if scheme == "together":
        yield "a key alone", keyed(scheme, KEYS[scheme])
        yield "a token alone", bearing(issuer.token(aud=scheme))
    if scheme in ("header", "query", "cookie"):
        # The right key of another place of the same name.
        key, name = KEYS[scheme], f"key-of-{scheme}"
        elsewhere = {"header": Sent(query={name: key}, cookies={name: key}), "query": Sent(cookies={name: key})}
        yield "a key elsewhere", elsewhere.get(scheme, Sent(query={name: key}))


def auth(scheme: str, issuer: Issuer) -> dict[str, Any]:
    """The section of a tenant."""
    keys = {"keys": {"alice": hashlib.sha256(KEYS[scheme].encode()).hexdigest()}, "name": f"key-of-{scheme}"}
    jwt = {"issuer": issuer.url, "audience": scheme, "jwks_url": issuer.jwks_url}
    urls = {f"{kind}_url": f"https://issuer.example.com/{kind}" for kind in ("token", "authorization", "device")}
    flows = ["client_credentials", "authorization_code", "device_code"]
    match scheme:
        case "jwt":
            return {"jwt": jwt}
        case "oidc":
            return {"oidc": {"issuer": issuer.url, "audience": scheme}}
        case "oauth2":
            names = "oauth2ClientCredentials, oauth2AuthorizationCode, oauth2DeviceCode"
            return {"jwt": jwt, "oauth2": {"flows": flows, **urls}, "security": names}
        case "together":
            return {"jwt": jwt, "api_keys": keys, "security": "bearer+apiKey"}
        case "mtls":
            return {"mtls": "san"}
        case _:
            return {"api_keys": {**keys, "location": scheme}}


class Doors(NamedTuple):
    """The service, a gateway in front of it, and what callers need besides credentials."""

    service: SecureReplica
    gateway: Replica
    certificates: Mapping[str, Path]

    def context(self, shown: str) -> Any:
        return trusting(self.service.authority, self.certificates.get(shown))


@pytest.fixture(scope="module")
def doors(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder, authority = tmp_path_factory.mktemp("doors"), Authority()
    agents = folder / "agents.yaml"
    tenants = {scheme: {"agent": AGENT, "auth": auth(scheme, issuer)} for scheme in SCHEMES}
    agents.write_text(yaml.safe_dump({"agents": tenants}))
    certificates = {"alice": folder / "alice.pem", "nameless": folder / "nameless.pem"}
    certificates["alice"].write_bytes(b"".join(authority.issue("", [x509.DNSName("alice.example.com")])))
    certificates["nameless"].write_bytes(b"".join(authority.issue("only a subject")))
    files = Files(folder, authority.issue_server(), authority.pem)
    env = {"A2A_TLS_CLIENT_CERT": "optional", "A2A_TLS_GRPC_CLIENT_CERT": "none", "A2A_CARD_ACCESS": "authenticated"}
    ca_file = folder / "ca.pem"
    ca_file.write_bytes(authority.pem)
    with serving(str(agents), files, authority, **env, A2A_LOG_LEVEL="debug") as service:
        gateway = Gateway(service.grpc_addr, {"A2A_LOG_LEVEL": "debug"}, ca_file)
        try:
            gateway.start()
            yield Doors(service, gateway, certificates)
        finally:
            gateway.close()


@contextlib.asynccontextmanager
async def calling(doors: Doors, route: str, tenant: str, sent: Sent) -> AsyncIterator[Caller]:
    """A caller over a route. What is a query or a cookie over HTTP is metadata over gRPC."""
    place, _, binding = route.rpartition(" ")
    to: Replica = doors.gateway if place else doors.service
    given = {**VERSION, **sent.headers}
    if binding == "GRPC":
        given |= {**sent.query, **sent.cookies}
    elif sent.cookies:
        given["cookie"] = "; ".join([given.get("cookie", "a=b"), *(f"{k}={v}" for k, v in sent.cookies.items())])
    async with CALLERS[binding](to, given, tenant) as caller, contextlib.AsyncExitStack() as stack:
        if isinstance(caller, GrpcCaller):
            await caller._channel.close()
            credentials = grpc.ssl_channel_credentials(doors.service.authority.pem)
            caller._channel = grpc.aio.secure_channel(to.grpc_addr, credentials)
            caller._stub = A2AServiceStub(caller._channel)
        else:
            caller.http = await stack.enter_async_context(  # type: ignore[attr-defined]
                httpx.AsyncClient(
                    base_url=to.http_url, verify=doors.context(sent.shown), params=sent.query, trust_env=False
                )
            )
        yield caller


async def card_status(caller: Caller, tenant: str) -> str:
    """The outcome of asking for the card, as gRPC or HTTP says it."""
    if isinstance(caller, GrpcCaller):
        stub = AgentCardServiceStub(caller._channel)
        metadata = tuple(caller.parameters.items())
        try:
            await stub.GetAgentCard(GetAgentCardRequest(tenant=tenant), metadata=metadata)
        except grpc.aio.AioRpcError as error:
            assert dict(error.trailing_metadata() or ())["www-authenticate"]
            return str(error.code().name)
        return "OK"
    answer = await caller.http.get(  # type: ignore[attr-defined]
        f"/{tenant}/.well-known/agent-card.json", headers=caller.parameters
    )
    assert answer.status_code != httpx.codes.UNAUTHORIZED or answer.headers["www-authenticate"]
    return {401: "UNAUTHENTICATED", 200: "OK"}.get(answer.status_code, "something else")


def test_the_operations_are_all() -> None:
    assert set(METHODS) == set(OPERATIONS)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_nothing_opens_without_credentials_that_hold(
    scheme: str, route: str, doors: Doors, issuer: Issuer
) -> None:
    for what, sent in bad(scheme, issuer):
        if what == "a key elsewhere" and route == "GRPC":  # which has one place for all of them
            continue
        async with calling(doors, route, scheme, sent) as caller:
            assert await card_status(caller, scheme) == "UNAUTHENTICATED", what
            for method in METHODS:
                try:
                    failure = await refused(UNAUTHENTICATED, caller.call(method, valid_request(method, "unknown")))
                except AssertionError as error:
                    error.add_note(f"{method} with {what}")
                    raise
                assert challenges(failure), (method, what)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_each_door_has_its_key(scheme: str, route: str, doors: Doors, issuer: Issuer) -> None:
    """So others are refused for want of credentials. Certificates come through no gateway, and not over gRPC here."""
    closed = scheme == "mtls" and route not in ("HTTP+JSON", "JSONRPC")
    async with calling(doors, route, scheme, good(scheme, issuer)) as caller:
        assert await card_status(caller, scheme) == ("UNAUTHENTICATED" if closed else "OK")
        for method in METHODS:
            try:
                await caller.call(method, valid_request(method, "unknown"))
            except CallError as error:
                assert error.is_of(UNAUTHENTICATED) == closed, (method, error)
            else:
                assert not closed, method


async def test_the_card_names_no_interface_that_opens_to_nobody(doors: Doors, issuer: Issuer) -> None:
    """8.3.1: what it lists are interfaces over which the agent can be called, and the first is the preferred one."""
    for scheme in SCHEMES:
        async with calling(doors, "HTTP+JSON", scheme, good(scheme, issuer)) as caller:
            path = f"/{scheme}/.well-known/agent-card.json"
            answer = await caller.http.get(path, headers=caller.parameters)  # type: ignore[attr-defined]
        named = [entry["protocolBinding"] for entry in answer.json()["supportedInterfaces"]]
        assert named == (["HTTP+JSON", "JSONRPC"] if scheme == "mtls" else ["GRPC", "HTTP+JSON", "JSONRPC"]), scheme
    told = "Callers of the agent of the tenant mtls need a client certificate, and the gRPC listener asks for none"
    log = doors.service.log(None)
    assert log.count("need a client certificate") == log.count(told) == 1


async def test_over_grpc_a_certificate_is_asked_for_in_the_handshake(tmp_path: Path) -> None:
    """One of an authority that is trusted and that names nobody gets through it, and no further."""
    authority = Authority()
    files = Files(tmp_path, authority.issue_server(), authority.pem)
    nameless = authority.issue("only a subject")
    asks = {"A2A_TLS_CLIENT_CERT": "required", "A2A_MTLS": "san"}
    service = SecureReplica(AGENT, files, authority, **asks)
    service.start(wait=False)
    try:
        for pair, code in ((None, "UNAVAILABLE"), (nameless, "UNAUTHENTICATED")):
            chain, key = pair or (None, None)
            credentials = grpc.ssl_channel_credentials(authority.pem, key, chain)
            async with grpc.aio.secure_channel(service.grpc_addr, credentials) as channel:
                if pair:
                    await channel.channel_ready()
                stub: Any = A2AServiceStub(channel)
                for method in METHODS:
                    call = getattr(stub, method)(valid_request(method, "unknown"), metadata=tuple(VERSION.items()))
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await (anext(aiter(call)) if OPERATIONS[method].streams else call)
                    assert caught.value.code().name == code, (method, caught.value)
    finally:
        service.close()
