"""The spans of a gateway: one of each call, under which the upstream's stands."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from google.protobuf.message import Message

from a2a_grpc.server.bindings.upstream.handler import UpstreamHandler
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.tracing import begin, finish
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.telemetry.tracing import TRACES, TRACESTATE, Span
from a2a_grpc.wire.errors import A2AError


class TracedHandler:
    """See `Handler`."""

    def __init__(self, inner: UpstreamHandler) -> None:
        self._inner = inner

    async def admit(self, call: Call, tenant: str | None) -> None:
        await self._inner.admit(call, tenant)

    async def refused(self, call: Call, error: A2AError) -> None:
        finish(_within(call), call, None, error)
        await self._inner.refused(call, error)

    async def unary(self, method: str, request: Message, call: Call) -> Message:
        span = _within(call)
        error: BaseException | None = None
        try:
            return await self._inner.unary(method, request, call)
        except BaseException as raised:
            error = raised
            raise
        finally:
            finish(span, call, request, error)

    async def stream(self, method: str, request: Message, call: Call) -> AsyncGenerator[Event, None]:
        span = _within(call)
        error: BaseException | None = None
        try:
            async with aclosing(self._inner.stream(method, request, call)) as events:
                async for event in events:
                    yield event
        except BaseException as raised:
            error = raised
            raise
        finally:
            finish(span, call, request, error)


def _within(call: Call) -> Span:
    """Begin the span of a call, and have what is passed on name it as where it comes from."""
    span = begin(call)
    TRACES.enter(span)
    others = {name: value for name, value in call.parameters.items() if name != TRACESTATE}
    call.parameters = {**others, **span.context.headers()}
    return span
