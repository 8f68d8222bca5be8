"""SubscribeToTask (3.1.6)."""

from collections.abc import AsyncGenerator

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import states
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.engine.engine import Accepted
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.service.finding import find
from a2a_grpc.server.service.watching import Watcher
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.wire.errors import UnsupportedOperationError


class SubscribeToTask:
    """The task and then its events until it ends; a parked task keeps the stream open."""

    def __init__(self, store: TaskStore, watcher: Watcher) -> None:
        self._store = store
        self._watcher = watcher

    async def run(self, request: a2a_pb2.SubscribeToTaskRequest, caller: Caller) -> AsyncGenerator[Event, None]:
        """The events, the first of them the task.

        Raises, before any event: TaskNotFoundError; UnsupportedOperationError where the task has ended and the caller
        has no event to go on from, or has them all.
        """
        accepted = await self._look(request.id, caller)
        async for event in self._watcher.events(accepted, states.TERMINAL, cursor=caller.last_event_id):
            yield event

    # Apart from `run`, which would hold the task for as long as the stream is open.
    async def _look(self, task_id: str, caller: Caller) -> Accepted:
        stored = await find(self._store, caller, task_id, artifacts=False)
        cursor = caller.last_event_id
        if stored.state in states.TERMINAL and (cursor is None or cursor >= stored.seq):
            raise UnsupportedOperationError(
                f"The task has ended ({states.name(stored.state)}); read it with GetTask.",
                metadata={"task_id": stored.task_id},
            )
        caller.resumed = cursor is not None
        return Accepted(task_id=stored.task_id, seq=stored.seq if cursor is None else 0)
