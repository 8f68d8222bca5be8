"""The metrics and their listener."""

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from a2a_grpc.server.bindings.asgi.listener import HttpListener
from a2a_grpc.server.bindings.asgi.metrics import MetricsEndpoint
from a2a_grpc.server.compose.listeners import opened
from a2a_grpc.server.settings import Settings
from a2a_grpc.server.telemetry.instruments import TURNS_ACTIVE

log = logging.getLogger("a2a_grpc.server")


async def measure(
    settings: Settings, stack: AsyncExitStack, replica: str, *, turns: Callable[[], int] | None = None
) -> None:
    """Measure and let others read it, where a listener for that is wanted; `turns` tells how many run.

    A second service on one machine finds the default port taken; that is no reason not to start. Raises: ValueError
    where an address that was asked for cannot be had.
    """
    addr = settings.metrics.addr
    if addr is None:
        return
    # It takes a fifth of a second to load.
    from a2a_grpc.server.telemetry.prometheus import CONTENT_TYPE, Exposition  # noqa: PLC0415

    exposition = Exposition(replica)
    listener = HttpListener(MetricsEndpoint(exposition.render, CONTENT_TYPE), addr.host, addr.port)
    try:
        port = await opened(listener.start(), "A2A_METRICS_ADDR")
    except ValueError as error:
        exposition.close()
        if settings.metrics.asked_for:
            raise
        log.warning("no metrics of this process can be read: %s", error)
        return
    stack.callback(exposition.close)
    stack.push_async_callback(listener.stop, 0.0)
    if turns is not None:
        TURNS_ACTIVE.watch(turns)
    log.info("metrics on %s:%d", addr.host, port)
