"""The trace that a call is part of (W3C Trace Context), where the program that calls has one."""

import sys
from collections.abc import Mapping
from typing import Final

_NONE: Final[Mapping[str, str]] = {}


def trace_headers() -> Mapping[str, str]:
    """`traceparent` and `tracestate` of the span that is current for OpenTelemetry; nothing where there is none.

    OpenTelemetry is not loaded for it: a program that has not done so has no span either.
    """
    trace = sys.modules.get("opentelemetry.trace")
    # Another thread may be about to load it.
    current = getattr(trace, "get_current_span", None)
    if current is None:
        return _NONE
    context = current().get_span_context()
    if not context.is_valid:
        return _NONE
    headers = {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"}
    if context.trace_state:
        headers["tracestate"] = context.trace_state.to_header()
    return headers
