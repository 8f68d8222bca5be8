"""The gRPC binding (specification 10)."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.message import DecodeError, Message
from google.rpc import status_pb2

from a2a_grpc.client.credentials.base import NO_ACCESS, Access
from a2a_grpc.client.errors import NotConnectedError
from a2a_grpc.client.interfaces import GrpcAddress
from a2a_grpc.client.options import Options, header_name
from a2a_grpc.client.tracing import trace_headers
from a2a_grpc.client.transports.base import Numbered, R
from a2a_grpc.pb import a2a_pb2_grpc
from a2a_grpc.wire.errors import A2AError, InvalidArgumentError, UnavailableError, from_status
from a2a_grpc.wire.headers import A2A_EXTENSIONS, format_extensions, parse_extensions
from a2a_grpc.wire.sequence import EVENT_SEQUENCE, get_sequence, take_sequence

# While nobody answers, gRPC tries again by itself, at intervals from 0.1 s to 1 s. A call that finds it doing so waits
# for one more try: the interval, gRPC's jitter of 20 %, and time to connect.
_FIRST_RETRY_MS: Final = 100
_LAST_RETRY_MS: Final = 1_000
_ONE_RETRY_SECONDS: Final = 1.3

_PING_TIMEOUT_MS: Final = 10_000
# gRPC begins with "failed to connect to all addresses; last error: UNKNOWN: "; what helps comes after that.
_LAST_ERROR: Final = re.compile(r"^.* last error: (?:[A-Z_]+: )?")
_STATUS_DETAILS: Final = "grpc-status-details-bin"

# How calls end, besides UNAVAILABLE, when a proxy or a server on its way out cuts them. Before the answer has begun the
# codes alone could be the agent's own: then gRPC has to have said this.
_RESET: Final = "RST_STREAM"
_CUT: Final = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.CANCELLED}
)


class GrpcTransport:
    """See `Transport`."""

    def __init__(
        self,
        address: GrpcAddress,
        options: Options,
        stub: Callable[[grpc.aio.Channel], object] = a2a_pb2_grpc.A2AServiceStub,
    ) -> None:
        self._target = address.target
        self._connect_timeout = options.connect_timeout
        self._parameters = options.parameters
        # Streams of gRPC have no event ids: the numbers come by an extension, for those who ask (4.6).
        extensions = parse_extensions(options.parameters.get(A2A_EXTENSIONS, ""))
        self._number = get_sequence if EVENT_SEQUENCE in extensions else take_sequence
        self._of_streams = {**options.parameters, A2A_EXTENSIONS: format_extensions((*extensions, EVENT_SEQUENCE))}
        self._closed = False
        if address.tls:
            roots, more = (None, []) if options.verify else _as_presented(self._target, options)
            credentials = _certificates(options, roots)
            self._channel = grpc.aio.secure_channel(self._target, credentials, [*_channel_options(options), *more])
        else:
            self._channel = grpc.aio.insecure_channel(self._target, _channel_options(options))
        self._stub = stub(self._channel)

    async def open(self) -> None:
        state = self._state()
        if state is grpc.ChannelConnectivity.READY:
            return
        retrying = state is grpc.ChannelConnectivity.TRANSIENT_FAILURE
        try:
            async with asyncio.timeout(_ONE_RETRY_SECONDS if retrying else self._connect_timeout):
                while retrying or state is not grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                    # Leaving TRANSIENT_FAILURE is success: gRPC reports no new tries until one of them has worked.
                    await self._channel.wait_for_state_change(state)
                    state = self._state()
                    if state is grpc.ChannelConnectivity.READY:
                        return
        except TimeoutError:
            pass
        raise NotConnectedError(f"No connection to {self._target}: {await self._why_not()}.")

    async def unary(
        self,
        method: str,
        request: Message,
        response_type: type[R],  # noqa: ARG002 - the stub knows it
        *,
        timeout: float | None,
        access: Access = NO_ACCESS,
    ) -> R:
        await self.open()
        metadata = {**self._parameters, **trace_headers(), **_metadata(access)}
        call: Any = getattr(self._stub, method)(request, timeout=timeout, metadata=tuple(metadata.items()))
        try:
            response: R = await call
        except grpc.aio.AioRpcError as error:
            raise _failure(error, begun=False) from error
        except asyncio.CancelledError:
            self._blame_for_cancellation()
        return response

    async def stream(
        self, method: str, request: Message, parameters: Mapping[str, str], *, access: Access = NO_ACCESS
    ) -> AsyncGenerator[Numbered, None]:
        metadata = {**self._of_streams, **parameters, **trace_headers(), **_metadata(access)}
        async with aclosing(self._responses(method, request, metadata)) as responses:
            async for response in responses:
                yield Numbered(self._number(response), response)

    async def _responses(
        self, method: str, request: Message, parameters: Mapping[str, str]
    ) -> AsyncGenerator[Any, None]:
        """The responses of any operation that streams, with all that goes as metadata."""
        await self.open()
        call: Any = getattr(self._stub, method)(request, metadata=tuple(parameters.items()))
        begun = False
        try:
            async for response in call:
                begun = True
                yield response
        except grpc.aio.AioRpcError as error:
            raise _failure(error, begun=begun) from error
        except asyncio.CancelledError:
            self._blame_for_cancellation()
        finally:
            call.cancel()

    async def aclose(self) -> None:
        self._closed = True
        await self._channel.close()

    def _state(self) -> grpc.ChannelConnectivity:
        state = self._channel.get_state(try_to_connect=True)
        if state is grpc.ChannelConnectivity.SHUTDOWN:
            raise UnavailableError("The client was closed.")
        return state

    async def _why_not(self) -> str:
        # gRPC tells the cause to calls only. Health is the one service that harms nobody if there is a connection now.
        probe: Any = self._channel.unary_unary("/grpc.health.v1.Health/Check")
        try:
            await probe(b"", timeout=0.1)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAVAILABLE:
                return _LAST_ERROR.sub("", error.details() or "").removesuffix(".")
        return f"no answer within {self._connect_timeout:g} s"

    def _blame_for_cancellation(self) -> NoReturn:
        """For a CancelledError in flight: closing the channel cancels its calls, but not the tasks around them."""
        task = asyncio.current_task()
        if self._closed and (task is None or not task.cancelling()):
            raise UnavailableError("The client was closed.") from None
        raise  # noqa: PLE0704


def _as_presented(target: str, options: Options) -> tuple[bytes | None, list[tuple[str, Any]]]:
    """Whom to believe, and by which name, where that is whoever answers."""
    from a2a_grpc.client.transports.unverified import presented  # noqa: PLC0415 - takes cryptography along

    server = presented(target, options.connect_timeout)
    return (server.certificate, [("grpc.ssl_target_name_override", server.name)]) if server else (None, [])


def _certificates(options: Options, roots: bytes | None) -> grpc.ChannelCredentials:
    """Whom to believe, `roots` or whom the options say, and what to show. Raises: InvalidArgumentError."""
    try:
        if roots is None and options.ca_file:
            roots = options.ca_file.read_bytes()
        own = [file.read_bytes() for file in reversed(options.certificate or ())]
    except OSError as error:
        raise InvalidArgumentError(f"The certificates cannot be read: {error}.") from error
    return grpc.ssl_channel_credentials(roots, *own)


def _metadata(access: Access) -> dict[str, str]:
    """A key is metadata of its name, wherever it stands over HTTP."""
    places = (access.headers, access.query, access.cookies)
    return {header_name(name): value for place in places for name, value in place.items()}


def _channel_options(options: Options) -> list[tuple[str, Any]]:
    settings: list[tuple[str, Any]] = [
        ("grpc.primary_user_agent", "a2a-grpc"),
        ("grpc.max_receive_message_length", options.max_receive_bytes),
        ("grpc.initial_reconnect_backoff_ms", _FIRST_RETRY_MS),
        ("grpc.max_reconnect_backoff_ms", _LAST_RETRY_MS),
        # Despite its name, how long one try may take. gRPC does not stop it when the channel is closed: the socket of a
        # connect that was given up stays open for this time, 20 s unless told otherwise.
        ("grpc.min_reconnect_backoff_ms", round(options.connect_timeout * 1000)),
        # Its own connection: gRPC would share one between channels, together with the waiting time after a failure.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if options.keepalive is not None:
        settings += [
            ("grpc.keepalive_time_ms", round(options.keepalive * 1000)),
            ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MS),
            # The clock of a keepalive ping does not start while another ping of gRPC's own is unanswered, as it is on a
            # connection that died just after it carried data. That one waits for 60 s unless told otherwise.
            ("grpc.http2.ping_timeout_ms", _PING_TIMEOUT_MS),
            # A task may be silent for longer than two pings.
            ("grpc.http2.max_pings_without_data", 0),
        ]
    return settings


def _details(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    """The google.rpc.Status in the trailers (specification 10.6); None if there is none that agrees with the code."""
    for key, value in error.trailing_metadata() or ():
        if key == _STATUS_DETAILS and isinstance(value, bytes):
            try:
                status = status_pb2.Status.FromString(value)
            except DecodeError:
                continue
            if status.code == error.code().value[0]:
                return status
    return None


def _failure(error: grpc.aio.AioRpcError, *, begun: bool) -> A2AError:
    """What the agent has answered, or what has happened to the connection; `begun`: the answer had."""
    details, said = _details(error), error.details() or ""
    if details is None and error.code() in _CUT and (begun or _RESET in said):
        return UnavailableError(f"The call was cut: {said}.")
    return from_status(details or status_pb2.Status(code=error.code().value[0], message=said))
