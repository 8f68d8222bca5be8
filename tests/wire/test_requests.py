"""Requests from path, query and body, and the way back."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import rules
from a2a_grpc.wire._query import read_query, write_query
from a2a_grpc.wire.errors import InvalidArgumentError, JsonParseError
from tests.wire.messages import unhurried


def build(verb: str, target: str, body: bytes | None = None) -> Any:
    path, _, query = target.partition("?")
    return rules.build_request(rules.match(verb, path), parse_qsl(query, keep_blank_values=True), body)


def faults(verb: str, target: str, body: bytes | None = None) -> dict[str, str]:
    with pytest.raises(InvalidArgumentError) as caught:
        build(verb, target, body)
    return {v.field: v.description for v in caught.value.violations}


# Bodies


@pytest.mark.parametrize("body", [None, b"", b" \n", b'""', b"{}", b"null"])
@pytest.mark.parametrize(
    ("action", "request_type"), [("cancel", a2a_pb2.CancelTaskRequest), ("subscribe", a2a_pb2.SubscribeToTaskRequest)]
)
def test_a_body_that_says_nothing(action: str, request_type: type[Message], body: bytes | None) -> None:  # case B043
    assert build("POST", f"/tasks/t-1:{action}", body) == request_type(id="t-1")


def test_the_body_of_a_cancellation() -> None:
    request = build("POST", "/acme/tasks/t-1:cancel", b'{"metadata":{"why":"x"}}')
    assert (request.tenant, request.id, dict(request.metadata)) == ("acme", "t-1", {"why": "x"})


@pytest.mark.parametrize("body", [b'{"id":"other"}', b'{"id":"other","tenant":"evil"}', b'{"id":null}'])
def test_the_path_beats_the_body(body: bytes) -> None:  # cases B043, B091; section 13.1
    assert build("POST", "/acme/tasks/t-1:cancel", body) == a2a_pb2.CancelTaskRequest(tenant="acme", id="t-1")


def test_the_tenant_of_the_path_beats_the_body() -> None:  # case B091
    assert build("POST", "/acme/message:send", b'{"tenant":"evil","message":{}}').tenant == "acme"
    assert build("POST", "/message:send", b'{"tenant":"acme","message":{}}').tenant == "acme"


@pytest.mark.parametrize("body", [None, b"", b"null", b'""', b"[]", b'"x"', b"1", b"[{}]"])
@pytest.mark.parametrize("path", ["/message:send", "/acme/message:stream", "/tasks/t/pushNotificationConfigs"])
def test_where_the_body_says_what_is_required_it_must_be_an_object(path: str, body: bytes | None) -> None:
    with pytest.raises(InvalidArgumentError, match="needs a JSON object as its body"):
        build("POST", path, body)


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"1", b"false", b"0"])
def test_a_body_that_is_no_object(body: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="JSON object"):
        build("POST", "/tasks/t-1:cancel", body)


def test_a_body_that_is_no_json() -> None:
    with pytest.raises(JsonParseError):
        build("POST", "/tasks/t-1:cancel", b"{")


def test_the_query_is_no_part_of_a_request_with_a_body() -> None:  # google.api.http: body "*" leaves nothing for it
    assert build("POST", "/message:send?tenant=evil&metadata.x=1&A2A-Version=1.0", b'{"message":{}}') == (
        a2a_pb2.SendMessageRequest(message=a2a_pb2.Message())
    )


def test_nesting_is_limited_as_asked() -> None:
    matched = rules.match("POST", "/message:send")
    body = b'{"metadata":{"a":[[1]]}}'
    assert rules.build_request(matched, [], body, 3)
    with pytest.raises(InvalidArgumentError, match="nests too deep"):
        rules.build_request(matched, [], body, 2)


# Query (section 11.5)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", a2a_pb2.ListTasksRequest()),
        ("contextId=c&pageSize=5&pageToken=p", a2a_pb2.ListTasksRequest(context_id="c", page_size=5, page_token="p")),
        ("context_id=c&page_size=5", a2a_pb2.ListTasksRequest(context_id="c", page_size=5)),
        ("status=TASK_STATE_WORKING", a2a_pb2.ListTasksRequest(status=a2a_pb2.TASK_STATE_WORKING)),
        ("status=2", a2a_pb2.ListTasksRequest(status=a2a_pb2.TASK_STATE_WORKING)),
        ("includeArtifacts=true", a2a_pb2.ListTasksRequest(include_artifacts=True)),
        ("includeArtifacts=false&historyLength=0", a2a_pb2.ListTasksRequest(include_artifacts=False, history_length=0)),
        ("historyLength=-5", a2a_pb2.ListTasksRequest(history_length=-5)),  # the range is the service's to check
        (
            "statusTimestampAfter=2025-11-09T10:30:00Z",
            a2a_pb2.ListTasksRequest(status_timestamp_after=Timestamp(seconds=1_762_684_200)),
        ),
        ("contextId=", a2a_pb2.ListTasksRequest()),
        ("contextId=a%26b%3Dc+d%2B%C3%A9", a2a_pb2.ListTasksRequest(context_id="a&b=c d+é")),
        ("A2A-Version=1.0&a2a-version=0.3&future=1&future.x=2", a2a_pb2.ListTasksRequest()),
        ("tenant=acme", a2a_pb2.ListTasksRequest(tenant="acme")),
        ("pagesize=5&PageSize=6", a2a_pb2.ListTasksRequest()),  # names are case-sensitive
    ],
)
def test_query(query: str, expected: Message) -> None:
    assert build("GET", "/tasks?" + query) == expected


def test_the_path_beats_the_query() -> None:  # case B091
    assert build("GET", "/acme/tasks?tenant=evil").tenant == "acme"
    assert build("GET", "/acme/tasks/t-1?id=other&tenant=evil&tenant=evil&historyLength=3") == a2a_pb2.GetTaskRequest(
        tenant="acme", id="t-1", history_length=3
    )


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("pageSize=five", "page_size"),
        ("pageSize=", "page_size"),
        ("pageSize=1.5", "page_size"),
        ("pageSize=2147483648", "page_size"),
        ("pageSize=5&page_size=5", "page_size"),  # case B069
        ("pageSize=5&pageSize=6", "page_size"),
        ("includeArtifacts=1", "include_artifacts"),
        ("includeArtifacts=True", "include_artifacts"),
        ("includeArtifacts=", "include_artifacts"),
        ("status=TASK_STATE_RUNNING", "status"),  # the example of section 6.5
        ("status=working", "status"),
        ("status=", "status"),
        ("status=99999999999", "status"),
        ("statusTimestampAfter=yesterday", "status_timestamp_after"),
        ("statusTimestampAfter.seconds=5", "status_timestamp_after"),
        ("contextId.x=5", "context_id"),
        (
            "statusTimestampAfter=2025-11-09T10:30:00Z&statusTimestampAfter=2025-11-09T10:30:00Z",
            "status_timestamp_after",
        ),
    ],
)
def test_wrong_query(query: str, field: str) -> None:
    assert set(faults("GET", "/tasks?" + query)) == {field}


def test_everything_wrong_in_a_query_is_told_at_once() -> None:  # section 3.3.2
    assert set(faults("GET", "/tasks?pageSize=x&historyLength=y&status=z")) == {"page_size", "history_length", "status"}


def test_half_a_character_in_a_query() -> None:
    with pytest.raises(InvalidArgumentError, match="context_id: holds half a character"):
        rules.build_request(rules.match("GET", "/tasks"), [("contextId", "\ud800")], None)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ([("extensions", "a,b"), ("extensions", "c")], ["a,b", "c"]),  # a string may hold a comma
        ([("referenceTaskIds", "a"), ("referenceTaskIds", "b")], ["a", "b"]),
    ],
)
def test_repeated_fields(query: Sequence[tuple[str, str]], expected: list[str]) -> None:
    message = a2a_pb2.Message()
    read_query(message, query, ())
    assert [*message.extensions, *message.reference_task_ids] == expected
    assert list(write_query(message, ())) == list(query)


@pytest.mark.parametrize("name", ["message", "metadata", "configuration"])
def test_nested_objects_have_no_form_in_a_query(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="nested objects need a request body"):
        read_query(a2a_pb2.SendMessageRequest(), [(name, "{}")], ())


# The way back

_NASTY = (
    *("..", ".", "...", "/", "%", "%2F", ":", "x:cancel", "x:subscribe", ":subscribe", "tasks", "message:send"),
    *("pushNotificationConfigs", "extendedAgentCard", " ", "a b", "a+b", "?", "#", "é", "\U0001f600", "\x00", "~", ";"),
)
_IDS = st.sampled_from(_NASTY) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
_TENANTS = st.just("") | _IDS


def _requests() -> st.SearchStrategy[tuple[str, Message]]:
    times = st.builds(
        Timestamp, seconds=st.integers(-62_135_596_800, 253_402_300_799), nanos=st.integers(0, 999_999_999)
    )
    number, text = st.integers(-(2**31), 2**31 - 1), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    message = st.builds(a2a_pb2.Message, message_id=text, role=st.sampled_from([1, 2]), context_id=text)
    config = st.builds(a2a_pb2.TaskPushNotificationConfig, tenant=_TENANTS, task_id=_IDS, id=text, url=text, token=text)
    send = st.builds(a2a_pb2.SendMessageRequest, tenant=_TENANTS, message=message)
    kinds: dict[str, st.SearchStrategy[Message]] = {
        "SendMessage": send,
        "SendStreamingMessage": send,
        "GetTask": st.builds(a2a_pb2.GetTaskRequest, tenant=_TENANTS, id=_IDS, history_length=st.none() | number),
        "ListTasks": st.builds(
            a2a_pb2.ListTasksRequest,
            tenant=_TENANTS,
            context_id=text,
            status=st.sampled_from([0, 1, 2, 8]),
            page_size=st.none() | number,
            page_token=text,
            history_length=st.none() | number,
            status_timestamp_after=st.none() | times,
            include_artifacts=st.none() | st.booleans(),
        ),
        "CancelTask": st.builds(a2a_pb2.CancelTaskRequest, tenant=_TENANTS, id=_IDS),
        "SubscribeToTask": st.builds(a2a_pb2.SubscribeToTaskRequest, tenant=_TENANTS, id=_IDS),
        "CreateTaskPushNotificationConfig": config,
        "GetTaskPushNotificationConfig": st.builds(
            a2a_pb2.GetTaskPushNotificationConfigRequest, tenant=_TENANTS, task_id=_IDS, id=_IDS
        ),
        "ListTaskPushNotificationConfigs": st.builds(
            a2a_pb2.ListTaskPushNotificationConfigsRequest,
            tenant=_TENANTS,
            task_id=_IDS,
            page_size=number,
            page_token=text,
        ),
        "GetExtendedAgentCard": st.builds(a2a_pb2.GetExtendedAgentCardRequest, tenant=_TENANTS),
        "DeleteTaskPushNotificationConfig": st.builds(
            a2a_pb2.DeleteTaskPushNotificationConfigRequest, tenant=_TENANTS, task_id=_IDS, id=_IDS
        ),
    }
    assert set(kinds) == set(rules.OPERATIONS)
    return st.one_of([st.tuples(st.just(name), made) for name, made in kinds.items()])


def receive(call: rules.HttpCall) -> tuple[str, Message]:
    """What a server makes of a call that went over the wire."""
    assert call.path.isascii()
    matched = rules.match(call.verb, call.path)
    query = parse_qsl(urlencode(call.query), keep_blank_values=True)
    return matched.method, rules.build_request(matched, query, call.body)


@unhurried
@given(_requests())
def test_what_is_sent_is_what_is_received(drawn: tuple[str, Message]) -> None:
    method, request = drawn
    assert receive(rules.to_http(method, request)) == (method, request)


@unhurried
@given(_TENANTS, _IDS)
def test_subscribe_goes_by_get_as_well(tenant: str, task: str) -> None:
    request = a2a_pb2.SubscribeToTaskRequest(tenant=tenant, id=task)
    call = rules.to_http("SubscribeToTask", request, "GET")
    assert (call.verb, call.body) == ("GET", None)
    assert receive(call) == ("SubscribeToTask", request)


@pytest.mark.parametrize(
    ("method", "request_message", "expected"),
    [
        (
            "SendMessage",
            a2a_pb2.SendMessageRequest(tenant="acme", message=a2a_pb2.Message(message_id="m")),
            ("POST", "/acme/message:send", (), b'{"message":{"messageId":"m","role":"ROLE_UNSPECIFIED","parts":[]}}'),
        ),
        (
            "ListTasks",
            a2a_pb2.ListTasksRequest(page_size=0, status=a2a_pb2.TASK_STATE_WORKING, include_artifacts=True),
            (
                "GET",
                "/tasks",
                (("status", "TASK_STATE_WORKING"), ("pageSize", "0"), ("includeArtifacts", "true")),
                None,
            ),
        ),
        ("CancelTask", a2a_pb2.CancelTaskRequest(id="a/b"), ("POST", "/tasks/a%2Fb:cancel", (), b"{}")),
        ("SubscribeToTask", a2a_pb2.SubscribeToTaskRequest(id="x"), ("POST", "/tasks/x:subscribe", (), b"{}")),
        ("GetTask", a2a_pb2.GetTaskRequest(id="..", tenant="."), ("GET", "/%2E/tasks/%2E%2E", (), None)),
        ("ListTasks", a2a_pb2.ListTasksRequest(tenant="tasks"), ("GET", "/tasks", (("tenant", "tasks"),), None)),
        (
            "DeleteTaskPushNotificationConfig",
            a2a_pb2.DeleteTaskPushNotificationConfigRequest(task_id="t", id="c:1"),
            ("DELETE", "/tasks/t/pushNotificationConfigs/c%3A1", (), None),
        ),
    ],
)
def test_calls(method: str, request_message: Message, expected: tuple[Any, ...]) -> None:
    assert rules.to_http(method, request_message) == expected


@pytest.mark.parametrize(
    ("method", "request_message", "field"),
    [
        ("GetTask", a2a_pb2.GetTaskRequest(), "id"),
        ("CancelTask", a2a_pb2.CancelTaskRequest(tenant="x"), "id"),
        ("GetTaskPushNotificationConfig", a2a_pb2.GetTaskPushNotificationConfigRequest(task_id="t"), "id"),
    ],
)
def test_a_path_needs_its_fields(method: str, request_message: Message, field: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        rules.to_http(method, request_message)
    assert [v.field for v in caught.value.violations] == [field]


def test_there_is_no_other_method() -> None:
    with pytest.raises(KeyError, match="no route for GetTask by POST"):
        rules.to_http("GetTask", a2a_pb2.GetTaskRequest(id="x"), "POST")
