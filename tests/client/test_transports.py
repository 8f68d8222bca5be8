"""What goes over the wire of JSON-RPC, and what is made of answers that are none: specification 9.

What all bindings have in common is tested once over each of them, in the other modules.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from a2a_grpc.client import (
    A2AClient,
    A2AError,
    InternalError,
    InvalidAgentResponseError,
    InvalidArgumentError,
    JsonParseError,
    MethodNotFoundError,
    PermissionDeniedError,
    TaskNotFoundError,
    UnauthenticatedError,
    UnavailableError,
    message,
)
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import ERRORS
from a2a_grpc.wire.sequence import EVENT_SEQUENCE
from tests.client.peers import SSE_HEAD, HttpPeer, Request, answer_to, card, data, http_peer, response, rpc, task

GET = a2a_pb2.GetTaskRequest(id="t1", history_length=0)
SEND = a2a_pb2.SendMessageRequest(message=message("hello"))
WORKING = a2a_pb2.TASK_STATE_WORKING
COMPLETED = a2a_pb2.TASK_STATE_COMPLETED


@asynccontextmanager
async def answering(answer: Callable[[Request], bytes], *extensions: str) -> AsyncIterator[tuple[A2AClient, HttpPeer]]:
    """A client of an agent that gives this answer over JSON-RPC, below a path and for a tenant."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(request))
        if b"text/event-stream" in answer(request):
            writer.close()

    async with http_peer(respond) as peer:
        found = card(("jsonrpc", "1.0.3", f"{peer.url}/agents/rpc", "acme"))
        found.capabilities.extensions.extend(a2a_pb2.AgentExtension(uri=uri) for uri in extensions)
        async with await A2AClient.connect(found) as client:
            yield client, peer


def error(code: int, message: str = "No.", data: object = None) -> dict[str, object]:
    return {"code": code, "message": message, **({"data": data} if data is not None else {})}


def answer(**members: object) -> Callable[[Request], bytes]:
    """A response object with the id of the request, unless another is given."""

    def made(request: Request) -> bytes:
        found = rpc(request)
        assert found is not None
        return response(body=json.dumps({"jsonrpc": "2.0", "id": found["id"], **members}).encode())

    return made


async def test_a_call_is_a_request_object_to_the_one_address() -> None:
    """9.1 to 9.4: method names of the proto, params in ProtoJSON with the tenant, version and extensions as headers."""
    async with answering(lambda request: answer_to(request, task(COMPLETED))) as (client, peer):
        assert (await client.get_task(GET)).status.state == COMPLETED
        await client.get_task(GET)

    first, second = peer.requests
    assert (first.verb, first.target) == ("POST", "/agents/rpc")
    assert first.headers["content-type"] == "application/json" and first.headers["a2a-version"] == "1.0"
    body = json.loads(first.body)
    assert body == {
        "jsonrpc": "2.0",
        "id": body["id"],
        "method": "GetTask",
        "params": {"tenant": "acme", "id": "t1", "historyLength": 0},
    }
    assert json.loads(second.body)["id"] != body["id"]


async def test_what_has_no_content_has_any_result() -> None:
    """The result of an operation that answers with google.protobuf.Empty: null or an object, as the agent likes."""
    request = a2a_pb2.DeleteTaskPushNotificationConfigRequest(task_id="t1", id="c1")
    for answered in (answer(result=None), answer(result={})):
        async with answering(answered) as (client, peer):
            await client.delete_task_push_notification_config(request)
        assert json.loads(peer.requests[0].body)["method"] == "DeleteTaskPushNotificationConfig"


async def test_a_stream_asks_for_events_and_goes_on_after_the_last() -> None:
    def events(request: Request) -> bytes:
        event = a2a_pb2.StreamResponse(task=task(COMPLETED))
        return SSE_HEAD + b"id: 4\ndata: " + data(request, event) + b"\n\n"

    async with answering(events, EVENT_SEQUENCE) as (client, peer):
        seen = [event async for event in client.following("t1", 3)]

    assert [(event.seq, event.response.task.id) for event in seen] == [(4, "t1")]
    headers = peer.requests[0].headers
    assert (headers["accept"], headers["last-event-id"]) == ("text/event-stream", "3")
    assert json.loads(peer.requests[0].body)["method"] == "SubscribeToTask"


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: row.__name__)
async def test_an_error_is_that_of_the_table_by_its_code_alone(row: type[A2AError]) -> None:
    async with answering(answer(error=error(row.kind.jsonrpc))) as (client, _):
        with pytest.raises(A2AError, match=r"No\.") as caught:
            await client.get_task(GET)
    assert type(caught.value) is row


async def test_an_error_with_details_keeps_them() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "domain": "a2a-protocol.org"}
    details = [
        {**info, "reason": "UNAVAILABLE", "metadata": {"taskId": "t1"}},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.500s"},
    ]
    async with answering(answer(error=error(-32603, data=details), id=None)) as (client, _):
        with pytest.raises(UnavailableError) as caught:
            await client.get_task(GET)
    assert caught.value.retry_after == 2.5 and caught.value.metadata == {"task_id": "t1"}


@pytest.mark.parametrize(
    ("status", "body", "expected", "text"),
    [
        (200, b"<html>", InvalidAgentResponseError, "no JSON-RPC response: it has neither a result nor an error"),
        (200, b"[]", InvalidAgentResponseError, "neither a result nor an error"),
        (200, b'{"jsonrpc": "2.0", "id": 1}', InvalidAgentResponseError, "neither a result nor an error"),
        (200, b'{"jsonrpc": "2.0", "id": 99, "result": {}}', InvalidAgentResponseError, "its id is another"),
        (200, b'{"jsonrpc": "2.0", "id": 1, "result": 7}', InvalidAgentResponseError, "no Task"),
        (200, b'{"jsonrpc": "2.0", "id": 1, "result": {"id": 7}}', InvalidAgentResponseError, "no Task"),
        (200, b'{"jsonrpc": "2.0", "id": 1, "error": {"code": "x"}}', InternalError, "gave no message"),
        (
            401,
            b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32010, "message": "Who?"}}',
            UnauthenticatedError,
            "Who",
        ),
        (401, b"", UnauthenticatedError, "HTTP status 401"),
        (403, b"<html>", PermissionDeniedError, "HTTP status 403"),
        (502, b'{"error": "bad gateway"}', UnavailableError, "HTTP status 502"),
        (500, b"<html>", InternalError, "HTTP status 500"),
    ],
)
async def test_an_answer_that_is_no_response_object(
    status: int, body: bytes, expected: type[Exception], text: str
) -> None:
    async with answering(lambda _: response(status, body, "application/json")) as (client, _):
        with pytest.raises(expected, match=text):
            await client.get_task(GET)
    # The same in place of a stream. A result would be read as the first event, and there is none.
    async with answering(lambda _: response(status, body, "application/json")) as (client, _):
        with pytest.raises((expected, InvalidAgentResponseError)):
            await anext(client.subscribe_to_task(a2a_pb2.SubscribeToTaskRequest(id="t1")))


async def test_an_error_in_place_of_a_stream_and_one_within_it() -> None:
    async with answering(answer(error=error(TaskNotFoundError.kind.jsonrpc))) as (client, _):
        with pytest.raises(TaskNotFoundError):
            await anext(client.subscribe_to_task(a2a_pb2.SubscribeToTaskRequest(id="t1")))

    def broken(request: Request) -> bytes:
        first = a2a_pb2.StreamResponse(task=task(WORKING))
        failure = data(request, InvalidArgumentError("Broken."))
        return SSE_HEAD + b"data: " + data(request, first) + b"\n\nevent: error\ndata: " + failure + b"\n\n"

    async with answering(broken) as (client, _):
        events = client.send_streaming_message(SEND)
        assert (await anext(events)).task.status.state == WORKING
        with pytest.raises(InvalidArgumentError, match="Broken"):
            await anext(events)


async def test_a_result_in_place_of_a_stream_is_no_stream() -> None:
    async with answering(answer(result={"task": {"id": "t1"}})) as (client, _):
        with pytest.raises(InvalidAgentResponseError, match="answered a streaming request with application"):
            await anext(client.send_streaming_message(SEND))


async def test_a_redirect_is_not_followed() -> None:
    async with answering(lambda _: response(307, headers={"location": "https://evil.invalid"})) as (client, peer):
        with pytest.raises(InvalidAgentResponseError, match=r"redirects to https://evil\.invalid"):
            await client.get_task(GET)
        with pytest.raises(InvalidAgentResponseError, match=r"redirects to https://evil\.invalid"):
            await anext(client.send_streaming_message(SEND))
    assert len(peer.requests) == 2


@pytest.mark.parametrize("expected", [JsonParseError, MethodNotFoundError])
async def test_errors_of_the_layer_itself_are_errors_like_others(expected: type[A2AError]) -> None:
    async with answering(answer(error=error(expected.kind.jsonrpc), id=None)) as (client, _):
        with pytest.raises(expected):
            await client.get_task(GET)
