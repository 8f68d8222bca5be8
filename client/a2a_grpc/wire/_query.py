"""Request fields as query parameters (section 11.5), for the HTTP methods that have no body.

Names in camelCase or as in the proto; unknown names are ignored. A repeated field is given by repeating its name, and
unless it holds strings also as one list with commas; any other field once. Nested objects have no form in a query.
"""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from a2a_grpc.wire._decode import RefusedError, read_timestamp, reason, scalar
from a2a_grpc.wire._descriptors import descriptor_of, is_of
from a2a_grpc.wire.errors import Violation, invalid

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_NUMBER: Final = re.compile("[0-9]{1,10}")
_BOOLEANS: Final = {"true": True, "false": False}


class _Parameter(NamedTuple):
    field: FieldDescriptor
    read: Callable[[str], Any] | None  # None: a time, or a nested object


def read_query(message: Message, query: Sequence[tuple[str, str]], taken: Container[str]) -> None:
    """Fill the fields of a request from decoded query pairs, except those `taken` by the path.

    Raises InvalidArgumentError with a violation for every parameter that is wrong.
    """
    parameters = _parameters(descriptor_of(message))
    given: dict[str, tuple[_Parameter, list[str]]] = {}
    faults: list[Violation] = []
    for key, text in query:
        name, dot, _ = key.partition(".")
        parameter = parameters.get(name)
        if parameter is None or parameter.field.name in taken:
            continue
        if dot:
            faults.append(
                Violation(parameter.field.name, "cannot be given in parts: nested objects need a request body")
            )
        else:
            given.setdefault(parameter.field.name, (parameter, []))[1].append(text)
    for name, (parameter, texts) in given.items():
        try:
            _read(message, parameter, texts)
        except (RefusedError, UnicodeEncodeError) as fault:
            faults.append(Violation(name, reason(fault)))
    if faults:
        raise invalid(*faults)


def write_query(message: Message, taken: Container[str]) -> Iterator[tuple[str, str]]:
    """The pairs that `read_query` makes the same message of; names in camelCase."""
    for field, value in message.ListFields():
        if field.name not in taken:
            for one in value if field.is_repeated else (value,):
                yield field.json_name, _text(field, one)


def _read(message: Message, parameter: _Parameter, texts: list[str]) -> None:
    field, read = parameter
    if field.is_repeated and read is not None:
        if field.type != FieldDescriptor.TYPE_STRING:
            texts = [item for text in texts for item in text.split(",")]
        getattr(message, field.name).extend(read(text) for text in texts)
        return
    if len(texts) > 1:
        raise RefusedError("is given more than once")
    if read is not None:
        setattr(message, field.name, read(texts[0]))
    elif is_of(field, _TIMESTAMP) and not field.is_repeated:
        read_timestamp(getattr(message, field.name), texts[0])
    else:
        raise RefusedError("cannot be given in a query: nested objects need a request body")


def _text(field: FieldDescriptor, value: Any) -> str:
    if field.type == FieldDescriptor.TYPE_BOOL:
        return "true" if value else "false"
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if is_of(field, _TIMESTAMP):
        return str(value.ToJsonString())  # to the nanosecond: the bound of a filter must not move
    if field.message_type is not None:
        raise TypeError(f"{field.full_name} is a nested object: it has no form in a query")
    return str(value)


def _boolean(text: str) -> bool:
    if text not in _BOOLEANS:
        raise RefusedError("must be true or false")
    return _BOOLEANS[text]


def _number_or_name(convert: Callable[[Any], Any]) -> Callable[[str], Any]:
    return lambda text: convert(int(text) if _NUMBER.fullmatch(text) else text)


_known: dict[Descriptor, Mapping[str, _Parameter]] = {}


def _parameters(descriptor: Descriptor) -> Mapping[str, _Parameter]:
    parameters = _known.get(descriptor)
    if parameters is None:
        parameters = _known[descriptor] = {
            name: _Parameter(field, _reader(field))
            for field in descriptor.fields
            for name in (field.name, field.json_name)
        }
    return parameters


def _reader(field: FieldDescriptor) -> Callable[[str], Any] | None:
    if field.message_type is not None:
        return None
    if field.type == FieldDescriptor.TYPE_BOOL:
        return _boolean
    return _number_or_name(scalar(field)) if field.enum_type is not None else scalar(field)
