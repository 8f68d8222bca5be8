"""Our ProtoJSON beside protobuf's own, over random messages and random JSON."""

import json
import re
from typing import Any

import orjson
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire._descriptors import descriptor_of, is_required, map_value
from a2a_grpc.wire.errors import A2AError
from tests.wire.messages import TYPES, messages, unhurried

pytestmark = pytest.mark.wide

_ZEROS: list[Any] = ["", [], {}, 0, False, "ROLE_UNSPECIFIED", "TASK_STATE_UNSPECIFIED"]
_FREE_FORM = ("google.protobuf.Struct", "google.protobuf.Value")


def assert_equal_but_documented(ours: Any, stock: Any, descriptor: Descriptor) -> None:
    """The differences: REQUIRED zero values are there, times have three decimals (3 == 3.0 in Python)."""
    if descriptor.full_name == "google.protobuf.Timestamp":
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", ours)
        assert ours == (stock if "." in stock else stock[:-1] + ".000Z")
        return
    if descriptor.full_name in _FREE_FORM:
        assert ours == stock
        return
    assert set(stock) <= set(ours)
    for field in descriptor.fields:
        name, of_map = field.json_name, map_value(field)
        if name not in stock:
            assert name not in ours or (is_required(field) and ours[name] in _ZEROS)
            continue
        of_type = field.message_type if of_map is None else of_map.message_type
        if of_type is None:
            assert ours[name] == stock[name]
            continue
        if of_map is not None:
            assert set(ours[name]) == set(stock[name])
            pairs = [(ours[name][key], stock[name][key]) for key in stock[name]]
        elif field.is_repeated:
            pairs = list(zip(ours[name], stock[name], strict=True))
        else:
            pairs = [(ours[name], stock[name])]
        for one, other in pairs:
            assert_equal_but_documented(one, other, of_type)


@unhurried
@given(messages())
def test_output_is_that_of_protobuf(message: Message) -> None:
    stock = json_format.MessageToDict(message)
    assert_equal_but_documented(protojson.to_dict(message), stock, descriptor_of(message))


@unhurried
@given(messages())
def test_protobuf_reads_our_output(message: Message) -> None:
    assert json_format.Parse(protojson.dumps(message), type(message)()) == message


@unhurried
@given(messages(), st.booleans())
def test_we_read_what_protobuf_writes(message: Message, proto_names: bool) -> None:
    text = json_format.MessageToJson(message, preserving_proto_field_name=proto_names)
    assert protojson.loads(text.encode(), type(message)) == message


@unhurried
@given(messages())
def test_we_read_what_we_write(message: Message) -> None:
    assert protojson.loads(protojson.dumps(message), type(message)) == message


@unhurried
@given(messages())
def test_equal_messages_have_equal_text(message: Message) -> None:
    # The ETag of a card must be the same on all replicas: map order, which protobuf does not fix, must not show.
    again = type(message).FromString(message.SerializeToString(deterministic=True))
    assert protojson.dumps(again) == protojson.dumps(message)


@unhurried
@given(messages())
def test_no_message_made_from_json_is_refused_as_binary(message: Message) -> None:
    protojson.check_nesting(message)


_NAMES = sorted(
    {name for t in TYPES for f in descriptor_of(t()).fields for name in (f.name, f.json_name)}
    | {
        "messageId",
        "role",
        "parts",
        "text",
        "raw",
        "data",
        "state",
        "timestamp",
        "status",
        "unknown",
        "schemes",
        "list",
    }
)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "aGk=", "ROLE_USER", "TASK_STATE_WORKING", "2025-10-28T10:30:00Z", "12", "x", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=5),
    max_leaves=12,
)


@unhurried
@given(st.dictionaries(st.sampled_from(_NAMES), _JSON, max_size=5), st.sampled_from(TYPES))
def test_random_json_is_refused_cleanly_or_read_as_protobuf_reads_it(
    value: dict[str, Any], kind: type[Message]
) -> None:
    try:
        message = protojson.from_dict(value, kind)
    except A2AError as error:
        assert error.violations
        assert_no_internals(error)
    else:
        assert message == json_format.ParseDict(value, kind(), ignore_unknown_fields=True)


@unhurried
@given(
    st.binary(max_size=40)
    | st.text(alphabet='{}[]:,"\\ue0123.-+tfn \ud83d', max_size=40).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )
)
def test_random_bytes_are_refused_cleanly_or_are_json(data: bytes) -> None:
    try:
        value = protojson.parse(data)
    except A2AError as error:
        assert_no_internals(error)
        with pytest.raises(orjson.JSONDecodeError):
            orjson.loads(data)
    else:
        assert value == json.loads(data)


def assert_no_internals(error: A2AError) -> None:
    text = " ".join([error.message, *(v.description for v in error.violations)])
    assert not re.search(
        r"[A-Z]\w+(Error|Exception)\b|Traceback|object at 0x|<class|google\.protobuf|orjson|None\b", text
    )


# Duplicate keys: every object that has one is found, whatever else stands in the text.


def _object_text(drawn: tuple[list[tuple[str, tuple[str, bool]]], str]) -> tuple[str, bool]:
    pairs, space = drawn
    keys = [key for key, _ in pairs]
    text = ",".join(f"{space}{json.dumps(key)}{space}:{space}{value}" for key, (value, _) in pairs)
    return "{" + text + "}", len(set(keys)) < len(keys) or any(bad for _, (_, bad) in pairs)


_KEYS = st.sampled_from(["a", "b", ":", '"', "\\", "a:", "", "\u00e9"])
_PAIRS = st.recursive(
    st.sampled_from(["1", '"x"', '":"', '"\\u003a"', '"\\\\u003a"', "[]", '"\\":"', "null"]).map(lambda t: (t, False)),
    lambda inner: st.tuples(st.lists(st.tuples(_KEYS, inner), max_size=4), st.sampled_from(["", " ", "\n"])).map(
        _object_text
    ),
    max_leaves=10,
)


def _holds_duplicate(value: Any) -> bool:
    if isinstance(value, protojson.DuplicateKeys):
        return True
    return isinstance(value, dict) and any(_holds_duplicate(item) for item in value.values())


@unhurried
@given(_PAIRS)
def test_duplicate_keys_are_found_and_nothing_else_is(drawn: tuple[str, bool]) -> None:
    text, has_duplicate = drawn
    value = protojson.parse(text.encode())
    assert value == json.loads(text)
    assert _holds_duplicate(value) == has_duplicate


def test_the_descriptors_hold_only_types_that_have_a_rule() -> None:
    for message_type in a2a_pb2.DESCRIPTOR.message_types_by_name.values():
        assert message_type.full_name.startswith("lf.a2a.v1.")
        empty = json_format.ParseDict({}, getattr(a2a_pb2, message_type.name)())
        assert (
            protojson.from_dict(protojson.to_dict(empty), type(empty)) is not None
        )  # raises TypeError for another type
