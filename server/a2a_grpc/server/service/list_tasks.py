"""ListTasks (3.1.4)."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

from google.protobuf.timestamp_pb2 import Timestamp

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids, pages, states
from a2a_grpc.server.core.events import milliseconds
from a2a_grpc.server.core.history import trim
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.service.page_tokens import cursor_of
from a2a_grpc.server.store.tasks import TaskStore

DEFAULT_PAGE_SIZE = 50

# A page ends before it outgrows what a gRPC client takes by default (4 MiB); a single task may still be larger.
_MAX_PAGE_BYTES = 3 * 1024 * 1024

# Tasks read together: enough to share round trips, few enough not to load megabytes that don't fit the page.
_READ_AHEAD = 20


_Row: TypeAlias = tuple[str, int]


class ListTasks:
    """The caller's tasks, newest status first."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store

    async def run(self, request: a2a_pb2.ListTasksRequest, caller: Caller) -> a2a_pb2.ListTasksResponse:
        """One page.

        Tasks with much content may make it shorter than asked; `next_page_token` tells whether there is more.

        Raises: InvalidArgumentError for a page token of another listing; StoreUnavailableError.
        """
        size = request.page_size if request.HasField("page_size") else DEFAULT_PAGE_SIZE
        since = _milliseconds_up(request.status_timestamp_after) if request.HasField("status_timestamp_after") else None
        bound_to = pages.filters(request, ids.scope(caller.scope.tenant, caller.scope.owner))
        page = await self._store.page(
            caller.scope, request.context_id, request.status, since, cursor_of(request.page_token, bound_to), size + 1
        )
        response = a2a_pb2.ListTasksResponse(page_size=size, total_size=page.total)
        rows = page.rows[:size]
        last = None
        used = 0
        async for row, task in self._tasks(rows, request, caller):
            used += task.ByteSize() if task is not None else 0
            if used > _MAX_PAGE_BYTES and response.tasks:
                break
            last = row
            if task is not None:
                response.tasks.append(task)
        if last is not None and last != page.rows[-1]:
            response.next_page_token = pages.encode(pages.Cursor(last[1], last[0]), bound_to)
        return response

    async def _tasks(
        self, rows: list[_Row], request: a2a_pb2.ListTasksRequest, caller: Caller
    ) -> AsyncIterator[tuple[_Row, a2a_pb2.Task | None]]:
        """The tasks of `rows`; None for one that was erased, or has left the listing, since the rows were read."""
        length = request.history_length if request.HasField("history_length") else None
        wanted = {request.status} if request.status else set(states.TRANSITIONS)
        for at in range(0, len(rows), _READ_AHEAD):
            some = rows[at : at + _READ_AHEAD]
            found = await asyncio.gather(
                *(self._store.read(task_id, artifacts=request.include_artifacts) for task_id, _ in some)
            )
            for row, stored in zip(some, found, strict=True):
                if stored is None or stored.scope != caller.scope or stored.state not in wanted:
                    yield row, None
                else:
                    task = stored.fold.task() if request.include_artifacts else stored.fold.head
                    yield row, trim(task, length)


def _milliseconds_up(stamp: Timestamp) -> int:
    """The least status timestamp that is not before `stamp`, in milliseconds since 1970."""
    return milliseconds(stamp) + (1 if stamp.nanos % 1_000_000 else 0)
