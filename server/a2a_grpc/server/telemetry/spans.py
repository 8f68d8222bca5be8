"""Traces as the SDK of OpenTelemetry records them. Only loaded where they are wanted."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace.status import StatusCode

from a2a_grpc.server.telemetry.tracing import LONGEST, Context, Kind, Sampling, Span, Value

_NAME: Final = "a2a_grpc"
_EMPTY: Final = otel.Context()
_KINDS: Final = {kind: trace.SpanKind[kind.value] for kind in Kind}


class _Ids(RandomIdGenerator):
    """Random ids, unless the thread that begins a span has one in mind."""

    def __init__(self) -> None:
        self._wanted = threading.local()

    def want(self, trace_id: int, span_id: int) -> None:
        """Give these to the next span of this thread; 0: any."""
        self._wanted.trace_id, self._wanted.span_id = trace_id, span_id

    def generate_trace_id(self) -> int:
        wanted: int = getattr(self._wanted, "trace_id", 0)
        self._wanted.trace_id = 0
        return wanted or super().generate_trace_id()

    def generate_span_id(self) -> int:
        wanted: int = getattr(self._wanted, "span_id", 0)
        self._wanted.span_id = 0
        return wanted or super().generate_span_id()


class _Recorded:
    """A span that the SDK records."""

    __slots__ = ("_context", "_noted", "open", "span")
    sampled = True

    def __init__(self, span: trace.Span) -> None:
        self.span = span
        self._noted: dict[str, Value] = {}  # told at once: each time takes a lock
        self.open = True
        self._context: Context | None = None

    @property
    def context(self) -> Context:
        if self._context is None:
            self._context = _context(self.span.get_span_context())
        return self._context

    def rename(self, name: str) -> None:
        self.span.update_name(name)

    def set(self, name: str, value: Value) -> None:
        self._noted[name] = _cut(value)

    def end(self, error: str = "", *, fault: bool = True) -> None:
        if self.open:
            self.open = False
            if error:
                self._noted["error.type"] = error
                if fault:
                    self.span.set_status(StatusCode.ERROR)
            if self._noted:
                self.span.set_attributes(self._noted)
            self.span.end()


class SdkRecorder:
    """See `Recorder`. The provider is this project's own: an agent may set a global one."""

    def __init__(self, resource: Resource, sampling: Sampling, processor: SpanProcessor) -> None:
        self._ids = _Ids()
        self._provider = TracerProvider(
            sampler=_sampler(sampling), resource=resource, shutdown_on_exit=False, id_generator=self._ids
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer(_NAME)
        self.tracer: Any = self._provider.get_tracer("agent")

    def start(
        self,
        name: str,
        kind: Kind,
        parent: Context | None,
        attributes: Mapping[str, Value],
        *,
        trace_id: int,
        span_id: int,
        links: Sequence[Context],
        begun_ns: int | None,
    ) -> Span:
        around = _EMPTY if parent is None else trace.set_span_in_context(_remote(parent), _EMPTY)
        self._ids.want(trace_id, span_id)
        return _Recorded(
            self._tracer.start_span(
                name,
                around,
                _KINDS[kind],
                {name: _cut(value) for name, value in attributes.items()},
                [trace.Link(_span_context(link)) for link in links],
                begun_ns,
            )
        )

    def start_here(self, name: str, kind: Kind, attributes: Mapping[str, Value]) -> Span:
        return _Recorded(self._tracer.start_span(name, None, _KINDS[kind], dict(attributes)))

    def enter(self, span: Span) -> None:
        # Nobody takes it back: the task that this is called in has no other business afterwards, and its streams may be
        # closed by another one, where OpenTelemetry would complain.
        made = span.span if isinstance(span, _Recorded) else _remote(span.context)
        otel.attach(trace.set_span_in_context(made))

    def close(self) -> None:
        """Export what there is, and end. Blocks."""
        self._provider.shutdown()


def _sampler(sampling: Sampling) -> Sampler:
    """For the spans of agents, and once more for those that `Traces` has decided on: it decides the same."""
    ratio = TraceIdRatioBased(sampling.ratio)
    return ParentBased(ratio) if sampling.by_parent else ratio


def _cut(value: Value) -> Value:
    return value[:LONGEST] if isinstance(value, str) else value


def _remote(context: Context) -> trace.Span:
    return trace.NonRecordingSpan(_span_context(context))


def _span_context(context: Context) -> trace.SpanContext:
    return trace.SpanContext(
        int(context.trace_id, 16),
        int(context.span_id, 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(context.flags),
        trace_state=trace.TraceState.from_header([context.state]) if context.state else None,
    )


def _context(found: trace.SpanContext) -> Context:
    return Context(
        trace.format_trace_id(found.trace_id),
        trace.format_span_id(found.span_id),
        int(found.trace_flags),
        found.trace_state.to_header() if found.trace_state else "",
    )
