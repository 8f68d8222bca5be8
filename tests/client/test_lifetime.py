"""Connections are opened once and closed for good: B119 of the field reports."""

# ruff: noqa: ARG002 - a method of a servicer takes what gRPC gives it

import asyncio
import gc
import socket
from collections.abc import AsyncIterator

import psutil
import pytest

from a2a_grpc.client import A2AClient, CardResolver, UnavailableError, message
from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from tests.client.peers import (
    SSE_HEAD,
    HttpPeer,
    Request,
    answer_to,
    card,
    events_for,
    grpc_peer,
    http_peer,
    operation_of,
    response,
    task,
    task_event,
)
from tests.support.waiting import wait_until

WORKING = a2a_pb2.TASK_STATE_WORKING
GET = a2a_pb2.GetTaskRequest(id="t1")
SEND = a2a_pb2.SendMessageRequest(message=message("hello"))


class Agent:
    """Has one task, and streams that do not end."""

    async def get_task(self, request: a2a_pb2.GetTaskRequest, context: object) -> a2a_pb2.Task:
        return task(WORKING, request.id)

    async def send_message(self, request: a2a_pb2.SendMessageRequest, context: object) -> a2a_pb2.SendMessageResponse:
        await asyncio.Event().wait()
        return a2a_pb2.SendMessageResponse()

    async def send_streaming_message(
        self, request: a2a_pb2.SendMessageRequest, context: object
    ) -> AsyncIterator[a2a_pb2.StreamResponse]:
        yield task_event(WORKING)
        await asyncio.Event().wait()


async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
    if request.target.endswith("agent-card.json"):
        url = f"http://{request.headers['host']}"
        writer.write(response(body=protojson.dumps(card(("HTTP+JSON", "1.0", url)))))
        return
    match operation_of(request):
        case "SendStreamingMessage":
            writer.write(SSE_HEAD + events_for(request, task_event(WORKING)))
            await asyncio.Event().wait()
        case "SendMessage":
            await asyncio.Event().wait()
        case _:
            writer.write(answer_to(request, task(WORKING, "t1")))


@pytest.fixture
async def address() -> AsyncIterator[str]:
    async with grpc_peer(Agent()) as address:
        yield address


@pytest.fixture
async def peer() -> AsyncIterator[HttpPeer]:
    async with http_peer(respond) as peer:
        yield peer


@pytest.fixture(params=BINDINGS)
async def agent(request: pytest.FixtureRequest, address: str, peer: HttpPeer) -> a2a_pb2.AgentCard:
    return card((request.param, "1.0", address if request.param == "GRPC" else peer.url))


def connections() -> int:
    """Of this process to anybody, its own servers included."""
    gc.collect()
    return len([c for c in psutil.Process().net_connections("tcp") if c.status == psutil.CONN_ESTABLISHED])


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
async def test_b119_clients_one_after_another_leave_nothing_behind(agent: a2a_pb2.AgentCard, count: int) -> None:
    async def one() -> None:
        async with await A2AClient.connect(agent) as client:
            await client.get_task(GET)

    for _ in range(20):
        await one()
    files = psutil.Process().num_fds()
    for _ in range(count):
        await one()

    # Sockets that the servers are about to close are the rest of the last few clients.
    assert psutil.Process().num_fds() <= files + 10


async def test_one_client_has_one_connection(agent: a2a_pb2.AgentCard) -> None:
    before = connections()
    async with await A2AClient.connect(agent) as client:
        for _ in range(50):
            await client.get_task(GET)
        assert connections() - before == 2  # both its ends are in this process


async def test_a_resolver_keeps_its_connection_for_the_next_card(peer: HttpPeer) -> None:
    before = connections()
    async with CardResolver() as resolver:
        for _ in range(5):
            async with await A2AClient.connect(peer.url, resolver=resolver):
                assert connections() - before == 2


async def test_b119_closing_ends_streams_and_calls_with_an_error_and_at_once(agent: a2a_pb2.AgentCard) -> None:
    """Not with CancelledError: nobody has cancelled the tasks that wait."""
    client = await A2AClient.connect(agent)
    stream = client.send_streaming_message(SEND)
    await anext(stream)
    rest = asyncio.create_task(anext(stream, None))
    call = asyncio.create_task(client.send_message(SEND))
    await client.get_task(GET)  # by now the other two are on their way

    async with asyncio.timeout(2):
        await client.aclose()
        for waiting in (rest, call):
            with pytest.raises(UnavailableError, match="client was closed"):
                await waiting
    await client.aclose()


async def test_a_closed_client_says_so(agent: a2a_pb2.AgentCard) -> None:
    async with await A2AClient.connect(agent) as client:
        pass

    with pytest.raises(RuntimeError, match="closed"):
        await client.get_task(GET)
    with pytest.raises(RuntimeError, match="closed"):
        await anext(client.send_streaming_message(SEND))


async def test_b119_another_event_loop_gets_a_clear_error_and_the_client_lives_on(agent: a2a_pb2.AgentCard) -> None:
    async with await A2AClient.connect(agent) as client:

        def elsewhere() -> None:
            asyncio.run(client.get_task(GET))

        with pytest.raises(RuntimeError, match="belongs to another event loop"):
            await asyncio.to_thread(elsewhere)
        assert (await client.get_task(GET)).id == "t1"


async def test_a_client_that_could_not_connect_leaves_nothing_behind() -> None:
    async def fail() -> None:
        with pytest.raises(UnavailableError):
            await A2AClient.connect("grpc://127.0.0.1:1")

    await fail()  # what gRPC opens once for the process
    before = psutil.Process().num_fds()
    for _ in range(20):
        await fail()

    await wait_until(lambda: psutil.Process().num_fds() <= before, "gRPC has closed what it tried")


async def test_a_connect_that_is_given_up_leaves_nothing_behind_when_its_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        target = f"grpc://127.0.0.1:{silent.getsockname()[1]}"

        async def give_up() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await A2AClient.connect(target, connect_timeout=0.5)

        await give_up()
        before = psutil.Process().num_fds()
        for _ in range(20):
            await give_up()

        await wait_until(lambda: psutil.Process().num_fds() <= before, "gRPC has closed what it tried")
