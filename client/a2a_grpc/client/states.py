"""What the states of a task mean to somebody who waits for it (specification 4.1.3)."""

from typing import Final

from a2a_grpc.pb import a2a_pb2

TERMINAL: Final = frozenset(
    {
        a2a_pb2.TASK_STATE_COMPLETED,
        a2a_pb2.TASK_STATE_FAILED,
        a2a_pb2.TASK_STATE_CANCELED,
        a2a_pb2.TASK_STATE_REJECTED,
    }
)
INTERRUPTED: Final = frozenset({a2a_pb2.TASK_STATE_INPUT_REQUIRED, a2a_pb2.TASK_STATE_AUTH_REQUIRED})


def state_in(event: a2a_pb2.StreamResponse) -> a2a_pb2.TaskState | None:
    """The state that an event reports; None for one that reports no state."""
    match event.WhichOneof("payload"):
        case "task":
            return event.task.status.state
        case "status_update":
            return event.status_update.status.state
    return None


def task_id_in(event: a2a_pb2.StreamResponse) -> str:
    """The task that an event is about; empty for a bare message."""
    match event.WhichOneof("payload"):
        case "task":
            return event.task.id
        case "status_update":
            return event.status_update.task_id
        case "artifact_update":
            return event.artifact_update.task_id
    return ""
