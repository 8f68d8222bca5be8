"""What sends to a collector over OTLP. Only loaded where there is one.

Nothing that a call does waits for it: spans go into a queue of a fixed size, which a thread of the SDK empties. Where
the collector is away or too slow, the oldest are dropped.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricsData, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from a2a_grpc.server.telemetry.durations import with_durations
from a2a_grpc.server.telemetry.spans import SdkRecorder
from a2a_grpc.server.telemetry.tracing import TRACES, Sampling

# It warns of each try. That a batch was given up is an error, told every 20 s.
logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter").setLevel(logging.ERROR)

_QUEUE: Final = 2048
_BATCH: Final = 512
_EVERY_MS: Final = 1000
"""Spans wait for so long, or until there is a batch of them."""
_TIMEOUT: Final = 5.0
"""Seconds for one batch, further tries included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """Where to send, and as who."""

    endpoint: str
    """An http:// or https:// URL."""
    replica: str
    """The name of this process."""
    attributes: Mapping[str, str]
    """What else is said of it; `service.name` among them."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def resource(self) -> Resource:
        """What is said of this process in everything that is sent."""
        own = {SERVICE_VERSION: version("a2a-grpc"), SERVICE_INSTANCE_ID: self.replica}
        return Resource.create({**own, **self.attributes})


class TraceExport:
    """Records traces and sends them, from the start to `close`."""

    def __init__(self, collector: Collector, sampling: Sampling) -> None:
        self._exporter = OTLPSpanExporter(
            endpoint=collector.endpoint, headers=dict(collector.headers) or None, timeout=_TIMEOUT
        )
        processor = BatchSpanProcessor(
            self._exporter, max_queue_size=_QUEUE, schedule_delay_millis=_EVERY_MS, max_export_batch_size=_BATCH
        )
        self._recorder = SdkRecorder(collector.resource, sampling, processor)
        TRACES.bind(self._recorder, sampling)

    async def close(self, patience: float) -> None:
        """Record no more and send what is left, if that takes no longer than `patience` seconds."""
        TRACES.bind(None)
        if not await _within(patience, self._recorder.close):
            self._exporter.shutdown()


class MetricExport(PeriodicExportingMetricReader):
    """Reads the metrics every now and then and sends them, until `close`."""

    def __init__(self, collector: Collector, interval_ms: int) -> None:
        exporter = OTLPMetricExporter(
            endpoint=collector.endpoint, headers=dict(collector.headers) or None, timeout=_TIMEOUT
        )
        super().__init__(exporter, export_interval_millis=interval_ms, export_timeout_millis=1000 * _TIMEOUT)
        self._left = exporter
        self._ended = False

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:
        super()._receive_metrics(with_durations(metrics_data), timeout_millis, **kwargs)

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """Once: the provider ends its readers, of which this one has ended before."""
        if not self._ended:
            self._ended = True
            super().shutdown(timeout_millis, **kwargs)

    async def close(self, patience: float) -> None:
        """Send them once more, if that takes no longer than `patience` seconds, and end."""
        if not await _within(patience, self.shutdown):
            self._left.shutdown()


async def _within(seconds: float, work: Callable[[], None]) -> bool:
    """Do `work`, which blocks, in a thread that nobody waits for any longer than that; whether it was done in time."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        work()
        with contextlib.suppress(RuntimeError):  # nobody waits any more
            loop.call_soon_threadsafe(over.set)

    threading.Thread(target=run, name="a2a-flush", daemon=True).start()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await over.wait()
    return over.is_set()
