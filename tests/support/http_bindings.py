"""What the tests of both HTTP bindings share: a handler that does as it is told, behind a real listener."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.bindings import http, jsonrpc
from a2a_grpc.server.bindings.asgi.card import CardEndpoint
from a2a_grpc.server.bindings.asgi.connection import ConnectionLimits
from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.bindings.asgi.health import Health
from a2a_grpc.server.bindings.asgi.listener import HttpListener
from a2a_grpc.server.bindings.asgi.router import Router
from a2a_grpc.server.bindings.asgi.types import App
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.card.published import PublishedCard, Request, publish
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.wire.errors import A2AError

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Saves httpx from loading the certificates of the whole world for each client."""

TASK = a2a_pb2.Task(
    id="t1",
    context_id="c1",
    status=a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_WORKING),
)
TASK_JSON = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}

MESSAGE_JSON = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}


def text_chunk(text: str) -> a2a_pb2.StreamResponse:
    """An artifact update with one text part."""
    artifact = a2a_pb2.Artifact(artifact_id="a1", parts=[a2a_pb2.Part(text=text)])
    return a2a_pb2.StreamResponse(
        artifact_update=a2a_pb2.TaskArtifactUpdateEvent(task_id="t1", context_id="c1", artifact=artifact, append=True)
    )


def status(state: a2a_pb2.TaskState) -> a2a_pb2.StreamResponse:
    """A status update."""
    update = a2a_pb2.TaskStatusUpdateEvent(task_id="t1", context_id="c1", status=a2a_pb2.TaskStatus(state=state))
    return a2a_pb2.StreamResponse(status_update=update)


def snapshot() -> a2a_pb2.StreamResponse:
    """The Task that a stream begins with."""
    return a2a_pb2.StreamResponse(task=TASK)


Unary = Callable[[str, Message, Call], Awaitable[Message]]
Stream = Callable[[str, Message, Call], AsyncIterator[Event]]


@dataclass
class ScriptedHandler:
    """A Handler whose answers a test writes; it remembers what it was asked."""

    on_unary: Unary | None = None
    on_stream: Stream | None = None
    calls: list[tuple[str, Message, Call]] = field(default_factory=list)
    open_streams: int = 0
    running: int = 0
    ended: list[str] = field(default_factory=list)
    """How each call ended: "returned", "cancelled", "closed", or the name of its exception."""

    async def admit(self, call: Call, tenant: str | None) -> None:
        """Anybody may call."""

    async def refused(self, call: Call, error: A2AError) -> None:
        """What the binding refuses is of no interest here."""

    async def unary(self, method: str, request: Message, call: Call) -> Message:
        self.calls.append((method, request, call))
        self.running += 1
        try:
            response = a2a_pb2.Task() if self.on_unary is None else await self.on_unary(method, request, call)
        except BaseException as error:
            self.ended.append("cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__)
            raise
        finally:
            self.running -= 1
        self.ended.append("returned")
        return response

    async def stream(self, method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        self.calls.append((method, request, call))
        assert self.on_stream is not None
        self.open_streams += 1
        try:
            async for event in self.on_stream(method, request, call):
                yield event
        except BaseException as error:
            names = {asyncio.CancelledError: "cancelled", GeneratorExit: "closed"}
            self.ended.append(names.get(type(error), type(error).__name__))
            raise
        finally:
            self.open_streams -= 1
        self.ended.append("returned")

    @property
    def request(self) -> Any:
        """The message of the last call."""
        return self.calls[-1][1]

    @property
    def call(self) -> Call:
        """The last call."""
        return self.calls[-1][2]


def answering(response: Message) -> Unary:
    """A script that answers every unary call with `response`."""

    async def answer(method: str, request: Message, call: Call) -> Message:
        return response

    return answer


def raising(error: Exception) -> Unary:
    """A script that fails every unary call with `error`."""

    async def fail(method: str, request: Message, call: Call) -> Message:
        raise error

    return fail


def emitting(*events: Event | Exception, wait: asyncio.Event | None = None) -> Stream:
    """A script that streams `events`; an exception among them is raised there, and `wait` is awaited at the end."""

    async def emit(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        for event in events:
            if isinstance(event, Exception):
                raise event
            yield event
        if wait is not None:
            await wait.wait()

    return emit


class StaticCards:
    """A CardSource over cards that are known from the start, by tenant."""

    def __init__(self, cards: dict[str, PublishedCard]) -> None:
        self._cards = cards

    async def public_card(self, tenant: str, _request: Request) -> PublishedCard | None:
        return self._cards.get(tenant)


def card() -> a2a_pb2.AgentCard:
    """A complete card."""
    return a2a_pb2.AgentCard(
        name="Echo",
        description="Says it again.",
        version="1.2.3",
        supported_interfaces=[
            a2a_pb2.AgentInterface(url="agent.example.com:443", protocol_binding="GRPC", protocol_version="1.0")
        ],
        capabilities=a2a_pb2.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[a2a_pb2.AgentSkill(id="echo", name="Echo", description="Says it again.", tags=["text"])],
    )


CARD_DATE = datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=UTC)


def published(**changes: Any) -> PublishedCard:
    """The published form of `card()` with some fields changed."""
    changed = card()
    for name, value in changes.items():
        setattr(changed, name, value)
    return publish(changed, CARD_DATE)


def compose(
    handler: ScriptedHandler,
    *,
    cards: dict[str, PublishedCard] | None = None,
    readiness: Readiness | None = None,
    cors: Cors | None = None,
    heartbeat: float = 15.0,
    **limits: Any,
) -> Router:
    """Everything that the HTTP port serves, as main puts it together."""
    return Router(
        gateway=http.create_app(handler, cors=cors, heartbeat=heartbeat, **limits),
        jsonrpc=jsonrpc.create_app(handler, cors=cors, heartbeat=heartbeat, **limits),
        card=CardEndpoint(StaticCards({"": published()} if cards is None else cards), cors=cors),
        health=Health(readiness or Readiness()),
    )


@contextlib.asynccontextmanager
async def listening(app: App, limits: ConnectionLimits | None = None) -> AsyncIterator[tuple[HttpListener, int]]:
    """`app` behind a listener on a free port of the loopback; the listener, and its port."""
    listener = HttpListener(app, "127.0.0.1", 0, limits=limits)
    port = await listener.start()
    try:
        yield listener, port
    finally:
        await listener.stop(grace=0.0)


@contextlib.asynccontextmanager
async def serving(handler: ScriptedHandler, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a server that serves `handler` on both HTTP bindings."""
    async with (
        listening(compose(handler, **options)) as (_, port),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10.0, verify=_NO_TLS) as client,
    ):
        yield client


@dataclass(frozen=True)
class SseEvent:
    """One server-sent event as it was read."""

    data: Any
    id: str | None = None
    type: str = "message"


def parse_sse(text: str) -> list[SseEvent]:
    """The events of a whole stream; every event must be framed as DESIGN says: one data line."""
    events = []
    for block in text.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            fields = dict(line.split(": ", 1) for line in lines)
            assert sum(line.startswith("data:") for line in lines) == 1, block
            data = json.loads(fields["data"])
            events.append(SseEvent(data, fields.get("id"), fields.get("event", "message")))
    return events


class RawConnection:
    """A TCP connection for what a proper HTTP client would never send."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next response."""
        async with asyncio.timeout(5):
            raw = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        return int(first.split(" ")[1]), headers

    async def response(self) -> tuple[int, dict[str, str], bytes]:
        """The next response, which must have a Content-Length."""
        code, headers = await self.head()
        async with asyncio.timeout(5):
            body = await self.reader.readexactly(int(headers["content-length"]))
        return code, headers, body

    async def chunk(self) -> bytes:
        """The next chunk of a chunked response; b"" is its proper end."""
        async with asyncio.timeout(5):
            size = int(await self.reader.readline(), 16)
            data = await self.reader.readexactly(size + 2)
        return data[:-2]

    async def at_end(self) -> bool:
        """Whether the server has closed the connection and sent nothing more."""
        async with asyncio.timeout(5):
            return await self.reader.read(1) == b""

    def reset(self) -> None:
        """Vanish with a TCP RST."""
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[RawConnection]:
    """A raw connection to the loopback port."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield RawConnection(reader, writer)
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def http_request(verb: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """The bytes of a request; `headers` by name with underscores."""
    lines = [f"{verb} {path} HTTP/1.1", "host: test"]
    if body and "transfer_encoding" not in headers and "content_length" not in headers:
        lines.append(f"content-length: {len(body)}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
