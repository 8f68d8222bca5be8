"""ProtoJSON to messages.

A decoder is compiled from the descriptor of each message type. Accepted: both spellings of a name (but not of one field at
once), enums by name or number, integers also as whole floats or decimal strings, base64 in both alphabets with or without
padding, times with any offset, null for "not set", unknown fields (ignored, section 5.7). Everything that is wrong is
reported at once (section 3.3.2), each with the path of its field.
"""

import binascii
import re
from collections.abc import Callable
from math import isfinite
from typing import Any, Final, NamedTuple, TypeVar

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

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


class Refused(Exception):
    """A value that its field cannot hold; the text says what it must be."""


def loads(data: bytes, message_type: type[M], max_nesting: int = DEFAULT_NESTING) -> M:
    """The message of a JSON text. Raises JsonParseError if it is not JSON, InvalidArgumentError if it is not this message."""
    return from_dict(parse(data, max_nesting), message_type, max_nesting)


def from_dict(value: object, message_type: type[M], max_nesting: int = DEFAULT_NESTING) -> M:
    """The message of a parsed JSON value. Raises InvalidArgumentError with a violation for every field that is wrong."""
    if not isinstance(value, dict):
        raise InvalidArgumentError("A JSON object is expected here.")
    message = message_type()
    run = _Run(max_nesting)
    _decoder(message.DESCRIPTOR)(message, value, "", run)
    if run.violations:
        raise invalid(*run.violations)
    return message


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
_Convert = Callable[[Any], Any]  # the value to assign; raises Refused


class _Slot(NamedTuple):
    put: Callable[[Any, Any, str, _Run], None]  # fills the field of a message; the path is that of the field
    name: str
    twin: str | None  # the other spelling, where this one is the proto's
    oneof: str | None
    takes_null: bool


# Scalars


def _string(value: Any) -> str:
    if type(value) is not str:
        raise Refused("must be a string")
    return value


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise Refused("must be true or false")
    return value


def _integer(bits: int, signed: bool) -> _Convert:
    low = -(2 ** (bits - 1)) if signed else 0
    high = 2 ** (bits - 1) - 1 if signed else 2**bits - 1

    def convert(value: Any) -> int:
        if type(value) is str and _INTEGER.fullmatch(value):
            value = int(value)
        elif type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise Refused("must be a whole number")
        if not low <= value <= high:
            raise Refused(f"must be between {low} and {high}")
        return value

    return convert


def _bytes(value: Any) -> bytes:
    if type(value) is not str:
        raise Refused("must be a string of base64")
    text = value.translate(_TO_STANDARD_BASE64) if "-" in value or "_" in value else value
    if not text.endswith("="):
        text += "=" * (-len(text) % 4)
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:  # also of characters outside ASCII
        raise Refused("must be base64") from None


def _enum(descriptor: EnumDescriptor) -> _Convert:
    numbers = {name: value.number for name, value in descriptor.values_by_name.items()}
    names = ", ".join(value.name for value in descriptor.values if value.number != 0)
    int32 = _integer(32, signed=True)

    def convert(value: Any) -> Any:
        if type(value) is not str:
            return int32(value)  # enums are open: a later version may have more numbers (section 5.7)
        number = numbers.get(value)
        if number is None:
            raise Refused(f"must be one of {names}, not '{excerpt(value, 64)}'")
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
    """What turns one JSON value into one value of a scalar or enum field; it raises Refused."""
    if field.enum_type is not None:
        return _enum(field.enum_type)
    if field.type not in _SCALARS:
        raise TypeError(f"{field.full_name}: no ProtoJSON rule for this type yet; add it to _encode and _decode")
    return _SCALARS[field.type]


# Well-known types


def read_timestamp(target: Timestamp, value: Any) -> None:
    """Fill a Timestamp from an ISO 8601 string with an offset or Z. Raises Refused."""
    if type(value) is not str or not _TIMESTAMP.fullmatch(value):
        raise Refused("must be a time such as 2025-10-28T10:30:00.000Z")
    try:
        target.FromJsonString(value.upper())
    except ValueError:
        raise Refused(BAD_TIMESTAMP) from None


def _timestamp(target: Any, value: Any, path: str, run: _Run) -> None:
    try:
        read_timestamp(target, value)
    except Refused as fault:
        run.refuse(path, str(fault))


def _data(fill: Callable[[Any, Any, int, int, int], None]) -> _Decode:
    def decode(target: Any, value: Any, path: str, run: _Run) -> None:
        try:
            fill(target, value, run.max_nesting, 0, 0)
        except Refused as fault:
            run.refuse(path, str(fault))
        except UnicodeEncodeError:
            run.refuse(path, _HALF_CHARACTER)

    return decode


_HALF_CHARACTER: Final = "holds half a character (a lone surrogate)"


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
            raise Refused(NOT_FINITE) from None
        if not isfinite(number):
            raise Refused(NOT_FINITE)
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
        raise Refused("must be JSON data")


def _fill_struct(target: Any, value: Any, limit: int, level: int, cost: int) -> None:
    if not isinstance(value, dict):
        raise Refused("must be an object")
    if type(value) is DuplicateKeys:
        raise Refused(value.fault)
    level += 1
    cost += OBJECT_COST
    if level > limit or cost > MAX_COST:
        raise Refused(too_deep(limit))
    fields = target.fields
    for key, item in value.items():
        _fill_value(fields[key], item, limit, level, cost)


def _fill_list(target: Any, value: Any, limit: int, level: int, cost: int) -> None:
    if type(value) is not list:
        raise Refused("must be a list")
    level += 1
    cost += LIST_COST
    if level > limit or cost > MAX_COST:
        raise Refused(too_deep(limit))
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
    decode = _decoders.get(descriptor)
    return decode if decode is not None else _compile(descriptor)


def _compile(descriptor: Descriptor) -> _Decode:
    known = _WELL_KNOWN.get(descriptor.full_name)
    if known is not None:
        _decoders[descriptor] = known
        return known

    slots: dict[str, _Slot] = {}

    def decode(message: Any, value: Any, path: str, run: _Run) -> None:
        if not isinstance(value, dict):
            run.refuse(path, "must be an object")
            return
        if type(value) is DuplicateKeys:
            run.refuse(path, value.fault)
            return
        prefix = f"{path}." if path else ""
        members: dict[str, str] = {}
        for key, item in value.items():
            slot = slots.get(key)
            if slot is None:
                continue
            if slot.twin is not None and slot.twin in value:
                run.refuse(prefix + slot.name, f"is given twice, as {key} and as {slot.twin}")
                continue
            if item is None and not slot.takes_null:
                continue
            if slot.oneof is not None:
                other = members.setdefault(slot.oneof, slot.name)
                if other is not slot.name:
                    run.refuse(prefix + slot.name, f"cannot be given together with {other}")
                    continue
            slot.put(message, item, prefix + slot.name, run)

    _decoders[descriptor] = decode  # before the fields: a type may hold itself
    for field in descriptor.fields:
        oneof = field.containing_oneof
        if oneof is not None and oneof.fields[0].has_presence and oneof.name.startswith("_"):
            oneof = None  # the one that `optional` makes
        slot = _Slot(
            _put(field),
            field.name,
            None,
            None if oneof is None else oneof.name,
            not field.is_repeated and _is_value(field),
        )
        slots[field.json_name] = slot
        if field.name != field.json_name:
            slots[field.name] = slot._replace(twin=field.json_name)
    return decode


def _is_value(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.full_name == _VALUE


def _put(field: FieldDescriptor) -> _Decode:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _put_map(field)
    if field.is_repeated:
        return _put_list(field)
    name = field.name
    if field.message_type is not None:
        fill = _decoder(field.message_type)

        def put_message(message: Any, value: Any, path: str, run: _Run) -> None:
            target = getattr(message, name)
            target.SetInParent()
            fill(target, value, path, run)

        return put_message
    convert = scalar(field)

    def put_scalar(message: Any, value: Any, path: str, run: _Run) -> None:
        try:
            setattr(message, name, convert(value))
        except Refused as fault:
            run.refuse(path, str(fault))
        except UnicodeEncodeError:
            run.refuse(path, _HALF_CHARACTER)

    return put_scalar


def _put_list(field: FieldDescriptor) -> _Decode:
    name = field.name
    fill = _decoder(field.message_type) if field.message_type is not None else None
    convert = scalar(field) if field.message_type is None else None

    def put(message: Any, value: Any, path: str, run: _Run) -> None:
        if type(value) is not list:
            run.refuse(path, "must be a list")
            return
        held = getattr(message, name)
        for index, item in enumerate(value):
            if fill is not None:
                fill(held.add(), item, f"{path}[{index}]", run)
                continue
            assert convert is not None
            try:
                held.append(convert(item))
            except Refused as fault:
                run.refuse(f"{path}[{index}]", str(fault))
            except UnicodeEncodeError:
                run.refuse(f"{path}[{index}]", _HALF_CHARACTER)

    return put


def _put_map(field: FieldDescriptor) -> _Decode:
    name = field.name
    value_field = field.message_type.fields_by_name["value"]
    fill = _decoder(value_field.message_type) if value_field.message_type is not None else None
    convert = scalar(value_field) if value_field.message_type is None else None
    if field.message_type.fields_by_name["key"].type != FieldDescriptor.TYPE_STRING:
        raise TypeError(
            f"{field.full_name}: no ProtoJSON rule for keys of this type yet; add it to _encode and _decode"
        )

    def put(message: Any, value: Any, path: str, run: _Run) -> None:
        if not isinstance(value, dict):
            run.refuse(path, "must be an object")
            return
        if type(value) is DuplicateKeys:
            run.refuse(path, value.fault)
            return
        held = getattr(message, name)
        for key, item in value.items():
            try:
                if fill is not None:
                    fill(held[key], item, f"{path}[{excerpt(key, 64)}]", run)
                else:
                    assert convert is not None
                    held[key] = convert(item)
            except Refused as fault:
                run.refuse(f"{path}[{excerpt(key, 64)}]", str(fault))
            except UnicodeEncodeError:
                run.refuse(path, _HALF_CHARACTER)

    return put
