"""Everything that is measured, each instrument once.

Names follow the semantic conventions of OpenTelemetry, units are UCUM; Prometheus reads `rpc.server.call.duration` in
`s` as `rpc_server_call_duration_seconds`. The values of a label come from the code or from the configuration, never
from what a caller made up, so that there are few. Without `bind` an instrument does nothing.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # to load it takes longer than all that is needed where nothing is measured
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

_Take = Callable[[float, Mapping[str, str]], None]


class Counter:
    """A number that only grows."""

    def __init__(self, name: str, unit: str, about: str, *labels: str) -> None:
        self.name = name
        self._unit = unit
        self._about = about
        self._labels = labels
        self._take: _Take | None = None

    def bind(self, meter: "Meter | None") -> None:
        """Count with `meter` from now on; None: no longer."""
        self._take = None if meter is None else meter.create_counter(self.name, self._unit, self._about).add

    def add(self, *values: str) -> None:
        """Count one more, under the values of the labels in their order."""
        if self._take is not None:
            self._take(1, dict(zip(self._labels, values, strict=True)))


class Durations:
    """How long something took, in seconds.

    It adds up by itself what others read: the SDK takes 9 µs and more for each measurement, mostly to check and to hash
    the attributes, which is a twelfth of some calls. This takes one.
    """

    def __init__(self, name: str, about: str, bounds: tuple[float, ...], *labels: str) -> None:
        """`bounds`: the upper ends of the buckets, in seconds."""
        self.name = name
        self.about = about
        self.bounds = bounds
        self._labels = labels
        self.wanted = False
        """Somebody reads it."""
        self._sums: dict[tuple[str, ...], Summary] = {}

    def bind(self, meter: "Meter | None") -> None:
        """As `Counter.bind`; it begins at zero."""
        self.wanted = meter is not None
        self._sums = {}

    def record(self, seconds: float, *values: str) -> None:
        """One more took `seconds`, under the values of the labels in their order."""
        if not self.wanted:
            return
        summary = self._sums.get(values)
        if summary is None:
            summary = self._sums[values] = Summary(len(self.bounds))
        summary.counts[bisect_left(self.bounds, seconds)] += 1
        summary.total += seconds
        summary.least = min(summary.least, seconds)
        summary.most = max(summary.most, seconds)

    def read(self) -> "list[tuple[dict[str, str], Summary]]":
        """What was recorded, by labels; from any thread."""
        return [(dict(zip(self._labels, values, strict=True)), one) for values, one in self._sums.copy().items()]


class Summary:
    """What was recorded under the same labels."""

    __slots__ = ("begun_ns", "counts", "least", "most", "total")

    def __init__(self, bounds: int) -> None:
        self.counts = [0] * (bounds + 1)
        """By bucket; the last one holds what is beyond all bounds."""
        self.total = 0.0
        self.least = math.inf
        self.most = 0.0
        self.begun_ns = time.time_ns()


class Level:
    """A number that goes up and down, looked at when it is read; from any thread."""

    def __init__(self, name: str, unit: str, about: str) -> None:
        self.name = name
        self._unit = unit
        self._about = about
        self._look: Callable[[], int] | None = None

    def bind(self, meter: "Meter | None") -> None:
        """As `Counter.bind`."""
        if meter is not None:
            meter.create_observable_up_down_counter(self.name, [self._observe], self._unit, self._about)

    def watch(self, look: Callable[[], int]) -> None:
        """`look` tells the number."""
        self._look = look

    def _observe(self, _: "CallbackOptions") -> "Iterable[Observation]":
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - see above

        return (Observation(0 if self._look is None else self._look()),)


CALLS: Final = Durations(
    "rpc.server.call.duration",
    "Calls that were answered, a stream from its first to its last event.",
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
    "rpc.system.name",
    "rpc.method",
    "rpc.response.status_code",
    "error.type",
)
"""By binding (`grpc`, `http_json`, `jsonrpc`), operation, google.rpc code, and the reason of an error (else "")."""

LIMITS_REACHED: Final = Counter(
    "a2a.limit.refusals",
    "{call}",
    "Calls that were refused for a limit.",
    "a2a.tenant",
    "a2a.limit.of",
    "a2a.limit",
)
"""By tenant as configured, whose limit it was (`caller`, `tenant`, `peer`), and what was limited (`rate:send`)."""

LIMITS_UNCHECKED: Final = Counter(
    "a2a.limit.unchecked", "{call}", "Calls that were let in uncounted because the store was away."
)

AUTHENTICATION_FAILURES: Final = Counter(
    "a2a.authentication.failures",
    "{call}",
    "Calls that were refused for their credentials.",
    "a2a.auth.scheme",
    "error.type",
)
"""By scheme ("" where none was used), and what was wrong: `missing`, `invalid`, `scope`, `denied`."""

WEBHOOK_ATTEMPTS: Final = Counter(
    "a2a.webhook.attempts", "{attempt}", "Attempts to tell a webhook of an event.", "a2a.webhook.outcome"
)
"""By outcome: `delivered`, `failed`, `refused` (the policy on destinations)."""

DEAD_LETTERS: Final = Counter("a2a.dead_letters", "{letter}", "What was given up.", "a2a.dead_letter.kind")
"""By kind: `turn`, `webhook`."""

TURNS_ACTIVE: Final = Level("a2a.turns.active", "{turn}", "Turns that run in this process.")

ALL: Final = (
    CALLS,
    LIMITS_REACHED,
    LIMITS_UNCHECKED,
    AUTHENTICATION_FAILURES,
    WEBHOOK_ATTEMPTS,
    DEAD_LETTERS,
    TURNS_ACTIVE,
)


def bind(meter: "Meter | None") -> None:
    """Measure with `meter` from now on; None: nothing."""
    for instrument in ALL:
        instrument.bind(meter)
