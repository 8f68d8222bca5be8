"""One claim of one task by this replica: its turns, one after another, until the task parks or ends."""

import asyncio
import contextlib
import enum
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent, Skill, Turn, TurnOverError
from a2a_grpc.server.agents.agent import SkillFunction
from a2a_grpc.server.core import ids, states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.core.events import status_changed
from a2a_grpc.server.engine.invoke import FAILED_TEXT, End, invoke
from a2a_grpc.server.engine.tracing import Place
from a2a_grpc.server.engine.writer import ENDS_UNLESS_QUEUED, Writer
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.records import Origin, Scope, StoredTask
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.telemetry.facts import know
from a2a_grpc.server.telemetry.instruments import TURNS
from a2a_grpc.server.telemetry.tracing import TRACES
from a2a_grpc.wire.artifact_schemas import mark_refusal

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may take: seconds (`turn_timeout` 0 means no limit) and attempts."""

    turn_timeout: float
    cancel_grace: float
    max_attempts: int

    def of(self, skill: Skill) -> float:
        """How long a turn of `skill` may take."""
        return self.turn_timeout if skill.timeout is None else skill.timeout

    def attempts(self, skill: Skill) -> int:
        """How often a turn of `skill` is begun in all."""
        return self.max_attempts if skill.attempts is None else skill.attempts


class _Reason(enum.Enum):
    """Why a turn is interrupted."""

    CANCEL = enum.auto()
    TIMEOUT = enum.auto()
    STOP = enum.auto()
    """The process ends: the turn is given back instead of being ended."""
    LOST = enum.auto()
    """Somebody else has the task, or nobody can reach it."""


_INTERRUPTED = {
    _Reason.CANCEL: "canceled",
    _Reason.TIMEOUT: "timeout",
    _Reason.STOP: "stopped",
    _Reason.LOST: "lost",
}
"""What a turn that is interrupted counts as."""


class Run:
    """The engine's side of a turn: it implements the turn's `Sink` and sees to it that every turn ends in a state.

    The agent's function runs in the run's own task, so that a turn costs one task. Only a turn that is interrupted gets
    a second one, which cancels the first, waits for it no longer than the grace, and writes the end in its place.
    """

    def __init__(
        self,
        agent: Agent | None,
        store: TaskStore,
        letters: DeadLetters,
        writer: Writer,
        limits: Limits,
        on_over: Callable[["Run"], None],
        *,
        attempt: int,
        attempts: int,
        waited: bool = False,
    ) -> None:
        """Attempt number `attempt` of `attempts`; `on_over` is called once, when nothing is left to be done.

        `waited`: the first turn stood in `ready` before.

        Without an `agent` there is nothing but `end_unrun`.
        """
        self._letters = letters
        self._attempt = attempt
        self._attempts = attempts
        self._agent = agent
        self._waited = waited
        self._place: Place | None = None
        """Of the turn in its trace."""
        self._store = store
        self._limits = limits
        self._on_over = on_over
        self.writer = writer
        self._turn: Turn | None = None
        self._function: asyncio.Task[object] | None = None
        """Set while the agent's function runs: what to cancel."""
        self._reason: _Reason | None = None
        self._limit: float | None = None
        self._begun: float | None = None
        """When the agent's function was called that is not over yet, by time.perf_counter()."""
        self.over = asyncio.Event()
        self.unfinished = False
        """The run is over, and its turn neither ended nor was given back."""
        self._nudged = asyncio.Event()
        self._reading = asyncio.Lock()
        self._taking: asyncio.Task[Origin | None] | None = None
        """A message on its way out of the queue, whoever waits for it."""
        self._tasks: set[asyncio.Task[None]] = set()
        writer.on_cancel = self.ask_cancel
        writer.on_lost = self.fence

    # -- the turns ---------------------------------------------------------------------------------------------------

    def begin(self, origin: Origin, stored: StoredTask, skill: Skill | None) -> None:
        """Run turns from the message `origin` on, in a task of their own; without `skill` the agent picks it."""
        if stored.canceling:
            self._reason = _Reason.CANCEL
        self._spawn(self._begin(origin, stored, skill))

    def adopt(self, skill: Skill, turn: Turn, function: "asyncio.Task[End]", place: Place) -> None:
        """Run turns, the first of which is at work already, at `place` in its trace."""
        self._place = place
        self._spawn(self._turns(skill, turn, function))

    def end_unrun(self, stored: StoredTask, origin: Origin | None, reason: str) -> None:
        """End the task as FAILED without running the turn, and keep a dead letter of it."""
        self._spawn(self._end_unrun(stored, origin, reason))

    async def _end_unrun(self, stored: StoredTask, origin: Origin | None, reason: str) -> None:
        end = End(states.CANCELED) if stored.canceling else End(states.FAILED, reason)
        try:
            if not stored.canceling:
                await self._letters.bury(stored, origin, reason, now_ms())
            self._write_end(end)
            await self.writer.finish()
        except (TurnOverError, StoreUnavailableError) as error:
            log.warning("task %s: its end is not written: %s", self.writer.task_id, error)
        self._over()

    async def _begin(self, origin: Origin, stored: StoredTask, skill: Skill | None) -> None:
        if skill is None:
            try:
                skill = self._pick(stored.fold.head.history[0])
            except Exception:
                log.exception("task %s: no skill for the message", self.writer.task_id)
                await self._end_unrun(stored, origin, "The agent has no skill for this any more.")
                return
        if self._attempt > self._attempts and self._reason is None:
            begun = replace(stored, attempt=self._attempts)
            await self._end_unrun(begun, origin, _exhausted(self._attempts))
            return
        if self._attempt > 1 and self._reason is None:
            with contextlib.suppress(TurnOverError):
                words = f"Starting again: attempt {self._attempt} of {self._attempts}."
                self.writer.emit(self._status(states.WORKING, words))
        await self._turns(skill, self._make_turn(origin, stored, self._attempt))

    def _pick(self, first: a2a_pb2.Message) -> Skill:
        if self._agent is None:
            raise LookupError("there is no agent")
        return self._agent.pick(first)

    async def _turns(self, skill: Skill, turn: Turn, function: "asyncio.Task[End] | None" = None) -> None:
        following: Turn | None = turn
        if function is not None and self._place is not None:
            self._place.enter()
        try:
            while following is not None and self._reason is None:
                self._turn, self._limit = following, self._limits.of(skill)
                end = await self._run_function(skill, following, function)
                if end is None:
                    return
                following, function = await self._traced_end(following, end), None
            if self._reason is not None and not self.writer.released:
                await self._wind_up(self._reason)
        except (TurnOverError, StoreUnavailableError) as error:
            log.warning("task %s: the run is over: %s", self.writer.task_id, error)
        except BaseException:
            self._over()
            raise
        self._over()

    async def _run_function(self, skill: Skill, turn: Turn, function: "asyncio.Task[End] | None") -> End | None:
        """Run the agent's function; None where the turn was interrupted, and somebody else sees to its end."""
        timer = None
        if self._limit:
            timer = asyncio.get_running_loop().call_later(self._limit, self._interrupt, _Reason.TIMEOUT)
        this = asyncio.current_task()
        self._begun = time.perf_counter()
        self._function = this if function is None else function
        try:
            end = await (invoke(skill, turn, self._place) if function is None else asyncio.shield(function))
        except asyncio.CancelledError:
            if self._reason is None and this is not None:
                this.uncancel()
            log.info("task %s: the agent's function was cancelled", self.writer.task_id)
            end = End(states.FAILED, FAILED_TEXT)
        finally:
            self._function = None
            if timer is not None:
                timer.cancel()
        if self._reason is not None:
            if self._place is not None:
                self._place.leave()
            return None
        self._measure(self._outcome(end))
        if this is not None and this.cancelling():
            await _calm(this)
        return end

    def _outcome(self, end: End) -> str:
        """What a turn whose function has ended with `end` counts as."""
        if end.retry_after is not None and self._attempt < self._attempts:
            return "retry"
        if self.writer.state in states.TERMINAL or (
            self.writer.state in states.INTERRUPTED and end.state == states.COMPLETED
        ):
            return states.label(self.writer.state)
        return states.label(end.state)

    def _measure(self, outcome: str) -> None:
        begun, self._begun = self._begun, None
        if begun is not None:
            TURNS.record(time.perf_counter() - begun, outcome)

    async def _traced_end(self, turn: Turn, end: End) -> Turn | None:
        """As `_end_turn`, which is the last part of the turn in its trace."""
        place, outcome = self._place, self._outcome(end)
        if place is None:
            return await self._end_turn(turn, end)
        try:
            following = await self._end_turn(turn, end)
        except BaseException:
            place.leave()
            raise
        place.end(outcome)
        return following

    async def _end_turn(self, turn: Turn, end: End) -> Turn | None:
        """Write what the end of a function means; the next turn where a message waits for one."""
        # A message that the function asked for and did not wait for is next.
        if end.retry_after is not None and await self._run_again(turn, end.retry_after, end.words):
            return None
        origin = await self._left_over()
        if origin is None or end.state in {states.FAILED, states.REJECTED}:
            self._write_end(end)
            await self.writer.finish()
            if self.writer.released or not self.writer.followed_on:
                return None
            self.writer.followed_on = False
            origin = await self._take()
        if origin is None:
            return None
        stored = await self._store.read(self.writer.task_id, patient=True)
        if stored is None:
            return None
        turn.end()
        if self.writer.state != states.WORKING:
            self.writer.emit(self._status(states.WORKING))
        following = self._turn = self._make_turn(origin, stored, 1)
        return following

    async def _run_again(self, turn: Turn, after: float, words: str | None) -> bool:
        """Give the turn back to be run again, as its function wants; False where no attempt is left."""
        await self._left_over()
        if self._attempt >= self._attempts:
            await self._bury(words or FAILED_TEXT)
            return False
        turn.end()
        self.writer.emit(self._status(states.WORKING, words))
        await self.writer.flush()
        due = now_ms() + int(after * 1000) if after else None
        await self._store.put_back(self.writer.task_id, self.writer.epoch, counted=True, due_ms=due)
        self.writer.close()
        return True

    async def _take(self) -> Origin | None:
        """Take the next waiting message out of the queue."""
        seq = await self.writer.take()
        if seq is not None:
            self._attempt = 1
        return None if seq is None else await self._store.origin(self.writer.task_id, seq, patient=True)

    async def _left_over(self) -> Origin | None:
        taking, self._taking = self._taking, None
        return None if taking is None else await taking

    def _write_end(self, end: End) -> None:
        """Write the state that `end` stands for, unless the turn parked or ended the task itself."""
        with contextlib.suppress(TurnOverError):
            if self.writer.state in states.INTERRUPTED and end.state == states.COMPLETED:
                self.writer.release()
            elif self.writer.state not in states.TERMINAL:
                self.writer.emit(self._status(end.state, end.words, refused=end.refused))

    def _make_turn(self, origin: Origin, stored: StoredTask, attempt: int) -> Turn:
        if TRACES.on and self._agent is not None:
            self._place = Place(
                parent=origin.trace,
                agent=self._agent.card.name,
                turn=stored.turn,
                epoch=self.writer.epoch,
                waited=self._waited,
            )
            self._waited = False
        return Turn(
            sink=self,
            task_id=self.writer.task_id,
            context_id=self.writer.context,
            tenant=self.writer.scope.tenant,
            caller=self.writer.scope.owner,
            message=origin.message,
            request=origin.request,
            history=_before(stored.fold.head.history, origin.message),
            extensions=origin.extensions,
            attempt=attempt,
            checkpoint=stored.checkpoint,
            current=stored.fold.task,
        )

    def _status(
        self, state: a2a_pb2.TaskState, words: str | None = None, *, refused: bool = False
    ) -> a2a_pb2.StreamResponse:
        message = None
        if words is not None:
            message = a2a_pb2.Message(
                message_id=ids.new_id(),
                role=a2a_pb2.ROLE_AGENT,
                task_id=self.writer.task_id,
                context_id=self.writer.context,
                parts=[a2a_pb2.Part(text=words)],
            )
            if refused:
                mark_refusal(message)
        return status_changed(self.writer.task_id, self.writer.context, state, now_ms(), message)

    # -- interruptions -----------------------------------------------------------------------------------------------

    def ask_cancel(self) -> None:
        """A caller wants this task canceled."""
        self._interrupt(_Reason.CANCEL)

    def stop(self) -> None:
        """The process ends: interrupt the turn without ending its task."""
        self._interrupt(_Reason.STOP)

    def fence(self) -> None:
        """The claim is over: somebody else has the task."""
        self._interrupt(_Reason.LOST)

    def nudge(self) -> None:
        """A message may be waiting."""
        self._nudged.set()

    def _interrupt(self, reason: _Reason) -> None:
        if self._reason is None:
            self._reason = reason
            if self._place is not None:
                self._place.interrupted = _INTERRUPTED[reason]
            if self._function is not None:
                self._spawn(self._wind_up(reason))

    async def _wind_up(self, reason: _Reason) -> None:
        """End an interrupted turn, whatever its function does about it."""
        if self._function is not None:
            self._function.cancel()
        # In a task of its own: whatever the agent's code raises, catches or swallows there, the end is written here.
        winding_up = asyncio.create_task(self._let_wind_up(reason), name=f"wind-up-{self.writer.task_id}")
        await asyncio.wait({winding_up}, timeout=self._limits.cancel_grace)
        winding_up.cancel()
        end: End | None = None
        if reason is _Reason.CANCEL:
            end = End(states.CANCELED)
        elif reason is _Reason.TIMEOUT:
            end = End(states.FAILED, f"The agent did not finish within {self._limit:g} seconds.")
        elif reason is _Reason.STOP and self._turn is not None and self._attempts == 1:
            # It has begun, and may not be run by anybody else.
            end = End(states.FAILED, "The service stopped before this was done, and it may not be run twice.")
            await self._bury(end.words or FAILED_TEXT)
        if end is not None:
            self._write_end(end)
            with contextlib.suppress(TurnOverError):
                await self.writer.finish()
        self._over()

    async def _bury(self, reason: str) -> None:
        """Keep a dead letter of the turn that runs."""
        with contextlib.suppress(StoreUnavailableError):
            stored = await self._store.read(self.writer.task_id, patient=True)
            if stored is not None:
                origin = await self._store.origin(self.writer.task_id, stored.turn, patient=True)
                await self._letters.bury(stored, origin, reason, now_ms())

    async def _let_wind_up(self, reason: _Reason) -> None:
        await self._function_gone()
        hook = None if self._agent is None else self._agent.cancel_hook
        if reason is _Reason.CANCEL and hook is not None and self._turn is not None:
            await self._last_words(hook, self._turn)

    async def _function_gone(self) -> None:
        while (function := self._function) is not None:
            await asyncio.wait({function})

    async def _last_words(self, hook: SkillFunction, turn: Turn) -> None:
        try:
            await hook(turn)
        except TurnOverError:
            pass
        except BaseException:  # nobody waits for more of this task than its end
            log.exception("task %s: the agent's cancel hook failed", self.writer.task_id)

    def _over(self) -> None:
        if self.over.is_set():
            return
        # Whatever it is stopped for: what may not be run twice has used up its attempt.
        given_back = self._reason is _Reason.STOP and (self._attempts > 1 or self._turn is None)
        self.unfinished = not self.writer.released and not given_back
        self._measure("lost" if self._reason is None else _INTERRUPTED[self._reason])
        self.writer.close()
        self._turn = None
        self._on_over(self)
        self.over.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        around = copy_context()
        # Whatever call it was that has begun this: what is logged from now on is of the task.
        around.run(know, task_id=self.writer.task_id, context_id=self.writer.context, tenant=self.writer.scope.tenant)
        task = asyncio.create_task(work, name=f"run-{self.writer.task_id}", context=around)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the turn's Sink ---------------------------------------------------------------------------------------------

    async def emit(self, response: a2a_pb2.StreamResponse) -> None:
        if response.HasField("status_update"):
            status = response.status_update.status
            if self._reason is _Reason.CANCEL and status.state in states.TERMINAL:
                # However it calls its end: what was canceled is CANCELED, with these as its last words.
                status.state = states.CANCELED
            elif self._taking and status.state in ENDS_UNLESS_QUEUED and await asyncio.shield(self._taking) is not None:
                # The message has left the queue already, where it would have stood against this end.
                status.state = states.WORKING
        self.writer.emit(response)
        if self.writer.crowded:
            await self.writer.room()

    async def reply(self, message: a2a_pb2.Message) -> None:
        # The task exists already: what was meant as the whole answer is its last word.
        await self.emit(status_changed(self.writer.task_id, self.writer.context, states.COMPLETED, now_ms(), message))

    async def flush(self) -> None:
        await self.writer.flush()

    async def next_message(self) -> a2a_pb2.Message:
        async with self._reading:
            while True:
                self._nudged.clear()
                # Taken in a task of its own: a caller that stops waiting must not take the message along.
                if self._taking is None:
                    self._taking = asyncio.create_task(self._take())
                    # If the turn is interrupted, nobody asks any more how it went.
                    self._taking.add_done_callback(lambda taken: taken.cancelled() or taken.exception())
                origin = await asyncio.shield(self._taking)
                self._taking = None
                if origin is not None:
                    if self.writer.state in states.INTERRUPTED:
                        self.writer.emit(self._status(states.WORKING))
                    return origin.message
                await self._nudged.wait()

    async def keep(self, checkpoint: bytes) -> None:
        await self.writer.keep(checkpoint)

    async def task(self, task_id: str) -> a2a_pb2.Task | None:
        return await lookup(self._store, self.writer.scope, task_id)


async def lookup(store: TaskStore, scope: Scope, task_id: str) -> a2a_pb2.Task | None:
    """Another task of the same caller. Raises: TurnOverError where the store is away."""
    try:
        stored = await store.read(task_id, patient=True)
    except StoreUnavailableError as error:
        raise TurnOverError("the store is away") from error
    return stored.fold.task() if stored is not None and stored.scope == scope else None


def _exhausted(attempts: int) -> str:
    if attempts == 1:
        return "The process that ran this was lost, and it may not be run twice."
    return f"The process that ran this was lost {attempts} times."


async def _calm(task: asyncio.Task[object]) -> None:
    """Let a cancellation that the function aimed at its own task pass, before it hits the engine's work."""
    while task.cancelling():
        task.uncancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)


def _before(history: Sequence[a2a_pb2.Message], message: a2a_pb2.Message) -> Sequence[a2a_pb2.Message]:
    """What was said before `message`, which is mostly the last."""
    for at in range(len(history) - 1, -1, -1):
        if history[at].message_id == message.message_id and history[at].role == message.role:
            return history[:at]
    return history[:]
