"""Credentials that the caller has already: keys, tokens, certificates."""

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from a2a_grpc.client.credentials.base import NO_ACCESS, Access, Credentials, Surroundings, Wanted
from a2a_grpc.client.errors import CredentialsError
from a2a_grpc.client.options import header_name
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import excerpt

TokenSource = Callable[[], str | Awaitable[str]]


def bearer(token: str) -> Access:
    """Access by a bearer token (RFC 6750). Raises: CredentialsError."""
    return Access(headers={"authorization": f"Bearer {printable(token, 'bearer token')}"})


def printable(secret: str, what: str) -> str:
    """The secret, without the line end that files have. Raises CredentialsError where no header can carry it."""
    secret = secret.strip()
    if not secret or not secret.isascii() or not secret.isprintable():
        raise CredentialsError(f"The {what} must be printable ASCII text.")
    return secret


def takes_bearer(scheme: a2a_pb2.SecurityScheme) -> bool:
    """Whether a scheme is met by a bearer token, wherever that comes from."""
    match scheme.WhichOneof("scheme"):
        case "http_auth_security_scheme":
            return scheme.http_auth_security_scheme.scheme.lower() == "bearer"
        case "oauth2_security_scheme" | "open_id_connect_security_scheme":
            return True
    return False


@dataclass(frozen=True)
class ApiKey(Credentials):
    """A fixed key (specification 4.5.2), in the header, query parameter or cookie that the card names.

    `scheme` is the name in the card of the one scheme that the key is for; None: any. Where no card says how, the key
    goes into the header `header`.
    """

    key: str = field(repr=False)
    scheme: str | None = None
    header: str = "x-api-key"

    def meets(self, wanted: Wanted | None) -> bool:
        """See Credentials."""
        if wanted is None:
            return True
        return wanted.scheme.HasField("api_key_security_scheme") and self.scheme in (None, wanted.name)

    async def access(self, wanted: Wanted | None, around: Surroundings) -> Access:  # noqa: ARG002
        """See Credentials."""
        key = printable(self.key, "API key")
        if wanted is None:
            return Access(headers={header_name(self.header): key})
        place = wanted.scheme.api_key_security_scheme
        match place.location.lower():
            case "query":
                return Access(query={place.name: key})
            case "cookie":
                if not re.fullmatch(r"[\w!#$%&'*+.^`|~-]+", place.name, re.ASCII):  # a token of RFC 6265
                    raise CredentialsError(f"{excerpt(place.name, 64)!r} cannot be the name of a cookie.")
                return Access(cookies={place.name: key})
        return Access(headers={header_name(place.name): key})


@dataclass(frozen=True)
class BearerToken(Credentials):
    """A token that the caller got elsewhere, for the schemes that take one: HTTP Bearer, OAuth 2.0, OpenID Connect.

    `token` is the token, or what gives it: a function, async or not, asked with every call, and once more when the
    agent has refused what it gave. `scheme` is the name in the card of the one scheme that it is for; None: any.
    """

    token: str | TokenSource = field(repr=False)
    scheme: str | None = None

    def meets(self, wanted: Wanted | None) -> bool:
        """See Credentials."""
        return wanted is None or (takes_bearer(wanted.scheme) and self.scheme in (None, wanted.name))

    async def access(self, wanted: Wanted | None, around: Surroundings) -> Access:  # noqa: ARG002
        """See Credentials."""
        if isinstance(self.token, str):
            return bearer(self.token)
        given = self.token()
        return bearer(await given if inspect.isawaitable(given) else given)

    async def renewed(self, wanted: Wanted | None, around: Surroundings, refused: Access) -> Access | None:
        """See Credentials."""
        if isinstance(self.token, str):
            return None
        again = await self.access(wanted, around)
        return None if again.headers["authorization"] == refused.headers.get("authorization") else again


@dataclass(frozen=True)
class ClientCertificate(Credentials):
    """A certificate for mutual TLS (specification 4.5.6): PEM files of the chain and of its key, without a passphrase.

    It is shown wherever a TLS server asks for one.
    """

    cert_file: Path
    key_file: Path = field(repr=False)

    def meets(self, wanted: Wanted | None) -> bool:
        """See Credentials."""
        return wanted is None or wanted.scheme.HasField("mtls_security_scheme")

    async def access(self, wanted: Wanted | None, around: Surroundings) -> Access:  # noqa: ARG002
        """See Credentials. Nothing: the connection itself shows the certificate."""
        return NO_ACCESS
