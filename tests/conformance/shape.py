"""The form of JSON that 5.5, 5.6 and 5.7 ask of every answer, checked against the proto's own descriptors.

`problems` is for the raw JSON, before a lenient parser has repaired anything; `missing` is for what any binding gives.
"""

import base64
import re
from collections.abc import Iterator
from typing import Any

from google.api import field_behavior_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

# A Descriptor or FieldDescriptor: the stubs and the implementations of protobuf have different classes for them.
_Descriptor = Any

_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z")
_FREE = frozenset({"google.protobuf.Struct", "google.protobuf.Value"})
# 3.1.4 shows `tasks: []`, 8.4.1 a card with `skills: []`.
_MAY_BE_EMPTY = frozenset({"lf.a2a.v1.ListTasksResponse.tasks", "lf.a2a.v1.AgentCard.skills"})
_SCALARS: dict[int, type] = {
    FieldDescriptor.CPPTYPE_STRING: str,
    FieldDescriptor.CPPTYPE_BOOL: bool,
    FieldDescriptor.CPPTYPE_INT32: int,
}


def problems(value: Any, message: _Descriptor, path: str = "") -> Iterator[str]:
    """What is wrong with `value` as the JSON of a message with this descriptor: one sentence each."""
    if message.full_name == "google.protobuf.Timestamp":
        if not isinstance(value, str) or not _TIMESTAMP.fullmatch(value):
            yield f"{path}: {value!r} is no UTC timestamp with milliseconds (5.6.1)"
        return
    if message.full_name in _FREE:
        yield from _no_doubles(value, path)
        return
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is no object"
        return
    fields = {field.json_name: field for field in message.fields}
    for name, field in fields.items():
        if _is_required(field) and name not in value:
            yield f"{path}{name} is required and absent (5.7)"
    for name, item in value.items():
        if name not in fields:
            yield f"{path}{name}: {message.name} has no such field in camelCase (5.5)"
        else:
            yield from _field(item, fields[name], path + name)


def _field(value: Any, field: _Descriptor, path: str) -> Iterator[str]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        for key, item in value.items():
            yield from _item(item, field.message_type.fields_by_name["value"], f"{path}[{key}]")
    elif field.is_repeated:
        if not isinstance(value, list):
            yield f"{path}: {value!r} is no array"
            return
        if not value and not (_is_required(field) and field.full_name in _MAY_BE_EMPTY):
            yield f"{path}: an empty array is noise, or a required one is empty (5.7)"
        for index, item in enumerate(value):
            yield from _item(item, field, f"{path}[{index}]")
    else:
        yield from _item(value, field, path)


def _item(value: Any, field: _Descriptor, path: str) -> Iterator[str]:
    if field.message_type is not None:
        yield from problems(value, field.message_type, f"{path}.")
    elif field.enum_type is not None:
        if value not in field.enum_type.values_by_name:
            yield f"{path}: {value!r} is no name of {field.enum_type.name} (5.5)"
    elif field.type == FieldDescriptor.TYPE_BYTES:
        if not isinstance(value, str) or base64.b64encode(base64.b64decode(value)).decode() != value:
            yield f"{path}: {value!r} is no standard base64 with padding"
    elif type(value) is not _SCALARS[field.cpp_type]:
        yield f"{path}: {value!r} is no {_SCALARS[field.cpp_type].__name__}"


def _no_doubles(value: Any, path: str) -> Iterator[str]:
    """Free-form numbers are doubles; whole ones below 2^53 still have to look as their author wrote them (B073)."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _no_doubles(item, f"{path}{key}.")
    elif isinstance(value, list):
        for item in value:
            yield from _no_doubles(item, path)
    elif isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        yield f"{path}: {value!r} is a whole number"


def missing(message: Message, path: str = "") -> Iterator[str]:
    """REQUIRED fields (5.7) that `message` lacks, at any depth, by their proto names."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.full_name.startswith("google.protobuf."):
            continue
        value = getattr(message, field.name)
        present = message.HasField(field.name) if field.has_presence else bool(value)
        if _is_required(field) and not present and not _may_be_zero(field):
            yield f"{path}{field.name}"
        if field.message_type is None or not present or field.message_type.GetOptions().map_entry:
            continue
        for item in value if field.is_repeated else [value]:
            yield from missing(item, f"{path}{field.name}.")


def _is_required(field: _Descriptor) -> bool:
    return field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]


def _may_be_zero(field: _Descriptor) -> bool:
    """Zero is a right value of the totals of a listing, and "" of its next page token (3.1.4)."""
    return field.full_name in _MAY_BE_EMPTY or field.containing_type.name == "ListTasksResponse"
