"""Checking signatures whose payload is known (RFC 7515): a JWS in parts."""

import binascii
import re
from collections.abc import Iterable
from typing import Any, Final

import orjson
from jwt import PyJWS
from jwt.exceptions import PyJWTError
from jwt.utils import base64url_decode, base64url_encode

from a2a_grpc.wire.keys import PublicKey

_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]{1,8192}")
_MOST_TRIED: Final = 8
"""Keys that one signature is tried with, where it does not say which one made it."""


class BadSignatureError(ValueError):
    """A signature that proves nothing. The text, without a capital and a period, says why and repeats none of it."""


def verify(protected: str, payload: bytes, signature: str, keys: Iterable[PublicKey]) -> dict[str, Any]:
    """The protected header of a signature that one of `keys` has made over `payload`.

    `protected` and `signature` are base64url, as they travel. The key must be the one that the header names (`kid`);
    where it names none, any of them. What the header says about where the key is to be had (`jku`, `jwk`, `x5u`,
    `x5c`) is not followed: whoever has made the card has written it.

    Raises: BadSignatureError.
    """
    header = read_header(protected)
    algorithm, kid = header.get("alg"), header.get("kid")
    if "crit" in header or header.get("b64") is False:
        raise BadSignatureError("it needs rules that are not known here (crit)")
    if not isinstance(algorithm, str) or not (kid is None or isinstance(kid, str)):
        raise BadSignatureError("its header does not name an algorithm and a key")
    named = [key for key in keys if kid is None or key.kid == kid]
    if not named:
        raise BadSignatureError("no key that is trusted has the id that it names")
    fitting = [key for key in named if algorithm in key.algorithms][:_MOST_TRIED]
    if not fitting:
        raise BadSignatureError("its algorithm is not one of the key's")
    if not _BASE64URL.fullmatch(signature):
        raise BadSignatureError("it is not base64url")
    signing_input = protected.encode() + b"." + base64url_encode(payload)
    made = PyJWS().get_algorithm_by_name(algorithm)
    try:
        value = base64url_decode(signature)
        if any(made.verify(signing_input, made.prepare_key(key.key), value) for key in fitting):
            return header
    except (PyJWTError, binascii.Error, ValueError):
        pass
    raise BadSignatureError("it does not belong to this content")


def read_header(protected: str) -> dict[str, Any]:
    """The protected header. Raises: BadSignatureError."""
    try:
        header = orjson.loads(base64url_decode(protected)) if _BASE64URL.fullmatch(protected) else None
    except (binascii.Error, ValueError):
        raise BadSignatureError("its protected header cannot be read") from None
    if not isinstance(header, dict):
        raise BadSignatureError("its protected header is no object")
    return header
