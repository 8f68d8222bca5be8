"""What is measured has names that others know how to read, and stands in the documents."""

import re

import pytest

from a2a_grpc.server.telemetry.instruments import ALL, CALLS, DEAD_LETTERS, Counter, Durations
from tests.docs.documents import ROOT
from tests.support.metrics import measuring


def read_as(instrument: object) -> str:
    """The name that Prometheus has for it."""
    name = str(instrument.name).replace(".", "_")  # type: ignore[attr-defined]
    timed = isinstance(instrument, Durations) or getattr(instrument, "unit", "") == "s"
    return name + ("_seconds" if timed else "_total" if isinstance(instrument, Counter) else "")


def test_every_instrument_has_a_row_in_the_documents() -> None:
    section = (ROOT / "docs" / "OPERATIONS.md").read_text().partition("\n## Metrics\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) ?\| ", section, re.MULTILINE)
    assert [name for name, _ in rows] == [read_as(each) for each in ALL]
    # The values of a label stand in brackets behind it.
    labels = [re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", cell)) for _, cell in rows]
    assert labels == [[label.replace(".", "_") for label in each.labels] for each in ALL]


@pytest.mark.parametrize("instrument", ALL, ids=read_as)
def test_names(instrument: object) -> None:
    assert re.fullmatch(r"(a2a|rpc\.server|db\.client)(\.[a-z_]+)+", instrument.name)  # type: ignore[attr-defined]


def test_durations_stand_in_the_buckets_they_belong_to() -> None:
    """A bucket holds what is at most its bound, and all that is less (OpenTelemetry data model, Prometheus `le`)."""
    with measuring() as meters:
        for seconds in (0.0005, 0.001, 0.0011, 0.3, 1000):
            CALLS.record(seconds, "grpc", "m", "OK", "")
        seen = meters.read()
    name = "rpc_server_call_duration_seconds"
    counts = {
        bound: seen.of(f"{name}_bucket", le=bound) for bound in ("0.001", "0.0025", "0.25", "0.5", "300.0", "+Inf")
    }
    assert counts == {"0.001": 2, "0.0025": 3, "0.25": 3, "0.5": 4, "300.0": 4, "+Inf": 5}
    assert seen.of(f"{name}_count") == 5
    assert seen.of(f"{name}_sum") == pytest.approx(1000.3026)


def test_counters_begin_at_none() -> None:
    """Prometheus tells how much a number has grown between two looks: the first one must not be of a one."""
    with measuring() as meters:
        before = meters.read()
        DEAD_LETTERS.add("turn")
        after = meters.read()
    name = "a2a_dead_letters_total"
    for kind in ("turn", "webhook"):
        assert frozenset({("a2a_dead_letter_kind", kind)}) in before.labels(name)
    assert (before.of(name), after.of(name)) == (0, 1)
    for name in ("a2a_turns_recovered_total", "a2a_limit_unchecked_total"):
        assert before.samples[name, frozenset()] == 0


def test_nothing_is_measured_where_nobody_reads() -> None:
    with measuring():
        pass
    CALLS.record(1.0, "grpc", "m", "OK", "")
    assert not CALLS.wanted
    assert CALLS.read() == []
