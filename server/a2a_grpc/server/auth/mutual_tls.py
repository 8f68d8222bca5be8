"""Mutual TLS (4.5.6): the client certificate says who calls. The listener has verified it in the handshake."""

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.auth.allow_list import AllowList
from a2a_grpc.server.auth.credentials import Credentials, PeerCertificate
from a2a_grpc.server.auth.principal import MAX_NAME, Principal, is_name
from a2a_grpc.wire.errors import UnauthenticatedError, excerpt

NamedBy = Literal["subject", "san"]

_PREFERRED: Final = ("URI:", "DNS:", "email:")


class MutualTls:
    """Callers known by their certificate."""

    name = "mtls"
    challenge = "ClientCertificate"
    """HTTP has no challenge for what a connection brings; a 401 needs one all the same."""

    def __init__(self, named_by: NamedBy, allowed: Iterable[str] | None = None) -> None:
        """`named_by`: the subject, or the first of the alternative names: a URI before a DNS name before an address.

        `allowed`: the names that are let in, see `AllowList`; None: all. Raises: ValueError.
        """
        self._named_by = named_by
        self._allowed = None if allowed is None else AllowList(allowed, alternative=named_by == "san")

    @property
    def card(self) -> a2a_pb2.SecurityScheme:
        """How the card describes it."""
        scheme = a2a_pb2.MutualTlsSecurityScheme(description="A client certificate of an authority that is known here.")
        return a2a_pb2.SecurityScheme(mtls_security_scheme=scheme)

    @property
    def means(self) -> str:
        """See Scheme."""
        return "a client certificate"

    async def authenticate(self, credentials: Credentials) -> Principal | None:
        """See Scheme."""
        certificate = credentials.certificate
        if certificate is None:
            return None
        name = certificate.subject if self._named_by == "subject" else _first(certificate.names)
        if not name:
            raise UnauthenticatedError(
                "The client certificate does not say who you are: it has no "
                + ("subject." if self._named_by == "subject" else "subject alternative name.")
            )
        if not is_name(name):
            raise UnauthenticatedError(
                f"The name in the client certificate is not a text of up to {MAX_NAME} printable characters."
            )
        if self._allowed is not None and name not in self._allowed:
            raise UnauthenticatedError(f"The certificate of {excerpt(name)} is none of those that are let in.")
        # No other scheme has such names.
        return Principal(f"cert:{name}", schemes=frozenset({self.name}))


def _first(names: tuple[str, ...]) -> str:
    return next((name for kind in _PREFERRED for name in names if name.startswith(kind)), "")


@lru_cache(maxsize=1024)
def read_certificate(data: bytes) -> PeerCertificate:
    """The certificate of a peer, in PEM or DER. Raises: ValueError."""
    certificate = (
        x509.load_pem_x509_certificate(data) if data.startswith(b"-----") else x509.load_der_x509_certificate(data)
    )
    names: list[str] = []
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        pass
    else:
        kinds = ((x509.UniformResourceIdentifier, "URI"), (x509.DNSName, "DNS"), (x509.RFC822Name, "email"))
        names = [
            f"{prefix}:{entry.value}" for entry in extension.value for kind, prefix in kinds if isinstance(entry, kind)
        ]
    fingerprint = urlsafe_b64encode(certificate.fingerprint(SHA256())).rstrip(b"=").decode()
    return PeerCertificate(subject=certificate.subject.rfc4514_string(), names=tuple(names), fingerprint=fingerprint)
