"""A real service that speaks TLS, its client, and callers who are known by their certificates."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import grpc.aio
import httpx
import pytest
from cryptography import x509

from a2a_grpc.client import A2AClient, message
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from tests.process.gateway import Gateway
from tests.support.certificates import Authority, Files
from tests.support.replica import Replica
from tests.support.secure import SecureReplica, serving

AGENT = "tests.process.echo_agent:agent"
ALICE = x509.UniformResourceIdentifier("spiffe://example.org/alice")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def ca_file(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    path.write_bytes(authority.pem)
    return path


@pytest.fixture(scope="module")
def service(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureReplica]:
    files = Files(tmp_path_factory.mktemp("tls"), authority.issue_server())
    with serving(AGENT, files, authority) as one:
        yield one


@pytest.fixture(scope="module")
def mutual(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureReplica]:
    """Callers are known by their certificates: gRPC wants one of everybody, HTTP only asks, for the sake of probes."""
    files = Files(tmp_path_factory.mktemp("mtls"), authority.issue_server(), authority.pem)
    more = {"A2A_TLS_CLIENT_CERT": "optional", "A2A_TLS_GRPC_CLIENT_CERT": "required", "A2A_MTLS": "san"}
    with serving(AGENT, files, authority, **more) as one:
        yield one


@pytest.mark.parametrize("binding", ["GRPC", "HTTP+JSON"])
async def test_the_card_leads_over_https_to_both_bindings(service: SecureReplica, ca_file: Path, binding: str) -> None:
    async with await A2AClient.connect(service.http_url, bindings=[binding], ca_file=ca_file) as client:
        urls = [interface.url for interface in client.card.supported_interfaces] if client.card else []
        assert urls == [service.grpc_addr, service.http_url, service.http_url + "/"]
        answer = await client.send_message(a2a_pb2.SendMessageRequest(message=message("hello")))
        assert answer.task.status.state == a2a_pb2.TASK_STATE_COMPLETED


async def test_nothing_is_said_about_plain_text(service: SecureReplica) -> None:
    assert "without TLS" not in service.log()


async def test_the_service_goes_on_with_a_renewed_certificate(
    authority: Authority, ca_file: Path, tmp_path: Path
) -> None:
    files = Files(tmp_path, authority.issue_server())
    with serving(AGENT, files, authority) as one:
        async with await A2AClient.connect(one.http_url, ca_file=ca_file) as client:
            renewed = authority.issue_server(kind="rsa")
            files.write(renewed)
            await client.send_message(a2a_pb2.SendMessageRequest(message=message("over the old connection")))
            shown = await asyncio.to_thread(_certificate, one, ca_file)
            assert shown == ssl.PEM_cert_to_DER_cert(renewed[0].decode())
        files.write((b"broken", b"broken"))
        async with await A2AClient.connect(one.http_url, ca_file=ca_file) as client:
            await client.send_message(a2a_pb2.SendMessageRequest(message=message("with the last good pair")))
        assert "the TLS certificate in use stays the old one: A2A_TLS_CERT_FILE names" in one.log()


def _certificate(service: SecureReplica, ca_file: Path) -> bytes:
    host, _, port = service.grpc_addr.partition(":")
    pem = ssl.get_server_certificate((host, int(port)), ca_certs=str(ca_file), timeout=5)
    return ssl.PEM_cert_to_DER_cert(pem)


def test_files_that_are_no_good_are_refused_at_start(authority: Authority, tmp_path: Path) -> None:
    service = SecureReplica(AGENT, Files(tmp_path, (b"nothing", b"nothing")), authority)
    try:
        service.start(wait=False)
        assert service.wait(20) == 2
        assert "a2a-grpc: A2A_TLS_CERT_FILE names" in service.log()
        assert "Traceback" not in service.log()
    finally:
        service.close()


def test_plain_text_on_all_addresses_is_told_at_start() -> None:
    service = Replica(agent=AGENT, redis_url=None, env={})
    port = service.grpc_addr.rpartition(":")[2]
    service.env["A2A_GRPC_ADDR"] = f"0.0.0.0:{port}"
    try:
        service.start()
        assert "A2A_GRPC_ADDR can be reached from other machines without TLS" in service.log()
    finally:
        service.close()


# -- callers with certificates -----------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def over_http(service: Replica, ca: Path, pair: tuple[bytes, bytes] | None) -> AsyncIterator[httpx.AsyncClient]:
    context = ssl.create_default_context(cafile=ca)
    if pair is not None:
        both = ca.with_name("client.pem")
        both.write_bytes(pair[0] + pair[1])
        context.load_cert_chain(both)
    headers = {"a2a-version": "1.0"}
    async with httpx.AsyncClient(base_url=service.http_url, verify=context, headers=headers, trust_env=False) as client:
        yield client


async def test_a_certificate_is_the_caller_on_every_binding(
    mutual: SecureReplica, authority: Authority, ca_file: Path
) -> None:
    """4.5.6: a task that was made over one binding belongs to the same caller over the other, and to nobody else."""
    alice, bob = authority.issue("", [ALICE]), authority.issue("bob", [x509.DNSName("bob.example.org")])
    credentials = grpc.ssl_channel_credentials(authority.pem, alice[1], alice[0])
    async with grpc.aio.secure_channel(mutual.grpc_addr, credentials) as channel:
        stub = A2AServiceStub(channel)
        made = await stub.SendMessage(
            a2a_pb2.SendMessageRequest(message=message("hello")), metadata=(("a2a-version", "1.0"),)
        )
    async with over_http(mutual, ca_file, alice) as client:
        assert (await client.get(f"/tasks/{made.task.id}")).status_code == 200
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": made.task.id}}
        assert (await client.post("/", json=rpc)).json()["result"]["id"] == made.task.id
    async with over_http(mutual, ca_file, bob) as client:
        assert (await client.get(f"/tasks/{made.task.id}")).status_code == 404


async def test_without_a_certificate_there_is_the_card_and_probes_and_no_call(
    mutual: SecureReplica, authority: Authority, ca_file: Path
) -> None:
    async with over_http(mutual, ca_file, None) as client:
        assert (await client.get("/healthz")).status_code == 200
        card = (await client.get("/.well-known/agent-card.json")).json()
        assert list(card["securitySchemes"]) == ["mtls"]
        assert (await client.get("/tasks")).status_code == 401
    credentials = grpc.ssl_channel_credentials(authority.pem)
    async with grpc.aio.secure_channel(mutual.grpc_addr, credentials) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await A2AServiceStub(channel).ListTasks(a2a_pb2.ListTasksRequest(), timeout=10)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("terminated", [True, False])
async def test_answers_have_hsts_behind_what_ends_tls_too(terminated: bool) -> None:
    """RFC 6797, 7.2: never in what comes unencrypted to whoever asked."""
    plain = Replica(agent=AGENT, redis_url=None, env={"A2A_TLS_TERMINATED": str(terminated).lower()})
    try:
        await asyncio.to_thread(plain.start)
        async with httpx.AsyncClient(base_url=plain.http_url, trust_env=False) as client:
            answer = await client.get("/.well-known/agent-card.json")
        assert answer.status_code == 200
        assert answer.headers.get("strict-transport-security") == ("max-age=31536000" if terminated else None)
    finally:
        await asyncio.to_thread(plain.close)


async def test_a_gateway_speaks_tls_on_both_sides(
    service: SecureReplica, authority: Authority, ca_file: Path, tmp_path: Path
) -> None:
    class SecureGateway(Gateway):
        wait_ready = SecureReplica.wait_ready

    files = Files(tmp_path, authority.issue_server())
    gateway = SecureGateway(service.grpc_addr, files.settings(), ca_file)
    gateway.http_url = gateway.http_url.replace("http://", "https://")
    gateway.authority = authority  # type: ignore[attr-defined]
    try:
        await asyncio.to_thread(gateway.start)
        async with over_http(gateway, ca_file, None) as client:
            answer = await client.get("/tasks")
            assert (answer.status_code, "tasks" in answer.json()) == (200, True)
            assert answer.headers["strict-transport-security"]
            assert (await client.get("/.well-known/agent-card.json")).json()["name"] == "Echo"
    finally:
        await asyncio.to_thread(gateway.close)
