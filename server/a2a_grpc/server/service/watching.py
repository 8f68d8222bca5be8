"""Waiting for a task and streaming its events, on whatever replica it runs (3.1.2, 3.1.6, 3.2.2, 3.5.2)."""

from collections.abc import AsyncGenerator

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import states
from a2a_grpc.server.core.events import Event, Fold, delivered
from a2a_grpc.server.core.history import trim
from a2a_grpc.server.engine.engine import Accepted
from a2a_grpc.server.service.finding import gone
from a2a_grpc.server.store.records import StoredTask
from a2a_grpc.server.store.tail import Follower, LogTail
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
            stored = await self._read(accepted)
            follower.begin(stored.seq)
            while not _settled(stored, accepted.seq):
                event = await follower.next()
                while not _is_settling(event):
                    event = await follower.next()
                # Who waits already waits on where the store is away for a while.
                stored = await self._read(accepted, patient=True)
            stored.fold.write(task)

    async def terminal(self, task_id: str) -> StoredTask:
        """The task once it has ended."""
        task = Accepted(task_id=task_id, seq=0)
        async with self._tail.follow(task_id) as follower:
            stored = await self._read(task)
            follower.begin(stored.seq)
            while stored.state not in states.TERMINAL:
                event = await follower.next()
                while not _is_settling(event):
                    event = await follower.next()
                stored = await self._read(task)
            return stored

    async def events(
        self,
        accepted: Accepted,
        close_at: frozenset[a2a_pb2.TaskState],
        history_length: int | None = None,
        *,
        cursor: int | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The task as it stands, then every later event once and in order, up to a status in `close_at`.

        A task that is there already, before anybody could look, is told from its message on: the end is an update then,
        as on every other stream. With a `cursor` the task is told as it stood at that event, then what came after it;
        where that is no longer kept, from a later point, which the number of the first event shows. A cursor behind
        which the stream has ended gives the task alone.
        """
        async with self._tail.follow(accepted.task_id) as follower:
            first, over = await self._first(follower, accepted, close_at, history_length, cursor)
            yield first
            # A stream that waits for its next event holds no task.
            del first
            while not over:
                event = await follower.next()
                if not delivered(event.response):
                    continue
                yield event
                over = _closes(event, accepted.seq, close_at)

    async def _first(
        self,
        follower: Follower,
        accepted: Accepted,
        close_at: frozenset[a2a_pb2.TaskState],
        history_length: int | None,
        cursor: int | None,
    ) -> tuple[Event, bool]:
        """The task that a stream begins with, and whether it ends with it; `follower` begins behind it."""
        response = a2a_pb2.StreamResponse()
        if accepted.writer is not None:
            # Its turn begins in this very moment: nothing was written yet that the fold does not hold.
            seq, over = accepted.writer.seq, False
            accepted.writer.fold.write(response.task)
            follower.begin(seq)
        else:
            stored = await self._read(accepted)
            seq, fold = await self._beginning(stored, accepted, close_at, cursor)
            over = await self._is_over(stored, accepted, close_at, seq, fold)
            fold.write(response.task)
            follower.begin(seq, behind=seq < stored.seq)
        trim(response.task, history_length)
        return Event(seq, response), over

    async def _beginning(
        self, stored: StoredTask, accepted: Accepted, close_at: frozenset[a2a_pb2.TaskState], cursor: int | None
    ) -> tuple[int, Fold]:
        """After which event a stream of the task begins, and the task as it stood then."""
        settled = stored.state in close_at and _settled(stored, accepted.seq)
        if cursor is not None:
            wanted = max(cursor, 1)
        elif settled:
            wanted = accepted.seq
        else:
            wanted = stored.seq
        if wanted == stored.seq:
            return stored.seq, stored.fold
        if wanted < stored.seq and (fold := await self._store.as_of(stored.task_id, wanted)) is not None:
            return wanted, fold
        # Too much is gone, or was never here. What can still be told as an update is the end.
        before = stored.told - 1
        if settled and (fold := await self._store.as_of(stored.task_id, before)) is not None:
            return before, fold
        return stored.seq, stored.fold

    async def _is_over(
        self, stored: StoredTask, accepted: Accepted, close_at: frozenset[a2a_pb2.TaskState], seq: int, fold: Fold
    ) -> bool:
        """Whether a stream that begins after the event `seq`, where the task was `fold`, has nothing more to tell."""
        if fold.state not in close_at:
            return False
        if fold.state in states.TERMINAL:
            return True
        if seq == stored.seq:
            return _settled(stored, accepted.seq)
        # A question from before the message may still have stood there.
        at = accepted.seq
        while at < seq and (found := await self._store.log(stored.task_id, at)):
            if any(_closes(event, at, close_at) for event in found if event.seq <= seq):
                return True
            at = found[-1].seq
        return False

    async def _read(self, accepted: Accepted, *, patient: bool = False) -> StoredTask:
        stored = await self._store.read(accepted.task_id, patient=patient)
        if stored is None:
            raise gone(accepted)
        return stored


def _closes(event: Event, after: int, close_at: frozenset[a2a_pb2.TaskState]) -> bool:
    """Whether a stream that answers the message at `after` closes with `event`."""
    response = event.response
    return event.seq > after and response.HasField("status_update") and response.status_update.status.state in close_at


def _is_settling(event: Event) -> bool:
    return event.response.status_update.status.state in states.SETTLED


def _settled(stored: StoredTask, seq: int) -> bool:
    """Whether the state is an answer to the message at `seq`, rather than to one before it."""
    if stored.state in states.INTERRUPTED:
        # An agent that takes a message out of its inbox leaves the question standing until it writes again.
        return seq not in stored.queue and stored.told > seq
    return stored.state in states.TERMINAL
