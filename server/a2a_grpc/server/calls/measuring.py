"""The measurement of each call, when it is over."""

import time

from a2a_grpc.server.calls.access import SYSTEMS, outcome
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.telemetry.instruments import CALLS


def measure(call: Call, *, begun: float, error: BaseException | None, service: str) -> None:
    """Count a call of `service` (its full name) that began at `begun` (time.perf_counter) and ended with `error`."""
    if not CALLS.wanted:
        return
    code, reason = outcome(error)
    CALLS.record(
        time.perf_counter() - begun,
        SYSTEMS.get(call.binding, ""),
        f"{service}/{call.method}" if call.method else "_OTHER",
        code,
        reason,
    )
