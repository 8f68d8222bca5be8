"""The span of a script that the store runs for something that is traced."""

import asyncio
from functools import partial
from typing import Any

from a2a_grpc.server.telemetry.tracing import TRACES, Kind, Span


def record(name: str, reply: asyncio.Future[Any]) -> None:
    """Make the call of the script `name`, which has begun, a span of what is current here, if that is recorded."""
    if not TRACES.recording:
        return
    span = TRACES.start_here(name, Kind.CLIENT, {"db.system.name": "redis", "db.operation.name": name})
    if span is not None:
        reply.add_done_callback(partial(_over, span))


def _over(span: Span, reply: asyncio.Future[Any]) -> None:
    if reply.cancelled():
        span.end("CANCELLED")
        return
    error = reply.exception()
    span.end("" if error is None else type(error).__name__)
