"""What the store hands out and takes in: stored tasks, and the steps of a task's life with their outcomes."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core.events import Event, Fold
from a2a_grpc.server.telemetry.tracing import Context

# The names and values of an entry with a message whose call was not traced.
_UNTRACED = 6


class Scope(NamedTuple):
    """Whose a task is: every look-up and every index is bound to it."""

    tenant: str
    owner: str


@dataclass(slots=True, kw_only=True)
class StoredTask:
    """A task as it stands in the store, folded up to `seq`."""

    task_id: str
    scope: Scope
    context: str
    state: a2a_pb2.TaskState
    seq: int
    epoch: int
    holder: str
    attempt: int
    turn: int
    """The seq of the message that the current turn answers (1: the first message of the task)."""
    queue: tuple[int, ...]
    """The seqs of messages that wait for a turn of their own."""
    canceling: bool
    checkpoint: bytes | None
    told: int
    """The seq of the entry that brought the present status."""
    limit: int | None
    """How many attempts a turn has; None where the task was stored before that was said."""
    first: int
    """The seq of the oldest entry that the log still has: 1, unless it was too long."""
    fold: Fold


class Outcome(enum.Enum):
    """How a step of a task's life ended."""

    CREATED = "CREATED"
    STARTED = "STARTED"
    """The message found the task parked and began a turn."""
    QUEUED = "QUEUED"
    """A turn runs or waits: the message joined the history and waits (or, for an append, stood against it)."""
    OK = "OK"
    ASKED = "ASKED"
    """The holder was told to cancel (or, for an append that parks the task: is to cancel it instead)."""
    CANCELED = "CANCELED"
    CLAIMED = "CLAIMED"
    TOOK = "TOOK"
    NONE = "NONE"
    KNOWN = "KNOWN"
    """The same message was accepted before."""
    FULL = "FULL"
    """The ready queue is at its limit."""
    CROWDED = "CROWDED"
    """As many messages wait for the task as may."""
    HOOKED = "HOOKED"
    """The task has as many webhooks as it may."""
    GONE = "GONE"
    STATE = "STATE"
    """The task is in another state than expected."""
    FENCED = "FENCED"
    """Another claim has been made since: this holder has nothing to say any more."""
    LOST = "LOST"
    """Another replica was faster."""


@dataclass(slots=True, kw_only=True)
class Dedupe:
    """What makes a message recognisable when it is sent again within `window_ms`, and a call when it is repeated."""

    message_id: str
    digest: str
    window_ms: int
    call_id: str


@dataclass(slots=True, kw_only=True)
class Origin:
    """A caller's message as it was accepted: what a turn begins with, on whatever replica."""

    message: a2a_pb2.Message
    request: a2a_pb2.SendMessageRequest
    """Everything the caller said but the message."""
    extensions: tuple[str, ...]
    """The extensions that are active for it (4.6)."""
    trace: Context | None = None
    """Where its call stands in a trace; None where nothing is traced."""

    def packed(self) -> tuple[bytes, str, str]:
        """The request, the extensions and the trace as the store keeps them."""
        trace = "" if self.trace is None else self.trace.packed()
        return self.request.SerializeToString(), ",".join(self.extensions), trace


@dataclass(slots=True, kw_only=True)
class Webhook:
    """A webhook that comes with a message, to be stored with it."""

    id: str
    content: bytes
    """What the store keeps and hands back without looking into it."""
    limit: int
    """How many a task may have."""

    def packed(self) -> tuple[str, bytes]:
        """The id and the content."""
        return self.id, self.content


@dataclass(slots=True, kw_only=True)
class Placed:
    """The outcome of creating a task or of sending it a message."""

    outcome: Outcome
    task_id: str = ""
    seq: int = 0
    epoch: int = 0
    """The fencing epoch of this replica's claim; 0 where the turn waits for a replica."""
    digest: str = ""
    """With KNOWN: the digest of the message that was accepted; `task_id` and `seq` are where it went."""


@dataclass(slots=True, kw_only=True)
class Append:
    """Entries to be written by the holder of a task."""

    task_id: str
    scope: Scope
    context: str
    epoch: int
    operation: int
    """Counts the writes of one claim: the same number again is the same write again."""
    expected: a2a_pb2.TaskState
    entries: Sequence[bytes]
    state: a2a_pb2.TaskState | None = None
    """The state after the entries, if one of them is a status."""
    told: int = 0
    """How many entries there are up to the last status among them."""
    stamp_ms: int = 0
    terminal: bool = False
    idle_only: bool = False
    """Refuse with QUEUED when a message waits."""
    release: bool = False
    """Give the task up: the turn is over."""
    snapshot_at: int | None = None
    """Write `head` and `artifacts` as the snapshot if the log stood at this seq before the entries."""
    head: bytes = b""
    artifacts: bytes = b""


@dataclass(slots=True, kw_only=True)
class Appended:
    """The outcome of an append: with OK, the first entry's seq, and whether a caller wants the task canceled."""

    outcome: Outcome
    first: int = 0
    canceling: bool = False


@dataclass(slots=True, kw_only=True)
class Held:
    """The tasks that a replica holds."""

    task_ids: list[str]
    complete: bool
    """Every shard has answered: there are no others."""


@dataclass(slots=True)
class Page:
    """One page of a listing: the ids with their status timestamps (ms), newest first, and the exact total."""

    rows: list[tuple[str, int]]
    total: int


def origin_of(fields: Sequence[bytes]) -> Origin:
    """The message that a log entry brought, with what came along."""
    response = a2a_pb2.StreamResponse.FromString(fields[1])
    message = response.task.history[0] if response.HasField("task") else response.message
    return Origin(
        message=message,
        request=a2a_pb2.SendMessageRequest.FromString(fields[3]),
        extensions=tuple(uri for uri in fields[5].decode().split(",") if uri),
        trace=Context.unpack(fields[7]) if len(fields) > _UNTRACED else None,
    )


def kept_origin(
    message: bytes | None, request: bytes | None, extensions: bytes | None, trace: bytes | None
) -> Origin | None:
    """The message of a log entry that was kept aside when the log was cut."""
    if message is None:
        return None
    return origin_of((b"e", message, b"r", request or b"", b"x", extensions or b"", b"t", trace or b""))


def entries_of(raw: Sequence[tuple[bytes, Sequence[bytes]]]) -> list[Event]:
    """The events of an XRANGE reply."""
    return [
        Event(int(entry_id.partition(b"-")[0]), a2a_pb2.StreamResponse.FromString(fields[1]))
        for entry_id, fields in raw
    ]
