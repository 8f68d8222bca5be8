"""The tasks of all callers: listed, shown, followed, erased."""

import logging
from collections.abc import AsyncGenerator
from typing import Final

from a2a_grpc.admin.v1 import admin_pb2
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import states
from a2a_grpc.server.core.events import Event, set_timestamp
from a2a_grpc.server.core.pages import Cursor
from a2a_grpc.server.service.admin.paging import bad_token, cursor_of, page_size, token_of
from a2a_grpc.server.store.erasing import Eraser
from a2a_grpc.server.store.errors import TaskErasedError
from a2a_grpc.server.store.inspection import Inspection, Place, Summary, Wanted
from a2a_grpc.server.store.records import StoredTask
from a2a_grpc.server.store.tail import LogTail
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.wire.errors import TaskNotFoundError, Violation, excerpt, invalid

log = logging.getLogger(__name__)

_PLACES: Final = {
    Place.RUNNING: admin_pb2.PLACE_RUNNING,
    Place.READY: admin_pb2.PLACE_READY,
    Place.LATER: admin_pb2.PLACE_LATER,
}
_WANTED: Final = {shown: place for place, shown in _PLACES.items()}


class TaskDesk:
    """What operators do with tasks. All methods raise StoreUnavailableError."""

    def __init__(self, store: TaskStore, tail: LogTail, inspection: Inspection, eraser: Eraser) -> None:
        self._store = store
        self._tail = tail
        self._inspection = inspection
        self._eraser = eraser

    async def list(self, request: admin_pb2.ListTasksRequest) -> admin_pb2.ListTasksResponse:
        """One page. Raises: InvalidArgumentError."""
        cursor = cursor_of(request.page_token, request)
        try:
            found = await self._inspection.find(
                _wanted(request), "" if cursor is None else cursor.task_id, page_size(request)
            )
        except ValueError as error:
            raise bad_token(error) from None
        # What a token holds of a time is not needed here: the position says it all.
        following = Cursor(0, found.position) if found.position else None
        return admin_pb2.ListTasksResponse(
            tasks=[_shown(task) for task in found.tasks], next_page_token=token_of(following, request)
        )

    async def get(self, request: admin_pb2.GetTaskRequest) -> admin_pb2.GetTaskResponse:
        """A task and how it is run. Raises: TaskNotFoundError."""
        stored = await self._read(request.id)
        summary = await self._inspection.summary(request.id)
        if summary is None:
            raise _not_found(request.id)
        response = admin_pb2.GetTaskResponse(
            summary=_shown(summary),
            task=stored.fold.task().SerializeToString(),
            seq=stored.seq,
            first_seq=stored.first,
            epoch=stored.epoch,
            turn=stored.turn,
            queue=stored.queue,
            canceling=stored.canceling,
        )
        if stored.checkpoint is not None:
            response.checkpoint_bytes = len(stored.checkpoint)
        return response

    async def events(self, request: admin_pb2.ListTaskEventsRequest) -> AsyncGenerator[Event, None]:
        """The entries of a task's log after one of them, and where that is wanted those to come, until it ends.

        Raises: InvalidArgumentError; TaskNotFoundError, also when the task is erased meanwhile.
        """
        if request.after_seq < 0:
            raise invalid(Violation("after_seq", "must be 0 or more"))
        stored = await self._read(request.id)
        after = max(request.after_seq, stored.first - 1)
        if not request.follow:
            while after < stored.seq and (events := await self._store.log(stored.task_id, after)):
                for event in events:
                    if event.seq <= stored.seq:
                        yield event
                after = events[-1].seq
            return
        try:
            async with self._tail.follow(stored.task_id) as follower:
                stored = await self._read(request.id)
                after = max(after, stored.first - 1)
                if after >= stored.seq and stored.state in states.TERMINAL:
                    return
                follower.begin(after, behind=True)
                while True:
                    event = await follower.next()
                    yield event
                    if event.response.status_update.status.state in states.TERMINAL:
                        return
        except TaskErasedError:
            raise _not_found(request.id) from None

    async def delete(self, request: admin_pb2.DeleteTaskRequest) -> admin_pb2.DeleteTaskResponse:
        """Erase a task with everything that belongs to it. Raises: TaskNotFoundError."""
        letters = await self._eraser.erase(request.id)
        if letters is None:
            raise _not_found(request.id)
        log.info("task %s: erased, with %d dead letters", request.id, letters)
        return admin_pb2.DeleteTaskResponse(dead_letters=letters)

    async def _read(self, task_id: str) -> StoredTask:
        stored = await self._store.read(task_id)
        if stored is None:
            raise _not_found(task_id)
        return stored


def _wanted(request: admin_pb2.ListTasksRequest) -> Wanted:
    known = [states.name(state) for state in states.TRANSITIONS]
    if request.state and request.state not in known:
        raise invalid(Violation("state", f"must be one of {', '.join(known)}"))
    if request.place and request.place not in _WANTED:
        raise invalid(Violation("place", "is none that this service knows"))
    return Wanted(
        tenant=request.tenant if request.HasField("tenant") else None,
        owner=request.owner if request.HasField("owner") else None,
        state=a2a_pb2.TaskState.Value(request.state) if request.state else 0,
        place=_WANTED.get(request.place),
    )


def _not_found(task_id: str) -> TaskNotFoundError:
    return TaskNotFoundError(
        "There is no task of this id. A finished task is kept for a limited time.",
        metadata={"task_id": excerpt(task_id)},
    )


def _shown(task: Summary) -> admin_pb2.TaskSummary:
    shown = admin_pb2.TaskSummary(
        id=task.task_id,
        tenant=task.scope.tenant,
        owner=task.scope.owner,
        context_id=task.context,
        state=states.name(task.state),
        holder=task.holder,
        # Who writes the end of a turn without an attempt left has claimed it once more, and does not run it.
        attempt=min(task.attempt, task.limit) if task.limit else task.attempt,
        attempt_limit=task.limit,
        place=_PLACES[task.place] if task.place is not None else admin_pb2.PLACE_UNSPECIFIED,
    )
    set_timestamp(shown.create_time, task.created_ms)
    set_timestamp(shown.status_time, task.stamp_ms)
    return shown
