"""A collector: a real server of OTLP over gRPC that keeps what it is sent."""

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_pb
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_grpc
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.support.waiting import wait_until


@dataclass(frozen=True, slots=True)
class Seen:
    """One span as it was sent."""

    name: str
    kind: str
    """As in the proto, without the prefix: `SERVER`."""
    trace_id: str
    span_id: str
    parent_id: str
    """Empty for the first of a trace."""
    state: str
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    """Trace and span ids."""
    failed: bool
    replica: str
    """`service.instance.id` of who sent it."""
    begun_ns: int
    ended_ns: int
    resource: dict[str, Any] = field(hash=False, default_factory=dict)
    text: str = field(repr=False, default="")
    """All of it, to look for what must not be there."""


class Collector:
    """Takes spans and metrics in threads of its own. `endpoint` is an http:// URL."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[Seen] = []
        self._metrics: list[Metric] = []
        self.metadata: list[dict[str, str]] = []
        """Of each request."""
        self.endpoint = ""
        self.delay = 0.0
        """Seconds until each request is answered."""

    def spans(self, trace_id: str = "") -> list[Seen]:
        """Those that came, of one trace or of all."""
        with self._lock:
            return [span for span in self._spans if trace_id in {"", span.trace_id}]

    async def until(self, trace_id: str, *names: str, timeout: float = 10.0) -> list[Seen]:
        """The spans of a trace, once there is one of each name."""

        def there() -> list[Seen]:
            found = self.spans(trace_id)
            return found if {span.name for span in found} >= set(names) else []

        try:
            return await wait_until(there, f"spans {names}", timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}: there are {[span.name for span in self.spans(trace_id)]}") from None

    def all_metrics(self) -> list[Metric]:
        """Those that came, each as often as it did."""
        with self._lock:
            return list(self._metrics)

    def take(self, request: trace_pb.ExportTraceServiceRequest, metadata: dict[str, str]) -> None:
        time.sleep(self.delay)
        with self._lock:
            self.metadata.append(metadata)
            for of_resource in request.resource_spans:
                resource = _attributes(of_resource.resource.attributes)
                for scope in of_resource.scope_spans:
                    self._spans += [_seen(span, resource) for span in scope.spans]

    def take_metrics(self, request: metrics_pb.ExportMetricsServiceRequest, metadata: dict[str, str]) -> None:
        with self._lock:
            self.metadata.append(metadata)
            for of_resource in request.resource_metrics:
                for scope in of_resource.scope_metrics:
                    self._metrics += scope.metrics


add_traces: Any = trace_grpc.add_TraceServiceServicer_to_server
add_metrics: Any = metrics_grpc.add_MetricsServiceServicer_to_server


def _metadata(context: grpc.ServicerContext) -> dict[str, str]:
    return {key: str(value) for key, value in context.invocation_metadata()}


class _Traces(trace_grpc.TraceServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._collector.take(request, _metadata(context))
        return trace_pb.ExportTraceServiceResponse()


class _Metrics(metrics_grpc.MetricsServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self._collector.take_metrics(request, _metadata(context))
        return metrics_pb.ExportMetricsServiceResponse()


@contextlib.contextmanager
def collecting(port: int = 0) -> Iterator[Collector]:
    """A collector on 127.0.0.1."""
    collector = Collector()
    with ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads)
        add_traces(_Traces(collector), server)
        add_metrics(_Metrics(collector), server)
        bound = server.add_insecure_port(f"127.0.0.1:{port}")
        collector.endpoint = f"http://127.0.0.1:{bound}"
        server.start()
        try:
            yield collector
        finally:
            server.stop(0).wait()


def _seen(span: Span, resource: dict[str, Any]) -> Seen:
    return Seen(
        name=span.name,
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        state=span.trace_state,
        attributes=_attributes(span.attributes),
        links=[(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
        failed=span.status.code == Status.STATUS_CODE_ERROR,
        replica=resource["service.instance.id"],
        begun_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        resource=resource,
        text=str(span),
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair) for pair in pairs}


def _value(pair: KeyValue) -> Any:
    which = pair.value.WhichOneof("value")
    return None if which is None else getattr(pair.value, which)
