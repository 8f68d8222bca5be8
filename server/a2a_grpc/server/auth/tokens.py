"""Checking JSON Web Tokens (RFC 7519, 9068) of issuers that are trusted.

Beyond what a JWT library does by itself: the algorithm is one of a list that has only signatures of private keys; it
must be one of the key's own, so that no public key is ever taken for a secret; issuer, audience, subject and expiry are
mandatory; a token that is bound to a certificate needs that certificate (RFC 8705), and one that is bound to anything
else is refused; one whose header says that it is
something else, or that something has to be understood, is refused.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, NamedTuple

import jwt

from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.auth.jwks import Keys
from a2a_grpc.server.auth.principal import MAX_NAME, Principal, is_name
from a2a_grpc.server.auth.refusals import NotAdmittedError, quoted
from a2a_grpc.wire.errors import excerpt

_LONGEST: Final = 16_384
_REMEMBERED: Final = 4096
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """An issuer, and which of its tokens are taken."""

    name: str
    """Its `iss`, compared exactly."""
    audiences: tuple[str, ...]
    """A token must be for one of them."""
    keys: Keys
    algorithms: frozenset[str]
    leeway: float
    """Seconds by which the clocks of issuer and service may differ."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token that holds."""

    issuer: str
    subject: str
    scopes: frozenset[str]
    claims: Mapping[str, Any]
    principals: dict[str, Principal] = field(default_factory=dict, repr=False, compare=False)
    """Who the caller is by each scheme that takes the token."""

    @property
    def caller(self) -> str:
        """Who it is, among all issuers."""
        return f"{self.issuer}#{self.subject}"

    def principal(self, scheme: str) -> Principal:
        """Who the caller is by a scheme."""
        found = self.principals.get(scheme)
        if found is None:
            found = Principal(self.caller, scopes=self.scopes, claims=self.claims, schemes=frozenset({scheme}))
            self.principals[scheme] = found
        return found


class _Remembered(NamedTuple):
    token: Token
    until: float
    issuer: Issuer
    generation: int


class Tokens:
    """The tokens of all issuers that one agent trusts. Those that were checked are remembered while they hold."""

    def __init__(self, issuers: Iterable[Issuer]) -> None:
        self._issuers = {issuer.name: issuer for issuer in issuers}
        self._remembered: OrderedDict[bytes, _Remembered] = OrderedDict()

    async def read(self, credentials: Credentials) -> Token | None:
        """The bearer token of a request (RFC 6750, 2.1); None where it has none.

        Raises: NotAdmittedError; UnavailableError where its issuer does not hand out its keys.
        """
        scheme, _, text = credentials.parameters.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        text = text.strip()
        if not text or len(text) > _LONGEST:
            raise _refusal("The bearer token is empty or too long.")
        digest = sha256(text.encode("utf-8", "surrogateescape")).digest()
        token = self._recall(digest)
        if token is None:
            token = await self._check(text, digest)
        _check_binding(token, credentials)
        return token

    def _recall(self, digest: bytes) -> Token | None:
        known = self._remembered.get(digest)
        if known is None:
            return None
        keys = known.issuer.keys
        keys.keep()
        if time.time() >= known.until or keys.generation != known.generation or not keys.trusted:
            del self._remembered[digest]
            return None
        self._remembered.move_to_end(digest)
        return known.token

    async def _check(self, text: str, digest: bytes) -> Token:
        try:
            unverified = jwt.decode_complete(text, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise _refusal("The bearer token is no JSON Web Token.") from None
        header, named = unverified["header"], unverified["payload"].get("iss")
        issuer = self._issuers.get(named) if isinstance(named, str) else None
        if issuer is None:
            raise _refusal("The token is of an issuer that is not trusted here.")
        algorithm, kid = header.get("alg"), header.get("kid", "")
        if not isinstance(algorithm, str) or algorithm not in issuer.algorithms:
            raise _refusal(f"The token is signed with {excerpt(str(algorithm), 16)}, which is not accepted.")
        if "crit" in header or header.get("b64") is False or str(header.get("typ", "JWT")).lower() not in _TYPES:
            raise _refusal("The header of the token asks for what is not supported.")
        kid = kid if isinstance(kid, str) else ""
        key = await issuer.keys.find(kid, algorithm, digest)
        if key is None:
            raise _refusal("The token is signed with a key that its issuer does not publish.")
        generation = issuer.keys.generation
        try:
            claims = _verified(text, key.key, algorithm, issuer)
        except _SignatureError:
            newer = None if kid else await issuer.keys.successor(algorithm, digest, of=generation)
            if newer is None:
                raise
            generation = issuer.keys.generation
            claims = _verified(text, newer.key, algorithm, issuer)
        token = Token(issuer.name, _subject(claims), _scopes(claims), claims)
        self._remember(digest, _Remembered(token, _expiry(claims) + issuer.leeway, issuer, generation))
        return token

    def _remember(self, digest: bytes, checked: _Remembered) -> None:
        self._remembered[digest] = checked
        if len(self._remembered) > _REMEMBERED:
            self._remembered.popitem(last=False)


def _verified(text: str, key: Any, algorithm: str, issuer: Issuer) -> dict[str, Any]:
    try:
        claims: dict[str, Any] = jwt.decode(
            text,
            key,
            algorithms=[algorithm],
            issuer=issuer.name,
            audience=issuer.audiences,
            leeway=issuer.leeway,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
    except jwt.ExpiredSignatureError:
        raise _refusal("The token has expired.") from None
    except (jwt.ImmatureSignatureError, jwt.InvalidIssuedAtError):
        raise _refusal("The token is not valid yet.") from None
    except jwt.InvalidAudienceError:
        raise _refusal("The token is not meant for this service: its audience is another one.") from None
    except jwt.MissingRequiredClaimError as error:
        raise _refusal(f"The token has no {error.claim}.") from None
    except jwt.InvalidSignatureError:
        raise _refusal("The signature of the token does not hold.", _SignatureError) from None
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError):
        raise _refusal("The token is not valid.") from None
    return claims


def _expiry(claims: Mapping[str, Any]) -> float:
    """Seconds since the epoch. That it is a number at all was checked; the largest are none that can be added to."""
    try:
        return float(claims["exp"])
    except OverflowError:
        return math.inf


def _subject(claims: Mapping[str, Any]) -> str:
    subject = claims["sub"]
    if not isinstance(subject, str) or not is_name(subject):
        raise _refusal(f"The subject of the token is not a text of up to {MAX_NAME} printable characters.")
    return subject


def _scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """RFC 8693 has them in one text, others in a list."""
    found: set[str] = set()
    for name in ("scope", "scp"):
        value = claims.get(name)
        items = value.split() if isinstance(value, str) else value if isinstance(value, list) else ()
        found.update(item for item in items if isinstance(item, str))
    return frozenset(found)


def _check_binding(token: Token, credentials: Credentials) -> None:
    if "cnf" not in token.claims:
        return
    confirmation = token.claims["cnf"]
    if not isinstance(confirmation, dict) or "x5t#S256" not in confirmation:
        # To a key of RFC 9449, say. Whoever has stolen it could send it as a bearer token all the same.
        raise _refusal("The token is bound to something that cannot be proved here; only to a certificate it can be.")
    if credentials.certificate is None or credentials.certificate.fingerprint != confirmation["x5t#S256"]:
        raise _refusal("The token is bound to a client certificate, which is not that of this connection.")


class _SignatureError(NotAdmittedError):
    """It may hold with a newer key of the issuer."""


def _refusal(problem: str, kind: type[NotAdmittedError] = NotAdmittedError) -> NotAdmittedError:
    return kind(problem, challenge=f'Bearer error="invalid_token", error_description={quoted(problem)}')
