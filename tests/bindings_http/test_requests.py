"""HTTP+JSON: how a request becomes a call (11.1 to 11.5), and an answer a response."""

import base64
import json
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import rules
from tests.support.http_bindings import (
    MESSAGE_JSON,
    TASK,
    TASK_JSON,
    ScriptedHandler,
    answering,
    compose,
    connected,
    http_request,
    listening,
    serving,
)

SENT = a2a_pb2.SendMessageResponse(task=TASK)


async def test_send_message() -> None:
    """The example of 11.4."""
    handler = ScriptedHandler(answering(SENT))
    body = {"message": MESSAGE_JSON, "configuration": {"acceptedOutputModes": ["text/plain"]}}
    async with serving(handler) as client:
        response = await client.post(
            "/message:send",
            content=json.dumps(body),
            headers={"content-type": "application/a2a+json", "a2a-version": "1.0"},
        )

    assert response.status_code == 200
    assert response.headers["content-type"] == "application/a2a+json"
    assert response.json() == {"task": TASK_JSON}
    assert handler.calls[0][0] == "SendMessage"
    assert handler.request == a2a_pb2.SendMessageRequest(
        message=a2a_pb2.Message(message_id="m1", role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text="hello")]),
        configuration=a2a_pb2.SendMessageConfiguration(accepted_output_modes=["text/plain"]),
    )
    assert (handler.call.method, handler.call.binding) == ("SendMessage", "HTTP+JSON")
    assert handler.call.parameters["a2a-version"] == "1.0"
    assert handler.call.peer.startswith("127.0.0.1:")
    assert handler.call.timeout is None


ROUTES = [
    ("POST", "/message:send", "SendMessage", {}),
    ("GET", "/tasks/t1?historyLength=2", "GetTask", {"id": "t1", "history_length": 2}),
    ("GET", "/tasks?pageSize=5&status=TASK_STATE_WORKING", "ListTasks", {"page_size": 5, "status": 2}),
    ("POST", "/tasks/t1:cancel", "CancelTask", {"id": "t1"}),
    ("POST", "/tasks/t1/pushNotificationConfigs", "CreateTaskPushNotificationConfig", {"task_id": "t1"}),
    ("GET", "/tasks/t1/pushNotificationConfigs/p1", "GetTaskPushNotificationConfig", {"task_id": "t1", "id": "p1"}),
    ("GET", "/tasks/t1/pushNotificationConfigs", "ListTaskPushNotificationConfigs", {"task_id": "t1"}),
    (
        "DELETE",
        "/tasks/t1/pushNotificationConfigs/p1",
        "DeleteTaskPushNotificationConfig",
        {"task_id": "t1", "id": "p1"},
    ),
    ("GET", "/extendedAgentCard", "GetExtendedAgentCard", {}),
]
BODIES = {"SendMessage": {"message": MESSAGE_JSON}, "CreateTaskPushNotificationConfig": {"url": "https://x.example"}}


@pytest.mark.parametrize("tenant", ["", "acme"])
@pytest.mark.parametrize(("verb", "path", "method", "fields"), ROUTES, ids=[route[2] for route in ROUTES])
async def test_unary_routes(verb: str, path: str, method: str, fields: dict[str, Any], tenant: str) -> None:
    """5.3, 11.3, and the forms with a tenant in front (the streaming routes are in test_streams)."""
    handler = ScriptedHandler(answering(rules.OPERATIONS[method].response()))
    async with serving(handler) as client:
        response = await client.request(verb, f"/{tenant}{path}" if tenant else path, json=BODIES.get(method))

    assert response.status_code == 200, response.text
    assert handler.calls[0][0] == handler.call.method == method
    assert handler.request.tenant == tenant
    assert {name: getattr(handler.request, name) for name in fields} == fields


async def test_delete_answers_an_empty_object() -> None:
    async with serving(ScriptedHandler(answering(Empty()))) as client:
        response = await client.delete("/tasks/t1/pushNotificationConfigs/p1")

    assert (response.status_code, response.json()) == (200, {})


async def test_the_tenant_of_the_path_is_not_overridden() -> None:
    """B091: neither by the body nor by the query."""
    handler = ScriptedHandler(answering(SENT))
    async with serving(handler) as client:
        await client.post("/acme/message:send", json={"tenant": "evil", "message": MESSAGE_JSON})
        assert handler.request.tenant == "acme"
        response = await client.get("/acme/tasks/t1?tenant=evil")
        assert response.status_code == 400 or handler.request.tenant == "acme"


@pytest.mark.parametrize("body", [None, b"", b"{}", b"null", b'{"metadata": {"why": "x"}}', b'{"id": "other"}'])
async def test_cancel_takes_what_clients_send_for_nothing(body: bytes | None) -> None:
    """B043; curl names a form type even for an empty body."""
    handler = ScriptedHandler(answering(TASK))
    content_type = "application/x-www-form-urlencoded" if not body else "application/json"
    async with serving(handler) as client:
        response = await client.post("/tasks/t1:cancel", content=body, headers={"content-type": content_type})

    assert response.status_code == 200, response.text
    assert handler.request.id == "t1"


async def test_unknown_fields_are_ignored() -> None:
    """B027: the v0.3 name of a field has no effect and is no error (5.7)."""
    handler = ScriptedHandler(answering(SENT))
    async with serving(handler) as client:
        response = await client.post(
            "/message:send", json={"message": MESSAGE_JSON, "configuration": {"blocking": False}}
        )

    assert response.status_code == 200
    assert not handler.request.configuration.return_immediately


async def test_both_spellings_of_names_are_read_and_camel_case_is_written() -> None:
    """B069."""
    handler = ScriptedHandler(answering(a2a_pb2.SendMessageResponse(task=TASK)))
    message = {"message_id": "m1", "context_id": "c1", "role": 1, "parts": [{"text": "x", "media_type": "text/plain"}]}
    async with serving(handler) as client:
        response = await client.post("/message:send", json={"message": message})
        both = await client.post("/message:send", json={"message": {**message, "messageId": "m2"}})

    assert response.json() == {"task": TASK_JSON}
    assert handler.request.message.message_id == "m1" and handler.request.message.parts[0].media_type == "text/plain"
    assert both.status_code == 400


async def test_version_in_the_url() -> None:
    """3.6.1: instead of the header; the header has the word when both say something."""
    handler = ScriptedHandler(answering(TASK))
    async with serving(handler) as client:
        await client.get("/tasks/t1?A2A-Version=1.0&historyLength=1")
        assert handler.call.parameters["a2a-version"] == "1.0"
        assert handler.request.history_length == 1
        await client.get("/tasks/t1?a2a-version=2.0", headers={"a2a-version": "1.0"})
        assert handler.call.parameters["a2a-version"] == "1.0"
        await client.get("/tasks/t1?a2a-version=1.0", headers={"a2a-version": ""})
        assert handler.call.parameters["a2a-version"] == "1.0"
        await client.get("/tasks/t1")
        assert "a2a-version" not in handler.call.parameters


async def test_repeated_headers_are_one_parameter() -> None:
    """3.2.6: names in any case; several values are separated by commas."""
    handler = ScriptedHandler(answering(TASK))
    async with serving(handler) as client:
        headers = [("A2A-Extensions", "urn:a"), ("a2a-extensions", "urn:b,urn:c"), ("Authorization", "Bearer x")]
        await client.get("/tasks/t1", headers=headers)

    assert handler.call.parameters["a2a-extensions"] == "urn:a,urn:b,urn:c"
    assert handler.call.parameters["authorization"] == "Bearer x"


async def test_response_parameters_become_headers() -> None:
    async def answer(method: str, request: Any, call: Any) -> a2a_pb2.Task:
        call.response_parameters["a2a-extensions"] = "urn:a,urn:b"
        call.response_parameters["x-request-id"] = "r1"
        return TASK

    async with serving(ScriptedHandler(answer)) as client:
        response = await client.get("/tasks/t1")

    assert (response.headers["a2a-extensions"], response.headers["x-request-id"]) == ("urn:a,urn:b", "r1")


MEDIA_TYPES = [
    ({"content-type": "application/a2a+json"}, "application/a2a+json"),
    ({"content-type": "application/json"}, "application/json"),
    ({"content-type": "Application/JSON; charset=utf-8"}, "application/json"),
    ({"content-type": "application/a2a+json; charset=utf-8"}, "application/a2a+json"),
    ({}, "application/a2a+json"),
    ({"content-type": "application/json", "accept": "application/a2a+json"}, "application/a2a+json"),
    ({"content-type": "application/a2a+json", "accept": "application/json"}, "application/json"),
    ({"content-type": "application/json", "accept": "*/*"}, "application/json"),
    ({"accept": "text/event-stream, application/json;q=0.9"}, "application/json"),
    ({"accept": "application/json, application/a2a+json"}, "application/a2a+json"),
]


@pytest.mark.parametrize(("headers", "expected"), MEDIA_TYPES)
async def test_media_types(headers: dict[str, str], expected: str) -> None:
    """11.1, DESIGN 7: application/a2a+json; application/json if the request said that. On success and on errors."""
    body = json.dumps({"message": MESSAGE_JSON}).encode()
    names = {name.replace("-", "_"): value for name, value in headers.items()}
    async with listening(compose(ScriptedHandler(answering(SENT)))) as (_, port), connected(port) as raw:
        await raw.send(http_request("POST", "/message:send", body, **names))
        code, found, _ = await raw.response()
        assert (code, found["content-type"]) == (200, expected)
        await raw.send(http_request("POST", "/message:send", b"{", **names))
        code, found, _ = await raw.response()
        assert (code, found["content-type"]) == (400, expected)


async def test_get_answers_what_is_accepted() -> None:
    async with serving(ScriptedHandler(answering(TASK))) as client:
        plain = await client.get("/tasks/t1")
        asked = await client.get("/tasks/t1", headers={"accept": "application/json"})

    assert plain.headers["content-type"] == "application/a2a+json"
    assert asked.headers["content-type"] == "application/json"
    # Some caches keep what says nothing about it.
    assert plain.headers["cache-control"] == "no-store"


async def test_the_extended_card_is_private() -> None:
    """B097."""
    async with serving(ScriptedHandler(answering(a2a_pb2.AgentCard(name="x")))) as client:
        response = await client.get("/extendedAgentCard")

    assert "private" in response.headers["cache-control"] and "public" not in response.headers["cache-control"]


async def test_head_is_get_without_the_body() -> None:
    handler = ScriptedHandler(answering(TASK))
    async with listening(compose(handler)) as (_, port), connected(port) as raw:
        await raw.send(http_request("GET", "/tasks/t1"))
        _, got, _ = await raw.response()
        await raw.send(http_request("HEAD", "/tasks/t1") + http_request("GET", "/healthz"))
        code, headers = await raw.head()
        assert (code, headers["content-length"]) == (200, got["content-length"])
        assert (await raw.response())[2] == b'{"status":"ok"}'  # nothing of a body was in between

    assert [method for method, *_ in handler.calls] == ["GetTask", "GetTask"]


async def test_a_message_of_the_size_limit_passes_as_base64() -> None:
    """4 MiB are the protobuf's size on every binding, so 3.9 MB of bytes pass although their JSON has 5.2 MB."""
    handler = ScriptedHandler(answering(SENT))
    data = bytes(range(256)) * 15_600  # 3.99 MB
    message = {**MESSAGE_JSON, "parts": [{"raw": base64.b64encode(data).decode()}]}
    async with serving(handler) as client:
        response = await client.post("/message:send", json={"message": message})

    assert response.status_code == 200
    assert handler.request.message.parts[0].raw == data


async def test_text_that_is_escaped_may_be_as_large() -> None:
    r"""Half of the JSON libraries write Cyrillic as \uXXXX: 3.9 MB of UTF-8 are 11.7 MB then."""
    handler = ScriptedHandler(answering(SENT))
    text = "ж" * 1_950_000
    async with serving(handler) as client:
        response = await client.post(
            "/message:send",
            content=json.dumps({"message": {**MESSAGE_JSON, "parts": [{"text": text}]}}, ensure_ascii=True),
        )

    assert response.status_code == 200
    assert handler.request.message.parts[0].text == text
