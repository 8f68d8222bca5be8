"""Messages to ProtoJSON.

An encoder is compiled from the descriptor of each message type. It differs from the stock one only where the
specification or its readers ask for it:

* fields marked REQUIRED appear with their zero value when unset (section 5.7: they MUST be present); nothing else does;
* times have exactly three decimals, cut below the millisecond (section 5.6.1);
* whole numbers of free-form data below 2^53 print as integers, since nobody who wrote 3 expects 3.0;
* keys of maps and free-form objects come in sorted order, so that equal messages give equal text on every replica.
"""

from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import isfinite
from typing import Any, Final

import orjson
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_grpc.wire._descriptors import descriptor_of, is_required, map_value
from a2a_grpc.wire._nesting import NANOS

_Encode = Callable[[Any], Any]

_EXACT: Final = 2.0**53
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_dict(message: Message) -> Any:
    """The message as JSON values: a dict for every message of the protocol.

    A number that is not finite becomes None. Raises ValueError for a time outside the years 1 to 9999. `check_nesting`
    refuses both, so neither is in a message that was accepted.
    """
    return _encoder(descriptor_of(message))(message)


def dumps(message: Message) -> bytes:
    """The message as JSON text in UTF-8, without spaces or newlines. Raises as `to_dict` does."""
    return orjson.dumps(to_dict(message))


def one_line(data: bytes) -> bytes:
    """JSON text in which nothing is left that some reader takes for the end of a line.

    In event streams only CR and LF end a line, which JSON never holds as they are. But clients cut text into lines by
    the rules of Unicode, httpx and with it the official SDK among them: U+0085, U+2028 and U+2029 are escaped.
    """
    if b"\xe2\x80" in data or b"\xc2\x85" in data:
        data = data.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
        data = data.replace(b"\xc2\x85", b"\\u0085")
    return data


def _timestamp(value: Any) -> str:
    nanos: int = value.nanos
    if not 0 <= nanos < NANOS:
        raise ValueError("nanoseconds of a timestamp out of range")
    return f"{_second(value.seconds)}.{nanos // 1_000_000:03d}Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError("timestamp outside the years 1 to 9999") from None
    return moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")


def _struct(value: Any) -> dict[str, Any]:
    fields = value.fields
    return {key: _value(fields[key]) for key in sorted(fields)}


def _list(value: Any) -> list[Any]:
    return [_value(item) for item in value.values]


def _value(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "number_value":
        number: float = value.number_value
        if -_EXACT < number < _EXACT and number.is_integer():
            return int(number)
        return number if isfinite(number) else None
    if kind == "struct_value":
        return _struct(value.struct_value)
    if kind == "list_value":
        return _list(value.list_value)
    return value.bool_value if kind == "bool_value" else None


def _base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _enum(descriptor: EnumDescriptor) -> _Encode:
    names: dict[int, Any] = {number: value.name for number, value in descriptor.values_by_number.items()}
    return lambda number: names.get(number, number)


_encoders: dict[Descriptor, _Encode] = {}
_WELL_KNOWN: Final[dict[str, _Encode]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Struct": _struct,
    "google.protobuf.ListValue": _list,
    "google.protobuf.Value": _value,
}

# JSON of scalar types whose Python value is not their JSON value (64-bit integers are strings), None for the others.
_SCALARS: Final[dict[int, _Encode | None]] = {
    FieldDescriptor.TYPE_STRING: None,
    FieldDescriptor.TYPE_BOOL: None,
    FieldDescriptor.TYPE_INT32: None,
    FieldDescriptor.TYPE_UINT32: None,
    FieldDescriptor.TYPE_INT64: str,
    FieldDescriptor.TYPE_UINT64: str,
    FieldDescriptor.TYPE_BYTES: _base64,
}


def _encoder(descriptor: Descriptor) -> _Encode:
    encode = _encoders.get(descriptor)
    return encode if encode is not None else _compile(descriptor)


def _compile(descriptor: Descriptor) -> _Encode:
    known = _WELL_KNOWN.get(descriptor.full_name)
    if known is not None:
        _encoders[descriptor] = known
        return known

    table: dict[FieldDescriptor, tuple[str, _Encode | None]] = {}
    required: list[tuple[str, Callable[[], Any]]] = []

    def encode(message: Message) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for field, value in message.ListFields():
            name, convert = table[field]
            out[name] = value if convert is None else convert(value)
        for name, zero in required:
            if name not in out:
                out[name] = zero()
        return out

    _encoders[descriptor] = encode  # before the fields: a type may hold itself
    for field in descriptor.fields:
        table[field] = field.json_name, _field(field)
        if is_required(field):
            required.append((field.json_name, _zero(field)))
    return encode


def _field(field: FieldDescriptor) -> _Encode | None:
    of_map = map_value(field)
    if of_map is not None:
        item = _single(of_map)
        return lambda held: {key: held[key] if item is None else item(held[key]) for key in sorted(held)}
    one = _single(field)
    if not field.is_repeated:
        return one
    return list if one is None else lambda held: [one(value) for value in held]


def _single(field: FieldDescriptor) -> _Encode | None:
    if field.message_type is not None:
        return _encoder(field.message_type)
    if field.enum_type is not None:
        return _enum(field.enum_type)
    if field.type not in _SCALARS:
        raise TypeError(f"{field.full_name}: no ProtoJSON rule for this type yet; add it to wire")
    return _SCALARS[field.type]


def _zero(field: FieldDescriptor) -> Callable[[], Any]:
    if field.is_repeated:
        return list if map_value(field) is None else dict
    if field.message_type is not None:
        empty = GetMessageClass(field.message_type)
        return lambda: to_dict(empty())
    convert = _single(field)
    value = b"" if field.type == FieldDescriptor.TYPE_BYTES else field.default_value
    zero = value if convert is None else convert(value)
    return lambda: zero
