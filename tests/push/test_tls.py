"""https: the certificate must be one of the name in the URL, whatever address that leads to."""

import datetime as dt
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import VERSION, GrpcCaller
from tests.push.config import AGENT
from tests.support.receiver import receiver
from tests.support.replica import replica
from tests.support.waiting import wait_until

TLS_ONLY = {"A2A_PUSH_ALLOW": "localhost", "A2A_PUSH_BACKOFF": "0.05", "A2A_PUSH_ATTEMPTS": "2"}


def certificate(folder: Path, name: str) -> Path:
    """A file with a self-signed certificate of `name` and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{name}.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(signed.public_bytes(Encoding.PEM) + private)
    return file


def serving(file: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    return context


@pytest.mark.parametrize(
    ("of", "trusted", "taken"), [("localhost", True, True), ("other.example", True, False), ("localhost", False, False)]
)
async def test_certificates_are_checked(of: str, trusted: bool, taken: bool, tmp_path: Path) -> None:
    file = certificate(tmp_path, of)
    env = TLS_ONLY | ({"SSL_CERT_FILE": str(file)} if trusted else {})
    async with receiver(tls=serving(file)) as hook, replica(agent=AGENT, env=env) as one:
        async with GrpcCaller(one, VERSION) as caller:
            given = pb.TaskPushNotificationConfig(url=f"https://localhost:{hook.port}/hook")
            await caller.task("echo hi", task_push_notification_config=given)
        if taken:
            [*_, last] = await hook.until_end()
            assert last.header("host") == f"localhost:{hook.port}"
            assert hook.connections == 1, "one connection for both events"
        else:
            await wait_until(lambda: "is given up" in one.log(), "giving up", 10)
            assert "certificate verify failed" in one.log()
            assert hook.deliveries == []
