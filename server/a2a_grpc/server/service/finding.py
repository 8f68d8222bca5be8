"""Looking up a caller's task. A task of somebody else is no task: same error, same text (3.3.2, 13.1)."""

from a2a_grpc.server.engine.engine import Accepted
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.store.records import StoredTask
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.wire.errors import TaskNotFoundError, excerpt


async def find(store: TaskStore, caller: Caller, task_id: str, *, artifacts: bool = True) -> StoredTask:
    """The caller's task.

    Raises: TaskNotFoundError; StoreUnavailableError.
    """
    stored = await store.read(task_id, artifacts=artifacts, scope=caller.scope)
    if stored is None or stored.scope != caller.scope:
        raise not_found(task_id)
    return stored


def not_found(task_id: str) -> TaskNotFoundError:
    """The error for a task that does not exist or is somebody else's."""
    return TaskNotFoundError(
        "There is no such task, or it is not yours. Task ids come from the server; a finished task is kept for a "
        "limited time.",
        metadata={"task_id": excerpt(task_id)},
    )


def gone(accepted: Accepted) -> TaskNotFoundError:
    """The error for a message whose task is no longer there."""
    if not accepted.repeated:
        return not_found(accepted.task_id)
    return TaskNotFoundError(
        "This message was accepted before and is not carried out again; the task that it went to is no longer kept. "
        "Send it under a new message id to have it done anew.",
        metadata={"task_id": excerpt(accepted.task_id)},
    )
