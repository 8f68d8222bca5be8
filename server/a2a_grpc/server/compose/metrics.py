"""The metrics and their listener."""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from a2a_grpc.server.bindings.asgi.listener import HttpListener
from a2a_grpc.server.bindings.asgi.metrics import CONTENT_TYPE, MetricsEndpoint
from a2a_grpc.server.bindings.upstream.channel import COMPONENT
from a2a_grpc.server.compose.collector import collector_of, farewell
from a2a_grpc.server.compose.listeners import opened
from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.server.settings import Settings
from a2a_grpc.server.telemetry.instruments import TURNS_ACTIVE, UPSTREAM_READY
from a2a_grpc.server.worker import Membership

log = logging.getLogger("a2a_grpc.server")


async def measure(
    settings: Settings,
    stack: AsyncExitStack,
    replica: str,
    *,
    turns: Callable[[], int] | None = None,
    member: Membership | None = None,
) -> None:
    """Measure and let others read it, where that is wanted, and a collector have it; `turns` tells how many run.

    The metrics of a `member` its supervisor asks for. Otherwise: see `listen_metrics`.
    """
    if settings.otlp.disabled:
        return
    collector = collector_of(settings, replica)
    if settings.metrics.addr is None and collector is None:
        return
    # It takes a fifth of a second to load.
    from a2a_grpc.server.telemetry.prometheus import Exposition  # noqa: PLC0415

    async with AsyncExitStack() as measuring:
        if collector is None:
            exposition = Exposition(replica)
            measuring.callback(exposition.close)
        else:
            from a2a_grpc.server.telemetry.otlp import MetricExport  # noqa: PLC0415

            export = MetricExport(collector, settings.otlp.metric_interval)
            exposition = Exposition(replica, resource=collector.resource, others=[export])
            measuring.callback(exposition.close)
            measuring.push_async_callback(export.close, farewell(settings))
        if member is not None:
            member.publish(exposition.render)
        elif not await listen_metrics(settings, measuring, exposition.render) and collector is None:
            return
        stack.push_async_callback(measuring.pop_all().aclose)
    if turns is not None:
        TURNS_ACTIVE.watch(turns)


def watch_upstream(readiness: Readiness) -> None:
    """Tell of the upstream of a gateway, where anything is measured."""

    def reached() -> float | None:
        # From any thread: a copy is made in one step.
        state = readiness.components().get(COMPONENT)
        return None if state is None else float(state.ready)

    UPSTREAM_READY.watch(reached)


async def listen_metrics(settings: Settings, stack: AsyncExitStack, render: Callable[[], Awaitable[bytes]]) -> bool:
    """Let others read what `render` gives, where a listener for that is wanted and its port can be had.

    A second service on one machine finds the default port taken; that is no reason not to start. Raises: ValueError
    where an address that was asked for cannot be had.
    """
    addr = settings.metrics.addr
    if addr is None or settings.otlp.disabled:
        return False
    listener = HttpListener(MetricsEndpoint(render, CONTENT_TYPE), addr.host, addr.port)
    try:
        port = await opened(listener.start(), "A2A_METRICS_ADDR")
    except ValueError as error:
        if settings.metrics.asked_for:
            raise
        log.warning("no metrics of this process can be read: %s", error)
        return False
    stack.push_async_callback(listener.stop, 0.0)
    log.info("metrics on %s:%d", addr.host, port)
    return True
