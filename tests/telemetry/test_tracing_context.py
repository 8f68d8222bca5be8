"""W3C Trace Context as it is read and kept, and what is recorded of what."""

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest

from a2a_grpc.server.telemetry import tracing
from a2a_grpc.server.telemetry.otlp import Collector, TraceExport
from a2a_grpc.server.telemetry.tracing import TRACES, Context, Kind, Sampling, extract
from tests.calls.pipelines import call, pipeline
from tests.support.collector import collecting

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
FIRST = f"00-{TRACE}-{SPAN}-01"
"""The example of the recommendation (2.2)."""


@pytest.fixture(autouse=True)
def nothing_traced() -> Iterator[None]:
    yield
    TRACES.bind(None)


@pytest.mark.parametrize(
    ("parent", "flags"),
    [
        (FIRST, 1),
        (f"  {FIRST}\t", 1),
        (f"00-{TRACE}-{SPAN}-00", 0),
        # Whoever passes it on must not pass on what has no meaning (3.2.2.5.2).
        (f"00-{TRACE}-{SPAN}-ff", 3),
        # A higher version is read as far as it is known (3.2.4).
        (f"cc-{TRACE}-{SPAN}-01", 1),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", 1),
    ],
)
def test_a_traceparent_is_read(parent: str, flags: int) -> None:
    assert extract({"traceparent": parent}) == Context(TRACE, SPAN, flags)


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "00",
        f"00-{TRACE}-{SPAN}",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}-01.",
        f"cc-{TRACE}-{SPAN}-01.what",
        f"0-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"{FIRST},{FIRST}",
        f"{FIRST}\n",
        f"cc-{TRACE}-{SPAN}-01-" + "x" * 500,
    ],
)
def test_a_traceparent_that_is_none_is_ignored(parent: str) -> None:
    assert extract({"traceparent": parent, "tracestate": "a=1"}) is None


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
        (" a=1 ,,\tb=2", "a=1,b=2"),
        ("tenant@vendor=x y", "tenant@vendor=x y"),
        ("a=1,a=2", ""),
        ("A=1", ""),
        ("a=", ""),
        ("a=é", ""),
        ("a=1=2", ""),
        ("a", ""),
        (",".join(f"k{number}=1" for number in range(33)), ""),
        (",".join(f"k{number}=1" for number in range(32)), ",".join(f"k{number}=1" for number in range(32))),
        ("a=" + "x" * 513, ""),
    ],
)
def test_a_tracestate_is_kept_or_dropped_by_itself(sent: str, kept: str) -> None:
    found = extract({"traceparent": FIRST, "tracestate": sent})
    assert found == Context(TRACE, SPAN, 1, kept)
    assert found.headers() == {"traceparent": FIRST, **({"tracestate": kept} if kept else {})}
    assert Context.unpack(found.packed().encode()) == found


def test_who_takes_the_same_share_takes_the_same_traces() -> None:
    """The lower 8 bytes of the id against the share, as the SDKs of OpenTelemetry do."""
    half = Sampling(0.5)
    assert half.takes(0x4BF92F3577B34DA6_7FFFFFFFFFFFFFFF)
    assert not half.takes(0x4BF92F3577B34DA6_8000000000000000)
    assert Sampling(1.0).takes(2**128 - 1)
    assert not Sampling(0.0).takes(1 << 64)


def test_nothing_is_recorded_where_nobody_reads() -> None:
    span = TRACES.start("name", Kind.SERVER, Context(TRACE, SPAN, 1, "a=1"), {})
    assert (TRACES.on, span.sampled, span.context) == (False, False, Context(TRACE, SPAN, 0, "a=1"))
    assert (tracing.here(), tracing.current()) == (None, None)
    with TRACES.tracer.start_as_current_span("of an agent") as made:
        assert not made.is_recording()


async def test_no_call_goes_through_the_step_where_nothing_is_traced() -> None:
    names = [step.name for step in pipeline()._chain]
    assert "tracing" not in names
    given = call(traceparent=FIRST)
    with collecting() as there:
        export = TraceExport(Collector(endpoint=there.endpoint, replica="r", attributes={}), Sampling(0))
        try:
            assert [step.name for step in pipeline()._chain][1] == "tracing"
            assert given.span is None
        finally:
            await export.close(1)


@pytest.mark.parametrize(
    ("sampling", "parent", "expected"),
    [
        (Sampling(0.0), Context(TRACE, SPAN, 1), True),
        (Sampling(1.0), Context(TRACE, SPAN, 0), False),
        (Sampling(0.0), None, False),
        (Sampling(1.0), None, True),
        (Sampling(0.0, by_parent=False), Context(TRACE, SPAN, 1), False),
        (Sampling(1.0, by_parent=False), Context(TRACE, SPAN, 0), True),
    ],
)
async def test_who_decides_what_is_recorded(sampling: Sampling, parent: Context | None, expected: bool) -> None:
    with collecting() as there:
        export = TraceExport(Collector(endpoint=there.endpoint, replica="r", attributes={}), sampling)
        span = TRACES.start("name", Kind.SERVER, parent, {"long": "x" * 1000}, span_id=7)
        context = span.context
        span.end()
        await export.close(5)
        assert (span.sampled, context.sampled) == (expected, expected)
        assert len(context.trace_id) == 32
        if parent is not None:
            assert context.trace_id == TRACE
        [seen] = there.spans() if expected else [None]
        if seen is not None:
            assert (seen.trace_id, seen.span_id) == (context.trace_id, f"{7:016x}")
            assert seen.attributes == {"long": "x" * 256}


async def test_what_has_ended_has_no_more_parts() -> None:
    """A task that a call has begun may outlive it by days."""
    with collecting() as there:
        export = TraceExport(Collector(endpoint=there.endpoint, replica="r", attributes={}), Sampling(1.0))
        span = TRACES.start("call", Kind.SERVER, None, {})

        async def within() -> list[object]:
            TRACES.enter(span)
            before = TRACES.start_here("script", Kind.CLIENT, {})
            span.end()
            return [before, TRACES.start_here("script", Kind.CLIENT, {})]

        before, after = await asyncio.create_task(within())
        assert (before is not None, after) == (True, None)
        await export.close(5)


async def test_spans_that_nobody_takes_hold_nobody_up() -> None:
    """The collector is silent: the queue stays as long as it is, and the end comes in time."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        endpoint = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        export = TraceExport(Collector(endpoint=endpoint, replica="r", attributes={}), Sampling(1.0))
        longest = 0.0
        for number in range(6000):
            begun = time.perf_counter()
            TRACES.start(f"{number}", Kind.SERVER, None, {}).end()
            longest = max(longest, time.perf_counter() - begun)
        assert longest < 1
        begun = time.perf_counter()
        await export.close(0.2)
        assert time.perf_counter() - begun < 5, "a fraction of what the exporter itself would wait"
