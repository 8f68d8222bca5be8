"""HTTP+JSON: event streams (3.1.2, 11.7), and what becomes of them when either side leaves."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.core.events import Event
from a2a_grpc.wire.errors import (
    A2AError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from tests.support.http_bindings import (
    MESSAGE_JSON,
    TASK_JSON,
    RawConnection,
    ScriptedHandler,
    SseEvent,
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

SUBSCRIBE = http_request("GET", "/tasks/t1:subscribe")
SEND = json.dumps({"message": MESSAGE_JSON}).encode()


WHOLE = (
    Event(1, snapshot()),
    Event(4, text_chunk("one\ntwo \u2028 ü")),
    Event(5, status(a2a_pb2.TASK_STATE_COMPLETED)),
)
WHOLE_JSON = [
    SseEvent({"task": TASK_JSON}, "1"),
    SseEvent(
        {
            "artifactUpdate": {
                "taskId": "t1",
                "contextId": "c1",
                "artifact": {"artifactId": "a1", "parts": [{"text": "one\ntwo \u2028 ü"}]},
                "append": True,
            }
        },
        "4",
    ),
    SseEvent({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}}, "5"),
]

STREAMS = [
    ("POST", "/message:stream", "SendStreamingMessage"),
    ("POST", "/acme/message:stream", "SendStreamingMessage"),
    ("GET", "/tasks/t1:subscribe", "SubscribeToTask"),
    ("POST", "/tasks/t1:subscribe", "SubscribeToTask"),
    ("GET", "/acme/tasks/t1:subscribe", "SubscribeToTask"),
    ("POST", "/acme/tasks/t1:subscribe", "SubscribeToTask"),
]


@pytest.mark.parametrize(("verb", "path", "method"), STREAMS)
async def test_a_whole_stream(verb: str, path: str, method: str) -> None:
    """B023, B063: framing, ids and headers, over every route that streams."""
    handler = ScriptedHandler(on_stream=emitting(*WHOLE))
    async with serving(handler) as client:
        body = {"message": MESSAGE_JSON} if method == "SendStreamingMessage" else None
        response = await client.request(
            verb, path, json=body, headers={"accept-encoding": "gzip", "last-event-id": "0"}
        )

    assert response.status_code == 200
    assert response.headers["content-type"] == "text/event-stream"
    assert {"no-cache", "no-transform"} <= set(response.headers["cache-control"].split(", "))
    assert response.headers["x-accel-buffering"] == "no"
    assert "content-length" not in response.headers and "content-encoding" not in response.headers
    assert parse_sse(response.text) == WHOLE_JSON
    assert handler.calls[0][0] == method
    assert handler.request.tenant == ("acme" if path.startswith("/acme") else "")
    assert handler.call.parameters["last-event-id"] == "0"
    assert handler.ended == ["returned"]


@pytest.mark.parametrize("body", [None, b"", b"{}", b"null"])
async def test_subscribe_by_post_needs_no_body(body: bytes | None) -> None:
    """B063; the kit names application/json even then."""
    async with serving(ScriptedHandler(on_stream=emitting(*WHOLE))) as client:
        response = await client.post("/tasks/t1:subscribe", content=body, headers={"content-type": "application/json"})

    assert parse_sse(response.text) == WHOLE_JSON


async def test_no_text_can_break_a_line() -> None:
    """httpx, and with it the official SDK, ends lines wherever Unicode does."""
    text = "".join(map(chr, [*range(0x21), 0x7F, 0x85, 0xA0, 0x2027, 0x2028, 0x2029, 0x202A, 0xFEFF, 0x1F600]))
    async with (
        serving(ScriptedHandler(on_stream=emitting(Event(1, text_chunk(text))))) as client,
        client.stream("GET", "/tasks/t1:subscribe") as response,
    ):
        lines = [line async for line in response.aiter_lines()]

    assert [line.partition(":")[0] for line in lines] == ["id", "data", ""]
    assert json.loads(lines[1][6:])["artifactUpdate"]["artifact"]["parts"] == [{"text": text}]


async def test_a_message_has_no_number() -> None:
    """A bare Message belongs to no task: no id, so that a reader does not come back with one (3.1.2)."""
    message = a2a_pb2.StreamResponse(message=a2a_pb2.Message(message_id="m2", role=a2a_pb2.ROLE_AGENT))
    async with serving(ScriptedHandler(on_stream=emitting(Event(0, message)))) as client:
        response = await client.post("/message:stream", content=SEND)

    assert parse_sse(response.text) == [
        SseEvent({"message": {"messageId": "m2", "role": "ROLE_AGENT", "parts": []}}, None),
    ]


async def test_response_parameters_of_a_stream_are_headers() -> None:
    """They are complete with the first event."""

    async def stream(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        call.response_parameters["x-request-id"] = "r1"
        yield Event(1, snapshot())

    async with serving(ScriptedHandler(on_stream=stream)) as client:
        response = await client.get("/tasks/t1:subscribe")

    assert response.headers["x-request-id"] == "r1"


@pytest.mark.parametrize("verb", ["GET", "POST"])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnsupportedOperationError("The task has ended."), 400),
        (TaskNotFoundError("There is no such task."), 404),
        (VersionNotSupportedError("Send A2A-Version: 1.0."), 400),
        (UnavailableError("The store is away.", retry_after=1), 503),
    ],
)
async def test_an_error_before_the_first_event_is_an_error(error: A2AError, code: int, verb: str) -> None:
    """B019, B059, B099: a status and a JSON body, no event stream."""
    async with serving(ScriptedHandler(on_stream=emitting(error))) as client:
        response = await client.request(verb, "/tasks/t1:subscribe")

    assert response.status_code == code
    assert response.headers["content-type"] == "application/a2a+json"
    assert response.json()["error"]["details"][0]["reason"] == error.kind.reason


async def test_an_error_in_the_middle_is_the_last_event() -> None:
    """B025: framed, marked as an error, in the shape of 11.6; then the response ends properly."""
    error = UnavailableError("The store is away.", retry_after=1)
    async with serving(ScriptedHandler(on_stream=emitting(*WHOLE[:2], error))) as client:
        response = await client.get("/tasks/t1:subscribe")

    events = parse_sse(response.text)
    assert events[:2] == WHOLE_JSON[:2] and len(events) == 3
    assert (events[2].type, events[2].id) == ("error", None)
    assert events[2].data["error"]["code"] == 503
    assert events[2].data["error"]["details"][0]["reason"] == "UNAVAILABLE"


async def test_a_defect_in_the_middle_keeps_its_cause_to_itself(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(ScriptedHandler(on_stream=emitting(WHOLE[0], ZeroDivisionError("secret")))) as client:
        response = await client.get("/tasks/t1:subscribe")

    events = parse_sse(response.text)
    assert events[1].data["error"]["details"][0]["reason"] == "INTERNAL_ERROR"
    assert "secret" not in response.text and "ZeroDivisionError: secret" in caplog.text


async def test_events_leave_at_once() -> None:
    """B023: each is read while the handler waits with the next."""
    step = asyncio.Event()

    async def stream(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        for seq in range(1, 6):
            yield Event(seq, text_chunk(str(seq)))
            await step.wait()
            step.clear()

    async with opened(ScriptedHandler(on_stream=stream)) as (raw, _):
        for seq in range(1, 6):
            assert (await raw.chunk()).startswith(b"id: %d\ndata: " % seq)
            step.set()
        assert await raw.chunk() == b""


@contextlib.asynccontextmanager
async def opened(
    handler: ScriptedHandler, request: bytes = SUBSCRIBE, **options: Any
) -> AsyncIterator[tuple[RawConnection, Any]]:
    """A raw connection on which a stream has begun; and its listener."""
    async with listening(compose(handler, **options)) as (listener, port), connected(port) as raw:
        await raw.send(request)
        code, headers = await raw.head()
        assert (code, headers["content-type"]) == (200, "text/event-stream")
        yield raw, listener


async def test_an_idle_stream_is_kept_alive_by_comments() -> None:
    handler = ScriptedHandler(on_stream=emitting(WHOLE[0], wait=asyncio.Event()))
    async with opened(handler, heartbeat=0.05) as (raw, _):
        assert (await raw.chunk()).startswith(b"id: 1\n")
        for _ in range(3):
            beat = await raw.chunk()
            assert beat.startswith(b":") and beat.endswith(b"\n\n") and b"data" not in beat


async def test_an_agent_that_takes_its_time_does_not_lose_its_caller() -> None:
    """A proxy gives up on a response that does not begin; a first event may take minutes (a bare Message)."""
    go = asyncio.Event()

    async def stream(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        await go.wait()
        yield WHOLE[0]
        raise TaskNotFoundError("Gone.")

    async with opened(ScriptedHandler(on_stream=stream), heartbeat=0.05) as (raw, _):
        assert (await raw.chunk()).startswith(b":")
        go.set()
        chunk = await raw.chunk()
        while chunk.startswith(b":"):
            chunk = await raw.chunk()
        assert chunk.startswith(b"id: 1\n")
        assert (await raw.chunk()).startswith(b"event: error\n")
        assert await raw.chunk() == b""


# The reader leaves


@pytest.mark.parametrize("leave", ["reset", "close"])
@pytest.mark.parametrize("when", ["between events", "before the first event"])
async def test_a_reader_that_leaves_ends_its_iterator_only(leave: str, when: str) -> None:
    """B013, B077: noticed at once, although nothing is being written."""
    first = (WHOLE[0],) if when == "between events" else ()
    handler = ScriptedHandler(on_stream=emitting(*first, wait=asyncio.Event()))
    async with listening(compose(handler)) as (listener, port), connected(port) as raw:
        await raw.send(SUBSCRIBE)
        if first:
            await raw.head()
        await wait_until(lambda: handler.open_streams == 1, "the stream is open")
        if leave == "reset":
            raw.reset()
        else:
            raw.writer.close()
        await wait_until(lambda: handler.open_streams == 0, "the iterator is closed", timeout=1.0)
        await wait_until(lambda: not listener._state.tasks, "no task is left")
    assert handler.ended == ["cancelled"]


async def test_readers_that_vanish_by_the_hundred() -> None:
    """B077: 200 streams reset at once."""
    handler = ScriptedHandler(on_stream=emitting(WHOLE[0], wait=asyncio.Event()))
    async with listening(compose(handler)) as (listener, port):
        async with contextlib.AsyncExitStack() as stack:
            readers = [await stack.enter_async_context(connected(port)) for _ in range(200)]
            for raw in readers:
                await raw.send(SUBSCRIBE)
            await wait_until(lambda: handler.open_streams == 200, "all streams are open")
            for raw in readers:
                raw.reset()
            await wait_until(lambda: handler.open_streams == 0, "all iterators are closed", timeout=5.0)
        await wait_until(lambda: not listener._state.connections, "no connection is left")


async def test_a_reader_that_leaves_while_events_flow() -> None:
    """The iterator stands at a `yield` then, and is closed there."""

    async def flood(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        seq = 0
        while True:
            seq += 1
            yield Event(seq, text_chunk("x" * 1000))
            await asyncio.sleep(0)

    handler = ScriptedHandler(on_stream=flood)
    async with opened(handler) as (raw, _):
        await raw.chunk()
        raw.reset()
        await wait_until(lambda: handler.open_streams == 0, "the iterator is closed", timeout=1.0)
    assert handler.ended in (["closed"], ["cancelled"])


async def test_a_reader_that_does_not_read_holds_the_handler_back() -> None:
    """What is not read is not produced either: no buffer of the server grows without bound."""
    produced = 0

    async def flood(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        nonlocal produced
        while True:
            produced += 1
            yield Event(produced, text_chunk("x" * 100_000))

    handler = ScriptedHandler(on_stream=flood)
    async with opened(handler) as (raw, _):
        # Loopback sockets hold a few megabytes; after that it must stand still.
        seen = -1
        while produced != seen:
            seen = produced
            await asyncio.sleep(0.1)
        assert produced < 200
        raw.reset()
        await wait_until(lambda: handler.open_streams == 0, "the iterator is closed", timeout=1.0)


async def test_a_pipelined_request_does_not_hide_that_the_reader_left() -> None:
    """Uvicorn tells only the newest request of a connection; the next heartbeat looks."""
    handler = ScriptedHandler(on_stream=emitting(WHOLE[0], wait=asyncio.Event()))
    async with opened(handler, SUBSCRIBE + http_request("GET", "/healthz"), heartbeat=0.05) as (raw, _):
        await raw.chunk()
        raw.reset()
        await wait_until(lambda: handler.open_streams == 0, "the iterator is closed", timeout=2.0)


# The server leaves


async def test_streams_end_properly_when_the_listener_stops() -> None:
    """B077: 20 live streams; each gets an error that says what to do, and a complete response."""
    handler = ScriptedHandler(on_stream=emitting(WHOLE[0], wait=asyncio.Event()))
    async with listening(compose(handler)) as (listener, port), contextlib.AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(connected(port)) for _ in range(20)]
        for raw in readers:
            await raw.send(SUBSCRIBE)
            await raw.head()
            assert (await raw.chunk()).startswith(b"id: 1\n")
        async with asyncio.timeout(2):
            await listener.stop(grace=10.0)
        for raw in readers:
            last = await raw.chunk()
            [event] = parse_sse(last.decode())
            assert event.type == "error" and event.data["error"]["details"][0]["reason"] == "UNAVAILABLE"
            assert await raw.chunk() == b""
            assert await raw.at_end()
    assert handler.open_streams == 0 and handler.ended == ["cancelled"] * 20


async def test_a_stream_without_an_event_is_refused_when_the_listener_stops() -> None:
    """Nothing was sent yet: 503 with Retry-After, as for any call."""
    handler = ScriptedHandler(on_stream=emitting(wait=asyncio.Event()))
    async with listening(compose(handler)) as (listener, port), connected(port) as raw:
        await raw.send(SUBSCRIBE)
        await wait_until(lambda: handler.open_streams == 1, "the stream is open")
        await listener.stop(grace=10.0)
        code, headers, _ = await raw.response()
        assert (code, headers["retry-after"]) == (503, "1")


async def test_a_reader_that_does_not_read_cannot_hold_the_listener_open() -> None:
    async def flood(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        while True:
            yield Event(1, text_chunk("x" * 100_000))

    handler = ScriptedHandler(on_stream=flood)
    async with opened(handler) as (_, listener):
        async with asyncio.timeout(5):
            await listener.stop(grace=0.2)
        assert not listener._state.connections and not listener._state.tasks
    assert handler.open_streams == 0
