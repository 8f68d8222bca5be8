"""ProtoJSON to messages.

A decoder is compiled from the descriptor of each message type. Accepted: both spellings of a name (but not of one
field at once), enums by name or number, integers also as whole floats or decimal strings, base64 in both alphabets
with or without padding, times with any offset, null for "not set", unknown fields (ignored, section 5.7). Everything
that is wrong is reported at once (section 3.3.2), each with the path of its field.
"""

import binascii
import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, NamedTuple, TypeVar

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_grpc.wire._descriptors import descriptor_of, is_of, map_value
from a2a_grpc.wire._json import DuplicateKeys, parse
from a2a_grpc.wire._nesting import (
    BAD_TIMESTAMP,
    DEFAULT_NESTING,
    LIST_COST,
    MAX_COST,
    NOT_FINITE,
    OBJECT_COST,
    too_deep,
)
from a2a_grpc.wire.errors import InvalidArgumentError, Violation, excerpt, invalid

M = TypeVar("M", bound=Message)

# A body of a million wrong values must not make a million violations.
_MAX_VIOLATIONS: Final = 100

_TIMESTAMP: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_INTEGER: Final = re.compile(r"-?[0-9]{1,20}")
_TO_STANDARD_BASE64: Final = str.maketrans("-_", "+/")


class RefusedError(Exception):
    """A value that its field cannot hold; the text says what it must be."""


def loads(data: bytes, message_type: type[M], max_nesting: int = DEFAULT_NESTING) -> M:
    """The message of a JSON text.

    Raises JsonParseError if it is not JSON at all, otherwise InvalidArgumentError as `from_dict` does.
    """
    return from_dict(parse(data, max_nesting), message_type, max_nesting)


def from_dict(value: object, message_type: type[M], max_nesting: int = DEFAULT_NESTING) -> M:
    """The message of a parsed JSON value.

    Raises InvalidArgumentError with a violation for every field that is wrong.
    """
    if not isinstance(value, dict):
        raise InvalidArgumentError("A JSON object is expected here.")
    message = message_type()
    run = _Run(max_nesting)
    _decoder(descriptor_of(message))(message, value, "", run)
    if run.violations:
        raise invalid(*run.violations)
    return message


def reason(fault: RefusedError | UnicodeEncodeError) -> str:
    """What to say of a value that could not be put into its field."""
    return str(fault) if isinstance(fault, RefusedError) else "holds half a character (a lone surrogate)"


class _Run:
    """What one decoding needs everywhere: the limit, and the faults found so far."""

    __slots__ = ("max_nesting", "violations")

    def __init__(self, max_nesting: int) -> None:
        self.max_nesting = max_nesting
        self.violations: list[Violation] = []

    def refuse(self, path: str, description: str) -> None:
        self.violations.append(Violation(path, description))
        if len(self.violations) >= _MAX_VIOLATIONS:
            raise invalid(*self.violations)


_Decode = Callable[[Any, Any, str, _Run], None]  # fills a message from a value; the path is that of the message
_Convert = Callable[[Any], Any]  # the value to assign; raises RefusedError


class _Slot(NamedTuple):
    put: Callable[[Any, Any, str, _Run], None]  # fills the field of a message; the path is that of the field
    name: str
    twin: str | None  # the other spelling, where this one is the proto's
    oneof: str | None
    takes_null: bool


# Scalars


def _string(value: Any) -> str:
    if type(value) is not str:
        raise RefusedError("must be a string")
    return value


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise RefusedError("must be true or false")
    return value


def _integer(bits: int, signed: bool) -> _Convert:
    low = -(2 ** (bits - 1)) if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1

    def convert(value: Any) -> int:
        whole = value.is_integer() if type(value) is float else type(value) is str and _INTEGER.fullmatch(value)
        if whole:
            value = int(value)
        if type(value) is not int:
            raise RefusedError("must be a whole number")
        if not low <= value <= high:
            raise RefusedError(f"must be between {low} and {high}")
        return value

    return convert


def _bytes(value: Any) -> bytes:
    if type(value) is not str:
        raise RefusedError("must be a string of base64")
    text = value.translate(_TO_STANDARD_BASE64) if "-" in value or "_" in value else value
    if not text.endswith("="):
        text += "=" * (-len(text) % 4)
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:  # also of characters outside ASCII
        raise RefusedError("must be base64") from None


def _enum(descriptor: EnumDescriptor) -> _Convert:
    numbers = {name: value.number for name, value in descriptor.values_by_name.items()}
    names = ", ".join(value.name for value in descriptor.values if value.number != 0)
    int32 = _integer(32, signed=True)

    def convert(value: Any) -> Any:
        if type(value) is not str:
            return int32(value)  # enums are open: a later version may have more numbers (section 5.7)
        number = numbers.get(value)
        if number is None:
            raise RefusedError(f"must be one of {names}, not '{excerpt(value, 64)}'")
        return number

    return convert


_SCALARS: Final[dict[int, _Convert]] = {
    FieldDescriptor.TYPE_STRING: _string,
    FieldDescriptor.TYPE_BOOL: _bool,
    FieldDescriptor.TYPE_INT32: _integer(32, signed=True),
    FieldDescriptor.TYPE_UINT32: _integer(32, signed=False),
    FieldDescriptor.TYPE_INT64: _integer(64, signed=True),
    FieldDescriptor.TYPE_UINT64: _integer(64, signed=False),
    FieldDescriptor.TYPE_BYTES: _bytes,
}


def scalar(field: FieldDescriptor) -> _Convert:
    """What turns one JSON value into one value of a scalar or enum field; it raises RefusedError."""
    if field.enum_type is not None:
        return _enum(field.enum_type)
    if field.type not in _SCALARS:
        raise TypeError(f"{field.full_name}: no ProtoJSON rule for this type yet; add it to wire")
    return _SCALARS[field.type]


# Well-known types


def read_timestamp(target: Timestamp, value: Any) -> None:
    """Fill a Timestamp from an ISO 8601 string with an offset or Z. Raises RefusedError."""
    if type(value) is not str or not _TIMESTAMP.fullmatch(value):
        raise RefusedError("must be a time such as 2025-10-28T10:30:00.000Z")
    try:
        target.FromJsonString(value.upper())
    except ValueError:
        raise RefusedError(BAD_TIMESTAMP) from None


def _timestamp(target: Any, value: Any, path: str, run: _Run) -> None:
    try:
        read_timestamp(target, value)
    except RefusedError as fault:
        run.refuse(path, str(fault))


def _data(fill: Callable[[Any, Any, int, int, int], None]) -> _Decode:
    def decode(target: Any, value: Any, path: str, run: _Run) -> None:
        try:
            fill(target, value, run.max_nesting, 0, 0)
        except (RefusedError, UnicodeEncodeError) as fault:
            run.refuse(path, reason(fault))

    return decode


def _fill_value(target: Any, value: Any, limit: int, level: int, cost: int) -> None:
    kind = type(value)
    if kind is str:
        target.string_value = value
    elif kind is bool:
        target.bool_value = value
    elif kind is int or kind is float:
        try:
            number = float(value)
        except OverflowError:
            raise RefusedError(NOT_FINITE) from None
        if not isfinite(number):
            raise RefusedError(NOT_FINITE)
        target.number_value = number
    elif value is None:
        target.null_value = 0
    elif isinstance(value, dict):
        held = target.struct_value
        held.SetInParent()
        _fill_struct(held, value, limit, level, cost)
    elif kind is list:
        held = target.list_value
        held.SetInParent()
        _fill_list(held, value, limit, level, cost)
    else:
        raise RefusedError("must be JSON data")


def _fill_struct(target: Any, value: Any, limit: int, level: int, cost: int) -> None:
    if not isinstance(value, dict):
        raise RefusedError("must be an object")
    if type(value) is DuplicateKeys:
        raise RefusedError(value.fault)
    level += 1
    cost += OBJECT_COST
    if level > limit or cost > MAX_COST:
        raise RefusedError(too_deep(limit))
    fields = target.fields
    for key, item in value.items():
        _fill_value(fields[key], item, limit, level, cost)


def _fill_list(target: Any, value: Any, limit: int, level: int, cost: int) -> None:
    if type(value) is not list:
        raise RefusedError("must be a list")
    level += 1
    cost += LIST_COST
    if level > limit or cost > MAX_COST:
        raise RefusedError(too_deep(limit))
    add = target.values.add
    for item in value:
        _fill_value(add(), item, limit, level, cost)


_VALUE: Final = "google.protobuf.Value"
_WELL_KNOWN: Final[dict[str, _Decode]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Struct": _data(_fill_struct),
    "google.protobuf.ListValue": _data(_fill_list),
    _VALUE: _data(_fill_value),
}


# Messages

_decoders: dict[Descriptor, _Decode] = {}


def _decoder(descriptor: Descriptor) -> _Decode:
    decode = _decoders.get(descriptor) or _WELL_KNOWN.get(descriptor.full_name)
    if decode is None:
        slots: dict[str, _Slot] = {}
        decode = _decoders[descriptor] = _message(slots)  # before the fields: a type may hold itself
        for field in descriptor.fields:
            slot = _slot(field)
            slots[field.json_name] = slot
            if field.name != field.json_name:
                slots[field.name] = slot._replace(twin=field.json_name)
    return decode


def _slot(field: FieldDescriptor) -> _Slot:
    oneof = field.containing_oneof
    return _Slot(
        put=_put(field),
        name=field.name,
        twin=None,
        oneof=None if oneof is None else oneof.name,
        takes_null=is_of(field, _VALUE) and not field.is_repeated,
    )


def _message(slots: Mapping[str, _Slot]) -> _Decode:
    def decode(message: Any, value: Any, path: str, run: _Run) -> None:
        if not _is_object(value, path, run):
            return
        prefix = f"{path}." if path else ""
        members: dict[str, str] = {}
        for key, item in value.items():
            slot = slots.get(key)
            if slot is None:
                continue
            put, name, twin, oneof, takes_null = slot
            if twin is not None and twin in value:
                run.refuse(prefix + name, f"is given twice, as {key} and as {twin}")
            elif item is None and not takes_null:
                continue
            elif oneof is not None and members.setdefault(oneof, name) != name:
                run.refuse(prefix + name, f"cannot be given together with {members[oneof]}")
            else:
                put(message, item, prefix + name, run)

    return decode


def _put(field: FieldDescriptor) -> _Decode:
    of_map, of_type, name = map_value(field), field.message_type, field.name
    if of_map is not None:
        of_type = of_map.message_type
        return _message_map(name, of_type) if of_type is not None else _scalar_map(name, scalar(of_map))
    if field.is_repeated:
        return _message_list(name, of_type) if of_type is not None else _scalar_list(name, scalar(field))
    return _one_message(name, of_type) if of_type is not None else _one_scalar(name, scalar(field))


def _one_message(name: str, descriptor: Descriptor) -> _Decode:
    fill = _decoder(descriptor)

    def put(message: Any, value: Any, path: str, run: _Run) -> None:
        held = getattr(message, name)
        held.SetInParent()
        fill(held, value, path, run)

    return put


def _one_scalar(name: str, convert: _Convert) -> _Decode:
    def put(message: Any, value: Any, path: str, run: _Run) -> None:
        try:
            setattr(message, name, convert(value))
        except (RefusedError, UnicodeEncodeError) as fault:
            run.refuse(path, reason(fault))

    return put


def _message_list(name: str, descriptor: Descriptor) -> _Decode:
    fill = _decoder(descriptor)

    def put(message: Any, value: Any, path: str, run: _Run) -> None:
        if _is_list(value, path, run):
            held = getattr(message, name)
            for index, item in enumerate(value):
                fill(held.add(), item, f"{path}[{index}]", run)

    return put


def _scalar_list(name: str, convert: _Convert) -> _Decode:
    def put(message: Any, value: Any, path: str, run: _Run) -> None:
        if _is_list(value, path, run):
            held = getattr(message, name)
            for index, item in enumerate(value):
                try:
                    held.append(convert(item))
                except (RefusedError, UnicodeEncodeError) as fault:
                    run.refuse(f"{path}[{index}]", reason(fault))

    return put


def _message_map(name: str, descriptor: Descriptor) -> _Decode:
    fill = _decoder(descriptor)

    def put(message: Any, value: Any, path: str, run: _Run) -> None:
        if _is_object(value, path, run):
            held = getattr(message, name)
            for key, item in value.items():
                try:
                    fill(held[key], item, f"{path}[{excerpt(key, 64)}]", run)
                except UnicodeEncodeError as fault:
                    run.refuse(path, reason(fault))

    return put


def _scalar_map(name: str, convert: _Convert) -> _Decode:
    def put(message: Any, value: Any, path: str, run: _Run) -> None:
        if _is_object(value, path, run):
            held = getattr(message, name)
            for key, item in value.items():
                try:
                    held[key] = convert(item)
                except (RefusedError, UnicodeEncodeError) as fault:
                    run.refuse(f"{path}[{excerpt(key, 64)}]", reason(fault))

    return put


def _is_object(value: Any, path: str, run: _Run) -> bool:
    if type(value) is dict:
        return True
    run.refuse(path, value.fault if isinstance(value, DuplicateKeys) else "must be an object")
    return False


def _is_list(value: Any, path: str, run: _Run) -> bool:
    if type(value) is list:
        return True
    run.refuse(path, "must be a list")
    return False
