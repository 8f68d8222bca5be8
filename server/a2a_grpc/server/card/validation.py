"""What must be true of a card before it is published."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from google.api import field_behavior_pb2
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import Violation

# A FieldDescriptor; each of protobuf's implementations has its own class of that name, and the stubs tell them apart.
_Field = Any

_MAY_BE_EMPTY = frozenset({"lf.a2a.v1.AgentCard.skills"})
"""Required lists without the "at least one" of 5.7: 8.4.1 itself shows a card with `skills: []`."""

_NOWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104  # compared with, not bound to


def validate(card: a2a_pb2.AgentCard) -> list[Violation]:
    """All that is wrong with `card`; empty if it can be published.

    Checked are the REQUIRED fields (5.7) at every depth, that a scheme in use is declared (4.5), that skills can be
    told apart, and that no interface names an address which only the server itself can bind to (B093).
    """
    return [
        *_missing(card, ""),
        *_undeclared_schemes(card),
        *_repeated_skills(card),
        *_unreachable(card),
    ]


def _missing(message: Message, path: str) -> Iterator[Violation]:
    for field in message.DESCRIPTOR.fields:
        name = f"{path}{field.name}"
        if _is_required(field) and not _has(message, field):
            yield Violation(name, "needs at least one entry" if field.is_repeated else "is required")
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.full_name.startswith("google.protobuf."):
            continue
        name = f"{path}{field.name}"
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                for key in sorted(value):
                    yield from _missing(value[key], f"{name}[{key!r}].")
        elif field.is_repeated:
            for index, item in enumerate(value):
                yield from _missing(item, f"{name}[{index}].")
        else:
            yield from _missing(value, f"{name}.")
    for oneof in message.DESCRIPTOR.oneofs:
        # Synthetic oneofs stand for `optional`.
        if len(oneof.fields) > 1 and message.WhichOneof(oneof.name) is None:
            names = ", ".join(field.name for field in oneof.fields)
            yield Violation(f"{path}{oneof.name}", f"needs one of {names}")


def _is_required(field: _Field) -> bool:
    return field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]


def _has(message: Message, field: _Field) -> bool:
    if field.is_repeated:
        # A map is no array: OAuth flows without scopes exist.
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        return is_map or field.full_name in _MAY_BE_EMPTY or len(getattr(message, field.name)) > 0
    if field.message_type is not None:
        return message.HasField(field.name)
    return bool(getattr(message, field.name))


def _undeclared_schemes(card: a2a_pb2.AgentCard) -> Iterator[Violation]:
    places = [("", card.security_requirements)]
    places += [(f"skills[{index}].", skill.security_requirements) for index, skill in enumerate(card.skills)]
    for path, requirements in places:
        for index, requirement in enumerate(requirements):
            for name in sorted(requirement.schemes):
                if name not in card.security_schemes:
                    yield Violation(
                        f"{path}security_requirements[{index}]",
                        f"names {name}, which security_schemes does not declare",
                    )


def _repeated_skills(card: a2a_pb2.AgentCard) -> Iterator[Violation]:
    seen: set[str] = set()
    for index, skill in enumerate(card.skills):
        if skill.id and skill.id in seen:
            yield Violation(f"skills[{index}].id", f"is {skill.id}, as that of an earlier skill")
        seen.add(skill.id)


def _unreachable(card: a2a_pb2.AgentCard) -> Iterator[Violation]:
    for index, interface in enumerate(card.supported_interfaces):
        url = interface.url if "//" in interface.url else f"//{interface.url}"
        try:
            host = urlsplit(url).hostname
        except ValueError:
            host = None
        if interface.url and (host is None or host in _NOWHERE):
            yield Violation(f"supported_interfaces[{index}].url", "is no address that a caller can connect to")
