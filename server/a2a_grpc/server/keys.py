"""The private keys that this service signs with (cards, webhooks), and their public halves for those who check.

Each key signs cards, the first one webhooks. All are published, so that what an older one has signed can be checked.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from jwt import PyJWK, PyJWS
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import PyJWTError

_LEAST_RSA_BITS = 2048

PrivateKey = EllipticCurvePrivateKey | RSAPrivateKey | Ed25519PrivateKey


class _DeterministicEcdsa(ECAlgorithm):
    """ES256 whose signature follows from key and payload (RFC 6979): all replicas serve the same bytes (B095)."""

    def sign(self, msg: bytes, key: EllipticCurvePrivateKey) -> bytes:
        r, s = decode_dss_signature(key.sign(msg, ECDSA(SHA256(), deterministic_signing=True)))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


_JWS = PyJWS()
_JWS.unregister_algorithm("ES256")
_JWS.register_algorithm("ES256", _DeterministicEcdsa(SHA256, SECP256R1))


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One key, known by the id that its JWK names, or by the thumbprint of its public half (RFC 7638)."""

    algorithm: str
    """ES256, RS256 or EdDSA."""
    kid: str
    public: Mapping[str, Any]
    """The public half as a JWK (RFC 7517)."""
    private: PrivateKey = field(repr=False)

    def sign(self, payload: bytes, header: Mapping[str, Any]) -> tuple[str, str]:
        """The protected header and the signature of a JWS over `payload`, both base64url (RFC 7515).

        `header` holds what the protected header has besides `alg` and `kid`.
        """
        signed = _JWS.encode(payload, self.private, self.algorithm, headers={**header, "kid": self.kid})
        protected, _, signature = signed.split(".")
        return protected, signature


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The keys of a service; none: it signs nothing."""

    keys: tuple[SigningKey, ...] = ()

    @property
    def first(self) -> SigningKey | None:
        """The one that signs."""
        return self.keys[0] if self.keys else None

    def jwks(self) -> dict[str, Any]:
        """The public halves, as /.well-known/jwks.json gives them."""
        return {"keys": [dict(key.public) for key in self.keys]}


def load_signing_keys(paths: Sequence[Path]) -> SigningKeys:
    """The keys in the files `paths`, PEM or JWK, in that order.

    Raises: ValueError with a sentence; it never repeats what a file holds.
    """
    keys = tuple(_load(path) for path in paths)
    if len({key.kid for key in keys}) != len(keys):
        raise ValueError("A2A_SIGNING_KEYS names two keys with the same id; leave one of them out.")
    return SigningKeys(keys)


def _load(path: Path) -> SigningKey:
    kid: object = None
    try:
        data = path.read_bytes()
        if data.lstrip().startswith(b"{"):
            jwk = orjson.loads(data)
            private, kid = PyJWK.from_dict(jwk).key, jwk.get("kid")
        else:
            private = load_pem_private_key(data, password=None)
    except OSError as error:
        raise ValueError(f"A2A_SIGNING_KEYS names {path}, which cannot be read: {error.strerror or error}.") from None
    except (ValueError, TypeError, AttributeError, UnsupportedAlgorithm, PyJWTError):
        raise ValueError(
            f"A2A_SIGNING_KEYS names {path}, but it must be a private key as PEM or as a JWK, without a password: "
            "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out key.pem"
        ) from None
    return signing_key(private, f"A2A_SIGNING_KEYS names {path}, which", kid if isinstance(kid, str) else "")


def signing_key(private: object, name: str = "the key", kid: str = "") -> SigningKey:
    """A key to sign with; without a `kid` it is known by its thumbprint.

    Raises: ValueError, which names it `name`, for one of another kind or that is too short.
    """
    match private:
        case EllipticCurvePrivateKey() if isinstance(private.curve, SECP256R1):
            algorithm, jwk, members = "ES256", ECAlgorithm.to_jwk(private.public_key(), as_dict=True), "crv kty x y"
        case RSAPrivateKey() if private.key_size >= _LEAST_RSA_BITS:
            algorithm, jwk, members = "RS256", RSAAlgorithm.to_jwk(private.public_key(), as_dict=True), "e kty n"
        case Ed25519PrivateKey():
            algorithm, jwk, members = "EdDSA", OKPAlgorithm.to_jwk(private.public_key(), as_dict=True), "crv kty x"
        case _:
            raise ValueError(f"{name} must be a key on the curve P-256, an RSA key of at least 2048 bits, or Ed25519.")
    needed = {member: jwk[member] for member in members.split()}
    thumbprint = hashlib.sha256(orjson.dumps(needed, option=orjson.OPT_SORT_KEYS)).digest()
    kid = kid or base64.urlsafe_b64encode(thumbprint).rstrip(b"=").decode()
    return SigningKey(algorithm, kid, {**needed, "kid": kid, "alg": algorithm, "use": "sig"}, private)
