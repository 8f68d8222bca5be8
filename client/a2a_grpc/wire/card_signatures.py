"""What the signature of an agent card covers (8.4), for those who sign and those who check.

Two forms are in use. The specification (8.4.1) keeps REQUIRED fields whatever they hold. The official Python and
JavaScript SDKs (1.x) drop everything that is empty instead, at every depth, and cannot verify the other form where the
two differ: a security requirement without scopes is enough. A signer that wants to be understood by all signs both.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import rfc8785

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import A2AError
from a2a_grpc.wire.jws import BadSignatureError, verify
from a2a_grpc.wire.keys import PublicKey

_SIGNATURES: Final = "signatures"
_MOST_SIGNATURES: Final = 16


class Signer(NamedTuple):
    """Who has signed a card."""

    kid: str
    """The id of the key; "" where the signature names none."""
    algorithm: str


def canonical(card: a2a_pb2.AgentCard) -> bytes:
    """The card as 8.4.1 has it signed: ProtoJSON with the field presence of 5.7, without signatures, in JCS (RFC 8785).

    Raises: ValueError for a number or a text that JSON cannot hold.
    """
    return rfc8785.dumps(_content(card))


def reduced(card: a2a_pb2.AgentCard) -> bytes:
    """The card as the SDKs have it signed: the same without anything empty. Raises as `canonical` does."""
    return rfc8785.dumps(_without_empty(_content(card)) or {})


def verify_signatures(card: bytes | a2a_pb2.AgentCard, keys: Sequence[PublicKey]) -> Signer:
    """Who of the holders of `keys` has signed the card; one signature that holds is enough (8.4.3).

    Bytes are the JSON of a card. A card of a newer version, with fields that are not known here, can be verified from
    them; from a message, in which such fields are missing, it cannot.

    Raises: BadSignatureError; what `protojson.loads` raises for bytes that are no card.
    """
    message = protojson.loads(card, a2a_pb2.AgentCard) if isinstance(card, bytes) else card
    if not message.signatures:
        raise BadSignatureError("it is not signed")
    payloads = tuple(_payloads(message, card if isinstance(card, bytes) else None))
    why = ""
    for signature in message.signatures[:_MOST_SIGNATURES]:
        for payload in payloads:
            try:
                header = verify(signature.protected, payload, signature.signature, keys)
                if "aud" in header:  # the same keys sign webhooks, and say for whom
                    raise BadSignatureError("it is no signature of a card")  # noqa: TRY301 -- one more that does not hold
            except BadSignatureError as error:
                why = why or str(error)
            else:
                return Signer(header.get("kid") or "", header["alg"])
    raise BadSignatureError(why)


def _payloads(card: a2a_pb2.AgentCard, source: bytes | None) -> Iterator[bytes]:
    """All that the signatures may have been made over, without repetitions."""
    seen: set[bytes] = set()
    makers: tuple[Callable[[], bytes], ...] = (
        partial(canonical, card),
        partial(_as_it_came, source),
        partial(reduced, card),
    )
    for make in makers:
        try:
            payload = make()
        except (ValueError, A2AError):
            continue
        if payload and payload not in seen:
            seen.add(payload)
            yield payload


def _as_it_came(source: bytes | None) -> bytes:
    if source is None:
        return b""
    document = protojson.parse(source)
    return rfc8785.dumps({name: value for name, value in document.items() if name != _SIGNATURES})


def _content(card: a2a_pb2.AgentCard) -> dict[str, Any]:
    content: dict[str, Any] = protojson.to_dict(card)
    content.pop(_SIGNATURES, None)
    return content


def _without_empty(value: Any) -> Any:
    """None for what is empty, or null, or holds nothing else."""
    if isinstance(value, dict):
        members = ((name, _without_empty(item)) for name, item in value.items())
        return {name: item for name, item in members if item is not None} or None
    if isinstance(value, list):
        return [item for item in map(_without_empty, value) if item is not None] or None
    return None if value == "" else value
