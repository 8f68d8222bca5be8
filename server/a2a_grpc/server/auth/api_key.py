"""API keys (4.5.2): in a header, and over HTTP in the query or in a cookie."""

import hmac
from collections.abc import Iterable
from hashlib import sha256
from typing import Final, Literal

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.auth.principal import Principal
from a2a_grpc.server.core.hop_by_hop import is_of_one_hop
from a2a_grpc.wire import rules
from a2a_grpc.wire.errors import UnauthenticatedError
from a2a_grpc.wire.headers import A2A_EXTENSIONS, A2A_VERSION, LAST_EVENT_ID, REQUEST_ID

_NOBODY = bytes(32)
# What a shell makes of a variable that is not set, with printf and with echo.
_OF_NOTHING: Final = frozenset({sha256(b"").digest(), sha256(b"\n").digest()})

_OURS: Final = frozenset({A2A_EXTENSIONS, A2A_VERSION, LAST_EVENT_ID, REQUEST_ID, "cookie"})
_FIELDS: Final = frozenset(
    name
    for operation in rules.OPERATIONS.values()
    for field in operation.request.DESCRIPTOR.fields
    for name in (field.name, field.json_name)
)

Location = Literal["header", "query", "cookie"]


class ApiKeys:
    """Callers known by a key. Over gRPC the key is metadata of the name, whatever its place over HTTP."""

    name = "apiKey"

    def __init__(self, digests: Iterable[tuple[str, str]], location: Location, key_name: str) -> None:
        """`digests`: callers and the SHA-256 of their keys, in hexadecimal; `key_name`: what the key is sent under.

        Raises: ValueError for a name that means something else: a key would be taken for that, be shown, or never come;
        for a key that is empty, or that two callers have: one would be taken for the other.
        """
        self._principals: dict[bytes, Principal] = {}
        for name, given in digests:
            digest = bytes.fromhex(given)
            if digest in _OF_NOTHING:
                raise ValueError(f"the key of {name} is empty: what was hashed was an empty text")
            known = self._principals.setdefault(digest, Principal(name, schemes=frozenset({self.name})))
            if known.name != name:
                raise ValueError(f"{known.name} and {name} have the same API key: give each one of its own")
        self._location = location
        self._key_name = key_name.lower()
        if is_of_one_hop(self._key_name) or self._key_name.endswith("-bin") or self._key_name in _OURS:
            raise ValueError(f"API keys cannot be sent as {self._key_name}: that name has a meaning of its own")
        if location == "query" and self._key_name in _FIELDS:
            raise ValueError(f"API keys cannot be sent as {self._key_name}: that is a field of requests")
        self._place = f"{location} {self._key_name}"

    @property
    def card(self) -> a2a_pb2.SecurityScheme:
        """How the card describes it."""
        scheme = a2a_pb2.APIKeySecurityScheme(location=self._location, name=self._key_name, description="An API key.")
        return a2a_pb2.SecurityScheme(api_key_security_scheme=scheme)

    @property
    def means(self) -> str:
        """See Scheme."""
        return f"an API key in the {self._place}"

    @property
    def challenge(self) -> str:
        """The name of the scheme is this service's own; HTTP has none for API keys."""
        return f'ApiKey {self._location}="{self._key_name}"'

    async def authenticate(self, credentials: Credentials) -> Principal | None:
        """The caller whose key was sent."""
        places = {"header": credentials.parameters, "query": credentials.query, "cookie": credentials.cookies}
        key = places[self._location].get(self._key_name)
        if not key:
            return None
        digest = sha256(key.encode("utf-8", "surrogateescape")).digest()
        # What is looked up is a hash that nobody can steer, so the time tells nothing about a key that came close. One
        # comparison, in constant time, is made in any case.
        known = digest if digest in self._principals else _NOBODY
        if not hmac.compare_digest(digest, known):
            raise UnauthenticatedError(f"The API key in the {self._place} is not known.")
        return self._principals[known]
