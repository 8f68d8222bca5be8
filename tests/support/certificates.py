"""Certificates for tests: an authority, and what it signs."""

import datetime as dt
import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

HOUR = dt.timedelta(hours=1)


class Authority:
    """A certificate authority."""

    def __init__(self, name: str = "Tests", *, above: "Authority | None" = None) -> None:
        """`above`: the one that vouches for it; None: it does so itself."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"{name} authority")])
        signer = above or self
        builder = _builder(self._name, signer._name, self._key.public_key(), HOUR)
        self._certificate = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
            signer._key, hashes.SHA256()
        )
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        common_name: str,
        names: Sequence[x509.GeneralName] = (),
        *,
        kind: str = "ec",
        valid_for: dt.timedelta = HOUR,
        usage: x509.ObjectIdentifier | None = None,
    ) -> tuple[bytes, bytes]:
        """A certificate and its key, as PEM. `kind` is of the key: "ec" or "rsa"; `usage`: what alone it is for."""
        key: Any = ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else rsa.generate_private_key(65537, 2048)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)] if common_name else [])
        builder = _builder(subject, self._name, key.public_key(), valid_for)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=not common_name)
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return (
            signed.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )

    def issue_server(self, **options: Any) -> tuple[bytes, bytes]:
        """A certificate for 127.0.0.1 and localhost, and its key."""
        names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        return self.issue("127.0.0.1", names, **options)


class Files:
    """The files that a listener reads, in a folder."""

    def __init__(self, folder: Path, pair: tuple[bytes, bytes], client_ca: bytes | None = None) -> None:
        self.cert = folder / "tls.crt"
        self.key = folder / "tls.key"
        self.client_ca = folder / "ca.crt" if client_ca is not None else None
        self.write(pair)
        if self.client_ca is not None:
            self.client_ca.write_bytes(client_ca or b"")

    def write(self, pair: tuple[bytes, bytes]) -> None:
        """Replace certificate and key, each as a whole."""
        for path, content in zip((self.cert, self.key), pair, strict=True):
            fresh = path.with_suffix(".new")
            fresh.write_bytes(content)
            fresh.rename(path)

    def settings(self) -> dict[str, str]:
        """The variables that name them."""
        found = {"A2A_TLS_CERT_FILE": str(self.cert), "A2A_TLS_KEY_FILE": str(self.key)}
        return found | ({"A2A_TLS_CLIENT_CA_FILE": str(self.client_ca)} if self.client_ca is not None else {})


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: Any, valid_for: dt.timedelta
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * HOUR)
        .not_valid_after(now + valid_for)
    )
