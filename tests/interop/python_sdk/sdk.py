"""The official Python client, as its users set it up: the card's URL and a binding are all it is given."""

import uuid
from collections.abc import AsyncIterator, Iterable

import grpc.aio
from a2a.client import Client, ClientConfig, create_client
from a2a.types import (
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
)

BINDINGS = ("GRPC", "HTTP+JSON", "JSONRPC")


async def connect(card_url: str, binding: str, *, streaming: bool = True, polling: bool = False) -> Client:
    """A client that read the card at `card_url` and speaks `binding`. Close it after use."""
    config = ClientConfig(
        supported_protocol_bindings=[binding],
        grpc_channel_factory=grpc.aio.insecure_channel,
        streaming=streaming,
        polling=polling,
    )
    return await create_client(card_url, config)


def request(
    text: str,
    *,
    prefix: str = "python",
    task_id: str = "",
    context_id: str = "",
    parts: Iterable[Part] | None = None,
    configuration: SendMessageConfiguration | None = None,
) -> SendMessageRequest:
    """A message of the user. Its id is fresh, since a repeated one is a retry; its prefix can choose what happens."""
    message = Message(
        message_id=f"{prefix}-{uuid.uuid4().hex}",
        role=Role.ROLE_USER,
        parts=[Part(text=text)] if parts is None else parts,
        task_id=task_id,
        context_id=context_id,
    )
    return SendMessageRequest(message=message, configuration=configuration)


async def send(client: Client, sent: SendMessageRequest) -> Task:
    """The task that answers a message which is sent without streaming."""
    [response] = [response async for response in client.send_message(sent)]
    assert response.HasField("task"), response
    return response.task


async def collect(events: AsyncIterator[StreamResponse]) -> list[StreamResponse]:
    """All events of a stream that ends by itself."""
    return [event async for event in events]


def kinds(events: Iterable[StreamResponse]) -> list[str]:
    """What each event is: "task", "message", "status_update" or "artifact_update"."""
    return [str(event.WhichOneof("payload")) for event in events]


def texts(task: Task) -> list[str]:
    """The text of each artifact, its parts joined."""
    return ["".join(part.text for part in artifact.parts) for artifact in task.artifacts]
