"""Agent cards in files that people write: YAML or JSON, with the field names of the protocol."""

import json
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

import yaml
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import yaml_loader
from a2a_grpc.wire.errors import A2AError, camel_path, excerpt
from a2a_grpc.wire.protojson import from_dict

_LONGEST: Final = 1000
"""Characters of a sentence on a problem; of what the file holds only a part is repeated."""


class CardFileError(ValueError):
    """A card file that cannot be used. The text has one line for each problem, with file and field."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        self.path = path
        self.problems = [excerpt(problem, _LONGEST) for problem in problems]
        super().__init__("\n".join(f"{path}: {problem}" for problem in self.problems))


def load_card(path: str | Path) -> a2a_pb2.AgentCard:
    """The card in the file at `path`; fields may be spelled as in JSON or as in the proto.

    Raises CardFileError. Other than in messages from a peer (5.7), unknown fields are errors: in a file they are slips.
    Whether the card is complete is for `validate` to say, once the interfaces are known.
    """
    file = Path(path)
    try:
        data = file.read_bytes()
        value = json.loads(data) if file.suffix == ".json" else yaml_loader.load(data)
    except OSError as error:
        raise CardFileError(file, [f"cannot be read: {error.strerror}"]) from error
    except (yaml.YAMLError, ValueError) as error:
        raise CardFileError(file, [" ".join(str(error).split())]) from error
    except RecursionError:
        raise CardFileError(file, ["is nested too deeply"]) from None
    if not isinstance(value, dict):
        raise CardFileError(file, ["must hold an object: the fields of an agent card"])
    card, problems = read_fields(value)
    if problems:
        raise CardFileError(file, problems)
    return card


def read_fields(value: dict[Any, Any]) -> tuple[a2a_pb2.AgentCard, list[str]]:
    """Fields of a card as somebody wrote them, and what is wrong with them: "FIELD: problem"."""
    problems: list[str] = []
    _check(value, cast("Descriptor", a2a_pb2.AgentCard.DESCRIPTOR), "", problems)
    if problems:
        return a2a_pb2.AgentCard(), problems
    try:
        return from_dict(value, a2a_pb2.AgentCard), problems
    except A2AError as error:
        found = [f"{camel_path(violation.field)}: {violation.description}" for violation in error.violations]
        return a2a_pb2.AgentCard(), found or [error.message]


def _check(value: dict[object, object], descriptor: Descriptor, path: str, problems: list[str]) -> None:
    """Report what the decoder of messages would let pass, or could not explain to somebody who wrote YAML."""
    fields = {**descriptor.fields_by_name, **descriptor.fields_by_camelcase_name}
    for key, item in value.items():
        field = fields.get(key) if isinstance(key, str) else None
        if field is None:
            near = get_close_matches(str(key), descriptor.fields_by_camelcase_name, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            problems.append(f"{path}{key}: {descriptor.name} has no such field{hint}")
        elif field.is_repeated and isinstance(item, list):
            for index, entry in enumerate(item):
                _check_item(entry, field, f"{path}{key}[{index}]", problems)
        else:
            _check_item(item, field, f"{path}{key}", problems)


def _check_item(item: object, field: FieldDescriptor, path: str, problems: list[str]) -> None:
    message = field.message_type
    if message is None:
        if field.type == FieldDescriptor.TYPE_STRING and item is not None and not isinstance(item, str | list | dict):
            problems.append(f"{path}: must be text; write {item} in quotes")
    elif message.full_name.startswith("google.protobuf."):
        _check_free_form(item, path, problems)
    elif isinstance(item, dict):
        if message.GetOptions().map_entry:
            for key, entry in item.items():
                _check_item(entry, message.fields_by_name["value"], f"{path}.{key}", problems)
        else:
            _check(item, message, f"{path}.", problems)


def _check_free_form(item: object, path: str, problems: list[str]) -> None:
    if isinstance(item, dict):
        for key, entry in item.items():
            _check_free_form(entry, f"{path}.{key}", problems)
    elif isinstance(item, list):
        for index, entry in enumerate(item):
            _check_free_form(entry, f"{path}[{index}]", problems)
    elif item is not None and not isinstance(item, str | bool | int | float):
        # YAML makes dates of what looks like one.
        problems.append(f"{path}: must be text, a number, true or false; write {item} in quotes")
