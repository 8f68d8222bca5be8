"""Webhooks hold credentials, so they are encrypted before they are stored, where a key is configured.

AES-256-GCM; each sealed text names the key that it was made with, so that keys can be rotated: the first one seals, all
of them open. What a webhook belongs to is authenticated along with it, so that nobody who can write to the store moves
it elsewhere.
"""

import os
from collections.abc import Sequence
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_PLAIN, _SEALED = b"\x00", b"\x01"
_NAME_BYTES = 8
_NONCE_BYTES = 12


class SealedError(Exception):
    """It was sealed with a key that is not configured, or was damaged."""


class Sealer:
    """Seals and opens with the configured keys; without any it passes everything on as it is."""

    def __init__(self, keys: Sequence[bytes] = ()) -> None:
        """`keys` of 32 bytes each, the one that seals first."""
        self._ciphers = {_name(key): AESGCM(key) for key in keys}
        self._first = _name(keys[0]) if keys else None

    def seal(self, content: bytes, belongs_to: str) -> bytes:
        """`content` in the form for the store."""
        if self._first is None:
            return _PLAIN + content
        nonce = os.urandom(_NONCE_BYTES)
        return _SEALED + self._first + nonce + self._ciphers[self._first].encrypt(nonce, content, belongs_to.encode())

    def open(self, stored: bytes, belongs_to: str) -> bytes:
        """What was sealed. Raises: SealedError."""
        if stored[:1] == _PLAIN:
            return stored[1:]
        name, rest = stored[1 : 1 + _NAME_BYTES], stored[1 + _NAME_BYTES :]
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise SealedError("it was encrypted with a key that A2A_ENCRYPTION_KEYS does not hold (any more)")
        try:
            return cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], belongs_to.encode())
        except (InvalidTag, ValueError):
            raise SealedError("it was changed since it was encrypted") from None


def _name(key: bytes) -> bytes:
    return sha256(b"a2a-grpc sealing key" + key).digest()[:_NAME_BYTES]
