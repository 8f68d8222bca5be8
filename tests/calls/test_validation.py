"""Requests that are not well formed: every problem at once, by the path of its field (3.3.2, 5.7)."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from google.api import field_behavior_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.calls.validation import Validator
from a2a_grpc.wire._descriptors import descriptor_of
from a2a_grpc.wire.errors import InvalidArgumentError, PayloadTooLargeError
from a2a_grpc.wire.rules import OPERATIONS

MAX_BYTES = 100_000
VALIDATOR = Validator(max_nesting=16, max_id_length=40)


def problems(request: Message) -> dict[str, str]:
    """The violations of a request by field; none for a request that passes."""
    try:
        VALIDATOR.check(request, MAX_BYTES)
    except InvalidArgumentError as error:
        assert len({violation.field for violation in error.violations}) == len(error.violations)
        return {violation.field: violation.description for violation in error.violations}
    return {}


# -- REQUIRED, from the descriptors ----------------------------------------------------------------------------------


def is_required(field: FieldDescriptor) -> bool:
    return field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]


def is_ours(field: FieldDescriptor) -> bool:
    of = field.message_type
    return of is not None and of.file.name == "a2a.proto" and not of.GetOptions().map_entry


def fill(message: Message) -> None:
    """Give every field a value that passes, one of each oneof, one of each list."""
    chosen: set[str] = set()
    for field in descriptor_of(message).fields:
        oneof = field.containing_oneof
        if oneof is not None and len(oneof.fields) > 1:
            if oneof.name in chosen:
                continue
            chosen.add(oneof.name)
        place = getattr(message, field.name)
        if is_ours(field):
            fill(place.add() if field.is_repeated else place)
            if not field.is_repeated:
                place.SetInParent()
        elif field.message_type is not None:
            if not field.message_type.GetOptions().map_entry:
                place.SetInParent()
        elif field.enum_type is not None:
            setattr(message, field.name, field.enum_type.values[1].number)
        else:
            value: Any = {FieldDescriptor.TYPE_STRING: "x", FieldDescriptor.TYPE_BOOL: True}.get(field.type, 1)
            value = b"x" if field.type == FieldDescriptor.TYPE_BYTES else value
            if field.is_repeated:
                place.append(value)
            else:
                setattr(message, field.name, value)


def required_paths(descriptor: Descriptor, path: str = "") -> Iterator[tuple[str, ...]]:
    """The paths of all REQUIRED fields of a filled message, as names; "[0]" enters a list."""
    chosen: set[str] = set()
    for field in descriptor.fields:
        oneof = field.containing_oneof
        if oneof is not None and len(oneof.fields) > 1:
            if oneof.name in chosen:
                continue
            chosen.add(oneof.name)
        here = (*((path,) if path else ()), field.name)
        if is_required(field):
            yield here
        if is_ours(field):
            for below in required_paths(cast("Descriptor", field.message_type)):
                yield (*here, "[0]", *below) if field.is_repeated else (*here, *below)


def parent(message: Any, path: tuple[str, ...]) -> Any:
    for name in path[:-1]:
        message = message[0] if name == "[0]" else getattr(message, name)
    return message


def spelled(path: tuple[str, ...]) -> str:
    return ".".join(path).replace(".[0]", "[0]")


REQUESTS = {operation.request.DESCRIPTOR.name: operation.request for operation in OPERATIONS.values()}
CASES = [(name, path) for name, request in REQUESTS.items() for path in required_paths(descriptor_of(request()))]


def filled(name: str) -> Message:
    request: Message = REQUESTS[name]()
    fill(request)
    return request


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_in_which_everything_is_set_passes(name: str) -> None:
    assert problems(filled(name)) == {}


@pytest.mark.parametrize(("name", "path"), CASES, ids=lambda value: value if isinstance(value, str) else spelled(value))
def test_each_required_field_is_missed(name: str, path: tuple[str, ...]) -> None:
    request = filled(name)
    parent(request, path).ClearField(path[-1])
    assert list(problems(request)) == [spelled(path)]


def test_the_required_fields_are_those_of_the_specification() -> None:
    """By hand, so that a mistake in reading the descriptors does not hide itself."""
    assert {
        ("SendMessageRequest", "message"),
        ("SendMessageRequest", "message.message_id"),
        ("SendMessageRequest", "message.role"),
        ("SendMessageRequest", "message.parts"),
        ("SendMessageRequest", "configuration.task_push_notification_config.url"),
        ("SendMessageRequest", "configuration.task_push_notification_config.authentication.scheme"),
        ("GetTaskRequest", "id"),
        ("CancelTaskRequest", "id"),
        ("SubscribeToTaskRequest", "id"),
        ("TaskPushNotificationConfig", "url"),
        ("TaskPushNotificationConfig", "authentication.scheme"),
        ("GetTaskPushNotificationConfigRequest", "task_id"),
        ("GetTaskPushNotificationConfigRequest", "id"),
        ("DeleteTaskPushNotificationConfigRequest", "task_id"),
        ("DeleteTaskPushNotificationConfigRequest", "id"),
        ("ListTaskPushNotificationConfigsRequest", "task_id"),
    } == {(name, spelled(path)) for name, path in CASES}


@pytest.mark.parametrize("name", REQUESTS)
def test_all_that_is_missing_is_told_at_once(name: str) -> None:
    request = REQUESTS[name]()
    missing = {field.name for field in descriptor_of(request).fields if is_required(field)}
    if name == "TaskPushNotificationConfig":
        # Inside a message it is the server that fills it in, so the schema cannot require it.
        missing.add("task_id")
    assert problems(request).keys() == missing


# -- what else may be wrong ------------------------------------------------------------------------------------------


def message(**fields: Any) -> a2a_pb2.SendMessageRequest:
    given = {"message_id": "m", "role": a2a_pb2.ROLE_USER, "parts": [a2a_pb2.Part(text="x")], **fields}
    return a2a_pb2.SendMessageRequest(message=a2a_pb2.Message(**given))


def test_every_kind_of_problem_at_once() -> None:
    request = a2a_pb2.SendMessageRequest(
        tenant="t" * 41,
        message=a2a_pb2.Message(
            role=a2a_pb2.ROLE_AGENT,
            task_id="t" * 41,
            context_id="c" * 41,
            parts=[a2a_pb2.Part(text="x"), a2a_pb2.Part(), a2a_pb2.Part(filename="f")],
        ),
    )
    request.configuration.history_length = -1
    request.metadata.update({"number": float("nan")})
    found = problems(request)
    assert found.keys() == {
        "tenant",
        "message.message_id",
        "message.role",
        "message.task_id",
        "message.context_id",
        "message.parts[1].content",
        "message.parts[2].content",
        "configuration.history_length",
        "metadata",
    }
    assert found["tenant"] == "is longer than 40 characters"


def test_a_part_may_be_any_kind_also_an_empty_one() -> None:
    """An empty text is a text: content that is set counts, not what it holds."""
    data = a2a_pb2.Part()
    data.data.null_value = 0  # type: ignore[assignment]
    assert problems(message(parts=[a2a_pb2.Part(text=""), a2a_pb2.Part(raw=b""), a2a_pb2.Part(url=""), data])) == {}


@pytest.mark.parametrize("role", [3, 17, -1])
def test_an_unknown_enum_value_is_named(role: int) -> None:
    assert problems(message(role=role)) == {"message.role": f"{role} is not a value of Role"}


def test_an_unknown_status_filter_is_named() -> None:
    request = a2a_pb2.ListTasksRequest(status=99)  # type: ignore[arg-type]
    assert problems(request) == {"status": "99 is not a value of TaskState"}
    assert problems(a2a_pb2.ListTasksRequest(status=a2a_pb2.TASK_STATE_UNSPECIFIED)) == {}


@pytest.mark.parametrize(
    ("size", "passes"), [(-1, False), (0, False), (1, True), (50, True), (100, True), (101, False)]
)
def test_a_page_holds_one_to_a_hundred_tasks(size: int, passes: bool) -> None:
    assert (problems(a2a_pb2.ListTasksRequest(page_size=size)) == {}) is passes


@pytest.mark.parametrize(("length", "passes"), [(-1, False), (0, True), (2**31 - 1, True)])
def test_a_history_length_is_not_negative(length: int, passes: bool) -> None:
    for request in (a2a_pb2.GetTaskRequest(id="x"), a2a_pb2.ListTasksRequest()):
        request.history_length = length
        assert (problems(request) == {}) is passes


@pytest.mark.parametrize("seconds", [-62_135_596_801, 253_402_300_800])
def test_a_time_outside_of_the_calendar_is_refused(seconds: int) -> None:
    request = a2a_pb2.ListTasksRequest()
    request.status_timestamp_after.seconds = seconds
    assert problems(request).keys() == {"status_timestamp_after"}


def test_ids_have_a_length_and_page_tokens_another_one() -> None:
    assert problems(a2a_pb2.GetTaskRequest(id="x" * 40)) == {}
    assert problems(a2a_pb2.GetTaskRequest(id="x" * 41)) == {"id": "is longer than 40 characters"}
    # Characters, not bytes.
    assert problems(a2a_pb2.GetTaskRequest(id="ü" * 40)) == {}
    assert problems(a2a_pb2.ListTasksRequest(page_token="x" * 1024)) == {}
    assert problems(a2a_pb2.ListTasksRequest(page_token="x" * 1025)) == {"page_token": "is longer than 1024 characters"}


def test_data_that_is_nested_too_deeply_is_refused_wherever_it_stands() -> None:
    deep: Any = 1
    for _ in range(20):
        deep = [deep]
    request = message(parts=[a2a_pb2.Part(text="x"), a2a_pb2.Part()])
    request.message.parts[1].data.list_value.extend([deep])
    request.metadata.update({"deep": deep})
    request.message.metadata.update({"deep": deep})
    assert problems(request).keys() == {"message.parts[1].data", "message.metadata", "metadata"}


def test_many_problems_are_told_up_to_a_hundred() -> None:
    assert len(problems(message(parts=[a2a_pb2.Part()] * 500))) == 100


def test_a_request_that_is_too_large_is_that_and_nothing_else() -> None:
    with pytest.raises(PayloadTooLargeError) as caught:
        VALIDATOR.check(message(role=a2a_pb2.ROLE_AGENT, parts=[a2a_pb2.Part(text="x" * MAX_BYTES)]), MAX_BYTES)
    assert "100000" in caught.value.message
    request = message(parts=[a2a_pb2.Part(text="x" * 99_900)])
    request.message.parts[0].text += "x" * (100_000 - request.ByteSize())
    assert request.ByteSize() == 100_000
    VALIDATOR.check(request, MAX_BYTES)
