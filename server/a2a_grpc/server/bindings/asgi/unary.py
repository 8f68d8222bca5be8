"""Running a call that has one response, for as long as somebody waits for it."""

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType

from google.protobuf.message import Message

from a2a_grpc.server.bindings.asgi.draining import draining
from a2a_grpc.server.bindings.asgi.exchange import CallerGoneError, Exchange
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.handler import Handler
from a2a_grpc.server.core.events import Event
from a2a_grpc.wire.errors import UnavailableError

_WATCH_AFTER = 0.25
"""Seconds a call may take before a task is spent on watching its caller; most calls are answered by then."""


async def run_unary(handler: Handler, request: Message, call: Call, exchange: Exchange) -> Message:
    """The handler's answer.

    When the caller hangs up, the wait ends and CallerGoneError is raised; what the call has started goes on (3.2.2).
    When the listener closes before the answer is there, UnavailableError is raised.
    """
    with _CallerWatch(exchange):
        return await handler.unary(call.method, request, call)


async def take_first(events: AsyncIterator[Event], exchange: Exchange) -> None:
    """Run a streaming call up to its first event, for a caller that wants no answer. Raises as `run_unary` does."""
    with _CallerWatch(exchange):
        try:
            await anext(events, None)
        finally:
            aclose = getattr(events, "aclose", None)
            if aclose is not None:
                await aclose()


class _CallerWatch:
    """Cancels the current task when the caller has gone."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None
        self._gone = False
        self._timer = self._loop.call_later(_WATCH_AFTER, self._start)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if kind is not None and issubclass(kind, asyncio.CancelledError):
            if self._gone:
                raise CallerGoneError from None
            if draining(self._exchange.scope).started:
                raise UnavailableError(
                    "The server shut down before this call was answered; what it has started goes on.", retry_after=1.0
                ) from None

    def _start(self) -> None:
        self._watcher = self._loop.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._exchange.receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        if self._task is not None:
            self._task.cancel()
