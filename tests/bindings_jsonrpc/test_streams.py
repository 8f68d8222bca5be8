"""JSON-RPC: streams of response objects (9.4.2, 9.4.6)."""

import asyncio
import json

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core.events import Event
from a2a_grpc.wire.errors import UnavailableError, UnsupportedOperationError, VersionNotSupportedError
from tests.support.http_bindings import (
    MESSAGE_JSON,
    TASK_JSON,
    ScriptedHandler,
    compose,
    connected,
    emitting,
    http_request,
    listening,
    parse_sse,
    serving,
    snapshot,
    status,
    text_chunk,
)
from tests.support.waiting import wait_until

EVENTS = (Event(1, snapshot()), Event(2, text_chunk("a\u2028b")), Event(3, status(a2a_pb2.TASK_STATE_COMPLETED)))
PARAMS = {"SendStreamingMessage": {"message": MESSAGE_JSON}, "SubscribeToTask": {"id": "t1", "tenant": "acme"}}


def request(method: str = "SubscribeToTask", identifier: object = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": identifier, "method": method, "params": PARAMS[method]}


@pytest.mark.parametrize("identifier", [7, "a \u2028 b", None, 12345678901234567890123])
@pytest.mark.parametrize("method", PARAMS)
async def test_a_whole_stream(method: str, identifier: object) -> None:
    """9.1: every event is a response object with the id of the request."""
    handler = ScriptedHandler(on_stream=emitting(*EVENTS))
    async with serving(handler) as client:
        response = await client.post("/", json=request(method, identifier))

    assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")
    assert response.headers["x-accel-buffering"] == "no"
    events = parse_sse(response.text)
    assert [event.id for event in events] == ["1", "2", "3"]
    assert all(set(event.data) == {"jsonrpc", "id", "result"} for event in events)
    assert all((event.data["jsonrpc"], event.data["id"]) == ("2.0", identifier) for event in events)
    assert events[0].data["result"] == {"task": TASK_JSON}
    assert events[1].data["result"]["artifactUpdate"]["artifact"]["parts"] == [{"text": "a\u2028b"}]
    assert events[2].data["result"]["statusUpdate"]["status"] == {"state": "TASK_STATE_COMPLETED"}
    assert handler.call.method == method
    assert "\u2028" not in response.text and "\\u2028" in response.text


@pytest.mark.parametrize("error", [UnsupportedOperationError("Ended."), VersionNotSupportedError("1.0, please.")])
async def test_an_error_before_the_first_event_is_a_response_object(error: Exception) -> None:
    """B019: no event stream."""
    async with serving(ScriptedHandler(on_stream=emitting(error))) as client:
        response = await client.post("/", json=request(), headers={"accept": "text/event-stream"})

    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert (response.json()["id"], response.json()["error"]["code"]) == (1, error.kind.jsonrpc)  # type: ignore[attr-defined]


async def test_an_error_in_the_middle_is_the_last_event() -> None:
    """B025."""
    error = UnavailableError("The store is away.", retry_after=1.0)
    async with serving(ScriptedHandler(on_stream=emitting(*EVENTS[:2], error))) as client:
        response = await client.post("/", json=request(identifier="x"))

    events = parse_sse(response.text)
    assert len(events) == 3
    assert (events[2].type, events[2].id) == ("error", None)
    assert set(events[2].data) == {"jsonrpc", "id", "error"} and events[2].data["id"] == "x"
    assert events[2].data["error"]["code"] == UnavailableError.kind.jsonrpc
    assert events[2].data["error"]["data"][0]["reason"] == "UNAVAILABLE"


async def test_a_reader_that_leaves() -> None:
    """B013, B077."""
    handler = ScriptedHandler(on_stream=emitting(EVENTS[0], wait=asyncio.Event()))
    async with listening(compose(handler)) as (listener, port), connected(port) as raw:
        await raw.send(http_request("POST", "/", json.dumps(request()).encode()))
        await raw.head()
        await raw.chunk()
        raw.reset()
        await wait_until(lambda: handler.open_streams == 0, "the iterator is closed", timeout=1.0)
        await wait_until(lambda: not listener._state.tasks, "no task is left")


async def test_a_listener_that_stops() -> None:
    handler = ScriptedHandler(on_stream=emitting(EVENTS[0], wait=asyncio.Event()))
    async with listening(compose(handler)) as (listener, port), connected(port) as raw:
        await raw.send(http_request("POST", "/", json.dumps(request()).encode()))
        await raw.head()
        await raw.chunk()
        async with asyncio.timeout(2):
            await listener.stop(grace=10.0)
        [event] = parse_sse((await raw.chunk()).decode())
        assert (event.type, event.data["id"]) == ("error", 1)
        assert event.data["error"]["data"][0]["reason"] == "UNAVAILABLE"
        assert await raw.chunk() == b"" and await raw.at_end()
