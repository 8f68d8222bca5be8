"""The access log and the measurements of a gateway: what it knows of the calls that it passes on."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from google.protobuf.message import Message

from a2a_grpc.server.bindings.upstream.handler import UpstreamHandler
from a2a_grpc.server.bindings.upstream.tracing import TracedHandler
from a2a_grpc.server.calls.access import SYSTEMS, record, request_id
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.measuring import measure
from a2a_grpc.server.calls.steps import SERVICE
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.telemetry.instruments import STREAMS
from a2a_grpc.wire.errors import A2AError
from a2a_grpc.wire.headers import REQUEST_ID


class RecordedHandler:
    """See `Handler`. Who calls is known to the upstream alone, whose own record has it under the same request id."""

    def __init__(self, inner: UpstreamHandler | TracedHandler) -> None:
        self._inner = inner

    async def admit(self, call: Call, tenant: str | None) -> None:
        await self._inner.admit(call, tenant)

    async def refused(self, call: Call, error: A2AError) -> None:
        await self._inner.refused(call, error)
        call.response_parameters[REQUEST_ID], _ = request_id(call)
        _note(call, time.perf_counter(), error)

    async def unary(self, method: str, request: Message, call: Call) -> Message:
        begun, error, response = time.perf_counter(), None, None
        try:
            response = await self._inner.unary(method, request, call)
        except BaseException as raised:
            error = raised
            raise
        finally:
            _note(call, begun, error, request, response)
        return response

    async def stream(self, method: str, request: Message, call: Call) -> AsyncGenerator[Event, None]:
        begun, error, first = time.perf_counter(), None, None
        STREAMS.change(1, SYSTEMS[call.binding])
        try:
            async with aclosing(self._inner.stream(method, request, call)) as events:
                async for event in events:
                    first = first or event.response
                    yield event
        except BaseException as raised:
            error = raised
            raise
        finally:
            STREAMS.change(-1, SYSTEMS[call.binding])
            _note(call, begun, error, request, first)


def _note(
    call: Call, begun: float, error: BaseException | None, request: Message | None = None, answer: Message | None = None
) -> None:
    call.recorded = True
    measure(call, begun=begun, error=error, service=SERVICE)
    record(
        call,
        begun=begun,
        error=error,
        # The caller's own, or that which the upstream has given.
        request_id=call.response_parameters.get(REQUEST_ID, ""),
        tenant=getattr(request, "tenant", ""),
        request=request,
        answer=answer,
    )
