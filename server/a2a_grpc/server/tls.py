"""The certificate of the listeners, and whose certificates they ask for. The files are read again when they change."""

import logging
import ssl
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from cryptography import x509

log = logging.getLogger(__name__)

Asks = Literal["none", "optional", "required"]
"""Whether callers are asked for a certificate, and whether they need one."""

_VERIFY: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """A certificate with its key, and the authorities of the callers' certificates, as they stood in the files."""

    chain: bytes
    key: bytes = field(repr=False)
    client_ca: bytes | None
    """None where callers are not asked for certificates."""
    context: ssl.SSLContext
    """For connections over HTTP."""


class Certificates:
    """The files, and what was good in them last. May be asked in any thread."""

    def __init__(self, cert_file: Path, key_file: Path, client_ca_file: Path | None = None, *, asks: Asks) -> None:
        """`asks` is for HTTP. Raises: ValueError for files that are no good; its sentence names the variable."""
        self._cert_file = cert_file
        self._key_file = key_file
        self._client_ca_file = client_ca_file
        self._asks = asks
        self._lock = threading.Lock()
        self._seen = self._look()
        self._pair = self._read()

    def current(self) -> Pair:
        """The pair for a connection that begins now.

        Files that have changed are read; to look costs microseconds. What is no good (half of it may be written yet)
        leaves the old pair in use, with an error in the log, until the files change again.
        """
        with self._lock:
            try:
                seen = self._look()
                if seen != self._seen:
                    # Looked at before it is read: what changes in between is seen the next time.
                    self._seen = seen
                    self._pair = self._read()
                    log.info("the TLS certificate was read again from %s", self._cert_file)
            except ValueError as error:
                log.error("the TLS certificate in use stays the old one: %s", error)
            return self._pair

    def _look(self) -> tuple[tuple[int, ...], ...]:
        found: list[tuple[int, ...]] = []
        for path in (self._cert_file, self._key_file, self._client_ca_file):
            if path is not None:
                try:
                    # Kubernetes exchanges a folder behind a symbolic link.
                    status = path.stat()
                except OSError:
                    found.append((0,))
                else:
                    found.append((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))
        return tuple(found)

    def _read(self) -> Pair:
        chain = _content("A2A_TLS_CERT_FILE", self._cert_file)
        key = _content("A2A_TLS_KEY_FILE", self._key_file)
        client_ca = (
            _content("A2A_TLS_CLIENT_CA_FILE", self._client_ca_file) if self._client_ca_file is not None else None
        )
        try:
            leaf = x509.load_pem_x509_certificates(chain)[0]
        except ValueError:
            raise ValueError(
                f"A2A_TLS_CERT_FILE names {self._cert_file}, but it must hold a certificate in PEM form, the server's "
                "own first."
            ) from None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("ECDHE+AESGCM:ECDHE+CHACHA20")  # of TLS 1.2, as gRPC has them; those of 1.3 are all good
        # uvicorn speaks nothing else, and who offers HTTP/2 alone learns it in the handshake.
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._cert_file, self._key_file, password=_no_password)
        except (ssl.SSLError, OSError, ValueError):
            raise ValueError(
                f"A2A_TLS_KEY_FILE names {self._key_file}, but it must hold the private key of the certificate in "
                f"{self._cert_file}, in PEM form and without a password."
            ) from None
        if client_ca is not None:
            try:
                context.load_verify_locations(cadata=client_ca.decode("ascii"))
            except (ssl.SSLError, ValueError):
                raise ValueError(
                    f"A2A_TLS_CLIENT_CA_FILE names {self._client_ca_file}, but it must hold certificates of "
                    "authorities in PEM form."
                ) from None
            context.verify_mode = _VERIFY[self._asks]
            # A resumed session brings the caller's certificate along without another look at the authorities.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        if leaf.not_valid_after_utc <= datetime.now(UTC):
            log.warning("the TLS certificate in %s has expired: %s", self._cert_file, leaf.not_valid_after_utc)
        return Pair(chain=chain, key=key, client_ca=client_ca, context=context)


def _content(variable: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{variable} names {path}, which cannot be read: {error.strerror or error}.") from None


def _no_password() -> str:
    raise ValueError("the key has a password")
