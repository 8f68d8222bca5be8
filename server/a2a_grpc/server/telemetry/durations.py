"""The durations, which add themselves up, among what the SDK has measured. Only loaded where something reads them."""

import time

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    ResourceMetrics,
    ScopeMetrics,
)

from a2a_grpc.server.telemetry import instruments


def with_durations(metrics_data: MetricsData) -> MetricsData:
    """What the SDK has, and the durations as they are now."""
    metrics = [_metric(each) for each in instruments.ALL if isinstance(each, instruments.Durations)]
    of_resource = metrics_data.resource_metrics[0]
    # Of two entries for one scope the encoder of OTLP takes the last.
    scope, *others = of_resource.scope_metrics
    scopes = [ScopeMetrics(scope.scope, [*scope.metrics, *metrics], scope.schema_url), *others]
    return MetricsData([ResourceMetrics(of_resource.resource, scopes, of_resource.schema_url)])


def _metric(durations: instruments.Durations) -> Metric:
    now = time.time_ns()
    points = []
    for labels, summary in durations.read():
        counts = summary.counts.copy()
        points.append(
            HistogramDataPoint(
                attributes=labels,
                start_time_unix_nano=summary.begun_ns,
                time_unix_nano=now,
                count=sum(counts),
                sum=summary.total,
                bucket_counts=counts,
                explicit_bounds=durations.bounds,
                min=summary.least,
                max=summary.most,
            )
        )
    return Metric(durations.name, durations.about, "s", Histogram(points, AggregationTemporality.CUMULATIVE))
