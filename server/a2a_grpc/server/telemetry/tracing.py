"""The seam to what records traces: W3C contexts, and spans that cost nothing where nothing is traced.

Nothing here loads OpenTelemetry. `TRACES.bind` is given what does (`spans.Recorder`), and until then every question is
answered by one look at `TRACES.on`. A span that is not sampled is decided here too: the SDK takes as long to make one
that nobody reads as some calls take for a tenth of their work.

Names and values of attributes come from the code, the configuration, or ids that are cut at `LONGEST` characters; never
a header, a part of a message, a path or a credential.
"""

import random
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
LONGEST: Final = 256
"""Characters of an id in an attribute: callers may make some up."""

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16
_SAMPLED = 1
# Those that have a meaning: sampled, and that the id is random (W3C Trace Context 2). The others must be sent as 0.
_FLAGS = 0b11
# What W3C Trace Context asks everybody to pass on at least (3.3.1.5), and at most so many members (3.3.1.1).
_LONGEST_STATE = 512
_MEMBERS = 32
_MEMBER = re.compile(
    r"[a-z0-9][a-z0-9_*/-]{0,240}(@[a-z][a-z0-9_*/-]{0,13})?="
    r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_WHOLE = 1 << 64

Value: TypeAlias = str | int | bool


class Context(NamedTuple):
    """Where something stands in a trace (W3C Trace Context), with lower-case hex ids."""

    trace_id: str
    span_id: str
    flags: int = 0
    state: str = ""

    @property
    def sampled(self) -> bool:
        """Who began the trace, or this part of it, records it."""
        return bool(self.flags & _SAMPLED)

    @property
    def parent(self) -> str:
        """The value of `traceparent`."""
        return f"00-{self.trace_id}-{self.span_id}-{self.flags:02x}"

    def unsampled(self) -> "Context":
        """The same of something that is not recorded."""
        return self._replace(flags=self.flags & ~_SAMPLED) if self.sampled else self

    def headers(self) -> dict[str, str]:
        """What to send along."""
        return {TRACEPARENT: self.parent, TRACESTATE: self.state} if self.state else {TRACEPARENT: self.parent}

    def packed(self) -> str:
        """As the store keeps it."""
        return f"{self.parent}\n{self.state}" if self.state else self.parent

    @classmethod
    def unpack(cls, text: bytes) -> "Context | None":
        """What `packed` made; None where there is none."""
        parent, _, state = text.decode().partition("\n")
        return _read(parent, state)


def extract(parameters: Mapping[str, str]) -> Context | None:
    """The context that came with a call as headers or metadata; None where there is none, or none that is valid.

    A `tracestate` that is longer than everybody has to pass on, or malformed, is dropped by itself (W3C, 3.3.1.5).
    """
    parent = parameters.get(TRACEPARENT)
    return None if parent is None else _read(parent.strip(" \t"), parameters.get(TRACESTATE, ""))


def _read(parent: str, state: str) -> Context | None:
    # A later version may add fields; no more than this of it is looked at (W3C, 3.2.4).
    found = _PARENT.fullmatch(parent) if len(parent) <= _LONGEST_STATE else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or trace_id == _NO_TRACE or span_id == _NO_SPAN or (version == "00" and more):
        return None
    return Context(trace_id, span_id, int(flags, 16) & _FLAGS, _checked(state) if state else "")


def _checked(state: str) -> str:
    if len(state) > _LONGEST_STATE:
        return ""
    members = [member for each in state.split(",") if (member := each.strip(" \t"))]
    keys = {member.partition("=")[0] for member in members}
    if len(members) > _MEMBERS or len(keys) < len(members) or not all(map(_MEMBER.fullmatch, members)):
        return ""
    return ",".join(members)


class Kind(Enum):
    """What a span stands for, as OpenTelemetry divides them."""

    SERVER = "SERVER"
    CLIENT = "CLIENT"
    PRODUCER = "PRODUCER"
    CONSUMER = "CONSUMER"
    INTERNAL = "INTERNAL"


class Span(Protocol):
    """Something that takes a while, as part of a trace."""

    sampled: bool
    """It is recorded. Else whatever is told to it is forgotten."""

    @property
    def context(self) -> Context:
        """Where it stands: what those parts of the trace name as their parent that belong to it."""

    @property
    def open(self) -> bool:
        """It is recorded and has not ended."""

    def rename(self, name: str) -> None:
        """It is known by now what it should be called."""

    def set(self, name: str, value: Value) -> None:
        """Note an attribute. A text is cut at `LONGEST` characters."""

    def end(self, error: str = "", *, fault: bool = True) -> None:
        """It is over; `error` says in a word or two of the code's own what went wrong, `fault`: on this side."""


class Unsampled:
    """A span that is not recorded. Its ids are made when somebody asks."""

    __slots__ = ("_context", "_trace_id")
    sampled = False
    open = False

    def __init__(self, trace_id: int, context: Context | None = None) -> None:
        self._trace_id = trace_id
        self._context = context

    @property
    def context(self) -> Context:
        if self._context is None:
            self._context = Context(f"{self._trace_id:032x}", f"{_span_id():016x}")
        return self._context

    def rename(self, name: str) -> None:
        """Nothing."""

    def set(self, name: str, value: Value) -> None:
        """Nothing."""

    def end(self, error: str = "", *, fault: bool = True) -> None:
        """Nothing."""


class Recorder(Protocol):
    """What records spans that are sampled, and lets those of an agent nest in them."""

    def start(
        self,
        name: str,
        kind: Kind,
        parent: Context | None,
        attributes: Mapping[str, Value],
        *,
        trace_id: int,
        span_id: int,
        links: Sequence[Context],
        begun_ns: int | None,
    ) -> Span:
        """Begin a span under `parent`, or with `trace_id` a trace; 0 stands for an id that it makes itself."""

    def start_here(self, name: str, kind: Kind, attributes: Mapping[str, Value]) -> Span:
        """Begin a span under the innermost that is current, be it an agent's."""

    def enter(self, span: Span) -> None:
        """Make `span` what OpenTelemetry takes for current, here and in what is begun from here on."""

    @property
    def tracer(self) -> Any:
        """An `opentelemetry.trace.Tracer` for agents."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Which traces are recorded."""

    ratio: float
    """Of the traces that begin here, or of all that come by where it is not by `parent`; 0 to 1."""
    by_parent: bool = True
    """What comes with a context is recorded where its sender records it."""
    _bound: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_bound", round(self.ratio * _WHOLE))

    def takes(self, trace_id: int) -> bool:
        """By the lower half of its id, so that all who take this share take the same traces."""
        return trace_id % _WHOLE < self._bound


_CURRENT: ContextVar[Span | None] = ContextVar("a2a_grpc_span", default=None)


class Traces:
    """Begins spans, where they are wanted."""

    def __init__(self) -> None:
        self.on = False
        """Traces are recorded. Whoever finds this False has no more to do."""
        self._recorder: Recorder | None = None
        self._sampling = Sampling(0.0)

    def bind(self, recorder: Recorder | None, sampling: Sampling | None = None) -> None:
        """Record with `recorder` what `sampling` takes from now on; None: nothing."""
        self._recorder = recorder
        self._sampling = sampling or Sampling(0.0)
        self.on = recorder is not None

    def start(
        self,
        name: str,
        kind: Kind,
        parent: Context | None,
        attributes: Mapping[str, Value],
        *,
        span_id: int = 0,
        links: Sequence[Context] = (),
        begun_ns: int | None = None,
    ) -> Span:
        """Begin a span of `parent`, or a trace where that is None. `begun_ns`: when it began, if not now (ns, 1970).

        What is current stays so: see `enter`.
        """
        trace_id = 0 if parent is not None else random.getrandbits(128) or 1
        recorder = self._recorder
        if recorder is None or not (self.takes(parent) if parent is not None else self._sampling.takes(trace_id)):
            return Unsampled(trace_id, None if parent is None else parent.unsampled())
        return recorder.start(
            name, kind, parent, attributes, trace_id=trace_id, span_id=span_id, links=links, begun_ns=begun_ns
        )

    def takes(self, parent: Context) -> bool:
        """Whether a part of `parent` is recorded here."""
        return parent.sampled if self._sampling.by_parent else self._sampling.takes(int(parent.trace_id, 16))

    @property
    def recording(self) -> bool:
        """What is current is recorded and has not ended: `start_here` has something to be a part of."""
        current = _CURRENT.get()
        return current is not None and current.open and self.on

    def start_here(self, name: str, kind: Kind, attributes: Mapping[str, Value]) -> Span | None:
        """Begin a span of what is current; None unless that is `recording`."""
        if not self.recording or self._recorder is None:
            return None
        return self._recorder.start_here(name, kind, attributes)

    def enter(self, span: Span, *, around_agent: bool = False) -> None:
        """Make `span` current in this task, and in what is begun from here on.

        `around_agent`: for OpenTelemetry as well where it is not sampled, so that what an agent calls is told so.
        """
        _CURRENT.set(span)
        if self._recorder is not None and (span.sampled or around_agent):
            self._recorder.enter(span)

    @property
    def tracer(self) -> Any:
        """An `opentelemetry.trace.Tracer` for agents; one whose spans go nowhere where nothing is traced."""
        if self._recorder is not None:
            return self._recorder.tracer
        from opentelemetry.trace import NoOpTracer  # noqa: PLC0415 -- only an agent that traces has a use for it

        return NoOpTracer()


TRACES: Final = Traces()


def current() -> Span | None:
    """The span that is current in this task; None where nothing is traced."""
    return _CURRENT.get()


def note(name: str, value: Value) -> None:
    """Note an attribute of what is current."""
    if TRACES.on and (span := _CURRENT.get()) is not None:
        span.set(name, value)


def here() -> Context | None:
    """The context of what is current; None where nothing is traced."""
    span = _CURRENT.get() if TRACES.on else None
    return None if span is None else span.context


def _span_id() -> int:
    return random.getrandbits(64) or 1
