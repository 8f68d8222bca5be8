"""API keys in a header (4.5.2): the check, and the scheme as the card declares it."""

import hmac
from collections.abc import Iterable, Mapping
from hashlib import sha256

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.auth.principal import ANONYMOUS, Principal
from a2a_grpc.wire.errors import UnauthenticatedError

SCHEME = "apiKey"


class ApiKeys:
    """Callers known by a key. Without any key configured everybody is anonymous."""

    def __init__(self, digests: Iterable[tuple[str, str]], header: str) -> None:
        """`digests`: callers and the SHA-256 of their keys, in hexadecimal; `header`: where the key is sent."""
        self._hashes = [(name, bytes.fromhex(digest)) for name, digest in digests]
        self._header = header.lower()

    async def authenticate(self, parameters: Mapping[str, str]) -> Principal:
        """The caller behind a request's headers or metadata.

        Raises: UnauthenticatedError where keys are configured and none of them was sent.
        """
        if not self._hashes:
            return ANONYMOUS
        key = parameters.get(self._header)
        if not key:
            raise self._refusal(f"Send your API key in {self._header}.")
        digest = sha256(key.encode()).digest()
        # Every key is compared, so that the time tells nothing about which one came close.
        found = [name for name, known in self._hashes if hmac.compare_digest(digest, known)]
        if not found:
            raise self._refusal(f"The API key in {self._header} is not known.")
        return Principal(found[0])

    @property
    def challenge(self) -> str:
        """The WWW-Authenticate of a refused HTTP call (RFC 9110, 11.6.1)."""
        return f'ApiKey header="{self._header}"'

    def declare(self, card: a2a_pb2.AgentCard) -> None:
        """Write the scheme, and that it is required, into `card`; nothing where everybody is anonymous."""
        if not self._hashes:
            return
        scheme = a2a_pb2.APIKeySecurityScheme(location="header", name=self._header, description="An API key.")
        card.security_schemes[SCHEME].api_key_security_scheme.CopyFrom(scheme)
        card.security_requirements.add().schemes[SCHEME].SetInParent()

    def _refusal(self, text: str) -> UnauthenticatedError:
        return UnauthenticatedError(text, metadata={"scheme": SCHEME, "location": "header", "name": self._header})
