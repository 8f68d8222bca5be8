"""The events of one claim on their way into the log: group commit, fencing, and who hears of them.

Events that arrive while an append is in flight travel in the next one. Nobody sees an event before it is stored.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import TurnOverError
from a2a_grpc.server.core import states
from a2a_grpc.server.core.events import Event, Fold, milliseconds
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.records import Append, Outcome, Scope, StoredTask
from a2a_grpc.server.store.tail import LogTail
from a2a_grpc.server.store.tasks import TaskStore

log = logging.getLogger(__name__)

_MAX_BATCH = 256
_MAX_PENDING = 512
# The store serves nobody else while it takes an append, and the calls behind it on the connection wait for it.
_MAX_BATCH_BYTES = 1024 * 1024
_MAX_PENDING_BYTES = 4 * _MAX_BATCH_BYTES

# States in which the turn is over unless a message waits: then the task goes on with that.
ENDS_UNLESS_QUEUED = frozenset({states.COMPLETED, states.INPUT_REQUIRED})


class Writer:
    """The only writer of a task for as long as its epoch stands."""

    def __init__(self, store: TaskStore, tail: LogTail, stored: StoredTask, *, snapshot_events: int) -> None:
        """`stored` as this replica claimed it; a snapshot is written at least every `snapshot_events` at first."""
        self._store = store
        self._tail = tail
        self.task_id = stored.task_id
        self.scope: Scope = stored.scope
        self.context = stored.context
        self.epoch = stored.epoch
        self.seq = stored.seq
        self.fold: Fold = stored.fold
        self.state = stored.state
        """The state after everything that was emitted, stored or not yet."""
        self.followed_on = False
        """A message waited when the turn would have ended: the task goes on with it."""
        self.released = False
        """The task is given up: nothing more is written under this claim."""
        self.on_cancel: Callable[[], None] = lambda: None
        self.on_lost: Callable[[], None] = lambda: None
        self._stored_state = stored.state
        self._operation = 0
        self._snapshot_events = snapshot_events
        self._snapshot_due = stored.seq + min(snapshot_events, store.log_events)
        self._pending: deque[tuple[a2a_pb2.StreamResponse, int]] = deque()
        """What is to be stored, each with its size in bytes."""
        self._pending_bytes = 0
        self._releasing = False
        self._flushing = False
        self._flusher: asyncio.Task[None] | None = None
        self._soon: asyncio.Handle | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._room = asyncio.Event()
        self._lost: Exception | None = None
        self._settled: list[tuple[int, a2a_pb2.Task, asyncio.Future[bool]]] = []

    # -- what the run writes -----------------------------------------------------------------------------------------

    def emit(self, response: a2a_pb2.StreamResponse) -> None:
        """Take an event. Raises: TurnOverError where the state has ended or the claim was lost."""
        self.check_open()
        if response.HasField("status_update"):
            following = response.status_update.status.state
            if not states.legal(self.state, following):
                raise TurnOverError(f"a task cannot go from {states.name(self.state)} to {states.name(following)}")
            self.state = following
        size = response.ByteSize()
        self._pending.append((response, size))
        self._pending_bytes += size
        self._kick()

    def check_open(self) -> None:
        """Raises: TurnOverError where nothing can be written any more."""
        if self._lost is not None or self.released or self._releasing:
            raise TurnOverError("this turn no longer holds its task")
        if self.state in states.TERMINAL:
            raise TurnOverError(f"the task has ended: {states.name(self.state)}")

    @property
    def ended(self) -> bool:
        """The task has ended, and its end is stored."""
        return self._stored_state in states.TERMINAL

    @property
    def crowded(self) -> bool:
        """So much waits to be stored that a writer should wait for `room`."""
        return len(self._pending) >= _MAX_PENDING or self._pending_bytes >= _MAX_PENDING_BYTES

    async def room(self) -> None:
        """Wait while too much is waiting to be stored."""
        while self.crowded and self._lost is None:
            self._room.clear()
            await self._room.wait()

    def release(self) -> None:
        """Give the task up with whatever is still to be written: the turn ended in a parked state."""
        self._releasing = True
        self._kick()

    async def flush(self) -> None:
        """Wait until everything emitted is stored. Raises: TurnOverError where the claim was lost meanwhile.

        Cancelling the wait cancels nothing else.
        """
        while self._unstored:
            self._kick()
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        self._raise_lost()

    async def finish(self) -> None:
        """Store everything emitted, at once and in the calling task, which nobody may cancel meanwhile.

        Raises: TurnOverError where the claim was lost.
        """
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if not self._flushing:
            await self._flush()
        await self.flush()

    @property
    def _unstored(self) -> bool:
        return self._flushing or ((bool(self._pending) or self._releasing) and self._lost is None and not self.released)

    def _raise_lost(self) -> None:
        if self._lost is not None:
            raise TurnOverError("this turn no longer holds its task") from self._lost

    async def take(self) -> int | None:
        """The seq of the next waiting message, now this turn's; None where none waits. Raises: TurnOverError."""
        await self.flush()
        self._operation += 1
        try:
            outcome, seq = await self._store.take(self.task_id, self.epoch, self._operation)
        except StoreUnavailableError as error:
            self._lose(error)
            raise TurnOverError("the store is away") from error
        if outcome in {Outcome.FENCED, Outcome.GONE}:
            self._lose(TurnOverError(outcome.value))
            raise TurnOverError("this turn no longer holds its task")
        return seq if outcome is Outcome.TOOK else None

    async def keep(self, checkpoint: bytes) -> None:
        """Store a checkpoint after everything emitted so far. Raises: TurnOverError."""
        await self.flush()
        self.check_open()
        try:
            outcome = await self._store.checkpoint(self.task_id, self.epoch, checkpoint)
        except StoreUnavailableError as error:
            self._lose(error)
            raise TurnOverError("the store is away") from error
        if outcome is not Outcome.OK:
            self._lose(TurnOverError(outcome.value))
            self._raise_lost()

    # -- what callers wait for ---------------------------------------------------------------------------------------

    async def settled(self, after: int, task: a2a_pb2.Task) -> bool:
        """Wait for a status with a seq above `after` that is terminal or interrupted (3.2.2).

        Then `task` holds the task as it stands. False where this claim ends without one: somebody else has it then.
        """
        if self._lost is not None or self.released:
            return False
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._settled.append((after, task, future))
        return await future

    def close(self) -> None:
        """Nobody writes any more: whoever waits looks elsewhere."""
        self.released = True
        # The run's own methods: without them nothing refers in a circle, and no collector has to come for it.
        self.on_cancel = self.on_lost = _nothing
        self._dismiss()

    # -- the way to the store ----------------------------------------------------------------------------------------

    def _kick(self) -> None:
        """See that what was emitted is stored soon: after the events that come in the same breath."""
        if not self._flushing and self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self._soon = None
        if not self._flushing:
            self._flusher = asyncio.get_running_loop().create_task(self._flush(), name=f"write-{self.task_id}")

    async def _flush(self) -> None:
        if self._flushing:
            return
        self._flushing = True
        try:
            while (self._pending or self._releasing) and self._lost is None and not self.released:
                await self._write(self._next_batch())
        except StoreUnavailableError as error:
            log.error("task %s: gave up writing: %s", self.task_id, error)
            self._lose(error)
        except Exception as error:
            log.exception("task %s: cannot write", self.task_id)
            self._lose(error)
        finally:
            self._flushing = False
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    def _next_batch(self) -> list[a2a_pb2.StreamResponse]:
        """As many events as one append takes; a large one goes alone."""
        batch: list[a2a_pb2.StreamResponse] = []
        used = 0
        while (
            self._pending and len(batch) < _MAX_BATCH and (not batch or used + self._pending[0][1] <= _MAX_BATCH_BYTES)
        ):
            response, size = self._pending.popleft()
            batch.append(response)
            used += size
        self._pending_bytes -= used
        self._room.set()
        return batch

    async def _write(self, batch: list[a2a_pb2.StreamResponse]) -> None:
        for response in batch:
            self.fold.apply(response)
        self._operation += 1
        while True:
            step = self._step(batch)
            result = await self._store.append(step)
            if result.outcome is Outcome.QUEUED:
                self._follow_on(batch)
            elif result.outcome is Outcome.ASKED:
                # Instead of being parked the task will be canceled, by this holder.
                self._releasing = False
                self.on_cancel()
            else:
                break
            if not batch:
                return
        if result.outcome is not Outcome.OK:
            log.warning("task %s: the claim of epoch %d is over: %s", self.task_id, self.epoch, result.outcome.value)
            self._lose(TurnOverError(result.outcome.value))
            return
        await self._stored(step, batch, result.first)
        if result.canceling:
            self.on_cancel()

    def _step(self, batch: list[a2a_pb2.StreamResponse]) -> Append:
        told = next((at for at in range(len(batch), 0, -1) if batch[at - 1].HasField("status_update")), 0)
        last = batch[told - 1].status_update.status if told else None
        state = last.state if last is not None else None
        after = state if state is not None else self._stored_state
        releasing = self._releasing and not self._pending
        terminal = state in states.TERMINAL
        # A snapshot per so many events, and no more often than the log doubles: its cost stays in line with the output,
        # until the log is as long as it may be.
        snapshot = state in states.SETTLED or self.seq + len(batch) >= self._snapshot_due
        head, artifacts = self.fold.to_bytes() if snapshot else (b"", b"")
        return Append(
            task_id=self.task_id,
            scope=self.scope,
            context=self.context,
            epoch=self.epoch,
            operation=self._operation,
            expected=self._stored_state,
            entries=[response.SerializeToString() for response in batch],
            state=state,
            told=told,
            stamp_ms=milliseconds(last.timestamp) if last is not None else 0,
            terminal=terminal,
            idle_only=state in ENDS_UNLESS_QUEUED or (releasing and after not in states.TERMINAL),
            release=releasing or terminal,
            snapshot_at=self.seq if snapshot else None,
            head=head,
            artifacts=artifacts,
        )

    def _follow_on(self, batch: list[a2a_pb2.StreamResponse]) -> None:
        """A message waits: what would have ended the turn becomes a word on the way, and the task goes on."""
        self.followed_on = True
        self._releasing = False
        for response in batch:
            if response.HasField("status_update") and response.status_update.status.state in ENDS_UNLESS_QUEUED:
                response.status_update.status.state = states.WORKING
                self.fold.head.status.state = states.WORKING
                self.state = states.WORKING

    async def _stored(self, step: Append, batch: list[a2a_pb2.StreamResponse], first: int) -> None:
        missed: list[Event] = []
        if first != self.seq + 1:
            # Messages of callers came between: the fold took them in the wrong order or not at all.
            found = await self._store.log(self.task_id, self.seq, patient=True)
            missed = [event for event in found if event.seq < first]
            current = await self._store.read(self.task_id, patient=True)
            if current is not None:
                self.fold = current.fold
        elif step.snapshot_at is not None:
            seq = self.seq + len(batch)
            due = max(seq + self._snapshot_events, 2 * seq)
            # The log is cut behind a snapshot, so that a task without one keeps it all.
            self._snapshot_due = min(due, seq + self._store.log_events)
        self.seq = first + len(batch) - 1
        if step.state is not None:
            self._stored_state = step.state
        if step.release:
            self.released = True
            self._releasing = False
        if batch and self._tail.followed(self.task_id):
            own = [Event(first + at, response) for at, response in enumerate(batch)]
            self._tail.publish(self.task_id, missed + own)
        if step.state in states.SETTLED:
            self._settle()
        if self.released:
            self._dismiss()

    def _settle(self) -> None:
        """Answer those who wait for a status as new as the last one."""
        waiting, self._settled = self._settled, []
        for after, task, future in waiting:
            if self.seq <= after:
                self._settled.append((after, task, future))
            elif not future.done():
                self.fold.write(task)
                future.set_result(True)

    def _dismiss(self) -> None:
        """Send everybody who still waits elsewhere."""
        waiting, self._settled = self._settled, []
        for _, _, future in waiting:
            if not future.done():
                future.set_result(False)

    def _lose(self, cause: Exception) -> None:
        self._lost = cause
        self._pending.clear()
        self._pending_bytes = 0
        self._room.set()
        self._dismiss()
        self.on_lost()


def _nothing() -> None:
    """What a writer does when its run is over."""
