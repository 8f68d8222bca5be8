"""Signing cards (8.4): by every key of the service, so that callers who know the next key or the last one can check."""

from typing import Final

import orjson

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.keys import SigningKeys
from a2a_grpc.wire.card_signatures import canonical, reduced


class CardSigner:
    """Puts signatures into cards. Equal cards get equal signatures, on every replica (B095)."""

    def __init__(self, keys: SigningKeys, jku: str = "") -> None:
        """`jku`: the URL of the key set, for those who check; "" leaves it out."""
        self._keys = keys
        self._header = {"typ": "JOSE", **({"jku": jku} if jku else {})}

    def sign(self, card: a2a_pb2.AgentCard) -> None:
        """Replace the signatures of `card` by those of the service's keys; without keys it has none.

        Where readers differ about what is signed (see `card_signatures`), both forms are, that of the specification
        first.
        """
        card.ClearField("signatures")
        if not self._keys.keys:
            return
        payloads = dict.fromkeys((canonical(card), reduced(card)))
        for payload in payloads:
            for key in self._keys.keys:
                protected, signature = key.sign(payload, self._header)
                card.signatures.add(protected=protected, signature=signature)


class PublishedKeys:
    """A KeySource: the public halves of the service's keys."""

    def __init__(self, keys: SigningKeys) -> None:
        self._body = orjson.dumps(keys.jwks()) if keys.keys else None

    async def key_set(self) -> bytes | None:
        """See KeySource."""
        return self._body


UNSIGNED: Final = CardSigner(SigningKeys())
"""For a service without keys."""
