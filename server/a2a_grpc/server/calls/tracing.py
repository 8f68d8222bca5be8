"""The step that makes a span of each call."""

from typing import Final

from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.calls.access import SYSTEMS, outcome
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.current import Current
from a2a_grpc.server.calls.steps import SERVICE, Step
from a2a_grpc.server.telemetry.tracing import TRACES, Kind, Span, extract

# What OpenTelemetry takes for a failure of the server; all else is the caller's.
_FAULTS: Final = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})


class Tracing(Step):
    """Makes a span of the call, within what its caller sent as `traceparent`. It is current in all that follows.

    Outside of all that could be part of it, and of `access-log`, whose record names the trace.
    """

    name = "tracing"
    after = ("request-id",)

    def __init__(self, service: str = SERVICE) -> None:
        """`service` is the full name of the one whose calls these are."""
        self._service = service

    @property
    def idle(self) -> bool:
        """Nothing is traced."""
        return not TRACES.on

    async def enter(self, current: Current) -> None:
        call = current.call
        # A call over HTTP comes twice: to be admitted, and with its request.
        if call.span is None:
            call.span = begin(call, self._service)
        TRACES.enter(call.span)

    async def leave(self, current: Current, error: BaseException | None) -> BaseException | None:
        span = current.call.span
        if span is not None and span.sampled:
            if current.tenant:
                span.set("a2a.tenant", current.tenant)
            finish(span, current.call, current.request, error, self._service)
        return error


def begin(call: Call, service: str = SERVICE) -> Span:
    """Begin the span of a call."""
    return TRACES.start(_method(call, service), Kind.SERVER, extract(call.parameters), {})


def finish(
    span: Span, call: Call, request: Message | None, error: BaseException | None, service: str = SERVICE
) -> None:
    """End the span of a call with what came of it."""
    if not span.sampled:
        return
    method = _method(call, service)
    # Over JSON-RPC a call is admitted before its method can be seen.
    span.rename(method)
    span.set("rpc.system.name", SYSTEMS.get(call.binding, ""))
    span.set("rpc.method", method)
    if request is not None:
        _describe(span, request)
    code, reason = outcome(error)
    span.set("rpc.response.status_code", code)
    span.end(reason if reason or error is None else code, fault=code in _FAULTS)


def _method(call: Call, service: str) -> str:
    return f"{service}/{call.method}" if call.method else "_OTHER"


def _describe(span: Span, request: Message) -> None:
    """Note which task and context a request is about; of a new message that is known afterwards."""
    if request.DESCRIPTOR.file is not a2a_pb2.DESCRIPTOR or isinstance(request, a2a_pb2.SendMessageRequest):
        return
    # A webhook's config has an id of its own besides that of its task.
    task_id = getattr(request, "task_id", None)
    if task_id is None:
        task_id = getattr(request, "id", "")
    if task_id:
        span.set("a2a.task.id", task_id)
    if context_id := getattr(request, "context_id", ""):
        span.set("a2a.context.id", context_id)
