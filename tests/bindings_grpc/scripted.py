"""A Handler whose answers a test writes down, behind a real server."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc.aio
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from a2a_grpc.server.bindings.grpc.server import create_server
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.card.published import CardSource
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.wire.errors import A2AError

Unary = Callable[[str, Message, Call], Awaitable[Message]]
Stream = Callable[[str, Message, Call], AsyncIterator[Event]]

RESPONSES: dict[str, type[Message]] = {
    "SendMessage": a2a_pb2.SendMessageResponse,
    "GetTask": a2a_pb2.Task,
    "ListTasks": a2a_pb2.ListTasksResponse,
    "CancelTask": a2a_pb2.Task,
    "CreateTaskPushNotificationConfig": a2a_pb2.TaskPushNotificationConfig,
    "GetTaskPushNotificationConfig": a2a_pb2.TaskPushNotificationConfig,
    "ListTaskPushNotificationConfigs": a2a_pb2.ListTaskPushNotificationConfigsResponse,
    "GetExtendedAgentCard": a2a_pb2.AgentCard,
    "DeleteTaskPushNotificationConfig": Empty,
}


async def empty_response(method: str, request: Message, call: Call) -> Message:
    """The empty response of the right type."""
    return RESPONSES[method]()


async def three_chunks(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
    """A task snapshot at 4, then the chunks 5 to 7."""
    yield Event(4, a2a_pb2.StreamResponse(task=a2a_pb2.Task(id="t-1")))
    for seq in range(5, 8):
        yield Event(seq, chunk(f"chunk {seq}"))


def chunk(text: str) -> a2a_pb2.StreamResponse:
    """An artifact update that holds `text`."""
    artifact = a2a_pb2.Artifact(artifact_id="a-1", parts=[a2a_pb2.Part(text=text)])
    return a2a_pb2.StreamResponse(artifact_update=a2a_pb2.TaskArtifactUpdateEvent(task_id="t-1", artifact=artifact))


class Scripted:
    """Records the calls and answers as told."""

    def __init__(self, unary: Unary = empty_response, stream: Stream = three_chunks) -> None:
        self.on_unary = unary
        self.on_stream = stream
        self.requests: list[Message] = []
        self.calls: list[Call] = []
        self.streams: list[
            AsyncIterator[Event]
        ] = []  # held, so that nobody leaves closing them to the garbage collector

    async def admit(self, call: Call, tenant: str | None) -> None:
        """Anybody may call."""

    async def refused(self, call: Call, error: A2AError) -> None:
        """What the binding refuses is of no interest here."""

    async def unary(self, method: str, request: Message, call: Call) -> Message:
        self.requests.append(request)
        self.calls.append(call)
        return await self.on_unary(method, request, call)

    def stream(self, method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        self.requests.append(request)
        self.calls.append(call)
        self.streams.append(self.on_stream(method, request, call))
        return self.streams[-1]


def ready() -> Readiness:
    """A readiness that is ready."""
    readiness = Readiness()
    readiness.set("test", ready=True)
    return readiness


@contextlib.asynccontextmanager
async def serving(
    handler: Scripted, cards: CardSource | None = None, readiness: Readiness | None = None, **options: Any
) -> AsyncIterator[str]:
    """The address of a server for `handler`, which ends with the block."""
    server = create_server(handler, cards, readiness or ready(), addr=options.pop("addr", "127.0.0.1:0"), **options)
    port = await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@contextlib.asynccontextmanager
async def calling(handler: Scripted, **options: Any) -> AsyncIterator[A2AServiceStub]:
    """A stub that is connected to a server for `handler`."""
    async with serving(handler, **options) as address, grpc.aio.insecure_channel(address) as channel:
        yield A2AServiceStub(channel)
