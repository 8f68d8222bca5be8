"""The traces and where they go."""

import logging
from contextlib import AsyncExitStack
from typing import Final

from a2a_grpc.server.settings import Settings

log = logging.getLogger("a2a_grpc.server")

_FAREWELL: Final = 2.0
"""Seconds that a collector has at the end to take what is left. They are part of A2A_DRAIN_TIMEOUT."""


def trace(settings: Settings, stack: AsyncExitStack, replica: str) -> None:
    """Record traces and send them to a collector, where there is one, until `stack` is closed.

    To be called before there is anything that could be traced: what is made afterwards looks at `TRACES.on` once.
    """
    otlp = settings.otlp
    if otlp.endpoint is None:
        return
    # It takes a third of a second to load.
    from a2a_grpc.server.telemetry.otlp import Collector, TraceExport  # noqa: PLC0415
    from a2a_grpc.server.telemetry.tracing import Sampling  # noqa: PLC0415

    collector = Collector(
        endpoint=otlp.endpoint, replica=replica, attributes=otlp.attributes, headers=dict(otlp.headers.pairs)
    )
    export = TraceExport(collector, Sampling(otlp.ratio, otlp.by_parent))
    stack.push_async_callback(export.close, _FAREWELL)
    log.info("traces go to %s (%s, %g)", otlp.endpoint, otlp.sampler, otlp.ratio)
