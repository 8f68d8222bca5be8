"""CancelTask (3.1.5)."""

import asyncio
import time

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.core.events import status_changed
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.service.finding import find
from a2a_grpc.server.service.watching import Watcher
from a2a_grpc.server.store.records import Outcome, StoredTask
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.wire.errors import AbortedError, TaskNotCancelableError

_MAX_RACES = 8
# The holder has the grace to let its agent speak last; this much later it counts as gone.
_MARGIN = 2.0
# A turn that parks in the moment it is asked frees the task without an event to be seen.
_LOOK = 0.5


class CancelTask:
    """Ends a task wherever it runs, whatever its agent does."""

    def __init__(self, store: TaskStore, watcher: Watcher, *, cancel_grace: float) -> None:
        """`cancel_grace` in seconds: how long an agent may take to wind up."""
        self._store = store
        self._watcher = watcher
        self._cancel_grace = cancel_grace

    async def run(self, request: a2a_pb2.CancelTaskRequest, caller: Caller) -> a2a_pb2.Task:
        """The task, CANCELED.

        Raises: TaskNotFoundError; TaskNotCancelableError where it has ended, or ended otherwise meanwhile.
        """
        over = ""
        for _ in range(_MAX_RACES):
            stored = await find(self._store, caller, request.id)
            if stored.state in states.TERMINAL:
                raise _ended(stored)
            canceled = status_changed(stored.task_id, stored.context, states.CANCELED, now_ms())
            match await self._store.cancel(stored, canceled, over=over):
                case Outcome.CANCELED:
                    return (await find(self._store, caller, request.id)).fold.task()
                case Outcome.ASKED:
                    ended = await self._wait(stored)
                    if ended is None:
                        over = stored.holder
                    elif ended.state == states.CANCELED:
                        return ended.fold.task()
                    elif ended.state in states.TERMINAL:
                        raise _ended(ended)
        raise AbortedError("The task changes too fast to be canceled; try again.", retry_after=1.0)

    async def _wait(self, asked: StoredTask) -> StoredTask | None:
        """The task once it has ended or left its holder; None where neither happens in time."""
        until = time.monotonic() + self._cancel_grace + _MARGIN
        while time.monotonic() < until:
            try:
                async with asyncio.timeout(_LOOK):
                    return await self._watcher.terminal(asked.task_id)
            except TimeoutError:
                stored = await self._store.read(asked.task_id)
                if stored is not None and stored.holder != asked.holder:
                    return stored
        return None


def _ended(stored: StoredTask) -> TaskNotCancelableError:
    return TaskNotCancelableError(
        f"The task has ended already: {states.name(stored.state)}.", metadata={"task_id": stored.task_id}
    )
