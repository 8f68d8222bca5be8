"""What happens to a task, as a log of numbered entries; `Fold` makes a task of them.

An entry is a `StreamResponse`. Its arm says what it is:

| arm               | meaning                                     | delivered to streams |
|-------------------|---------------------------------------------|----------------------|
| `task`            | the task was created                        | no (streams start with a snapshot) |
| `message`         | a caller's message joined the history       | no                   |
| `status_update`   | the status changed                          | yes                  |
| `artifact_update` | an artifact, or a chunk of one, was written | yes                  |
"""

from typing import NamedTuple

from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.folding import Fold as Fold


class Event(NamedTuple):
    """One entry of a task's log. `seq` counts from 1 within the task; 0 stands for "has no number" (a bare Message)."""

    seq: int
    response: a2a_pb2.StreamResponse


_DELIVERED = frozenset({"status_update", "artifact_update"})


def delivered(response: a2a_pb2.StreamResponse) -> bool:
    """Whether subscribers see this entry (3.1.2: after the Task only updates)."""
    return response.WhichOneof("payload") in _DELIVERED


def set_timestamp(stamp: Timestamp, milliseconds: int) -> None:
    """Set `stamp` to `milliseconds` since 1970 (5.6.1: millisecond precision)."""
    stamp.seconds = milliseconds // 1000
    stamp.nanos = milliseconds % 1000 * 1_000_000


def milliseconds(stamp: Timestamp) -> int:
    """Milliseconds since 1970 of `stamp`; what is finer is cut off."""
    return stamp.seconds * 1000 + stamp.nanos // 1_000_000


def message_added(message: a2a_pb2.Message) -> a2a_pb2.StreamResponse:
    """The entry by which a caller's `message` joins the history."""
    return a2a_pb2.StreamResponse(message=message)


def status_changed(
    task_id: str,
    context_id: str,
    state: a2a_pb2.TaskState,
    now_ms: int,
    message: a2a_pb2.Message | None = None,
    metadata: Struct | None = None,
) -> a2a_pb2.StreamResponse:
    """The entry by which a task takes `state` at `now_ms` (milliseconds since 1970)."""
    response = a2a_pb2.StreamResponse()
    update = response.status_update
    update.task_id = task_id
    update.context_id = context_id
    update.status.state = state
    set_timestamp(update.status.timestamp, now_ms)
    if message is not None:
        update.status.message.CopyFrom(message)
    if metadata is not None:
        update.metadata.CopyFrom(metadata)
    return response
