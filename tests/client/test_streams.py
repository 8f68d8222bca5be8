"""When a stream is over, when it was cut, and what stands in for it.

Specification 3.1.2, 3.1.6 and 3.3.4; B099, B111 and B113 of the field reports.
"""

# ruff: noqa: ARG002 - a method of a servicer takes what gRPC gives it

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import grpc
import orjson
import pytest

from a2a_grpc.client import (
    A2AClient,
    DeadlineExceededError,
    InternalError,
    InvalidAgentResponseError,
    RouteNotFoundError,
    StreamBrokenError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
    message,
)
from a2a_grpc.client.interfaces import BINDINGS, HTTP_JSON, JSONRPC
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import error_body
from tests.client.peers import (
    SSE_HEAD,
    Context,
    Request,
    card,
    data,
    events_for,
    grpc_peer,
    http_peer,
    message_event,
    operation_of,
    refuse,
    response,
    sse,
    status_event,
    task,
    task_event,
)

WORKING = a2a_pb2.TASK_STATE_WORKING
COMPLETED = a2a_pb2.TASK_STATE_COMPLETED
INPUT_REQUIRED = a2a_pb2.TASK_STATE_INPUT_REQUIRED
AUTH_REQUIRED = a2a_pb2.TASK_STATE_AUTH_REQUIRED

SEND = a2a_pb2.SendMessageRequest(message=message("hello"))
SUBSCRIBE = a2a_pb2.SubscribeToTaskRequest(id="t1")


class Streamer:
    """Streams what it was given, then ends the stream, or cuts it without a word from the agent."""

    def __init__(self, events: Sequence[a2a_pb2.StreamResponse], cut: bool) -> None:
        self.events = events
        self.cut = cut

    async def send_streaming_message(
        self, request: a2a_pb2.SendMessageRequest, context: Context
    ) -> AsyncIterator[a2a_pb2.StreamResponse]:
        for event in self.events:
            yield event
        if self.cut:
            # How a proxy that loses its upstream, or a server on its way out, ends a stream.
            await context.abort(grpc.StatusCode.INTERNAL, "RST_STREAM")


@asynccontextmanager
async def streamer(binding: str, events: Sequence[a2a_pb2.StreamResponse], *, cut: bool) -> AsyncIterator[A2AClient]:
    """A client of an agent that streams these events over this binding."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if cut:  # a body that announces more than it holds
            head = SSE_HEAD.replace(b"\r\n\r\n", b"\r\ncontent-length: 1000000\r\n\r\n")
            writer.write(head + events_for(request, *events))
        else:
            writer.write(SSE_HEAD + events_for(request, *events))
        writer.close()

    if binding == "GRPC":
        async with (
            grpc_peer(Streamer(events, cut)) as address,
            await A2AClient.connect(card(("GRPC", "1.0", address))) as client,
        ):
            yield client
    else:
        async with (
            http_peer(respond) as peer,
            await A2AClient.connect(card((binding, "1.0", peer.url))) as client,
        ):
            yield client


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


async def collect(events: AsyncIterator[a2a_pb2.StreamResponse], seen: list[a2a_pb2.StreamResponse]) -> None:
    async for event in events:
        seen.append(event)  # noqa: PERF401 - what came before an error counts too


async def received(events: AsyncIterator[a2a_pb2.StreamResponse]) -> list[a2a_pb2.StreamResponse]:
    return [event async for event in events]


@pytest.mark.parametrize(
    "events",
    [
        [message_event("hi")],
        [task_event(WORKING), status_event(COMPLETED)],
        [task_event(COMPLETED)],
        [task_event(WORKING), status_event(INPUT_REQUIRED)],
        [task_event(WORKING), status_event(AUTH_REQUIRED)],
        [task_event(WORKING), status_event(COMPLETED), task_event(COMPLETED)],
    ],
    ids=["message", "completed", "at-once", "input", "auth", "final-snapshot"],
)
async def test_a_stream_that_ends_as_the_protocol_says(binding: str, events: list[a2a_pb2.StreamResponse]) -> None:
    async with streamer(binding, events, cut=False) as client:
        assert await received(client.send_streaming_message(SEND)) == events


@pytest.mark.parametrize(
    "events", [[message_event("hi")], [task_event(WORKING), status_event(COMPLETED)]], ids=["message", "completed"]
)
async def test_a_connection_that_breaks_after_the_outcome_takes_nothing_away(
    binding: str, events: list[a2a_pb2.StreamResponse]
) -> None:
    async with streamer(binding, events, cut=True) as client:
        assert await received(client.send_streaming_message(SEND)) == events


@pytest.mark.parametrize("cut", [False, True], ids=["ended", "cut"])
@pytest.mark.parametrize(
    "events",
    [[task_event(WORKING)], [task_event(INPUT_REQUIRED), status_event(WORKING)]],
    ids=["working", "working-again"],
)
async def test_a_stream_that_stops_while_the_task_runs_is_an_error_that_names_the_task(
    binding: str, events: list[a2a_pb2.StreamResponse], cut: bool
) -> None:
    seen: list[a2a_pb2.StreamResponse] = []
    async with streamer(binding, events, cut=cut) as client:
        with pytest.raises(StreamBrokenError) as caught:
            await collect(client.send_streaming_message(SEND), seen)

    assert seen == events
    assert caught.value.task_id == "t1"
    assert isinstance(caught.value, UnavailableError)


async def test_a_stream_cut_while_the_task_waits_for_an_authorization_is_cut(binding: str) -> None:
    async with streamer(binding, [task_event(AUTH_REQUIRED)], cut=True) as client:
        with pytest.raises(StreamBrokenError):
            await received(client.send_streaming_message(SEND))


async def test_a_stream_of_nothing_is_no_success(binding: str) -> None:
    async with streamer(binding, [], cut=False) as client:
        with pytest.raises(StreamBrokenError, match="before the first event") as caught:
            await received(client.send_streaming_message(SEND))

    assert caught.value.task_id == ""


async def test_an_agents_own_error_in_a_stream_is_not_taken_for_a_cut() -> None:
    class Failing:
        async def send_streaming_message(
            self, request: a2a_pb2.SendMessageRequest, context: Context
        ) -> AsyncIterator[a2a_pb2.StreamResponse]:
            yield task_event(WORKING)
            await refuse(context, InternalError("The log has it."))

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        failure = data(request, InternalError("The log has it."))
        writer.write(SSE_HEAD + events_for(request, task_event(WORKING)) + b"event: error\ndata: " + failure + b"\n\n")
        writer.close()

    async with grpc_peer(Failing()) as address, await A2AClient.connect(f"grpc://{address}") as client:
        with pytest.raises(InternalError, match=r"The log has it\."):
            await received(client.send_streaming_message(SEND))
    for binding in (HTTP_JSON, JSONRPC):
        async with http_peer(respond) as peer, await A2AClient.connect(card((binding, "1.0", peer.url))) as client:
            with pytest.raises(InternalError, match=r"The log has it\."):
                await received(client.send_streaming_message(SEND))


@pytest.mark.parametrize(
    ("events", "text"),
    [
        (b"data: <html>\n\n", "no StreamResponse"),
        (b'data: {"task": 1}\n\n', "task"),
        (b"event: error\ndata: oops\n\n", "HTTP status 500"),
    ],
)
async def test_an_event_that_cannot_be_read_is_an_error_and_no_end(events: bytes, text: str) -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(SSE_HEAD + sse(task_event(WORKING)) + events)
        writer.close()

    async with http_peer(respond) as peer, await A2AClient.connect(card(("HTTP+JSON", "1.0", peer.url))) as client:
        with pytest.raises((InvalidAgentResponseError, InternalError), match=text):
            await received(client.send_streaming_message(SEND))


async def test_an_answer_that_is_no_stream_of_events_is_an_error() -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(body=protojson.dumps(task_event(COMPLETED))))

    async with http_peer(respond) as peer, await A2AClient.connect(card(("HTTP+JSON", "1.0", peer.url))) as client:
        with pytest.raises(InvalidAgentResponseError, match=r"streaming request with application/a2a\+json"):
            await received(client.send_streaming_message(SEND))


@pytest.mark.parametrize("refusal", [response(404, b"no", "text/plain"), response(405)], ids=["404", "405"])
async def test_a_server_that_knows_subscribe_by_get_only_is_asked_by_get_from_then_on(refusal: bytes) -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.verb == "POST":
            writer.write(refusal)
        else:
            writer.write(SSE_HEAD + sse(task_event(COMPLETED)))
            writer.close()

    async with http_peer(respond) as peer, await A2AClient.connect(card(("HTTP+JSON", "1.0", peer.url))) as client:
        for _ in range(2):
            assert await received(client.subscribe_to_task(SUBSCRIBE)) == [task_event(COMPLETED)]

    assert [f"{request.verb} {request.target}" for request in peer.requests] == [
        "POST /tasks/t1:subscribe",
        "GET /tasks/t1:subscribe",
        "GET /tasks/t1:subscribe",
    ]
    assert peer.requests[0].headers["accept"] == "text/event-stream"


async def test_a_task_that_is_not_found_is_not_looked_for_by_another_verb() -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(404, orjson.dumps(error_body(TaskNotFoundError("No such task.")))))

    async with http_peer(respond) as peer, await A2AClient.connect(card(("HTTP+JSON", "1.0", peer.url))) as client:
        with pytest.raises(TaskNotFoundError, match="No such task"):
            await received(client.subscribe_to_task(SUBSCRIBE))

    assert [request.verb for request in peer.requests] == ["POST"]


async def test_where_neither_verb_has_a_route_the_error_is_that_of_the_route() -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(404, b"<html>", "text/html"))

    async with http_peer(respond) as peer, await A2AClient.connect(card(("HTTP+JSON", "1.0", peer.url))) as client:
        with pytest.raises(RouteNotFoundError):
            await received(client.subscribe_to_task(SUBSCRIBE))


class Sleeper:
    """Says that it works, and nothing more. Notes when its callers leave."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def send_message(self, request: a2a_pb2.SendMessageRequest, context: Context) -> a2a_pb2.SendMessageResponse:
        await self._sleep()
        return a2a_pb2.SendMessageResponse()

    async def send_streaming_message(
        self, request: a2a_pb2.SendMessageRequest, context: Context
    ) -> AsyncIterator[a2a_pb2.StreamResponse]:
        yield task_event(WORKING)
        await self._sleep()

    async def _sleep(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()


@asynccontextmanager
async def sleeper(binding: str) -> AsyncIterator[tuple[A2AClient, asyncio.Event]]:
    """A client of an agent that begins and never ends, and the event that its caller has left."""
    servicer = Sleeper()

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if operation_of(request) == "SendStreamingMessage":
            writer.write(SSE_HEAD + events_for(request, task_event(WORKING)))
        await asyncio.Event().wait()

    if binding == "GRPC":
        async with grpc_peer(servicer) as address, await A2AClient.connect(f"grpc://{address}") as client:
            yield client, servicer.left
    else:
        async with http_peer(respond) as peer, await A2AClient.connect(card((binding, "1.0", peer.url))) as client:
            yield client, peer.left


async def test_a_call_gives_up_after_its_timeout(binding: str) -> None:
    async with sleeper(binding) as (client, left):
        started = asyncio.get_running_loop().time()
        with pytest.raises(DeadlineExceededError):
            await client.send_message(SEND, timeout=0.2)
        assert 0.2 <= asyncio.get_running_loop().time() - started < 5
        await asyncio.wait_for(left.wait(), 5)


async def test_the_timeout_of_a_stream_is_for_all_of_it(binding: str) -> None:
    seen: list[a2a_pb2.StreamResponse] = []
    async with sleeper(binding) as (client, left):
        started = asyncio.get_running_loop().time()
        with pytest.raises(DeadlineExceededError):
            await collect(client.send_streaming_message(SEND, timeout=0.3), seen)
        assert 0.3 <= asyncio.get_running_loop().time() - started < 5
        await asyncio.wait_for(left.wait(), 5)

    assert seen == [task_event(WORKING)]


async def test_the_time_that_the_caller_itself_takes_does_not_interrupt_the_caller(binding: str) -> None:
    events = [task_event(WORKING), status_event(COMPLETED)]
    async with streamer(binding, events, cut=False) as client:
        stream = client.send_streaming_message(SEND, timeout=0.05)
        assert await anext(stream) == events[0]
        await asyncio.sleep(0.1)  # would be cancelled if the deadline were the caller's
        await stream.aclose()


async def test_a_caller_that_leaves_a_stream_frees_the_agent_at_once(binding: str) -> None:
    async with sleeper(binding) as (client, left):
        stream = client.send_streaming_message(SEND)
        await anext(stream)
        assert not left.is_set()
        await stream.aclose()
        await asyncio.wait_for(left.wait(), 5)


async def test_cancelling_the_caller_cancels_the_call_and_nothing_else(binding: str) -> None:
    async with sleeper(binding) as (client, left):
        call = asyncio.create_task(client.send_message(SEND))
        stream = client.send_streaming_message(SEND)
        await anext(stream)
        rest = asyncio.create_task(anext(stream, None))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(left.wait(), 5)
        assert not rest.done()
        rest.cancel()
        with pytest.raises(asyncio.CancelledError):
            await rest


class Poller:
    """An agent that does not stream: a task in steps, one for each look at it."""

    def __init__(self, *steps: a2a_pb2.Task) -> None:
        self.steps = list(steps)
        self.sent: list[a2a_pb2.SendMessageRequest] = []

    async def send_message(self, request: a2a_pb2.SendMessageRequest, context: Context) -> a2a_pb2.SendMessageResponse:
        self.sent.append(request)
        return a2a_pb2.SendMessageResponse(task=self.steps.pop(0))

    async def get_task(self, request: a2a_pb2.GetTaskRequest, context: Context) -> a2a_pb2.Task:
        return self.steps.pop(0)


@asynccontextmanager
async def polled(agent: object) -> AsyncIterator[A2AClient]:
    """A client of an agent whose card says that it does not stream."""
    async with (
        grpc_peer(agent) as address,
        await A2AClient.connect(card(("GRPC", "1.0", address), streaming=False)) as client,
    ):
        yield client


def chunk(text: str) -> a2a_pb2.Artifact:
    return a2a_pb2.Artifact(artifact_id="a1", parts=[a2a_pb2.Part(text=text)])


def artifact_event(artifact: a2a_pb2.Artifact, *, last: bool) -> a2a_pb2.StreamResponse:
    update = a2a_pb2.TaskArtifactUpdateEvent(task_id="t1", context_id="c1", artifact=artifact, last_chunk=last)
    return a2a_pb2.StreamResponse(artifact_update=update)


async def test_where_the_card_says_no_streaming_a_stream_is_polled() -> None:
    """B099: the caller's code is the same; an artifact that has grown comes whole."""
    one, two = chunk("one"), chunk("one two")
    poller = Poller(
        task(WORKING), task(WORKING, "t1", one), task(WORKING, "t1", one), task(COMPLETED, "t1", two), task(WORKING)
    )

    async with polled(poller) as client:
        events = await received(client.send_streaming_message(SEND))

    assert events == [
        task_event(WORKING),
        artifact_event(one, last=False),
        artifact_event(two, last=True),
        status_event(COMPLETED),
    ]
    assert [request.configuration.return_immediately for request in poller.sent] == [True]
    assert not SEND.HasField("configuration")


async def test_a_polled_stream_ends_when_the_agent_asks_but_a_polled_subscription_goes_on() -> None:
    sending = Poller(task(WORKING), task(INPUT_REQUIRED), task(WORKING))
    subscribing = Poller(task(INPUT_REQUIRED), task(WORKING), task(AUTH_REQUIRED), task(COMPLETED), task(WORKING))

    async with polled(sending) as client:
        assert await received(client.send_streaming_message(SEND)) == [
            task_event(WORKING),
            status_event(INPUT_REQUIRED),
        ]
    async with polled(subscribing) as client:
        assert await received(client.subscribe_to_task(SUBSCRIBE)) == [
            task_event(INPUT_REQUIRED),
            status_event(WORKING),
            status_event(AUTH_REQUIRED),
            status_event(COMPLETED),
        ]


async def test_a_polled_message_is_the_only_event() -> None:
    class Talker:
        async def send_message(
            self, request: a2a_pb2.SendMessageRequest, context: Context
        ) -> a2a_pb2.SendMessageResponse:
            return a2a_pb2.SendMessageResponse(message=message_event("hi").message)

    async with polled(Talker()) as client:
        assert await received(client.send_streaming_message(SEND)) == [message_event("hi")]


class Ended:
    """Refuses to stream its task, which is in this state."""

    def __init__(self, state: a2a_pb2.TaskState) -> None:
        self.state = state

    async def subscribe_to_task(
        self, request: a2a_pb2.SubscribeToTaskRequest, context: Context
    ) -> AsyncIterator[a2a_pb2.StreamResponse]:
        await refuse(context, UnsupportedOperationError("Not now."))
        yield task_event(self.state)

    async def get_task(self, request: a2a_pb2.GetTaskRequest, context: Context) -> a2a_pb2.Task:
        return task(self.state, request.id)


async def test_subscribing_to_a_task_that_has_ended_gives_its_end() -> None:
    async with grpc_peer(Ended(COMPLETED)) as address, await A2AClient.connect(f"grpc://{address}") as client:
        assert await received(client.subscribe_to_task(SUBSCRIBE)) == [task_event(COMPLETED)]


async def test_an_agent_that_does_not_stream_a_running_task_is_not_covered_up() -> None:
    async with grpc_peer(Ended(WORKING)) as address, await A2AClient.connect(f"grpc://{address}") as client:
        with pytest.raises(UnsupportedOperationError, match="Not now"):
            await received(client.subscribe_to_task(SUBSCRIBE))
