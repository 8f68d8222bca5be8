"""Other sides of a connection: servers that answer exactly what a test wants, on real sockets."""

import asyncio
import json
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson, rules
from a2a_grpc.wire.errors import A2AError, error_body, jsonrpc_error, to_status
from a2a_grpc.wire.rules import OPERATIONS

M = TypeVar("M", bound=Message)
Context = grpc.aio.ServicerContext[Message, Message]


@dataclass
class Request:
    """What an HTTP server was asked."""

    verb: str
    target: str
    headers: dict[str, str]
    body: bytes


Respond = Callable[[Request, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@dataclass
class HttpPeer:
    """An HTTP/1.1 server on 127.0.0.1 that keeps every request."""

    port: int
    scheme: str
    requests: list[Request] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """A caller has closed its connection before it had an answer."""

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return f"{self.scheme}://127.0.0.1:{self.port}"


@asynccontextmanager
async def http_peer(respond: Respond, tls: ssl.SSLContext | None = None) -> AsyncIterator[HttpPeer]:
    """Serves with `respond`, which writes the whole response, and is cancelled when the caller leaves."""
    peer = HttpPeer(0, "https" if tls else "http")
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            while not writer.is_closing():
                request = await _read(reader)
                peer.requests.append(request)
                await _while_connected(respond(request, writer), reader, peer.left)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


async def _while_connected(work: Coroutine[Any, Any, None], reader: asyncio.StreamReader, left: asyncio.Event) -> None:
    working = asyncio.create_task(work)
    watching = asyncio.create_task(reader.read(1))  # no client sends its next request before it has its answer
    try:
        await asyncio.wait([working, watching], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            left.set()
            raise ConnectionResetError
        await working
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.gather(working, watching, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *fields = head.rstrip().split("\r\n")
    verb, target, _ = line.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (item.partition(":") for item in fields)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(verb, target, headers, body)


def response(
    status: int = 200,
    body: bytes = b"",
    media_type: str = "application/a2a+json",
    headers: dict[str, str] | None = None,
) -> bytes:
    """A whole HTTP response."""
    fields = {"content-type": media_type, "content-length": str(len(body)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} Reason\r\n{head}\r\n".encode() + body


SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
"""The beginning of a stream of events that ends with its connection."""


def sse(*events: a2a_pb2.StreamResponse) -> bytes:
    """Events as they stand in the body of a stream."""
    return b"".join(b"data: " + protojson.dumps(event) + b"\n\n" for event in events)


def operation_of(request: Request) -> str:
    """What a request asks for, over HTTP+JSON or JSON-RPC."""
    found = rpc(request)
    return str(found["method"]) if found else rules.match(request.verb, request.target.partition("?")[0]).method


def rpc(request: Request) -> dict[str, Any] | None:
    """The request object of JSON-RPC; None for a request of HTTP+JSON."""
    value = json.loads(request.body) if request.body else None
    return value if isinstance(value, dict) and "jsonrpc" in value else None


def params_of(request: Request, request_type: type[M]) -> M:
    """The message that a request holds in its body."""
    found = rpc(request)
    return protojson.from_dict(found["params"] if found else protojson.parse(request.body), request_type)


def data(request: Request, answer: Message | A2AError) -> bytes:
    """What stands in the body of an answer, or in the data of an event, in the binding of the request."""
    found = rpc(request)
    if isinstance(answer, A2AError):
        whole: dict[str, Any] = {"error": jsonrpc_error(answer)} if found else error_body(answer)
    else:
        whole = {"result": protojson.to_dict(answer)} if found else protojson.to_dict(answer)
    return json.dumps({"jsonrpc": "2.0", "id": found["id"], **whole} if found else whole).encode()


def answer_to(request: Request, answer: Message | A2AError) -> bytes:
    """A whole response in the binding of the request."""
    status = answer.kind.http if isinstance(answer, A2AError) and rpc(request) is None else 200
    return response(status, data(request, answer), "application/json")


def events_for(request: Request, *events: a2a_pb2.StreamResponse) -> bytes:
    """Events as they stand in the body of a stream, in the binding of the request."""
    return b"".join(b"data: " + data(request, event) + b"\n\n" for event in events)


def task(state: a2a_pb2.TaskState, task_id: str = "t1", *artifacts: a2a_pb2.Artifact) -> a2a_pb2.Task:
    """A task in a state."""
    return a2a_pb2.Task(id=task_id, context_id="c1", status=a2a_pb2.TaskStatus(state=state), artifacts=artifacts)


def task_event(state: a2a_pb2.TaskState, task_id: str = "t1") -> a2a_pb2.StreamResponse:
    """The event that starts a stream."""
    return a2a_pb2.StreamResponse(task=task(state, task_id))


def status_event(state: a2a_pb2.TaskState, task_id: str = "t1") -> a2a_pb2.StreamResponse:
    """The event of a change of state."""
    update = a2a_pb2.TaskStatusUpdateEvent(task_id=task_id, context_id="c1", status=a2a_pb2.TaskStatus(state=state))
    return a2a_pb2.StreamResponse(status_update=update)


def message_event(text: str) -> a2a_pb2.StreamResponse:
    """The only event of an answer without a task."""
    message = a2a_pb2.Message(message_id="m1", role=a2a_pb2.ROLE_AGENT, parts=[a2a_pb2.Part(text=text)])
    return a2a_pb2.StreamResponse(message=message)


@asynccontextmanager
async def grpc_peer(agent: object, credentials: grpc.ServerCredentials | None = None) -> AsyncIterator[str]:
    """Serves the operations that `agent` has methods for (`send_message(request, context)`, …); yields host:port.

    Calls that still run at the end are cut.
    """
    server = await start_grpc(agent, "127.0.0.1:0", credentials)
    try:
        yield server.address
    finally:
        await server.server.stop(None)


class GrpcServer(NamedTuple):
    """A running gRPC server and its host:port."""

    server: grpc.aio.Server
    address: str


async def start_grpc(agent: object, address: str, credentials: grpc.ServerCredentials | None = None) -> GrpcServer:
    """Starts what `grpc_peer` serves."""
    handlers = {}
    for operation in OPERATIONS.values():
        method = getattr(agent, re.sub("(?!^)([A-Z])", r"_\1", operation.name).lower(), None)
        make = grpc.unary_stream_rpc_method_handler if operation.streaming else grpc.unary_unary_rpc_method_handler
        if method is not None:
            handlers[operation.name] = make(
                method,
                request_deserializer=operation.request.FromString,
                response_serializer=operation.response.SerializeToString,
            )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("lf.a2a.v1.A2AService", handlers)])
    port = server.add_secure_port(address, credentials) if credentials else server.add_insecure_port(address)
    await server.start()
    return GrpcServer(server, f"127.0.0.1:{port}")


async def refuse(context: Context, error: A2AError) -> None:
    """Ends a call with an error as the protocol has it on gRPC (10.6)."""
    status = to_status(error)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    code = next(code for code in grpc.StatusCode if code.value[0] == status.code)
    await context.abort(code, status.message)


def card(*interfaces: tuple[str, str, str] | tuple[str, str, str, str], streaming: bool = True) -> a2a_pb2.AgentCard:
    """A card with interfaces (binding, version, url, tenant)."""
    return a2a_pb2.AgentCard(
        name="Peer",
        description="A peer.",
        version="1",
        capabilities=a2a_pb2.AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[a2a_pb2.AgentSkill(id="s", name="S", description="A skill.", tags=["t"])],
        supported_interfaces=[
            a2a_pb2.AgentInterface(
                protocol_binding=binding, protocol_version=version, url=url, tenant=tenant[0] if tenant else ""
            )
            for binding, version, url, *tenant in interfaces
        ],
    )


def dead_port() -> int:
    """A port of 127.0.0.1 where nobody listens: 1 belongs to a service that no machine runs."""
    return 1


class Relay:
    """A TCP proxy that can reset, cut, delay and lose what it carries."""

    def __init__(self, target: str) -> None:
        self.target = target
        """host:port where new connections are carried to; may change at any time."""
        self.address = ""
        self.carried = asyncio.Event()
        """The caller has sent something that was carried on."""
        self.accepted = 0
        """How many connections it was asked for so far."""
        self.lifetime: float | None = None
        """Seconds after which a connection is closed, whatever it carries, as balancers do; None: never."""
        self.delay = 0.0
        """Seconds that everything takes longer, in either direction."""
        self._open = asyncio.Event()
        self._open.set()
        self._connections: set[asyncio.StreamWriter] = set()

    def stall(self) -> None:
        """Carries nothing any more and closes nothing: what a lost route looks like from both ends."""
        self._open.clear()

    def flow(self) -> None:
        """Ends `stall`; what was kept back goes on."""
        self._open.set()

    def reset(self) -> None:
        """Ends every connection at once with a reset, as a router that forgets them does. New ones are carried."""
        for writer in self._connections:
            end = writer.get_extra_info("socket")
            if end.fileno() >= 0:  # one that its peer has closed is gone already
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
        self._connections.clear()


@asynccontextmanager
async def relay(target: str) -> AsyncIterator[Relay]:
    """Carries connections to `target` (host:port). Where nobody listens there, a connection is closed at once."""
    between = Relay(target)
    tasks: set[asyncio.Task[None]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, carried: asyncio.Event | None) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                await between._open.wait()
                await asyncio.sleep(between.delay)
                writer.write(data)
                await writer.drain()
                if carried is not None:
                    carried.set()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        between.accepted += 1
        host, _, port = between.target.rpartition(":")
        try:
            to_reader, to_writer = await asyncio.open_connection(host, int(port))
        except ConnectionError:
            writer.close()
            return
        between._connections |= {writer, to_writer}
        with suppress(asyncio.CancelledError, TimeoutError):
            async with asyncio.timeout(between.lifetime):
                await asyncio.gather(carry(reader, to_writer, between.carried), carry(to_reader, writer, None))
        for end in (writer, to_writer):
            end.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    between.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield between
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)
