"""Agent cards as documents: read, checked, shown in part, and what their signatures are worth."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson
from google.protobuf.struct_pb2 import Struct

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.registry.v1 import registry_pb2 as pb
from a2a_grpc.server.card.validation import validate
from a2a_grpc.wire import protojson
from a2a_grpc.wire.card_signatures import verify_signatures
from a2a_grpc.wire.errors import InvalidArgumentError, JsonParseError, PayloadTooLargeError, Violation, invalid
from a2a_grpc.wire.jws import BadSignatureError
from a2a_grpc.wire.keys import PublicKey


@dataclass(frozen=True, slots=True)
class Card:
    """A card that may be registered."""

    document: bytes
    """Its JSON."""
    message: a2a_pb2.AgentCard


class Signature(NamedTuple):
    """What the signatures of a card are worth."""

    state: pb.SignatureState
    key_id: str


def read_card(document: bytes, max_bytes: int) -> Card:
    """The card in a JSON document.

    Raises: PayloadTooLargeError; InvalidArgumentError with what is wrong, by fields of `card`.
    """
    if len(document) > max_bytes:
        raise PayloadTooLargeError(f"The card has {len(document)} bytes; this registry takes {max_bytes}.")
    try:
        message = protojson.loads(document, a2a_pb2.AgentCard)
        protojson.loads(document, Struct)  # a card that cannot be shown would spoil every search that finds it
    except JsonParseError as error:
        raise invalid(Violation("card", "is not JSON")) from error
    except InvalidArgumentError as error:
        raise invalid(*_of_card(error.violations or (Violation("", "is no agent card"),))) from error
    if problems := validate(message):
        raise invalid(*_of_card(problems))
    return Card(document, message)


def document_of(card: Struct) -> bytes:
    """The JSON of a card that came as a message."""
    return protojson.dumps(card)


def signature_of(card: bytes, keys: Sequence[PublicKey]) -> Signature:
    """What the signatures of `card` are worth to whoever trusts `keys` (8.4.3)."""
    if not orjson.loads(card).get("signatures"):
        return Signature(pb.SIGNATURE_STATE_UNSIGNED, "")
    try:
        signer = verify_signatures(card, keys)
    except BadSignatureError:
        return Signature(pb.SIGNATURE_STATE_UNTRUSTED, "")
    return Signature(pb.SIGNATURE_STATE_VERIFIED, signer.kid)


def shown(document: bytes, *, whole: bool) -> Struct:
    """The card for a caller who may see all of it, or the part that is for everybody."""
    if whole:
        return protojson.loads(document, Struct)
    return protojson.from_dict(protojson.to_dict(_public(protojson.loads(document, a2a_pb2.AgentCard))), Struct)


def _public(card: a2a_pb2.AgentCard) -> a2a_pb2.AgentCard:
    """What of a card is for everybody: what the agent can, where it is, and how callers prove to it who they are.

    Without the last nobody could call an agent that was found; it is no secret, since whoever comes without credentials
    is told. Who provides the agent, and what is not known here, is not for everybody.
    """
    return a2a_pb2.AgentCard(
        name=card.name,
        description=card.description,
        version=card.version,
        supported_interfaces=card.supported_interfaces,
        capabilities=card.capabilities,
        default_input_modes=card.default_input_modes,
        default_output_modes=card.default_output_modes,
        security_schemes=card.security_schemes,
        security_requirements=card.security_requirements,
        skills=[
            a2a_pb2.AgentSkill(
                id=skill.id,
                name=skill.name,
                description=skill.description,
                tags=skill.tags,
                examples=skill.examples,
                input_modes=skill.input_modes,
                output_modes=skill.output_modes,
            )
            for skill in card.skills
        ],
    )


def _of_card(problems: Sequence[Violation]) -> list[Violation]:
    return [Violation(f"card.{field}" if field else "card", description) for field, description in problems]
