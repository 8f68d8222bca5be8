"""Everything that is measured, each instrument once.

Names follow the semantic conventions of OpenTelemetry, units are UCUM; Prometheus reads `rpc.server.call.duration` in
`s` as `rpc_server_call_duration_seconds`. The values of a label come from the code or from the configuration, never
from what a caller made up, so that there are few. Without `bind` an instrument does nothing.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:  # to load it takes longer than all that is needed where nothing is measured
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

_Take = Callable[[float, Mapping[str, str]], None]


class Counter:
    """A number that only grows."""

    def __init__(self, name: str, unit: str, about: str, *labels: str, kinds: Iterable[str] = ()) -> None:
        """`kinds`: the values that the one label may have, where there is one and they are known."""
        self.name = name
        self._unit = unit
        self._about = about
        self.labels = labels
        self._kinds = [(kind,) for kind in kinds] if labels else [()]
        self._take: _Take | None = None

    def bind(self, meter: "Meter | None") -> None:
        """Count with `meter` from now on; None: no longer."""
        self._take = None if meter is None else meter.create_counter(self.name, self._unit, self._about).add
        # Of a number that is first seen as a one, nobody who asks for its growth is told.
        for values in self._kinds:
            self._count(0, values)

    def add(self, *values: str) -> None:
        """Count one more, under the values of the labels in their order."""
        self._count(1, values)

    def _count(self, more: int, values: tuple[str, ...]) -> None:
        if self._take is not None:
            self._take(more, dict(zip(self.labels, values, strict=True)))


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
        self.labels = labels
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
        if seconds < summary.least:  # noqa: PLR1730 - the function would cost as much as all the rest
            summary.least = seconds
        if seconds > summary.most:  # noqa: PLR1730
            summary.most = seconds

    def read(self) -> "list[tuple[dict[str, str], Summary]]":
        """What was recorded, by labels; from any thread."""
        return [(dict(zip(self.labels, values, strict=True)), one) for values, one in self._sums.copy().items()]


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
    """A number that goes up and down, looked at when it is read. What is not known is not told."""

    def __init__(self, name: str, unit: str, about: str, *labels: str) -> None:
        self.name = name
        self.unit = unit
        self._about = about
        self.labels = labels
        self._look: Callable[[], Look] = _unknown
        self.wanted = False
        """Somebody reads it."""

    def bind(self, meter: "Meter | None") -> None:
        """As `Counter.bind`."""
        self.wanted = meter is not None
        if meter is None:
            self._look = _unknown
        else:
            meter.create_observable_up_down_counter(self.name, [self._observe], self.unit, self._about)

    def watch(self, look: Callable[[], "Look"]) -> None:
        """`look` tells the number, or each by the values of its labels; None: it is not known. From any thread."""
        self._look = look

    def _observe(self, _: "CallbackOptions") -> "Iterable[Observation]":
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - see above

        seen = self._look()
        if seen is None:
            return ()
        if not isinstance(seen, Mapping):
            return (Observation(seen),)
        return [Observation(one, dict(zip(self.labels, values, strict=True))) for values, one in seen.items()]


Look: TypeAlias = float | Mapping[tuple[str, ...], float] | None


def _unknown() -> None:
    """What is told of a level that nobody knows."""


class Open:
    """How many of something are open now, of each of its kinds."""

    def __init__(self, name: str, unit: str, about: str, label: str, kinds: Iterable[str]) -> None:
        self.name = name
        self.unit = unit
        self.labels = (label,)
        self._level = Level(name, unit, about, label)
        self._open: dict[tuple[str, ...], float] = {(kind,): 0 for kind in kinds}

    def bind(self, meter: "Meter | None") -> None:
        """As `Counter.bind`; those that are open already count."""
        self._level.bind(meter)
        self._level.watch(self._open.copy)

    def change(self, by: int, kind: str) -> None:
        """So many more, or fewer, are open of that kind. From the thread of the event loop."""
        self._open[(kind,)] += by


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
"""By tenant as configured, whose limit it was (`caller`, `tenant`, `peer`, `task`), and of what (`rate:send`)."""

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

TURNS: Final = Durations(
    "a2a.turn.duration",
    "Turns that were run here, each attempt from where the agent's function is called to where it is over.",
    (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0),
    "a2a.turn.outcome",
)
"""By outcome: the state that it ended in (`completed`, `input_required`, …), `retry` (it is to be run again),
`timeout`, `stopped` (the process ends), `lost` (the claim was)."""

TASKS: Final = Level("a2a.tasks", "{task}", "Tasks in the store.", "a2a.task.state")
"""By state, such as `working`. The same on every replica."""

QUEUE_DEPTH: Final = Level("a2a.queue.depth", "{turn}", "Turns that wait for a replica. The same on every replica.")

QUEUE_AGE: Final = Level("a2a.queue.age", "s", "How long the one has waited that waits longest for a replica; or 0.")

TURNS_ACTIVE: Final = Level("a2a.turns.active", "{turn}", "Turns that run in this process.")

TURNS_LIMIT: Final = Level("a2a.turns.limit", "{turn}", "Turns that may run in this process.")

TURNS_RECOVERED: Final = Counter("a2a.turns.recovered", "{turn}", "Turns that were taken from a lost replica.")

DELIVERIES: Final = Durations(
    "a2a.event.delivery.duration",
    "Events on their way from the log to a stream of this process.",
    (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0),
    "a2a.event.path",
)
"""By path. `local`: from where the log has taken it. `followed`, on another replica than its turn: from the time in its
status, by the clocks of both."""

FOLLOWER_REPAIRS: Final = Counter(
    "a2a.follower.repairs",
    "{repair}",
    "Looks of a stream into the log, for what did not come to it.",
    "a2a.follower.reason",
    kinds=("gap", "buffer", "doubt", "silence"),
)
"""By reason: `gap` (one was missing), `buffer` (too many came for its reader), `doubt` (the connection was made anew,
or the turn moved), `silence` (nothing came for long)."""

FOLLOWER_LAG: Final = Level(
    "a2a.follower.lag", "{event}", "Events that wait in this process for the stream that is furthest behind."
)

STREAMS: Final = Open(
    "a2a.streams.active",
    "{stream}",
    "Streams that are open in this process.",
    "rpc.system.name",
    ("grpc", "http_json", "jsonrpc"),
)
"""By binding, as the calls. It is never without a number, and the reader of Prometheus is not called without any."""

STORE_CALLS: Final = Durations(
    "db.client.operation.duration",
    "Calls to the store, from where they are sent to their answer.",
    (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    "db.operation.name",
)
"""By the name of the script or the command."""

STORE_WAITS: Final = Durations(
    "db.client.connection.wait_time",
    "Writes to the store, from the first call in each to where it is sent: no connection, or a busy process.",
    (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0, 45.0),
)

WEBHOOK_ATTEMPTS: Final = Counter(
    "a2a.webhook.attempts",
    "{attempt}",
    "Attempts to tell a webhook of an event.",
    "a2a.webhook.outcome",
    kinds=("delivered", "failed", "refused"),
)
"""By outcome: `delivered`, `failed`, `refused` (the policy on destinations)."""

WEBHOOKS: Final = Durations(
    "a2a.webhook.duration",
    "Requests to webhooks, each until its answer.",
    (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
    "a2a.webhook.outcome",
)
"""By outcome, as the attempts; what the policy refuses makes no request."""

DEAD_LETTERS: Final = Counter(
    "a2a.dead_letters", "{letter}", "What was given up.", "a2a.dead_letter.kind", kinds=("turn", "webhook")
)
"""By kind: `turn`, `webhook`."""

UPSTREAM_READY: Final = Level(
    "a2a.upstream.ready", "{upstream}", "1 while a gateway reaches a replica that takes calls, else 0."
)

ALL: Final = (
    CALLS,
    STREAMS,
    TURNS,
    TURNS_ACTIVE,
    TURNS_LIMIT,
    TURNS_RECOVERED,
    TASKS,
    QUEUE_DEPTH,
    QUEUE_AGE,
    DELIVERIES,
    FOLLOWER_LAG,
    FOLLOWER_REPAIRS,
    DEAD_LETTERS,
    WEBHOOK_ATTEMPTS,
    WEBHOOKS,
    STORE_CALLS,
    STORE_WAITS,
    LIMITS_REACHED,
    LIMITS_UNCHECKED,
    AUTHENTICATION_FAILURES,
    UPSTREAM_READY,
)


def bind(meter: "Meter | None") -> None:
    """Measure with `meter` from now on; None: nothing."""
    for instrument in ALL:
        instrument.bind(meter)
