"""Waiting for a task and streaming its events, on whatever replica it runs (3.1.2, 3.1.6, 3.2.2, 3.5.2)."""

from collections.abc import AsyncGenerator

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import states
from a2a_grpc.server.core.events import Event, Fold, delivered
from a2a_grpc.server.core.history import trim
from a2a_grpc.server.engine.engine import Accepted
from a2a_grpc.server.service.finding import not_found
from a2a_grpc.server.store.records import StoredTask
from a2a_grpc.server.store.tail import LogTail
from a2a_grpc.server.store.tasks import TaskStore


class Watcher:
    """Follows tasks on behalf of callers. What they wait for goes on without them."""

    def __init__(self, store: TaskStore, tail: LogTail) -> None:
        self._store = store
        self._tail = tail

    async def settled(self, accepted: Accepted, task: a2a_pb2.Task) -> None:
        """Make `task` the task once the message's turn has ended or is interrupted (INPUT_REQUIRED, AUTH_REQUIRED)."""
        if accepted.writer is not None and await accepted.writer.settled(accepted.seq, task):
            return
        async with self._tail.follow(accepted.task_id) as follower:
            stored = await self._read(accepted.task_id)
            follower.begin(stored.seq)
            while not _settled(stored, accepted.seq):
                event = await follower.next()
                while not _is_settling(event):
                    event = await follower.next()
                stored = await self._read(accepted.task_id)
            stored.fold.write(task)

    async def terminal(self, task_id: str) -> StoredTask:
        """The task once it has ended."""
        async with self._tail.follow(task_id) as follower:
            stored = await self._read(task_id)
            follower.begin(stored.seq)
            while stored.state not in states.TERMINAL:
                event = await follower.next()
                while not _is_settling(event):
                    event = await follower.next()
                stored = await self._read(task_id)
            return stored

    async def events(
        self, accepted: Accepted, close_at: frozenset[a2a_pb2.TaskState], history_length: int | None = None
    ) -> AsyncGenerator[Event, None]:
        """The task as it stands, then every later event once and in order, up to a status in `close_at`.

        A task that is there already, before anybody could look, is told from its message on: the end is an update then,
        as on every other stream.
        """
        async with self._tail.follow(accepted.task_id) as follower:
            if accepted.writer is not None:
                # Its turn begins in this very moment: nothing was written yet that the fold does not hold.
                seq, task = accepted.writer.seq, accepted.writer.fold.task()
                follower.begin(seq)
            else:
                stored = await self._read(accepted.task_id)
                if stored.state in close_at and _settled(stored, accepted.seq):
                    seq, task = accepted.seq, await self._as_of(accepted)
                    follower.begin(seq, behind=True)
                else:
                    seq, task = stored.seq, stored.fold.task()
                    follower.begin(seq)
            yield Event(seq, a2a_pb2.StreamResponse(task=trim(task, history_length)))
            while True:
                event = await follower.next()
                if not delivered(event.response):
                    continue
                yield event
                if event.response.status_update.status.state in close_at:
                    return

    async def _as_of(self, accepted: Accepted) -> a2a_pb2.Task:
        """The task as it stood when the message was accepted."""
        fold = Fold()
        for event in await self._store.log(accepted.task_id, 0, accepted.seq):
            fold.apply(event.response)
        return fold.task()

    async def _read(self, task_id: str) -> StoredTask:
        stored = await self._store.read(task_id)
        if stored is None:
            raise not_found(task_id)
        return stored


def _is_settling(event: Event) -> bool:
    return event.response.status_update.status.state in states.SETTLED


def _settled(stored: StoredTask, seq: int) -> bool:
    """Whether the state is an answer to the message at `seq`, rather than to one before it."""
    if stored.state in states.INTERRUPTED:
        # An agent that takes a message out of its inbox leaves the question standing until it writes again.
        return seq not in stored.queue and stored.told > seq
    return stored.state in states.TERMINAL
