"""What every method of every service on the port gets around it.

The generated `add_…_to_server` functions hand their methods to a Registrar instead of a server. It makes sure that a
peer always gets a status, promptly, and that the status holds no text of the Python program:

- bytes that are no message, or too many of them, are answered with an A2AError; grpc.aio would answer UNKNOWN with the
  text of the exception;
- an exception becomes a status with details (10.6); what is not an A2AError goes to the log;
- a CancelledError that escapes a method while the peer still waits becomes a status too; grpc.aio would send none and
  the peer would wait for ever (grpc/grpc #29248);
- the iterator behind a stream is closed as soon as the peer goes away, not when it is garbage collected;
- streams that run when the server stops end with an error that tells their readers to go on elsewhere, and so do unary
  calls that are not answered within the grace;
- a call that would outlast its connection ends in the same way, before the library cuts it.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Never, TypeAlias, cast

import grpc
import grpc.aio

from a2a_grpc.wire.errors import (
    A2AError,
    InternalError,
    InvalidArgumentError,
    PayloadTooLargeError,
    UnavailableError,
    to_status,
)

_log = logging.getLogger(__name__)

_Context = grpc.aio.ServicerContext[Any, Any]
_Method: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic for the type checker only
_Unary = Callable[[Any, _Context], Awaitable[Any]]
_Stream = Callable[[Any, _Context], AsyncGenerator[Any, None]]
Refused = Callable[[str, _Context, A2AError], Awaitable[None]]
"""Hears of a method's call that is refused."""

_CODES: Final[dict[int, grpc.StatusCode]] = {code.value[0]: code for code in grpc.StatusCode}
_DETAILS: Final = "grpc-status-details-bin"
_AT_ONCE: Final = 0.1
"""Seconds: what is waited for is a new connection."""
_FAILED: Final = "The server failed while it handled the call. The cause is in its log."


class Registrar:
    """Stands in for a server in `add_…_to_server(servicer, registrar.as_server())`; a real one then takes `handlers`.

    Messages are bounded by `max_message_bytes`; `max_nesting` is only named in the answer to bytes that cannot be read.
    Methods that stream responses must return async generators.
    """

    def __init__(self, *, max_message_bytes: int, max_nesting: int) -> None:
        self.handlers: list[grpc.GenericRpcHandler] = []
        self._max_message_bytes = max_message_bytes
        self._max_nesting = max_nesting
        self._streams: dict[str, set[asyncio.Task[Any]]] = {}
        self._unary: dict[str, set[asyncio.Task[Any]]] = {}
        self._draining: set[str] = set()
        self._ending: set[str] = set()
        self._longest: dict[str, float] = {}
        self._refusals: dict[str, Refused] = {}
        self._overdue: set[asyncio.Task[Any]] = set()
        self._released: asyncio.Event | None = None

    def limit(self, service: str, seconds: float) -> None:
        """End each call of `service` with UnavailableError once it has taken `seconds`; what it has begun goes on.

        To be called before the service is registered.
        """
        self._longest[service] = seconds

    def when_refused(self, service: str, hear: "Refused") -> None:
        """Let `hear` know of calls of `service` that are refused here.

        To be called before the service is registered.
        """
        self._refusals[service] = hear

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        """Keep the answers of unary calls back until the block is left."""
        self._released = asyncio.Event()
        try:
            yield
        finally:
            self._released.set()
            self._released = None

    @property
    def unary_calls(self) -> int:
        """How many unary calls are here."""
        return sum(len(calls) for calls in self._unary.values())

    def drain(self, service: str) -> None:
        """End the streams of `service`, and any that still begins, with UnavailableError; unary calls may finish."""
        self._draining.add(service)
        for stream in self._streams[service]:
            stream.cancel()

    def end(self, service: str) -> None:
        """Answer the unary calls of `service` that still run with UnavailableError; what they have begun goes on."""
        self._ending.add(service)
        for call in self._unary[service]:
            call.cancel()

    def as_server(self) -> grpc.aio.Server:
        """This object, for the type that the generated functions ask for."""
        return cast("grpc.aio.Server", self)

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Ignored: generated code registers the same methods by name as well."""

    def add_registered_method_handlers(self, service: str, methods: Mapping[str, _Method]) -> None:
        """Take the methods of a service.

        They become generic handlers: for each call, grpc.aio's accept loop does work for every method that is
        registered by name.
        """
        self._streams[service], self._unary[service] = set(), set()
        guarded = {name: self._guarded(service, name, method) for name, method in methods.items()}
        self.handlers.append(grpc.method_handlers_generic_handler(service, guarded))

    def _guarded(self, service: str, name: str, method: _Method) -> _Method:
        decode = self._decoder(name, cast("Callable[[bytes], Any]", method.request_deserializer))
        encode = method.response_serializer
        if method.unary_unary is not None:
            unary = self._guard_unary(service, name, cast("_Unary", method.unary_unary))
            return grpc.unary_unary_rpc_method_handler(unary, decode, encode)
        if method.unary_stream is not None:
            stream = self._guard_stream(service, name, cast("_Stream", method.unary_stream))
            return grpc.unary_stream_rpc_method_handler(stream, decode, encode)
        if method.stream_stream is not None:
            checking = _checking_requests(cast("_Stream", method.stream_stream))
            both = self._guard_stream(service, name, checking)
            return grpc.stream_stream_rpc_method_handler(both, decode, encode)
        raise TypeError(f"{name} streams requests for a single response, which nothing here does yet")

    def _guard_unary(self, service: str, name: str, behaviour: _Unary) -> _Unary:
        running, longest = self._unary[service], self._longest.get(service)
        refuse = self._refusing(service, name)

        async def guarded(request: Any, context: _Context) -> Any:
            if request.__class__ is _Refusal:
                return await refuse(context, request.error)
            task = cast("asyncio.Task[Any]", asyncio.current_task())
            running.add(task)
            timer = None if longest is None else self._end_after(longest, task)
            try:
                response = await behaviour(request, context)
                if self._released is not None:
                    await self._released.wait()
            except grpc.aio.BaseError:  # aborted by the method itself, or the peer is gone
                raise
            except (Exception, asyncio.CancelledError) as error:  # see _left
                if not isinstance(error, asyncio.CancelledError):
                    failure = _public(error, name)
                elif task in self._overdue:
                    failure = _overdue()
                elif service in self._ending:
                    failure = _unanswered()
                elif _left(task):
                    raise
                else:
                    failure = _public(error, name)
            else:
                return response
            finally:
                running.discard(task)
                self._overdue.discard(task)
                if timer is not None:
                    timer.cancel()
            if self._released is not None:
                await self._released.wait()
            return await _abort(context, failure)

        return guarded

    def _guard_stream(self, service: str, name: str, behaviour: _Stream) -> _Unary:
        running, longest = self._streams[service], self._longest.get(service)
        refuse = self._refusing(service, name)

        async def guarded(request: Any, context: _Context) -> None:
            if request.__class__ is _Refusal:
                await refuse(context, request.error)
            if service in self._draining:
                await refuse(context, _leaving())
            task = cast("asyncio.Task[Any]", asyncio.current_task())
            running.add(task)
            timer = None if longest is None else self._end_after(longest, task)
            try:
                responses = behaviour(request, context)
                try:
                    async for response in responses:
                        await context.write(response)
                finally:
                    await responses.aclose()
            except grpc.aio.BaseError:
                raise
            except (Exception, asyncio.CancelledError) as error:  # see _left
                if not isinstance(error, asyncio.CancelledError):
                    failure = _public(error, name)
                elif task in self._overdue:
                    failure = _moving()
                elif service in self._draining:
                    failure = _leaving()
                elif _left(task):
                    raise
                else:
                    failure = _public(error, name)
            else:
                return
            finally:
                running.discard(task)
                self._overdue.discard(task)
                if timer is not None:
                    timer.cancel()
            await _abort(context, failure)

        return guarded

    def _refusing(self, service: str, name: str) -> Callable[[_Context, A2AError], Awaitable[Never]]:
        hear = self._refusals.get(service)

        async def refuse(context: _Context, error: A2AError) -> Never:
            if hear is not None:
                await hear(name, context, error)
            await _abort(context, error)

        return refuse

    def _end_after(self, seconds: float, task: asyncio.Task[Any]) -> asyncio.TimerHandle:
        def end() -> None:
            self._overdue.add(task)
            task.cancel()

        return asyncio.get_running_loop().call_later(seconds, end)

    def _decoder(self, name: str, decode: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        limit, nesting = self._max_message_bytes, self._max_nesting

        def decode_or_refuse(data: bytes) -> Any:
            # An exception here would be out of reach of the guards below: the refusal travels in place of the message.
            if len(data) > limit:
                return _Refusal(PayloadTooLargeError(f"The request has {len(data)} bytes; the limit is {limit} bytes."))
            try:
                return decode(data)
            except Exception:  # noqa: BLE001  # implementations of protobuf differ in what they raise
                return _Refusal(
                    InvalidArgumentError(
                        f"The request of {name} cannot be read: it is not a protobuf message of the right type, is "
                        f"cut off, has text that is not UTF-8, or is nested deeper than {nesting} levels."
                    )
                )

        return decode_or_refuse


class _Refusal:
    __slots__ = ("error",)

    def __init__(self, error: A2AError) -> None:
        self.error = error


def _checking_requests(behaviour: _Stream) -> _Stream:
    async def checked(requests: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
        async for request in requests:
            if request.__class__ is _Refusal:
                raise request.error
            yield request

    return lambda requests, context: behaviour(checked(requests), context)


def _public(error: BaseException, name: str) -> A2AError:
    if isinstance(error, A2AError):
        return error
    if isinstance(error, asyncio.CancelledError):
        _log.error("%s was ended by a cancellation, and its caller still waits", name, exc_info=error)
    else:
        _log.error("%s failed", name, exc_info=error)
    return InternalError(_FAILED)


def _left(task: asyncio.Task[Any]) -> bool:
    """Whether the library has cancelled the task of a call because its peer is gone.

    A status would reach nobody then, and the library never lets go of what it was to send and cannot. Whoever else
    cancels the task leaves a caller behind who has to be told. The library does not say which it was. But it awaits the
    task of a call, besides having a callback of its own, only once it has heard from the peer that it is gone.
    """
    return bool(task.cancelling()) and len(getattr(task, "_callbacks", None) or ()) > 1


def _leaving() -> A2AError:
    return UnavailableError("The server is shutting down; subscribe to the task again.", retry_after=1.0)


def _unanswered() -> A2AError:
    return UnavailableError(
        "The server shut down before this call was answered; what it has started goes on.", retry_after=1.0
    )


def _moving() -> A2AError:
    return UnavailableError(
        "The connection has lasted as long as it may; subscribe to the task again over a new one.",
        retry_after=_AT_ONCE,
    )


def _overdue() -> A2AError:
    return UnavailableError(
        "The connection has lasted as long as it may and this call is not answered yet; what it has started goes on. "
        "Send the same call again over a new connection.",
        retry_after=_AT_ONCE,
    )


async def _abort(context: _Context, error: A2AError) -> Never:
    status = to_status(error)
    trailers = (*context.trailing_metadata(), (_DETAILS, status.SerializeToString()))
    await context.abort(_CODES[status.code], status.message, trailers)
