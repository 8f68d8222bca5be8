"""What a caller may prove with who it is, as its binding received it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerCertificate:
    """The certificate that a caller has shown in the TLS handshake, and that the listener has verified."""

    subject: str
    """The distinguished name (RFC 4514), such as "CN=agent,O=Example"; empty where it has none."""
    names: tuple[str, ...] = ()
    """The subject alternative names in their order, with their kind: "DNS:agent.example.com", "URI:spiffe://…"."""
    fingerprint: str = ""
    """SHA-256 of the certificate, base64url without padding, as `x5t#S256` in a token has it (RFC 8705)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The places of one request in which credentials may stand. Nothing of it is ever logged."""

    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers or gRPC metadata, names in lower case."""
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Parameters of the URL. gRPC has none, and its metadata stand for them."""
    cookies: Mapping[str, str] = field(default_factory=dict, repr=False)
    """As above."""
    certificate: PeerCertificate | None = None
