"""Which interface a stream goes to, and for which tenant (specification 8.3.2)."""

# ruff: noqa: ARG002 - a method of a servicer takes what gRPC gives it

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from a2a_grpc.client import A2AClient, NotConnectedError, message
from a2a_grpc.client.interfaces import BINDINGS, GRPC, HTTP_JSON, JSONRPC
from a2a_grpc.pb import a2a_pb2 as pb
from tests.client.peers import SSE_HEAD, Context, Request, card, dead_port, events_for, grpc_peer, http_peer, task_event

DEAD = f"http://127.0.0.1:{dead_port()}"
DONE = task_event(pb.TASK_STATE_COMPLETED)
SEND = pb.SendMessageRequest(message=message("hello"), tenant="of the caller")
SUBSCRIBE = pb.SubscribeToTaskRequest(id="t1", tenant="of the caller")


class Agent:
    """Ends every stream with its first event, and keeps the operation and the tenant that each was for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def send_streaming_message(
        self, request: pb.SendMessageRequest, context: Context
    ) -> AsyncIterator[pb.StreamResponse]:
        self.asked.append(("send", request.tenant))
        yield DONE

    async def subscribe_to_task(
        self, request: pb.SubscribeToTaskRequest, context: Context
    ) -> AsyncIterator[pb.StreamResponse]:
        self.asked.append(("subscribe", request.tenant))
        yield DONE

    async def over_http(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target == "/":
            found = json.loads(request.body)
            name = {"SendStreamingMessage": "send", "SubscribeToTask": "subscribe"}[found["method"]]
            self.asked.append((name, found["params"].get("tenant", "")))
        else:
            tenant, _, rest = request.target.removeprefix("/").partition("/")
            self.asked.append(({"message:stream": "send", "tasks/t1:subscribe": "subscribe"}[rest], tenant))
        writer.write(SSE_HEAD + events_for(request, DONE))
        writer.close()


@asynccontextmanager
async def served(agent: Agent, binding: str) -> AsyncIterator[str]:
    if binding == GRPC:
        async with grpc_peer(agent) as address:
            yield address
    else:
        async with http_peer(agent.over_http) as peer:
            yield peer.url


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


async def streams(client: A2AClient) -> list[list[pb.StreamResponse]]:
    """The events of a message, and those of a subscription."""
    return [
        [event async for event in stream]
        for stream in (client.send_streaming_message(SEND), client.subscribe_to_task(SUBSCRIBE))
    ]


async def test_a_stream_is_for_the_tenant_of_its_interface(binding: str) -> None:
    """It takes the place of what the caller's request says."""
    agent = Agent()
    async with served(agent, binding) as url, await A2AClient.connect(card((binding, "1.0", url, "acme"))) as client:
        assert await streams(client) == [[DONE], [DONE]]
    assert agent.asked == [("send", "acme"), ("subscribe", "acme")]


@pytest.mark.parametrize("first", [HTTP_JSON, JSONRPC])
@pytest.mark.parametrize("operation", ["send", "subscribe"])
async def test_a_stream_goes_to_the_next_interface_when_the_first_refuses_the_connection(
    binding: str, first: str, operation: str
) -> None:
    """Over HTTP that shows with the first call. The next call begins where this one was answered."""
    agent = Agent()
    async with served(agent, binding) as url:
        found = card((first, "1.0", DEAD, "one"), (binding, "1.0", url, "two"))
        async with await A2AClient.connect(found) as client:
            assert client.interface.url == DEAD
            stream = client.send_streaming_message(SEND) if operation == "send" else client.subscribe_to_task(SUBSCRIBE)
            assert [event async for event in stream] == [DONE]
            assert client.interface.url == url
    assert agent.asked == [(operation, "two")]


async def test_a_stream_that_no_interface_takes_names_them_all() -> None:
    found = card((HTTP_JSON, "1.0", f"{DEAD}/one"), (JSONRPC, "1.0", f"{DEAD}/two"))
    async with await A2AClient.connect(found) as client:
        for stream in (client.send_streaming_message(SEND), client.subscribe_to_task(SUBSCRIBE)):
            with pytest.raises(NotConnectedError) as caught:
                await anext(stream)
            assert f"{DEAD}/one" in caught.value.message and f"{DEAD}/two" in caught.value.message
