"""A gRPC server in front of another one: it passes calls on, and refuses the first ones of SendMessage."""

import asyncio
import time
from collections.abc import AsyncIterator

import grpc
from google.protobuf.any_pb2 import Any
from google.rpc import code_pb2, error_details_pb2, status_pb2

from a2a_grpc.pb import a2a_pb2

_DETAILS = "grpc-status-details-bin"
_SEND = "/lf.a2a.v1.A2AService/SendMessage"


class Front(grpc.GenericRpcHandler):
    """Answers the first `refusals` calls of SendMessage with UNAVAILABLE and a RetryInfo of `wait` seconds."""

    def __init__(self, upstream: str, *, refusals: int, wait: float) -> None:
        self._upstream = grpc.aio.insecure_channel(upstream)
        self._refusals = refusals
        self._wait = wait
        self.sent: list[tuple[float, a2a_pb2.SendMessageRequest]] = []
        """When a SendMessage came (in seconds, monotonic), and what it was."""
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    async def start(self) -> None:
        await self._server.start()

    async def close(self) -> None:
        await self._server.stop(None)
        await self._upstream.close()

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        method = str(details.method)
        target: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self._upstream.unary_stream(method)

        # On the wire a unary answer is a stream of one, and bytes pass unread.
        async def call(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> AsyncIterator[bytes]:
            if method == _SEND:
                self.sent.append((time.monotonic(), a2a_pb2.SendMessageRequest.FromString(request)))
                if len(self.sent) <= self._refusals:
                    await self._refuse(context)
            upstream = target(request, metadata=details.invocation_metadata)
            try:
                await context.send_initial_metadata(await upstream.initial_metadata())
                async for answer in upstream:
                    yield answer
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details() or "", tuple(error.trailing_metadata()))
            except asyncio.CancelledError:
                upstream.cancel()
                raise

        return grpc.unary_stream_rpc_method_handler(call)

    async def _refuse(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        info = error_details_pb2.RetryInfo()
        info.retry_delay.FromMilliseconds(round(self._wait * 1000))
        detail = Any()
        detail.Pack(info)
        status = status_pb2.Status(code=code_pb2.UNAVAILABLE, message="Not now.", details=[detail])
        await context.abort(
            grpc.StatusCode.UNAVAILABLE, status.message, trailing_metadata=((_DETAILS, status.SerializeToString()),)
        )
