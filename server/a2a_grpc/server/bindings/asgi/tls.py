"""What TLS adds to HTTP connections and their responses."""

import asyncio
from typing import Final

from a2a_grpc.server.auth.credentials import PeerCertificate
from a2a_grpc.server.auth.mutual_tls import read_certificate
from a2a_grpc.server.bindings.asgi.types import Header, Scope

HSTS: Final[Header] = (b"strict-transport-security", b"max-age=31536000")
"""RFC 6797: who has been here over HTTPS comes by nothing else for a year."""

_CERTIFICATE: Final = "a2a_grpc.certificate"


def certificate_state(transport: asyncio.BaseTransport) -> dict[str, PeerCertificate]:
    """What the peer's certificate adds to the state of a connection's requests; nothing where it has shown none."""
    tls = transport.get_extra_info("ssl_object")
    data = tls.getpeercert(binary_form=True) if tls is not None else None
    if not data:
        return {}
    try:
        return {_CERTIFICATE: read_certificate(data)}
    except ValueError:  # nobody can be known by it
        return {}


def certificate_of(scope: Scope) -> PeerCertificate | None:
    """The certificate of the peer of a request."""
    found: PeerCertificate | None = scope.get("state", {}).get(_CERTIFICATE)
    return found
