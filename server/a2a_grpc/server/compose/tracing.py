"""The traces and where they go."""

import logging
from contextlib import AsyncExitStack

from a2a_grpc.server.compose.collector import collector_of, farewell
from a2a_grpc.server.settings import Settings

log = logging.getLogger("a2a_grpc.server")


def trace(settings: Settings, stack: AsyncExitStack, replica: str) -> None:
    """Record traces and send them to a collector, where there is one, until `stack` is closed.

    To be called before there is anything that could be traced: what is made afterwards may look at `TRACES.on` once.
    """
    collector = collector_of(settings, replica)
    if collector is None:
        return
    from a2a_grpc.server.telemetry.otlp import TraceExport  # noqa: PLC0415 -- as in `collector_of`
    from a2a_grpc.server.telemetry.tracing import Sampling  # noqa: PLC0415

    otlp = settings.otlp
    export = TraceExport(collector, Sampling(otlp.ratio, otlp.by_parent))
    stack.push_async_callback(export.close, farewell(settings))
    log.info("traces go to %s (%s, %g)", collector.endpoint, otlp.sampler, otlp.ratio)
