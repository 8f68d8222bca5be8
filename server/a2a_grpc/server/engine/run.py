"""One claim of one task by this replica: its turns, one after another, until the task parks or ends."""

import asyncio
import contextlib
import enum
import logging
from dataclasses import dataclass
from typing import Any, TypeAlias

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent, Skill, Turn, TurnOverError
from a2a_grpc.server.core import ids, states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.core.events import status_changed
from a2a_grpc.server.engine.invoke import FAILED_TEXT, End, invoke
from a2a_grpc.server.engine.writer import Writer
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.records import Origin, StoredTask
from a2a_grpc.server.store.tasks import TaskStore

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may take, in seconds; `turn_timeout` 0 means no limit."""

    turn_timeout: float
    cancel_grace: float


class _Reason(enum.Enum):
    """Why a turn is interrupted."""

    CANCEL = enum.auto()
    TIMEOUT = enum.auto()
    STOP = enum.auto()
    """The process ends: the turn is given back instead of being ended."""
    LOST = enum.auto()
    """Somebody else has the task, or nobody can reach it."""


# The agent's function at work. It returns how the turn is to end, or None where that is written already.
_Body: TypeAlias = "asyncio.Task[End] | asyncio.Task[End | None]"


class Run:
    """The engine's side of a turn: it implements the turn's `Sink` and sees to it that every turn ends in a state."""

    def __init__(self, agent: Agent, store: TaskStore, writer: Writer, limits: Limits) -> None:
        self._agent = agent
        self._store = store
        self._limits = limits
        self.writer = writer
        self._nudged = asyncio.Event()
        self._interrupted: asyncio.Future[_Reason] = asyncio.get_running_loop().create_future()
        writer.on_cancel = self.ask_cancel
        writer.on_lost = lambda: self._interrupt(_Reason.LOST)

    # -- the turns ---------------------------------------------------------------------------------------------------

    async def run(self, origin: Origin, stored: StoredTask) -> None:
        """Run turns from the message `origin` on, until the task is parked, ended or lost."""
        turn = self.make_turn(origin, attempt=stored.attempt, checkpoint=stored.checkpoint, history=_before(stored))
        try:
            skill = self._agent.pick(stored.fold.head.history[0])
        except Exception:
            log.exception("task %s: no skill for the message", self.writer.task_id)
            await self._end(End(states.FAILED, FAILED_TEXT))
            return
        if stored.canceling:
            self.ask_cancel()
        await self.adopt(skill, turn, self._start(skill, turn))

    async def adopt(self, skill: Skill, turn: Turn, body: _Body) -> None:
        """Run turns, the first of which has begun already."""
        try:
            while True:
                await self._finish(skill, turn, body)
                if not self.writer.followed_on:
                    return
                self.writer.followed_on = False
                following = await self._next_turn()
                if following is None:
                    return
                turn = following
                body = self._start(skill, turn)
        except (TurnOverError, StoreUnavailableError) as error:
            log.warning("task %s: the run is over: %s", self.writer.task_id, error)
        finally:
            self.writer.close()

    def make_turn(
        self, origin: Origin, *, attempt: int, checkpoint: bytes | None, history: list[a2a_pb2.Message]
    ) -> Turn:
        """The turn for the message `origin`."""
        return Turn(
            sink=self,
            task_id=self.writer.task_id,
            context_id=self.writer.context,
            tenant=self.writer.scope.tenant,
            caller=self.writer.scope.owner,
            message=origin.message,
            request=origin.request,
            history=history,
            extensions=origin.extensions,
            attempt=attempt,
            checkpoint=checkpoint,
        )

    async def _next_turn(self) -> Turn | None:
        seq = await self.writer.take()
        if seq is None:
            return None
        origin = await self._store.origin(self.writer.task_id, seq)
        stored = await self._store.read(self.writer.task_id)
        if origin is None or stored is None:
            return None
        if self.writer.state != states.WORKING:
            self.writer.emit(self._status(states.WORKING))
        return self.make_turn(origin, attempt=1, checkpoint=stored.checkpoint, history=_before(stored, origin))

    def _start(self, skill: Skill, turn: Turn) -> _Body:
        return asyncio.create_task(self._invoke(skill, turn), name=f"turn-{turn.task_id}")

    async def _invoke(self, skill: Skill, turn: Turn) -> End | None:
        """Run the function and write what its end means in the same breath: it goes with the function's last events."""
        end = await invoke(skill, turn)
        if not self._interrupted.done():
            self._write_end(end)
            return None
        return end

    async def _finish(self, skill: Skill, turn: Turn, body: _Body) -> None:
        """Wait for the turn's function, or for a reason not to, and see that the turn has an end."""
        loop = asyncio.get_running_loop()
        limit = skill.timeout if skill.timeout is not None else self._limits.turn_timeout
        timer = loop.call_later(limit, self._interrupt, _Reason.TIMEOUT) if limit else None
        over = loop.create_future()

        def wake(_: object) -> None:
            if not over.done():
                over.set_result(None)

        body.add_done_callback(wake)
        self._interrupted.add_done_callback(wake)
        try:
            await over
            reason = self._interrupted.result() if self._interrupted.done() else None
            match reason:
                case None:
                    await self._end(body.result() if not body.cancelled() else End(states.FAILED, FAILED_TEXT))
                case _Reason.CANCEL:
                    await self._end(await self._cancel(turn, body))
                case _Reason.TIMEOUT:
                    await self._stop(body)
                    await self._end(End(states.FAILED, f"The agent did not finish within {limit:g} seconds."))
                case _Reason.STOP | _Reason.LOST:
                    await self._stop(body)
        finally:
            self._interrupted.remove_done_callback(wake)
            if timer is not None:
                timer.cancel()

    async def _cancel(self, turn: Turn, body: _Body) -> End:
        """Cancel the function, let the author's hook have the last word, and end canceled whatever they do."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.cancel_grace):
                await self._stop(body)
                if self._agent.cancel_hook is not None:
                    await self._last_words(self._agent.cancel_hook(turn))
        return End(states.CANCELED)

    async def _last_words(self, hook: Any) -> None:
        try:
            await hook
        except TurnOverError:
            pass
        except (Exception, SystemExit):
            log.exception("task %s: the agent's cancel hook failed", self.writer.task_id)

    async def _stop(self, body: _Body) -> None:
        """Cancel the function and wait, for the grace at most, until it has gone."""
        body.cancel()
        done, _ = await asyncio.wait({body}, timeout=self._limits.cancel_grace)
        if not done:
            log.warning("task %s: the agent swallows its cancellation and is left alone", self.writer.task_id)

    async def _end(self, end: End | None) -> None:
        """Wait until the end of the turn is stored; `end` is written first where the function has not done it."""
        if end is not None:
            self._write_end(end)
        with contextlib.suppress(TurnOverError):
            await self.writer.flush()

    def _write_end(self, end: End) -> None:
        """Write the state that `end` stands for, unless the turn parked or ended the task itself."""
        with contextlib.suppress(TurnOverError):
            if self.writer.state in states.INTERRUPTED and end.state == states.COMPLETED:
                self.writer.release()
            elif self.writer.state not in states.TERMINAL:
                self.writer.emit(self._status(end.state, end.words))

    def _status(self, state: a2a_pb2.TaskState, words: str | None = None) -> a2a_pb2.StreamResponse:
        message = None
        if words is not None:
            message = a2a_pb2.Message(
                message_id=ids.new_id(),
                role=a2a_pb2.ROLE_AGENT,
                task_id=self.writer.task_id,
                context_id=self.writer.context,
                parts=[a2a_pb2.Part(text=words)],
            )
        return status_changed(self.writer.task_id, self.writer.context, state, now_ms(), message)

    # -- from outside ------------------------------------------------------------------------------------------------

    def ask_cancel(self) -> None:
        """A caller wants this task canceled."""
        self._interrupt(_Reason.CANCEL)

    def stop(self) -> None:
        """The process ends: interrupt the turn without ending its task."""
        self._interrupt(_Reason.STOP)

    def nudge(self) -> None:
        """A message may be waiting."""
        self._nudged.set()

    def _interrupt(self, reason: "_Reason") -> None:
        if not self._interrupted.done():
            self._interrupted.set_result(reason)

    # -- the turn's Sink ---------------------------------------------------------------------------------------------

    async def emit(self, response: a2a_pb2.StreamResponse) -> None:
        self.writer.emit(response)
        await self.writer.room()

    async def reply(self, message: a2a_pb2.Message) -> None:
        # The task exists already: what was meant as the whole answer is its last word.
        self.writer.emit(
            a2a_pb2.StreamResponse(
                status_update=a2a_pb2.TaskStatusUpdateEvent(
                    task_id=self.writer.task_id,
                    context_id=self.writer.context,
                    status=status_changed("", "", states.COMPLETED, now_ms(), message).status_update.status,
                )
            )
        )

    async def flush(self) -> None:
        await self.writer.flush()

    async def next_message(self) -> a2a_pb2.Message:
        while True:
            self._nudged.clear()
            seq = await self.writer.take()
            if seq is not None:
                origin = await self._store.origin(self.writer.task_id, seq)
                if origin is not None:
                    if self.writer.state in states.INTERRUPTED:
                        self.writer.emit(self._status(states.WORKING))
                    return origin.message
            await self._nudged.wait()

    async def keep(self, checkpoint: bytes) -> None:
        await self.writer.keep(checkpoint)

    async def task(self, task_id: str) -> a2a_pb2.Task | None:
        try:
            stored = await self._store.read(task_id)
        except StoreUnavailableError as error:
            raise TurnOverError("the store is away") from error
        if stored is None or stored.scope != self.writer.scope:
            return None
        return stored.fold.task()


def _before(stored: StoredTask, origin: Origin | None = None) -> list[a2a_pb2.Message]:
    """What was said before the message of a turn, which is the last of the history unless `origin` names it."""
    history = list(stored.fold.head.history)
    if origin is None:
        return history[:-1]
    at = next((at for at, said in enumerate(history) if said.message_id == origin.message.message_id), len(history))
    return history[:at]
