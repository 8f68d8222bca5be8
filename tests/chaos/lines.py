"""How the suite's callers speak: bare gRPC and bare HTTP, without the client that the project ships."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Protocol, TypeVar

import grpc
import httpx
from google.protobuf.message import Message
from google.rpc import status_pb2

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import from_error_body, from_status
from a2a_grpc.wire.rules import to_http
from a2a_grpc.wire.sequence import EVENT_SEQUENCE, take_sequence
from tests.chaos.history import LATE, LOST, Call
from tests.support.replica import Replica

M = TypeVar("M", bound=Message)

_CONNECT = 1.0


class FailedError(Exception):
    """A call that was not answered with OK: `outcome` as in `Call`, `detail` for people."""

    def __init__(self, outcome: str, detail: str) -> None:
        super().__init__(f"{outcome}: {detail}")
        self.outcome = outcome
        self.detail = detail


class Line(Protocol):
    """A caller's connection to one replica. Whatever fails is a FailedError."""

    binding: str

    async def unary(self, call: Call, request: Message, answer: type[M], timeout: float) -> M:
        """One call, and its answer."""
        ...

    def stream(self, call: Call, request: Message) -> AsyncGenerator[tuple[int, a2a_pb2.StreamResponse], None]:
        """The events with their numbers; sets `call.resumed`, and sends `call.cursor`."""
        ...

    async def cut(self) -> None:
        """Break the connection under whatever goes over it; there is another one afterwards."""
        ...

    async def close(self) -> None:
        """Break it for good."""
        ...


class GrpcLine:
    """Over gRPC."""

    binding = "grpc"

    def __init__(self, replica: Replica, key: str) -> None:
        self._replica = replica
        self._metadata = (("a2a-version", "1.0"), ("x-api-key", key), ("a2a-extensions", EVENT_SEQUENCE))
        self._open()

    def _open(self) -> None:
        self._channel = grpc.aio.insecure_channel(
            self._replica.grpc_addr,
            [
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 300),
                ("grpc.min_reconnect_backoff_ms", round(_CONNECT * 1000)),
                ("grpc.use_local_subchannel_pool", 1),
            ],
        )
        self._stub = a2a_pb2_grpc.A2AServiceStub(self._channel)

    async def unary(self, call: Call, request: Message, answer: type[M], timeout: float) -> M:  # noqa: ARG002
        method: Any = getattr(self._stub, call.operation)
        try:
            found: M = await method(request, metadata=self._metadata, timeout=timeout)
        except grpc.aio.AioRpcError as error:
            raise _from_rpc(error) from error
        except asyncio.CancelledError:
            raise _unless_cancelled() from None
        return found

    async def stream(self, call: Call, request: Message) -> AsyncGenerator[tuple[int, a2a_pb2.StreamResponse], None]:
        metadata = list(self._metadata)
        if call.cursor is not None:
            metadata.append(("last-event-id", str(call.cursor)))
        method: Any = getattr(self._stub, call.operation)
        stream: Any = method(request, metadata=metadata)
        try:
            for key, value in await stream.initial_metadata():
                if key == "last-event-id":
                    call.resumed = int(value)
            async for response in stream:
                seq = take_sequence(response)
                yield seq, response
        except grpc.aio.AioRpcError as error:
            raise _from_rpc(error) from error
        except asyncio.CancelledError:
            raise _unless_cancelled() from None
        finally:
            stream.cancel()

    async def cut(self) -> None:
        channel = self._channel
        self._open()
        await channel.close()

    async def close(self) -> None:
        await self._channel.close()


class HttpLine:
    """Over HTTP+JSON."""

    binding = "http"

    def __init__(self, replica: Replica, key: str) -> None:
        self._base = replica.http_url
        self._headers = {"a2a-version": "1.0", "x-api-key": key, "content-type": "application/a2a+json"}
        self._open()

    def _open(self) -> None:
        self._http = httpx.AsyncClient(trust_env=False, timeout=httpx.Timeout(60, connect=_CONNECT))

    async def unary(self, call: Call, request: Message, answer: type[M], timeout: float) -> M:
        sent = self._request(call, request)
        try:
            async with asyncio.timeout(timeout):
                response = await self._http.send(sent)
        except TimeoutError:
            raise FailedError(LATE, "the caller's deadline") from None
        except (httpx.HTTPError, RuntimeError) as error:
            raise FailedError(LOST, repr(error)) from error
        if not response.is_success:
            raise _from_response(response.status_code, response.content)
        return protojson.loads(response.content, answer)

    async def stream(self, call: Call, request: Message) -> AsyncGenerator[tuple[int, a2a_pb2.StreamResponse], None]:
        sent = self._request(call, request)
        sent.headers["accept"] = "text/event-stream"
        if call.cursor is not None:
            sent.headers["last-event-id"] = str(call.cursor)
        try:
            response = await self._http.send(sent, stream=True)
        except (httpx.HTTPError, RuntimeError) as error:
            raise FailedError(LOST, repr(error)) from error
        try:
            if not response.is_success:
                raise _from_response(response.status_code, await response.aread())
            if "last-event-id" in response.headers:
                call.resumed = int(response.headers["last-event-id"])
            number, kind = 0, ""
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if name == "id":
                    number = int(value)
                elif name == "event":
                    kind = value
                elif name == "data" and kind == "error":
                    raise _from_response(500, value.encode())
                elif name == "data":
                    yield number, protojson.loads(value.encode(), a2a_pb2.StreamResponse)
        except (httpx.HTTPError, RuntimeError) as error:
            raise FailedError(LOST, repr(error)) from error
        finally:
            await response.aclose()

    def _request(self, call: Call, request: Message) -> httpx.Request:
        how = to_http(call.operation, request)
        url = httpx.URL(self._base + how.path, params=list(how.query)) if how.query else self._base + how.path
        return self._http.build_request(how.verb, url, headers=self._headers, content=how.body)

    async def cut(self) -> None:
        http = self._http
        self._open()
        await http.aclose()

    async def close(self) -> None:
        await self._http.aclose()


def _from_rpc(error: grpc.aio.AioRpcError) -> FailedError:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            found = from_status(status_pb2.Status.FromString(value))
            outcome = LATE if found.kind.reason == "DEADLINE_EXCEEDED" else found.kind.reason
            return FailedError(outcome, found.message)
    late = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    return FailedError(LATE if late else LOST, f"{error.code().name}: {error.details()}")


def _from_response(status: int, body: bytes) -> FailedError:
    error = from_error_body(status, protojson.parse(body))
    return FailedError(error.kind.reason, error.message)


def _unless_cancelled() -> BaseException:
    """A channel that is closed cancels its calls, which must not be taken for the end of the caller."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        return asyncio.CancelledError()
    return FailedError(LOST, "the channel was closed")
