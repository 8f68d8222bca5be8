"""The metrics of several processes in one exposition."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from a2a_grpc.server.telemetry.merging import merged
from tests.support.metrics import parsed


def exposition(calls: int, *, more: bool) -> bytes:
    """What a process tells; the last one tells of `more`."""
    registry = CollectorRegistry()
    counter = Counter("calls", "Calls.", ["method"], registry=registry)
    counter.labels('with "quotes", {braces} and \\ spaces').inc(calls)
    Gauge("turns", "Turns.", registry=registry).set(calls / 2)
    if more:
        Histogram("took_seconds", "How long.", buckets=(1, 2), registry=registry).observe(1.5)
    return generate_latest(registry)


def test_each_sample_is_told_under_its_process_and_each_family_once() -> None:
    text = merged({"1": exposition(3, more=False), "2": exposition(5, more=True)}, "worker")
    reading = parsed(text.decode())
    method = {"method": 'with "quotes", {braces} and \\ spaces'}
    assert [reading.of("calls_total", worker=worker, **method) for worker in ("1", "2")] == [3, 5]
    assert [reading.of("turns", worker=worker) for worker in ("1", "2")] == [1.5, 2.5]
    assert [reading.of("took_seconds_bucket", worker="2", le=le) for le in ("1.0", "2.0", "+Inf")] == [0, 1, 1]
    assert reading.kinds == {"calls": "counter", "turns": "gauge", "took_seconds": "histogram"} | {
        name: kind for name, kind in reading.kinds.items() if name.endswith("_created")
    }
    lines = text.splitlines()
    assert len([line for line in lines if line.startswith(b"# TYPE")]) == len(reading.kinds)
    # The samples of a family stand together.
    families = [line.split(b"{")[0] for line in lines if not line.startswith(b"#")]
    assert families == sorted(families, key=families.index)


def test_of_nobody_there_is_nothing() -> None:
    assert merged({}, "worker") == b""
