"""JSON-RPC: request objects, ids, errors (section 9 and JSON-RPC 2.0)."""

import json
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.bindings.jsonrpc.envelope import NumberText
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.core.events import Event
from a2a_grpc.wire import rules
from a2a_grpc.wire.errors import (
    ERRORS,
    A2AError,
    InvalidArgumentError,
    PermissionDeniedError,
    QuotaExceededError,
    ResourceExhaustedError,
    RouteNotFoundError,
    TaskNotFoundError,
    UnauthenticatedError,
    Violation,
)
from tests.support.http_bindings import (
    MESSAGE_JSON,
    TASK,
    TASK_JSON,
    ScriptedHandler,
    answering,
    compose,
    connected,
    emitting,
    http_request,
    listening,
    raising,
    serving,
)

SENT = a2a_pb2.SendMessageResponse(task=TASK)
GET_TASK = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t1"}}


async def ask(body: bytes, handler: ScriptedHandler | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """The response to one raw body."""
    headers = {"content_type": "application/json", **headers}
    async with (
        listening(compose(handler or ScriptedHandler(answering(TASK)))) as (_, port),
        connected(port) as raw,
    ):
        await raw.send(http_request("POST", "/", body, **headers))
        return await raw.response()


async def error_of(body: bytes, handler: ScriptedHandler | None = None) -> tuple[Any, dict[str, Any]]:
    """The id and the error of the answer to `body`, which must have status 200."""
    code, headers, answer = await ask(body, handler)
    assert (code, headers["content-type"]) == (200, "application/json")
    response = json.loads(answer)
    assert set(response) == {"jsonrpc", "id", "error"} and response["jsonrpc"] == "2.0"
    error = response["error"]
    assert set(error) == {"code", "message", "data"} and error["message"]
    assert all("@type" in detail for detail in error["data"])
    return response["id"], error


METHODS: dict[str, dict[str, Any]] = {
    "SendMessage": {"message": MESSAGE_JSON},
    "GetTask": {"id": "t1", "historyLength": 2},
    "ListTasks": {"contextId": "c1", "status": "TASK_STATE_WORKING", "pageSize": 50},
    "CancelTask": {"id": "t1", "metadata": {"why": "x"}},
    "CreateTaskPushNotificationConfig": {"taskId": "t1", "url": "https://x.example"},
    "GetTaskPushNotificationConfig": {"taskId": "t1", "id": "p1"},
    "ListTaskPushNotificationConfigs": {"taskId": "t1"},
    "DeleteTaskPushNotificationConfig": {"taskId": "t1", "id": "p1"},
    "GetExtendedAgentCard": {},
}


@pytest.mark.parametrize("method", METHODS)
async def test_unary_methods(method: str) -> None:
    """5.3: the names of the RPCs; params are the request message, tenant included."""
    response = SENT if method == "SendMessage" else rules.OPERATIONS[method].response()
    handler = ScriptedHandler(answering(response))
    async with serving(handler) as client:
        params = {**METHODS[method], "tenant": "acme"}
        answer = await client.post("/", json={"jsonrpc": "2.0", "id": "x", "method": method, "params": params})

    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"jsonrpc", "id", "result"} and (body["jsonrpc"], body["id"]) == ("2.0", "x")
    if method == "SendMessage":
        assert body["result"] == {"task": TASK_JSON}
    assert handler.calls[0][0] == handler.call.method == method
    assert handler.call.binding == "JSONRPC"
    assert handler.request.tenant == "acme"
    if method == "ListTasks":
        assert (handler.request.page_size, handler.request.status) == (50, a2a_pb2.TASK_STATE_WORKING)


async def test_the_result_of_delete_is_an_empty_object() -> None:
    body = json.dumps({**GET_TASK, "method": "DeleteTaskPushNotificationConfig", "params": {"taskId": "t", "id": "p"}})
    _, _, answer = await ask(body.encode(), ScriptedHandler(answering(Empty())))

    assert json.loads(answer) == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize("path", ["/", "//"])
async def test_slashes_at_the_end(path: str) -> None:
    async with serving(ScriptedHandler(answering(TASK))) as client:
        response = await client.post(str(client.base_url).rstrip("/") + path, json=GET_TASK)

    assert response.json()["result"] == TASK_JSON


@pytest.mark.parametrize("params", [b"", b',"params":{}', b',"params":null'])
async def test_params_may_be_missing(params: bytes) -> None:
    """9.4.8: GetExtendedAgentCard has none. Null is what many libraries write for that."""
    handler = ScriptedHandler(answering(a2a_pb2.AgentCard(name="x")))
    _, _, answer = await ask(b'{"jsonrpc":"2.0","id":6,"method":"GetExtendedAgentCard"%b}' % params, handler)

    assert json.loads(answer)["result"]["name"] == "x"
    assert handler.request == a2a_pb2.GetExtendedAgentCardRequest()


IDS = [
    *("1", "0", "-7", "9007199254740993", "123456789012345678901234567890", "1.5", "1.50", "2e3", '"a"', '""', "null"),
    json.dumps("x" * 5000),
    json.dumps('\u00e9\u2028\u0000\\"'),
]


@pytest.mark.parametrize("identifier", IDS)
async def test_the_id_comes_back_as_it_was_sent(identifier: str) -> None:
    """9.1: on results and on errors; a string stays a string, a number keeps all its digits."""
    body = f'{{"jsonrpc":"2.0","id":{identifier},"method":"GetTask","params":{{"id":"t1"}}}}'.encode()
    _, _, result = await ask(body)
    _, _, error = await ask(body, ScriptedHandler(raising(TaskNotFoundError("No."))))

    for answer in (result, error):
        written = json.loads(answer, parse_int=NumberText, parse_float=NumberText)["id"]
        sent = json.loads(identifier, parse_int=NumberText, parse_float=NumberText)
        assert (type(written), written) == (type(sent), sent)
    assert "result" in json.loads(result) and "error" in json.loads(error)


@pytest.mark.parametrize("identifier", ["true", "{}", "[]", "[1]"])
async def test_ids_that_are_none(identifier: str) -> None:
    answered, error = await error_of(f'{{"jsonrpc":"2.0","id":{identifier},"method":"GetTask"}}'.encode())

    assert (answered, error["code"]) == (None, -32600)


PARSE_ERRORS = {
    "empty": b"",
    "truncated": b'{"jsonrpc": "2.0", "id": 1',
    "byte order mark": b"\xef\xbb\xbf" + json.dumps(GET_TASK).encode(),
    "not UTF-8": b'{"jsonrpc":"2.0","id":"\xff"}',
    "python": b"{'jsonrpc': '2.0'}",
    "two": json.dumps(GET_TASK).encode() * 2,
    "NaN": b'{"jsonrpc":"2.0","id":NaN,"method":"GetTask"}',
}


@pytest.mark.parametrize("body", PARSE_ERRORS.values(), ids=PARSE_ERRORS)
async def test_bodies_that_are_not_json(body: bytes) -> None:
    answered, error = await error_of(body)

    assert (answered, error["code"]) == (None, -32700)


INVALID_REQUESTS: list[tuple[Any, Any]] = [
    ([], None),
    ([GET_TASK], None),
    (None, None),
    ("GetTask", None),
    (1, None),
    ({}, None),
    ({**GET_TASK, "jsonrpc": "1.0"}, 1),
    ({**GET_TASK, "jsonrpc": 2.0}, 1),
    ({key: value for key, value in GET_TASK.items() if key != "jsonrpc"}, 1),
    ({**GET_TASK, "method": 1}, 1),
    ({**GET_TASK, "method": None}, 1),
    ({"jsonrpc": "2.0", "id": "x"}, "x"),
    ({**GET_TASK, "id": True}, None),
]


@pytest.mark.parametrize(("body", "identifier"), INVALID_REQUESTS)
async def test_json_that_is_no_request(body: Any, identifier: Any) -> None:
    """-32600, with the id where one can be read (JSON-RPC 2.0 section 5); batches are none."""
    handler = ScriptedHandler(answering(TASK))
    answered, error = await error_of(json.dumps(body).encode(), handler)

    assert (answered, error["code"]) == (identifier, -32600)
    assert handler.calls == []


async def test_a_member_twice_is_no_request() -> None:
    answered, error = await error_of(b'{"jsonrpc":"2.0","id":1,"method":"GetTask","method":"CancelTask"}')

    assert (answered, error["code"]) == (1, -32600)


@pytest.mark.parametrize("method", ["message/send", "sendMessage", "", "lf.a2a.v1.A2AService/GetTask", "x" * 5000])
async def test_unknown_methods(method: str) -> None:
    answered, error = await error_of(json.dumps({**GET_TASK, "method": method}).encode())

    assert (answered, error["code"]) == (1, -32601)
    assert len(json.dumps(error)) < 1000


INVALID_PARAMS: list[Any] = [
    "text",
    1,
    True,
    [],
    ["t1"],
    {"id": 5},
    {"id": "t1", "historyLength": "x"},
    {"id": "t1", "historyLength": 1.5},
]


@pytest.mark.parametrize("params", INVALID_PARAMS)
async def test_invalid_params(params: Any) -> None:
    handler = ScriptedHandler(answering(TASK))
    answered, error = await error_of(json.dumps({**GET_TASK, "params": params}).encode(), handler)

    assert (answered, error["code"]) == (1, -32602)
    assert handler.calls == []


async def test_violations_are_in_the_data() -> None:
    """The first example of 9.5."""
    violation = Violation("message.parts", "At least one part is required")
    handler = ScriptedHandler(raising(InvalidArgumentError("Invalid parameters", violations=[violation])))
    _, error = await error_of(json.dumps(GET_TASK).encode(), handler)

    assert error["data"][1] == {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": "message.parts", "description": "At least one part is required"}],
    }


async def test_an_a2a_error_as_in_the_specification() -> None:
    """The second example of 9.5, but for the timestamp."""
    handler = ScriptedHandler(raising(TaskNotFoundError("Task not found", metadata={"task_id": "nonexistent-task-id"})))
    _, _, answer = await ask(json.dumps({**GET_TASK, "id": 2}).encode(), handler)

    assert json.loads(answer) == {
        "jsonrpc": "2.0",
        "id": 2,
        "error": {
            "code": -32001,
            "message": "Task not found",
            "data": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "TASK_NOT_FOUND",
                    "domain": "a2a-protocol.org",
                    "metadata": {"taskId": "nonexistent-task-id"},
                }
            ],
        },
    }


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.kind.name)
async def test_every_error_has_its_code(error: type[A2AError]) -> None:
    """5.4 and the rest of the one table. Status 200, but for those that concern HTTP itself."""
    own_status = {401, 403, 405, 413, 415}
    code, _, answer = await ask(json.dumps(GET_TASK).encode(), ScriptedHandler(raising(error("Something is wrong."))))
    found = json.loads(answer)

    has_own = error.kind.http in own_status or error is RouteNotFoundError
    assert code == (error.kind.http if has_own else 200)
    # The body of who is not let in is not even read.
    assert found["id"] == (None if error.kind.http in {401, 403} else 1)
    assert found["error"]["message"] == "Something is wrong."
    if error.kind.reason == "UNSUPPORTED_MEDIA_TYPE":
        assert found["error"]["code"] == -32005
    else:
        assert found["error"]["code"] == error.kind.jsonrpc
        assert found["error"]["data"][0]["reason"] == error.kind.reason


async def test_a_limit_that_is_reached_is_429() -> None:
    """As a status for clients and proxies that wait; the error says which limit, and the id whose call it was."""
    error = QuotaExceededError("Slow down.", quotas=[Violation("caller:calls", "One.")], retry_after=1.2)
    code, headers, answer = await ask(json.dumps(GET_TASK).encode(), ScriptedHandler(raising(error)))
    found = json.loads(answer)
    assert (code, headers["retry-after"], found["id"], found["error"]["code"]) == (429, "2", 1, -32016)
    # A queue that is full is the service's trouble, not the caller's.
    code, _, _ = await ask(json.dumps(GET_TASK).encode(), ScriptedHandler(raising(ResourceExhaustedError("Full."))))
    assert code == 200


async def test_missing_credentials_are_challenged() -> None:
    """7.4: as on every HTTP service, so that clients which know nothing of JSON-RPC log in."""
    for error, status in ((UnauthenticatedError("Who?"), 401), (PermissionDeniedError("No."), 403)):
        code, headers, answer = await ask(json.dumps(GET_TASK).encode(), ScriptedHandler(raising(error)))
        found = json.loads(answer)
        assert (code, found["id"], found["error"]["code"]) == (status, None, error.kind.jsonrpc)
        assert headers.get("www-authenticate") == ("Bearer" if status == 401 else None)


async def test_retry_after() -> None:
    handler = ScriptedHandler(raising(ResourceExhaustedError("Slow down.", retry_after=3.0)))
    code, headers, answer = await ask(json.dumps(GET_TASK).encode(), handler)

    assert (code, headers["retry-after"]) == (200, "3")
    assert json.loads(answer)["error"]["data"][1]["@type"].endswith("google.rpc.RetryInfo")


async def test_a_defect_keeps_its_cause_to_itself(caplog: pytest.LogCaptureFixture) -> None:
    _, error = await error_of(json.dumps(GET_TASK).encode(), ScriptedHandler(raising(ZeroDivisionError("secret"))))

    assert error["code"] == -32603 and "secret" not in json.dumps(error)
    assert "ZeroDivisionError: secret" in caplog.text


async def test_other_verbs() -> None:
    async with serving(ScriptedHandler()) as client:
        for verb in ("GET", "PUT", "DELETE"):
            response = await client.request(verb, "/")
            assert (response.status_code, response.headers["allow"]) == (405, "POST, OPTIONS")
            assert response.json()["id"] is None
            assert "agent-card.json" in response.json()["error"]["message"]
        assert (await client.head("/")).status_code == 405


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"content_type": "text/plain"}, 415),
        ({"content_type": "application/json; charset=utf-8"}, 200),
        ({"content_type": "application/a2a+json"}, 200),
        ({"content_type": "application/json", "content_encoding": "gzip"}, 415),
    ],
)
async def test_content_types(headers: dict[str, str], expected: int) -> None:
    """9.1; 5.4 has a code for the others."""
    code, _, answer = await ask(json.dumps(GET_TASK).encode(), None, **headers)

    assert code == expected
    if expected == 415:
        assert (json.loads(answer)["id"], json.loads(answer)["error"]["code"]) == (None, -32005)


async def test_sizes_and_nesting() -> None:
    """413 for the size of the body or of the message; -32602 for free-form data that is too deep; all at once."""
    message = {**MESSAGE_JSON, "parts": [{"text": "x" * 200_000}]}
    async with serving(ScriptedHandler(answering(SENT)), max_message_bytes=100_000) as client:
        request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        large = await client.post("/", json=request)
        assert (large.status_code, large.json()["id"], large.json()["error"]["code"]) == (413, 1, -32015)
        message["parts"] = [{"text": "x" * 1_000_000}]
        larger = await client.post("/", json=request)
        assert (larger.status_code, larger.json()["id"], larger.json()["error"]["code"]) == (413, None, -32015)
        deep: Any = 1
        for _ in range(33):
            deep = [deep]
        message["parts"] = [{"data": deep}]
        assert (await client.post("/", json=request)).json()["error"]["code"] == -32602
        message["parts"] = [{"data": deep[0]}]
        assert "result" in (await client.post("/", json=request)).json()
        bottomless = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":' + b"[" * 90_000 + b"]" * 90_000 + b"}"
        assert (await client.post("/", content=bottomless)).json()["error"]["code"] == -32602


async def test_service_parameters() -> None:
    """9.2: headers; the version may stand in the URL (3.6.1). What the call leaves goes back as headers."""

    async def answer(method: str, request: Message, call: Call) -> Message:
        call.response_parameters["a2a-extensions"] = "urn:a"
        return TASK

    handler = ScriptedHandler(answer)
    async with serving(handler) as client:
        response = await client.post("/?A2A-Version=1.0", json=GET_TASK, headers={"A2A-Extensions": "urn:a,urn:b"})

    assert handler.call.parameters["a2a-version"] == "1.0"
    assert handler.call.parameters["a2a-extensions"] == "urn:a,urn:b"
    assert response.headers["a2a-extensions"] == "urn:a"


# Notifications: requests without an id (JSON-RPC 2.0 section 4.1)


def without_id(method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


@pytest.mark.parametrize("outcome", [answering(TASK), raising(TaskNotFoundError("No."))])
async def test_a_notification_is_carried_out_and_not_answered(outcome: Any) -> None:
    handler = ScriptedHandler(outcome)
    async with serving(handler) as client:
        response = await client.post("/", content=without_id("CancelTask", {"id": "t1"}))

    assert (response.status_code, response.content) == (204, b"")
    assert handler.request.id == "t1" and len(handler.ended) == 1


async def test_a_notification_with_wrong_params_is_not_answered_either() -> None:
    handler = ScriptedHandler(answering(TASK))
    async with serving(handler) as client:
        for body in (without_id("CancelTask", ["t1"]), without_id("nothing", {})):
            response = await client.post("/", content=body)
            assert (response.status_code, response.content) == (204, b"")
    assert handler.calls == []


async def test_a_notification_without_credentials_is_challenged() -> None:
    async with serving(ScriptedHandler(raising(UnauthenticatedError("Who?")))) as client:
        response = await client.post("/", content=without_id("CancelTask", {"id": "t1"}))

    assert (response.status_code, response.json()["id"]) == (401, None)
    assert response.headers["www-authenticate"] == "Bearer"


async def test_a_streaming_notification_runs_up_to_its_first_event() -> None:
    """By then the task exists, and it needs no reader (3.5.2)."""
    task = a2a_pb2.StreamResponse(task=TASK)
    handler = ScriptedHandler(on_stream=emitting(Event(1, task), Event(2, task)))
    async with serving(handler) as client:
        response = await client.post("/", content=without_id("SendStreamingMessage", {"message": MESSAGE_JSON}))

    assert (response.status_code, response.content) == (204, b"")
    assert handler.ended == ["closed"] and handler.open_streams == 0
