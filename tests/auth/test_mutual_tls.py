"""Client certificates as callers, on both listeners of a real process."""

import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from cryptography import x509

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from a2a_grpc.server.auth.mutual_tls import read_certificate
from a2a_grpc.server.compose.hosts import host_one, shut_doors
from a2a_grpc.server.settings import load
from tests.auth.conftest import AGENT, API_KEYS
from tests.auth.issuer import AUDIENCE, Issuer
from tests.conformance.callers import KEYS, say
from tests.support.certificates import Authority, Files
from tests.support.replica import Replica
from tests.support.waiting import wait_until

VERSION = {"a2a-version": "1.0"}
SPIFFE = "spiffe://example.com/agent"


class Places:
    """A service that asks for certificates, and ways to call it."""

    def __init__(self, replica: Replica, authority: Authority, folder: Path) -> None:
        self.replica = replica
        self.authority = authority
        self.url = replica.http_url.replace("http:", "https:")
        self._folder = folder

    def certificate(self, name: str, *names: x509.GeneralName) -> tuple[bytes, bytes]:
        return self.authority.issue(name, names)

    def http(self, pair: tuple[bytes, bytes] | None, **headers: str) -> httpx.AsyncClient:
        context = ssl.create_default_context(cadata=self.authority.pem.decode())
        if pair is not None:
            path = self._folder / f"client-{time.monotonic_ns()}.pem"
            path.write_bytes(b"".join(pair))
            context.load_cert_chain(path)
        return httpx.AsyncClient(base_url=self.url, verify=context, headers=VERSION | headers, trust_env=False)

    def grpc(self, pair: tuple[bytes, bytes]) -> grpc.aio.Channel:
        credentials = grpc.ssl_channel_credentials(self.authority.pem, pair[1], pair[0])
        return grpc.aio.secure_channel(self.replica.grpc_addr, credentials)


@contextlib.asynccontextmanager
async def serving(folder: Path, **env: str) -> AsyncIterator[Places]:
    authority = Authority()
    files = Files(folder, authority.issue_server(), authority.pem)
    asks = {"A2A_TLS_CLIENT_CERT": "optional", "A2A_TLS_GRPC_CLIENT_CERT": "required"}
    replica = Replica(agent=AGENT, redis_url=None, env={**files.settings(), **asks, **env})
    places = Places(replica, authority, folder)
    try:
        replica.start(wait=False)
        async with places.http(None) as http:

            async def ready() -> bool:
                assert replica.alive, replica.log()
                try:
                    return (await http.get("/readyz")).status_code == httpx.codes.OK
                except httpx.TransportError:
                    return False

            await wait_until(ready, "the service is ready", timeout=20)
        yield places
    finally:
        replica.close()


ALL = ["GRPC", "HTTP+JSON", "JSONRPC"]


@pytest.mark.parametrize(
    ("http", "grpc", "security", "named", "told"),
    [
        ("optional", "none", "mtls", ALL[1:], ["the gRPC listener asks for none", "Set A2A_TLS_GRPC_CLIENT_CERT,"]),
        ("optional", None, "mtls", ALL[1:], ["the gRPC listener asks for none", "Set A2A_TLS_GRPC_CLIENT_CERT,"]),
        ("none", "required", "mtls", ALL[:1], ["the HTTP listener asks for none", "Set A2A_TLS_CLIENT_CERT,"]),
        ("none", "required", "mtls+apiKey", ALL[:1], ["the HTTP listener asks for none"]),
        ("none", "required", "mtls, apiKey", ALL, []),
        ("optional", "none", "apiKey", ALL, []),
        ("required", None, "mtls", ALL, []),
        ("optional", "required", "mtls", ALL, []),
    ],
)
def test_where_no_certificate_is_asked_for_nobody_is_sent(
    http: str, grpc: str | None, security: str, named: list[str], told: list[str]
) -> None:
    """The card names the interfaces over which some caller gets in (8.3.1); what is missing is told at start."""
    env = {"A2A_TLS_CERT_FILE": "c", "A2A_TLS_KEY_FILE": "k", "A2A_TLS_CLIENT_CA_FILE": "ca", "A2A_MTLS": "san"}
    env |= {"A2A_API_KEYS": API_KEYS, "A2A_SECURITY": security, "A2A_TLS_CLIENT_CERT": http}
    settings = load(env | ({"A2A_TLS_GRPC_CLIENT_CERT": grpc} if grpc else {}))
    hosts = host_one(settings, AGENT)
    (hosted,) = hosts
    assert [entry.protocol_binding for entry in hosted.card.supported_interfaces] == named
    sentences = list(shut_doors(settings, hosts))
    assert len(sentences) == bool(told)
    assert all(part in sentence for sentence in sentences for part in told)


def message(text: str) -> dict[str, Any]:
    return {"message": {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}}


async def test_the_subject_of_a_certificate_is_the_caller(tmp_path: Path) -> None:
    async with serving(tmp_path, A2A_MTLS="subject") as places:
        alice, bob = places.certificate("alice"), places.certificate("bob")
        async with places.grpc(alice) as channel:
            stub = A2AServiceStub(channel)
            task = (await stub.SendMessage(say("ask"), metadata=tuple(VERSION.items()))).task
        async with places.http(alice) as http:
            assert (await http.get(f"/tasks/{task.id}")).status_code == 200
            card = (await http.get("/.well-known/agent-card.json")).json()
            assert list(card["securitySchemes"]["mtls"]) == ["mtlsSecurityScheme"]
        async with places.http(bob) as http:
            assert (await http.get(f"/tasks/{task.id}")).status_code == 404
        async with places.http(None) as http:
            answer = await http.get(f"/tasks/{task.id}")
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "ClientCertificate")
            assert (await http.post("/message:send", json=message("ask"))).status_code == 401
        async with places.grpc(bob) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await A2AServiceStub(channel).GetTask(pb.GetTaskRequest(id=task.id), metadata=tuple(VERSION.items()))
            assert caught.value.code() == grpc.StatusCode.NOT_FOUND


async def test_an_alternative_name_and_a_key_together(tmp_path: Path) -> None:
    async with serving(
        tmp_path,
        A2A_MTLS="san",
        A2A_MTLS_ALLOW="URI:spiffe://example.com/*;DNS:agent.example.com",
        A2A_API_KEYS=API_KEYS,
        A2A_SECURITY="mtls+apiKey",
        A2A_LOG_FORMAT="json",
    ) as places:
        agent = places.certificate("x", x509.UniformResourceIdentifier(SPIFFE), x509.DNSName("agent.example.com"))
        nameless = places.certificate("only a subject")
        for pair, key, status in ((agent, KEYS["alice"], 404), (agent, "", 401), (None, KEYS["alice"], 401)):
            async with places.http(pair, **({"x-api-key": key} if key else {})) as http:
                assert (await http.get("/tasks/unknown")).status_code == status
        async with places.http(nameless, **{"x-api-key": KEYS["alice"]}) as http:
            answer = await http.get("/tasks/unknown")
            assert answer.status_code == 401 and "no subject alternative name" in answer.json()["error"]["message"]
        stranger = places.certificate("x", x509.UniformResourceIdentifier("spiffe://example.org/agent"))
        said = "The certificate of URI:spiffe://example.org/agent is none of those that are let in."
        async with places.http(stranger, **{"x-api-key": KEYS["alice"]}) as http:
            answer = await http.get("/tasks/unknown")
            assert (answer.status_code, answer.json()["error"]["message"]) == (401, said)
        async with places.grpc(stranger) as channel:
            metadata = (("x-api-key", KEYS["alice"]), *VERSION.items())
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await A2AServiceStub(channel).GetTask(pb.GetTaskRequest(id="unknown"), metadata=metadata)
            assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNAUTHENTICATED, said)
        recorded = [json.loads(line) for line in places.replica.log().splitlines() if said in line]
        assert [(one["event"], one["binding"]) for one in recorded] == [
            ("authentication-failed", "HTTP+JSON"),
            ("authentication-failed", "GRPC"),
        ]


async def test_a_token_that_is_bound_to_a_certificate(tmp_path: Path, issuer: Issuer) -> None:
    """RFC 8705: stolen, it opens nothing."""
    env = {"A2A_JWT_ISSUER": issuer.url, "A2A_JWT_AUDIENCE": AUDIENCE, "A2A_JWT_JWKS_URL": issuer.jwks_url}
    async with serving(tmp_path, **env) as places:
        mine, other = places.certificate("alice"), places.certificate("mallory")
        token = issuer.token(cnf={"x5t#S256": read_certificate(mine[0]).fingerprint})
        for pair, status in ((mine, 404), (other, 401), (None, 401), (mine, 404)):
            async with places.http(pair, authorization=f"Bearer {token}") as http:
                assert (await http.get("/tasks/unknown")).status_code == status
