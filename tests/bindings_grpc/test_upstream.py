"""A gateway on its own: calls, errors, streams and cards of a remote server pass as if it were here."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import pytest
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from a2a_grpc.server.bindings.grpc.server import create_server
from a2a_grpc.server.bindings.upstream.upstream import Upstream
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.wire.errors import (
    ERRORS,
    A2AError,
    DeadlineExceededError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
    UnimplementedError,
    Violation,
)
from a2a_grpc.wire.headers import parse_extensions
from a2a_grpc.wire.sequence import EVENT_SEQUENCE, set_sequence
from tests.bindings_grpc.scripted import RESPONSES, Scripted, chunk, empty_response, ready, serving, three_chunks
from tests.bindings_grpc.test_calls import REQUESTS, STREAMS
from tests.bindings_grpc.test_cards import BODY, OneCard
from tests.bindings_grpc.test_departures import Watched, closes
from tests.bindings_grpc.test_failures import failing_stream, raising
from tests.support.waiting import wait_until

GET = a2a_pb2.GetTaskRequest(id="t-1")
SUBSCRIBE = a2a_pb2.SubscribeToTaskRequest(id="t-1")


def call(method: str = "GetTask", timeout: float | None = None, **parameters: str) -> Call:
    named = {name.replace("_", "-"): value for name, value in parameters.items()}
    return Call(method=method, binding="HTTP+JSON", parameters=named, timeout=timeout)


@contextlib.asynccontextmanager
async def upstream(target: str, readiness: Readiness | None = None) -> AsyncIterator[Upstream]:
    connected = Upstream(target, readiness or Readiness())
    await connected.start()
    try:
        yield connected
    finally:
        await connected.close()


@contextlib.asynccontextmanager
async def remote(handler: Scripted) -> AsyncIterator[Upstream]:
    """A Handler whose pipeline is `handler`, behind a real server."""
    async with serving(handler, cards=OneCard()) as address, upstream(address) as connected:
        yield connected


async def collect(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events]


@pytest.mark.parametrize("method", sorted(RESPONSES))
async def test_each_unary_operation_passes(method: str) -> None:
    origin = Scripted()
    async with remote(origin) as connected:
        response = await connected.handler.unary(method, REQUESTS[method], call(method))
    assert response == await empty_response(method, REQUESTS[method], origin.calls[0])
    assert origin.requests == [REQUESTS[method]]
    assert [served.method for served in origin.calls] == [method]


@pytest.mark.parametrize("method", sorted(STREAMS))
async def test_each_stream_passes(method: str) -> None:
    origin = Scripted()
    async with remote(origin) as connected:
        events = await collect(connected.handler.stream(method, REQUESTS[method], call(method)))
    expected = [event.response async for event in three_chunks(method, REQUESTS[method], origin.calls[0])]
    assert [event.response for event in events] == expected
    assert [event.seq for event in events] == [0, 0, 0, 0]  # this origin does not number them


async def test_parameters_travel_but_not_those_of_the_connection() -> None:
    origin = Scripted()
    async with remote(origin) as connected:
        await connected.handler.unary(
            "GetTask",
            GET,
            call(
                authorization="Bearer token",
                a2a_version="1.0",
                a2a_extensions="urn:one,urn:two",
                last_event_id="7",
                x_api_key="key",
                traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                x_request_id="r-1",
                connection="keep-alive, X-Private",
                x_private="of this connection",
                keep_alive="timeout=5",
                host="gateway.example.com",
                content_length="2",
                content_type="application/json",
                accept="text/event-stream",
                accept_encoding="gzip",
                transfer_encoding="chunked",
                te="trailers",
                upgrade="websocket",
                proxy_authorization="Basic secret",
                user_agent="curl/8",
                grpc_timeout="1S",
                x_name="Jos\u00e9",
                x_trace_bin="AA==",
            ),
        )
    received = dict(origin.calls[0].parameters)
    assert received.pop("user-agent").startswith("grpc-python")
    assert received == {
        "authorization": "Bearer token",
        "a2a-version": "1.0",
        "a2a-extensions": "urn:one,urn:two",
        "last-event-id": "7",
        "x-api-key": "key",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "x-request-id": "r-1",
    }


async def test_a_call_has_the_time_that_its_caller_has() -> None:
    async def never(method: str, request: Message, call: Call) -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    origin = Scripted(unary=never)
    async with remote(origin) as connected, asyncio.timeout(5):
        with pytest.raises(DeadlineExceededError):
            await connected.handler.unary("GetTask", GET, call(timeout=0.3))
    assert origin.calls[0].timeout is not None
    assert 0 < origin.calls[0].timeout < 1


async def test_response_parameters_come_back() -> None:
    async def unary(method: str, request: Message, call: Call) -> Message:
        call.response_parameters |= {"a2a-extensions": "urn:one", "x-request-id": "r-1"}
        return a2a_pb2.Task()

    async with remote(Scripted(unary=unary)) as connected:
        made = call()
        await connected.handler.unary("GetTask", GET, made)
    assert made.response_parameters == {"a2a-extensions": "urn:one", "x-request-id": "r-1"}


async def test_a_stream_that_goes_on_says_so_through_the_gateway() -> None:
    async def stream(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        call.response_parameters["last-event-id"] = call.parameters["last-event-id"]
        yield Event(7, a2a_pb2.StreamResponse(task=a2a_pb2.Task(id="t-1")))

    async with remote(Scripted(stream=stream)) as connected:
        made = call("SubscribeToTask", last_event_id="7")
        await collect(connected.handler.stream("SubscribeToTask", SUBSCRIBE, made))
    assert made.response_parameters == {"last-event-id": "7"}


@pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.__name__)
async def test_each_error_passes(cls: type[A2AError]) -> None:
    cause = cls("what went wrong", metadata={"task_id": "t-1"}, violations=[Violation("id", "bad")], retry_after=1.5)
    async with remote(Scripted(unary=raising(cause), stream=failing_stream(cause, after=1))) as connected:
        with pytest.raises(A2AError) as unary:
            await connected.handler.unary("GetTask", GET, call())
        events = connected.handler.stream("SubscribeToTask", SUBSCRIBE, call())
        await anext(events)
        with pytest.raises(A2AError) as stream:
            await anext(events)
    for caught in (unary.value, stream.value):
        assert type(caught) is cls
        assert caught.message == "what went wrong"
        assert caught.metadata == {"task_id": "t-1"}
        assert caught.violations == (Violation("id", "bad"),)
        assert caught.retry_after == 1.5


async def test_response_parameters_of_a_failed_call_come_back() -> None:
    async def unary(method: str, request: Message, call: Call) -> Message:
        call.response_parameters |= {"a2a-extensions": "urn:one", "x-request-id": "r-1"}
        raise InvalidArgumentError("no")

    async with remote(Scripted(unary=unary)) as connected:
        made = call()
        with pytest.raises(InvalidArgumentError):
            await connected.handler.unary("GetTask", GET, made)
    assert made.response_parameters == {"a2a-extensions": "urn:one", "x-request-id": "r-1"}


async def numbered(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
    """As a server does that knows the event-sequence extension."""
    asked = parse_extensions(call.parameters.get("a2a-extensions", ""))
    call.response_parameters |= {"a2a-extensions": ",".join(asked), "x-request-id": "r-1"}
    for seq in (4, 5):
        response = chunk(f"chunk {seq}")
        if EVENT_SEQUENCE in asked:
            set_sequence(response, seq)
        yield Event(seq, response)


async def test_events_are_numbered_without_the_caller_noticing() -> None:
    async with remote(Scripted(stream=numbered)) as connected:
        made = call(a2a_extensions="urn:one")
        events = await collect(connected.handler.stream("SubscribeToTask", SUBSCRIBE, made))
    assert events == [Event(4, chunk("chunk 4")), Event(5, chunk("chunk 5"))]
    assert made.response_parameters == {"a2a-extensions": "urn:one", "x-request-id": "r-1"}


async def test_without_extensions_of_its_own_a_stream_announces_none() -> None:
    async with remote(Scripted(stream=numbered)) as connected:
        made = call()
        events = await collect(connected.handler.stream("SubscribeToTask", SUBSCRIBE, made))
    assert [event.seq for event in events] == [4, 5]
    assert made.response_parameters == {"x-request-id": "r-1"}


async def test_a_caller_who_asks_for_the_numbers_gets_them_in_the_payload() -> None:
    async with remote(Scripted(stream=numbered)) as connected:
        made = call(a2a_extensions=EVENT_SEQUENCE)
        events = await collect(connected.handler.stream("SubscribeToTask", SUBSCRIBE, made))
    assert [event.seq for event in events] == [4, 5]
    metadata = [event.response.artifact_update.metadata.fields for event in events]
    assert [fields[EVENT_SEQUENCE].number_value for fields in metadata] == [4, 5]
    assert made.response_parameters == {"a2a-extensions": EVENT_SEQUENCE, "x-request-id": "r-1"}


async def test_a_stream_left_by_its_caller_is_left_upstream() -> None:
    watched = Watched()
    async with remote(Scripted(stream=watched.stream)) as connected:
        events = connected.handler.stream("SubscribeToTask", SUBSCRIBE, call())
        await anext(events)
        await events.aclose()
        await closes(watched)


async def test_a_cancelled_call_is_cancelled_upstream() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def unary(method: str, request: Message, call: Call) -> Message:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    async with remote(Scripted(unary=unary)) as connected, asyncio.timeout(5):
        task = asyncio.create_task(connected.handler.unary("GetTask", GET, call()))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await cancelled.wait()


async def test_closing_the_upstream_ends_running_calls_with_an_error() -> None:
    async def never(method: str, request: Message, call: Call) -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    origin = Scripted(unary=never, stream=Watched().stream)
    async with serving(origin) as address, asyncio.timeout(5):
        connected = Upstream(address, Readiness())
        unary = asyncio.create_task(connected.handler.unary("GetTask", GET, call()))
        events = connected.handler.stream("SubscribeToTask", SUBSCRIBE, call())
        await anext(events)
        await wait_until(lambda: len(origin.calls) == 2, "both calls arrive")
        await connected.close()
        with pytest.raises(UnavailableError):
            await unary
        with pytest.raises(UnavailableError):
            await anext(events)


async def test_an_upstream_that_is_not_there_is_unavailable_at_once_and_stays_unnamed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving(Scripted()) as address:
        pass
    async with upstream(address) as connected, asyncio.timeout(2):
        with pytest.raises(UnavailableError) as unary:
            await connected.handler.unary("GetTask", GET, call())
        with pytest.raises(UnavailableError) as stream:
            await anext(connected.handler.stream("SubscribeToTask", SUBSCRIBE, call()))
        with pytest.raises(UnavailableError) as card:
            await connected.cards.public_card("acme", call())
    for caught in (unary.value, stream.value, card.value):
        assert caught.message == "The agent behind this gateway cannot be reached at present."
        assert caught.retry_after == 1.0
    assert "Connection refused" in caplog.text


async def test_an_upstream_that_has_come_is_reached_though_nobody_was_there_for_an_earlier_channel() -> None:
    async with serving(Scripted()) as address:
        pass
    async with upstream(address) as earlier:
        with pytest.raises(UnavailableError):
            await earlier.handler.unary("GetTask", GET, call())
        origin = Scripted()
        async with serving(origin, cards=OneCard(), addr=address), upstream(address) as later:
            await later.handler.unary("GetTask", GET, call())
    assert len(origin.calls) == 1


async def test_an_upstream_that_takes_connections_and_says_nothing_is_unavailable_soon() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with upstream(f"127.0.0.1:{listener.getsockname()[1]}") as connected, asyncio.timeout(6):
            with pytest.raises(UnavailableError):
                await connected.handler.unary("GetTask", GET, call())


async def test_a_stream_whose_upstream_dies_ends_with_unavailable() -> None:
    async with asyncio.timeout(5):
        server = create_server(Scripted(stream=Watched().stream), None, ready(), addr="127.0.0.1:0")
        port = await server.start()
        async with upstream(f"127.0.0.1:{port}") as connected:
            events = connected.handler.stream("SubscribeToTask", SUBSCRIBE, call())
            await anext(events)
            await server.stop(None)
            with pytest.raises(UnavailableError):
                await anext(events)


def proxied(code: grpc.StatusCode) -> grpc.GenericRpcHandler:
    """What a proxy or another program answers: a status without details, with text that is nobody's business."""

    async def refuse(_request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        return await context.abort(code, "upstream connect error to 10.0.0.7: secret")

    method: Any = grpc.unary_unary_rpc_method_handler(refuse)
    return grpc.method_handlers_generic_handler("lf.a2a.v1.A2AService", {"GetTask": method})


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (grpc.StatusCode.UNAVAILABLE, UnavailableError),
        (grpc.StatusCode.CANCELLED, UnavailableError),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, ResourceExhaustedError),
        (grpc.StatusCode.UNIMPLEMENTED, UnimplementedError),
    ],
)
async def test_text_that_the_agent_did_not_write_stays_in_the_log(
    code: grpc.StatusCode, cls: type[A2AError], caplog: pytest.LogCaptureFixture
) -> None:
    server = grpc.aio.server(handlers=[proxied(code)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with upstream(f"127.0.0.1:{port}") as connected:
            with caplog.at_level(logging.WARNING), pytest.raises(cls) as caught:
                await connected.handler.unary("GetTask", GET, call())
    finally:
        await server.stop(None)
    assert "secret" not in str(caught.value)
    assert "secret" in caplog.text


async def test_the_gateway_is_ready_while_its_upstream_is() -> None:
    origin = Readiness()
    gateway = Readiness()
    server = create_server(Scripted(), None, origin, addr="127.0.0.1:0")
    port = await server.start()
    async with upstream(f"127.0.0.1:{port}", gateway) as connected:
        await wait_until(lambda: "upstream" in gateway.snapshot(), "the upstream is looked at")
        assert gateway.snapshot() == {"upstream": "no replica of the remote agent can be reached"}
        origin.set("store", ready=True)
        await wait_until(lambda: gateway.ready, "the gateway follows")
        assert gateway.snapshot() == {"upstream": "ok"}
        origin.set("store", ready=False)
        await wait_until(lambda: not gateway.ready, "the gateway follows again")
        origin.set("store", ready=True)
        await wait_until(lambda: gateway.ready, "and again")
        await server.stop(None)
        await wait_until(lambda: not gateway.ready, "the upstream is gone")
        server = create_server(Scripted(), None, ready(), addr=f"127.0.0.1:{port}")
        await server.start()
        await wait_until(lambda: gateway.ready, "the upstream is back")
        assert await connected.handler.unary("GetTask", GET, call()) == a2a_pb2.Task()
        await server.stop(None)


async def test_cards_come_byte_for_byte() -> None:
    async with remote(Scripted()) as connected:
        card = await connected.cards.public_card("acme", call())
        assert card is not None
        assert card == await OneCard().public_card("acme", call())
        assert card.body == BODY
        assert await connected.cards.public_card("nobody", call()) is None
        with pytest.raises(UnavailableError) as caught:
            await connected.cards.public_card("later", call())
    assert (caught.value.message, caught.value.retry_after) == ("the card is not built yet", 2.0)


async def test_a_chain_of_two_servers_answers_as_one() -> None:
    origin = Scripted(stream=numbered)
    async with remote(origin) as connected:
        gateway = create_server(connected.handler, connected.cards, ready(), addr="127.0.0.1:0")
        address = f"127.0.0.1:{await gateway.start()}"
        async with grpc.aio.insecure_channel(address) as channel:
            stub = A2AServiceStub(channel)
            metadata = (("a2a-version", "1.0"), ("authorization", "Bearer token"))
            assert await stub.GetTask(GET, metadata=metadata) == a2a_pb2.Task()
            rpc = stub.SubscribeToTask(SUBSCRIBE, metadata=metadata)
            responses = [response async for response in rpc]
            origin.on_unary = raising(InvalidArgumentError("no"))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.GetTask(GET, metadata=metadata)
        await gateway.stop(None)
    assert responses == [chunk("chunk 4"), chunk("chunk 5")]
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert origin.calls[0].parameters["authorization"] == "Bearer token"


class Swallowing:
    """A link to `target` that from one moment on takes everything and passes nothing."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._passing = True

    def swallow(self) -> None:
        self._passing = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            if not self._passing:
                await reader.read()
                return
            host, _, port = self._target.rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            with contextlib.closing(far_writer):
                await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if self._passing:
                    writer.write(data)
                    await writer.drain()


@pytest.mark.slow
async def test_an_upstream_that_vanishes_without_a_word_is_noticed() -> None:
    gateway = Readiness()
    async with serving(Scripted(stream=Watched().stream)) as address:
        link = Swallowing(address)
        listener = await asyncio.start_server(link.serve, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        async with upstream(f"127.0.0.1:{port}", gateway) as connected:
            await wait_until(lambda: gateway.ready, "the upstream is there")
            events = connected.handler.stream("SubscribeToTask", SUBSCRIBE, call())
            await anext(events)
            link.swallow()
            # A ping after at most 10 s, and 5 s for its answer.
            async with asyncio.timeout(20):
                with pytest.raises(UnavailableError):
                    await anext(events)
            await wait_until(lambda: not gateway.ready, "the gateway knows")
        listener.close()
        await listener.wait_closed()
