"""The record of one run: every call with what came back, every fault, every note of the agent, and what was left.

All of it can be written to a file and read again, so that a run that went wrong can be looked at, and checked anew.
"""

import gzip
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import orjson

from a2a_grpc.pb import a2a_pb2
from tests.chaos.notes import Note

OK = "OK"
LOST = "LOST"
"""The connection broke, or nobody was there: whether the call had an effect is not known."""
LATE = "LATE"
"""The caller's deadline passed."""
LEFT = "LEFT"
"""The caller went away."""


class Event(NamedTuple):
    """One event as a stream told it, or one entry of a log.

    `payload` is a StreamResponse without its number, in hex.
    """

    seq: int
    at: float
    payload: str

    @property
    def response(self) -> a2a_pb2.StreamResponse:
        return a2a_pb2.StreamResponse.FromString(bytes.fromhex(self.payload))


def packed(message: a2a_pb2.StreamResponse | a2a_pb2.Task) -> str:
    """The same text for messages that are equal."""
    return message.SerializeToString(deterministic=True).hex()


@dataclass(slots=True, kw_only=True)
class Call:
    """One call of one caller to one replica. Times are of the monotonic clock."""

    caller: str
    operation: str
    binding: str
    """grpc or http"""
    replica: int
    old: bool = False
    """The replica was one of the version before this."""
    began: float
    ended: float = 0.0
    outcome: str = ""
    """OK, LOST, LATE, LEFT, or the reason that the service gave."""
    detail: str = ""
    message: str = ""
    """The id of the message that was sent, and its text."""
    text: str = ""
    task: str = ""
    """The id of the task that the call names."""
    cursor: int | None = None
    """The `last-event-id` that was sent, and the one that came back."""
    resumed: int | None = None
    told: str = ""
    """The id of the task that came back."""
    answer: str = ""
    """The task itself, in hex: of a call that is no stream."""
    events: list[Event] = field(default_factory=list)
    listed: list[str] = field(default_factory=list)
    """ListTasks: the ids on all pages."""

    def answered(self) -> a2a_pb2.Task:
        """The task that came back."""
        return a2a_pb2.Task.FromString(bytes.fromhex(self.answer))


@dataclass(slots=True, kw_only=True)
class Fault:
    """Something that was done to a replica (its number), or to the store (None)."""

    kind: str
    replica: int | None
    pid: int = 0
    """The process that it was done to."""
    began: float
    ended: float = 0.0


@dataclass(slots=True, kw_only=True)
class Left:
    """What was left of one task at the end: its log, and what each replica says of it."""

    task: str
    log: list[Event]
    answers: list[str]
    """What GetTask gave: a Task in hex, or the reason why there is none."""


@dataclass(slots=True, kw_only=True)
class History:
    """One run."""

    seed: int
    max_attempts: int
    calls: list[Call] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    settling: float = 0.0
    """Seconds from the end of the load until all was settled."""
    letters: list[str] = field(default_factory=list)
    """The ids of the tasks that a dead letter was kept of, once for each letter."""
    audit: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    """What the replicas said."""


_ROWS = {"calls": Call, "faults": Fault, "notes": Note, "left": Left}


def save(history: History, path: Path) -> None:
    """Writes a history: one line of JSON for everything in it."""
    with gzip.open(path, "wb", compresslevel=3) as file:
        for name, value in asdict(history).items():
            for row in value if isinstance(value, list) else [value]:
                file.write(orjson.dumps([name, row], default=list) + b"\n")


def load(path: Path) -> History:
    """Reads what `save` wrote."""
    history = History(seed=0, max_attempts=0)
    with gzip.open(path) as file:
        for line in file:
            name, row = orjson.loads(line)
            if name in _ROWS:
                for events in ("events", "log"):
                    if events in row:
                        row[events] = _events(row[events])
                getattr(history, name).append(_ROWS[name](**row))
            elif isinstance(getattr(history, name), list):
                getattr(history, name).append(row)
            else:
                setattr(history, name, row)
    return history


def _events(rows: Iterable[tuple[int, float, str]]) -> list[Event]:
    return [Event(*row) for row in rows]
