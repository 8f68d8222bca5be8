"""Encrypted connections, and what is said about those that cannot be trusted."""

import asyncio
import datetime as dt
import ipaddress
import ssl
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from a2a_grpc.client import A2AClient, NotConnectedError
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from tests.client.peers import Request, card, grpc_peer, http_peer, response, task

GET = a2a_pb2.GetTaskRequest(id="t1")


class Agent:
    """Has every task."""

    async def get_task(self, request: a2a_pb2.GetTaskRequest, _context: object) -> a2a_pb2.Task:
        return task(a2a_pb2.TASK_STATE_WORKING, request.id)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the self-signed certificate of 127.0.0.1 and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    file.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file


@pytest.fixture
def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def server_credentials(certificate: Path) -> grpc.ServerCredentials:
    pem = certificate.read_bytes()
    return grpc.ssl_server_credentials([(pem, pem)])


async def test_a_bare_grpc_address_in_a_card_that_came_over_https_is_called_over_tls(
    certificate: Path, server_tls: ssl.SSLContext, server_credentials: grpc.ServerCredentials
) -> None:
    async with grpc_peer(Agent(), server_credentials) as address:

        async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
            writer.write(response(body=protojson.dumps(card(("GRPC", "1.0", address)))))

        async with (
            http_peer(respond, server_tls) as peer,
            await A2AClient.connect(peer.url, ca_file=certificate) as client,
        ):
            assert (await client.get_task(GET)).id == "t1"


async def test_http_json_over_tls(certificate: Path, server_tls: ssl.SSLContext) -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(body=protojson.dumps(task(a2a_pb2.TASK_STATE_WORKING))))

    async with (
        http_peer(respond, server_tls) as peer,
        await A2AClient.connect(card(("HTTP+JSON", "1.0", peer.url)), ca_file=certificate) as client,
    ):
        assert (await client.get_task(GET)).id == "t1"


async def test_a_certificate_that_nobody_vouches_for_is_refused_with_the_reason(
    server_tls: ssl.SSLContext, server_credentials: grpc.ServerCredentials
) -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        raise AssertionError("the handshake must fail")

    async with http_peer(respond, server_tls) as peer:
        with pytest.raises(NotConnectedError, match=r"(?i)certificate.verify.failed"):
            await A2AClient.connect(peer.url)
    async with grpc_peer(Agent(), server_credentials) as address:
        with pytest.raises(NotConnectedError, match=r"(?i)certificate.verify.failed"):
            await A2AClient.connect(f"grpcs://{address}")


async def test_tls_to_a_plain_port_and_plain_to_a_tls_port_fail_at_once(
    certificate: Path, server_credentials: grpc.ServerCredentials
) -> None:
    async with asyncio.timeout(5), grpc_peer(Agent()) as plain, grpc_peer(Agent(), server_credentials) as secure:
        with pytest.raises(NotConnectedError):
            await A2AClient.connect(f"grpcs://{plain}", ca_file=certificate)
        with pytest.raises(NotConnectedError):
            await A2AClient.connect(f"grpc://{secure}")
