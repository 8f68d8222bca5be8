"""How deep data may nest (case B067), and that everything which passes can be read back by stock protobuf."""

import time
from typing import Any

import pytest
from google.protobuf import json_format, struct_pb2
from google.protobuf.message import DecodeError, Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import InvalidArgumentError


def lists(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def objects(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def binary(value: Any) -> struct_pb2.Value:
    """The Value of nested JSON, made without our own code."""
    made = struct_pb2.Value()
    target = made
    while value != 1:
        if isinstance(value, list):
            value, target = value[0], target.list_value.values.add()
        else:
            value, target = value["a"], target.struct_value.fields["a"]
    target.number_value = 1
    return made


def from_json(value: Any, limit: int) -> None:
    protojson.from_dict({"message": {"parts": [{"text": "x"}, {"data": value}]}}, a2a_pb2.SendMessageRequest, limit)


def from_binary(value: Any, limit: int) -> None:
    message = a2a_pb2.SendMessageRequest()
    message.message.parts.add(text="x")
    message.message.parts.add().data.MergeFrom(binary(value))
    protojson.check_nesting(message, limit)


both_ways = pytest.mark.parametrize("read", [from_json, from_binary])

ALLOWED = [
    pytest.param(lists(0), 32, id="scalar"),
    pytest.param(lists(32), 32, id="32 lists"),
    pytest.param(objects(31), 32, id="31 objects"),
    pytest.param(lists(47), 100, id="47 lists, whatever the limit"),
    pytest.param(objects(31), 100, id="31 objects, whatever the limit"),
    pytest.param([[objects(30)]], 32, id="30 objects in 2 lists"),
    pytest.param(lists(1), 1, id="a limit of one"),
    pytest.param(1, 0, id="a limit of none"),
]
REFUSED = [
    pytest.param(lists(33), 32, id="33 lists"),
    pytest.param(lists(40), 32, id="40 lists"),
    pytest.param(objects(32), 32, id="32 objects"),
    pytest.param(lists(48), 100, id="48 lists, whatever the limit"),
    pytest.param(objects(32), 100, id="32 objects, whatever the limit"),
    pytest.param([objects(31)], 32, id="31 objects in a list"),
    pytest.param(lists(2), 1, id="a limit of one"),
    pytest.param([1], 0, id="a limit of none"),
]


@both_ways
@pytest.mark.parametrize(("value", "limit"), ALLOWED)
def test_allowed(read: Any, value: Any, limit: int) -> None:
    read(value, limit)


@both_ways
@pytest.mark.parametrize(("value", "limit"), REFUSED)
def test_refused_with_the_field_named(read: Any, value: Any, limit: int) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read(value, limit)
    (violation,) = caught.value.violations
    assert violation.field == "message.parts[1].data"
    assert violation.description.startswith("nests too deep: lists and objects may nest at most ")


@pytest.mark.parametrize("levels", [60, 1_000, 100_000])
def test_deeper_json_is_refused_at_once(levels: int) -> None:
    body = b'{"message":{"parts":[{"data":' + b"[" * levels + b"]" * levels + b"}]}}"
    started = time.process_time()
    with pytest.raises(InvalidArgumentError, match="nests too deep"):
        protojson.loads(body, a2a_pb2.SendMessageRequest)
    assert time.process_time() - started < 0.05


def test_metadata_counts_its_own_object() -> None:
    protojson.from_dict({"metadata": objects(31)}, a2a_pb2.SendMessageRequest)
    with pytest.raises(InvalidArgumentError, match="Invalid metadata: nests too deep"):
        protojson.from_dict({"metadata": objects(32)}, a2a_pb2.SendMessageRequest)
    with pytest.raises(InvalidArgumentError, match="Invalid metadata: nests too deep"):
        protojson.from_dict({"metadata": {"a": lists(32)}}, a2a_pb2.SendMessageRequest)
    message = a2a_pb2.SendMessageRequest()
    message.metadata["a"] = lists(32)
    with pytest.raises(InvalidArgumentError, match="Invalid metadata: nests too deep"):
        protojson.check_nesting(message)


def test_every_field_that_is_too_deep_is_named() -> None:
    message = a2a_pb2.AgentCard()
    message.capabilities.extensions.add().params["a"] = lists(32)
    message.signatures.add()
    message.signatures.add().header["a"] = lists(32)
    with pytest.raises(InvalidArgumentError) as caught:
        protojson.check_nesting(message)
    assert [v.field for v in caught.value.violations] == ["capabilities.extensions[0].params", "signatures[1].header"]


def test_binary_that_json_could_not_have_carried() -> None:
    request = a2a_pb2.SendMessageRequest()
    request.message.parts.add().data.list_value.values.add().number_value = float("nan")
    request.metadata["x"] = float("inf")
    with pytest.raises(InvalidArgumentError) as caught:
        protojson.check_nesting(request)
    assert [tuple(v) for v in caught.value.violations] == [
        ("message.parts[0].data", "holds a number that JSON cannot carry"),
        ("metadata", "holds a number that JSON cannot carry"),
    ]
    listing = a2a_pb2.ListTasksRequest()
    for seconds, nanos in ((253_402_300_800, 0), (-62_135_596_801, 0), (0, -1), (0, 10**9)):
        listing.status_timestamp_after.seconds, listing.status_timestamp_after.nanos = seconds, nanos
        with pytest.raises(InvalidArgumentError, match="status_timestamp_after: must be a time that exists"):
            protojson.check_nesting(listing)


def test_a_wide_message_is_checked_in_one_pass() -> None:
    message = a2a_pb2.SendMessageRequest()
    message.metadata["x"] = [[1] * 100] * 100
    protojson.check_nesting(message)


def carriers(value: Any) -> list[Message]:
    """Every response that can carry a message back, with the data at the deepest place each has for it."""
    deep = a2a_pb2.Message(message_id="m", role=a2a_pb2.ROLE_USER)
    deep.parts.add().data.MergeFrom(binary(value))
    deep.parts.add(text="x").metadata["a"] = lists(31)
    task = a2a_pb2.Task(
        id="t", status=a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_SUBMITTED, message=deep), history=[deep]
    )
    task.artifacts.add(artifact_id="a", parts=deep.parts)
    update = a2a_pb2.TaskStatusUpdateEvent(task_id="t", status=task.status)
    return [
        a2a_pb2.SendMessageRequest(message=deep),
        a2a_pb2.SendMessageResponse(task=task),
        a2a_pb2.SendMessageResponse(message=deep),
        a2a_pb2.StreamResponse(task=task),
        a2a_pb2.StreamResponse(status_update=update),
        a2a_pb2.ListTasksResponse(tasks=[task]),
    ]


def read_back(value: Any) -> None:
    for message in carriers(value):
        assert type(message).FromString(message.SerializeToString()) == message


@pytest.mark.parametrize(("value", "limit"), ALLOWED)
def test_stock_protobuf_reads_back_what_is_allowed(value: Any, limit: int) -> None:
    read_back(value)
    for message in carriers(value):
        text = protojson.dumps(message)
        assert json_format.Parse(text, type(message)()) == message
        assert protojson.loads(text, type(message), max(limit, 32)) == message


@pytest.mark.parametrize("value", [lists(48), objects(32)], ids=["48 lists", "32 objects"])
def test_the_bound_is_not_lower_than_it_must_be(value: Any) -> None:
    # If this ever passes, stock parsers have become more patient and the bound can be raised.
    with pytest.raises(DecodeError):
        read_back(value)
