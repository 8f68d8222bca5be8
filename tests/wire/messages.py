"""Random messages of any type, from its descriptor."""

import random
from typing import Any

from google.protobuf import struct_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import settings
from hypothesis import strategies as st

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire._descriptors import is_required

TYPES: list[type[Message]] = [
    a2a_pb2.SendMessageRequest,
    a2a_pb2.SendMessageResponse,
    a2a_pb2.StreamResponse,
    a2a_pb2.ListTasksRequest,
    a2a_pb2.ListTasksResponse,
    a2a_pb2.TaskPushNotificationConfig,
    a2a_pb2.ListTaskPushNotificationConfigsResponse,
    a2a_pb2.AgentCard,
]

# How long one example takes says nothing on a machine that runs other tests as well.
unhurried = settings(deadline=None)

_TEXTS = ["", "a", "zwei Wörter", '\U0001f600:\\"', "x/y?z", "\x00\x1f\u2028", "null", "1"]
_NUMBERS = [0.0, 3.0, -1.0, 0.5, 2.0**53 - 1, 2.0**53, -(2.0**53), 1e21, -1e-7, 1.7976931348623157e308]


def messages(message_type: type[Message] | None = None) -> st.SearchStrategy[Message]:
    """Messages of one type or of any: drawn by hypothesis, filled from the drawn seed.

    Times stand on a millisecond and REQUIRED messages are always there, so that JSON loses nothing of them.
    """
    chosen = st.just(message_type) if message_type is not None else st.sampled_from(TYPES)
    return st.builds(_make, chosen, st.integers(0, 2**32))


def _make(message_type: type[Message], seed: int) -> Message:
    message = message_type()
    _fill(message, random.Random(seed), 0)
    return message


def _fill(message: Any, rng: random.Random, depth: int) -> None:
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        message.FromMilliseconds(rng.choice([0, 1, -1, 1_761_647_400_123, -62_135_596_800_000, 253_402_300_799_999]))
        return
    if name == "google.protobuf.Value":
        _fill_value(message, rng, 0)
        return
    if name == "google.protobuf.Struct":
        for _ in range(rng.randint(0, 3)):
            _fill_value(message.fields[rng.choice(_TEXTS)], rng, 1)
        return
    for oneof in message.DESCRIPTOR.oneofs:
        if rng.random() < 0.9:
            _set(message, rng.choice(oneof.fields), rng, depth)
    for field in message.DESCRIPTOR.fields:
        if field.containing_oneof is None and (rng.random() < 0.5 or _is_required_message(field)):
            _set(message, field, rng, depth)


def _is_required_message(field: FieldDescriptor) -> bool:
    return field.message_type is not None and not field.is_repeated and is_required(field)


def _set(message: Any, field: FieldDescriptor, rng: random.Random, depth: int) -> None:
    of_type = field.message_type
    if of_type is not None and of_type.GetOptions().map_entry:
        held = getattr(message, field.name)
        value = of_type.fields_by_name["value"]
        for key in rng.sample(_TEXTS, rng.randint(0, 2)):
            if value.message_type is None:
                held[key] = rng.choice(_TEXTS)
            else:
                _fill(held[key], rng, depth + 1)
    elif field.is_repeated:
        held = getattr(message, field.name)
        for _ in range(rng.randint(0, 2 if depth < 4 else 0)):
            if of_type is None:
                held.append(_scalar(field, rng))
            else:
                _fill(held.add(), rng, depth + 1)
    elif of_type is None:
        setattr(message, field.name, _scalar(field, rng))
    else:
        held = getattr(message, field.name)
        held.SetInParent()
        _fill(held, rng, depth + 1)


def _scalar(field: FieldDescriptor, rng: random.Random) -> Any:
    if field.enum_type is not None:
        return rng.choice([*(value.number for value in field.enum_type.values), 77])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.randbytes(rng.randint(0, 5))
    if field.type == FieldDescriptor.TYPE_BOOL:
        return rng.random() < 0.5
    if field.type == FieldDescriptor.TYPE_INT32:
        return rng.choice([0, 1, -1, 2**31 - 1, -(2**31)])
    return rng.choice(_TEXTS)


def _fill_value(value: struct_pb2.Value, rng: random.Random, depth: int) -> None:
    kind = rng.randint(0, 5 if depth < 4 else 3)
    if kind == 0:
        value.null_value = struct_pb2.NULL_VALUE
    elif kind == 1:
        value.bool_value = rng.random() < 0.5
    elif kind == 2:
        value.number_value = rng.choice(_NUMBERS)
    elif kind == 3:
        value.string_value = rng.choice(_TEXTS)
    elif kind == 4:
        value.list_value.SetInParent()
        for _ in range(rng.randint(0, 3)):
            _fill_value(value.list_value.values.add(), rng, depth + 1)
    else:
        value.struct_value.SetInParent()
        for _ in range(rng.randint(0, 3)):
            _fill_value(value.struct_value.fields[rng.choice(_TEXTS)], rng, depth + 1)
