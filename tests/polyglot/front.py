"""A gRPC server in front of another one: it passes calls on, but refuses some and cuts the connection of others."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import grpc
from google.protobuf.any_pb2 import Any
from google.rpc import code_pb2, error_details_pb2, status_pb2

from a2a_grpc.pb import a2a_pb2

_DETAILS = "grpc-status-details-bin"
_SEND = "/lf.a2a.v1.A2AService/SendMessage"
_STREAM = "/lf.a2a.v1.A2AService/SendStreamingMessage"


class Front:
    """Answers the first calls of SendMessage with the codes of `refusals` and a RetryInfo of `wait` seconds.

    Cuts every connection, with a reset, when the first `cuts` calls of SendStreamingMessage have brought two events.
    """

    def __init__(
        self, upstream: str, *, refusals: Sequence[grpc.StatusCode] = (), wait: float = 0.0, cuts: int = 0
    ) -> None:
        self._upstream = upstream
        self._refusals = refusals
        self._wait = wait
        self._cuts = cuts
        self._writers: set[asyncio.StreamWriter] = set()
        self.sent: list[tuple[float, a2a_pb2.SendMessageRequest]] = []
        """When a SendMessage came (in seconds, monotonic), and what it was."""
        self.streamed: list[tuple[a2a_pb2.SendMessageRequest, str | None]] = []
        """Each SendStreamingMessage with its `last-event-id`."""
        self.cut = 0
        """How many streams were cut off."""

    async def start(self) -> str:
        """Starts, and returns its address."""
        self._channel = grpc.aio.insecure_channel(self._upstream)
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((_Handler(self),))
        self._port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        self._door = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        return "{}:{}".format(*self._door.sockets[0].getsockname())

    async def close(self) -> None:
        """Ends all of it."""
        self._door.close()
        self._cut_all()
        await self._server.stop(None)
        await self._channel.close()

    async def pass_on(
        self, details: grpc.HandlerCallDetails, request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> AsyncIterator[bytes]:
        """Answers one call. On the wire a unary answer is a stream of one, and bytes pass unread."""
        metadata = tuple(details.invocation_metadata)
        cut = False
        if details.method == _SEND:
            self.sent.append((time.monotonic(), a2a_pb2.SendMessageRequest.FromString(request)))
            if len(self.sent) <= len(self._refusals):
                await self._refuse(context, self._refusals[len(self.sent) - 1])
        elif details.method == _STREAM:
            number = next((str(value) for key, value in metadata if key == "last-event-id"), None)
            self.streamed.append((a2a_pb2.SendMessageRequest.FromString(request), number))
            cut = len(self.streamed) <= self._cuts
        call: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._channel.unary_stream(str(details.method))
        upstream = call(request, metadata=metadata)
        try:
            await context.send_initial_metadata(await upstream.initial_metadata())
            brought = 0
            async for answer in upstream:
                yield answer
                brought += 1
                if cut and brought == 2:
                    self.cut += 1
                    self._cut_all()
        except grpc.aio.AioRpcError as error:
            await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata()))
        finally:
            upstream.cancel()

    async def _refuse(self, context: grpc.aio.ServicerContext[bytes, bytes], code: grpc.StatusCode) -> None:
        info = error_details_pb2.RetryInfo()
        info.retry_delay.FromMilliseconds(round(self._wait * 1000))
        detail = Any()
        detail.Pack(info)
        status = status_pb2.Status(code=code_pb2.Code.Value(code.name), message="Not now.", details=[detail])
        await context.abort(code, status.message, trailing_metadata=((_DETAILS, status.SerializeToString()),))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carries the bytes of one connection between its caller and the gRPC server."""
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, server_writer}
        await asyncio.gather(_copy(reader, server_writer), _copy(server_reader, writer))
        self._writers -= {writer, server_writer}

    def _cut_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.transport.abort()


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, front: Front) -> None:
        self._front = front

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        async def call(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> AsyncIterator[bytes]:
            async for answer in self._front.pass_on(details, request, context):
                yield answer

        return grpc.unary_stream_rpc_method_handler(call)
