"""The metrics as Prometheus reads them. Only loaded where they are wanted."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any, Final

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, MetricsData
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from prometheus_client import CollectorRegistry, generate_latest

from a2a_grpc.server.telemetry import instruments
from a2a_grpc.server.telemetry.durations import with_durations

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"


class _Reader(PrometheusMetricReader):
    """Reads what the SDK has, and the durations, which add themselves up."""

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> None:
        super()._receive_metrics(with_durations(metrics_data), timeout_millis, **kwargs)


class Exposition:
    """Binds the instruments, until `close`. The provider is this project's own: an agent may set a global one."""

    def __init__(self, replica: str, *, resource: Resource | None = None, others: Sequence[MetricReader] = ()) -> None:
        """`replica` is the name of this process, `resource` what else is said of it; `others` read the metrics, too."""
        if resource is None:
            resource = Resource.create(
                {SERVICE_NAME: "a2a-grpc", SERVICE_VERSION: version("a2a-grpc"), SERVICE_INSTANCE_ID: replica}
            )
        self._registry = CollectorRegistry()
        self._provider = MeterProvider(
            [_Reader(scope_info_enabled=False, registry=self._registry), *others],
            resource=resource,
            exemplar_filter=AlwaysOffExemplarFilter(),
            shutdown_on_exit=False,
        )
        # Of its own: agents may keep all threads of the pool busy, and then it counts to be able to look.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="a2a-metrics")
        instruments.bind(self._provider.get_meter("a2a_grpc"))

    async def render(self) -> bytes:
        """All metrics as they are now, in the text format 0.0.4."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, generate_latest, self._registry)

    def close(self) -> None:
        """Measure no longer."""
        instruments.bind(None)
        self._provider.shutdown()
        self._thread.shutdown(wait=False, cancel_futures=True)
