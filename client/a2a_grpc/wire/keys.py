"""Public keys that check signatures (RFC 7517), as far as they may."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
ALGORITHMS: Final = (*RSA_ALGORITHMS, *_CURVES.values(), "EdDSA")
"""Signatures that only the holder of a private key can make. With HS256 whoever can check a token can also make one."""

_LEAST_RSA_BITS: Final = 2048
_MOST_KEYS: Final = 100


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key, and what it may check."""

    kid: str
    """"" where it has none."""
    algorithms: frozenset[str]
    key: Any


def read_key_set(data: bytes) -> tuple[PublicKey, ...]:
    """The keys of a JWK Set that may check signatures.

    All others are left out: secrets, short keys, other uses, what is marked as revoked or expired.

    Raises: ValueError where the set cannot be read or nothing is left of it.
    """
    try:
        document = orjson.loads(data)
    except ValueError:
        raise ValueError("it is not JSON") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError('it is no JWK Set: an object with a list "keys"')  # noqa: TRY004 -- wrong text, not wrong code
    keys = tuple(key for entry in entries[:_MOST_KEYS] for key in _usable(entry))
    if not keys:
        raise ValueError(f"it holds no public key for signatures of {', '.join(ALGORITHMS)}")
    return keys


def _usable(entry: Any) -> Iterator[PublicKey]:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or "d" in entry or _is_over(entry):
        return
    operations = entry.get("key_ops")
    if operations is not None and not (isinstance(operations, list) and "verify" in operations):
        return
    readers: dict[Any, Any] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
    kind = entry.get("kty")
    reader = readers.get(kind) if isinstance(kind, str) else None
    if reader is None:
        return
    try:
        key = reader.from_jwk(entry)
    except (PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        return
    match key:
        case RSAPublicKey() if key.key_size >= _LEAST_RSA_BITS:
            algorithms = frozenset(RSA_ALGORITHMS)
        case EllipticCurvePublicKey() if key.curve.name in _CURVES:
            algorithms = frozenset({_CURVES[key.curve.name]})
        case Ed25519PublicKey():
            algorithms = frozenset({"EdDSA"})
        case _:
            return
    if "alg" in entry:
        named = entry["alg"]
        algorithms &= {"EdDSA" if named == "Ed25519" else named} if isinstance(named, str) else frozenset()
    kid = entry.get("kid", "")
    if algorithms and isinstance(kid, str):
        yield PublicKey(kid, algorithms, key)


def _is_over(entry: dict[str, Any]) -> bool:
    """Whether the set itself says that the key is no longer to be used, in the words of OpenID Federation (8.7)."""
    expires = entry.get("exp")
    return entry.get("revoked") is not None or (isinstance(expires, int | float) and expires <= time.time())
