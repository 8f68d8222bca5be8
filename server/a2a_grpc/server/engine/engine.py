"""The engine: takes messages in, keeps turns running on this replica, and claims those that wait."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent, Answers, Skill, Turn
from a2a_grpc.server.core import ids, states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.core.events import Fold, message_added, milliseconds, set_timestamp, status_changed
from a2a_grpc.server.core.limits import limit_reached
from a2a_grpc.server.engine.invoke import End, invoke
from a2a_grpc.server.engine.lease import Lease
from a2a_grpc.server.engine.run import Limits, Run, lookup
from a2a_grpc.server.engine.tracing import Place, publishing
from a2a_grpc.server.engine.trial import Trial
from a2a_grpc.server.engine.writer import Writer
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.records import Dedupe, Origin, Outcome, Placed, Scope, StoredTask, Webhook
from a2a_grpc.server.store.tail import LogTail
from a2a_grpc.server.store.tasks import MAX_QUEUE, TaskStore
from a2a_grpc.server.telemetry.facts import know_more
from a2a_grpc.wire.errors import (
    InternalError,
    InvalidAgentResponseError,
    InvalidArgumentError,
    ResourceExhaustedError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
    Violation,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

_CLAIM_POLL = 1.0
_SWEEP = 1.0
_RETRY_AFTER = 1.0
_MAX_RACES = 8
# A turn whose tenant is not served here is left to others for so long, and given up so long after its last word.
_NO_AGENT_PAUSE = 5.0
_NO_AGENT_MS = 600_000
_FIRST_EPOCH = 1
# Seconds after which a call to the store is answered or given up by everybody, the store included.
_ON_ITS_WAY = 60.0


@dataclass(slots=True, kw_only=True)
class Intake:
    """A message that passed every check, on its way to a turn. The message has no task id yet where the task is new."""

    scope: Scope
    skill: Skill
    origin: Origin
    dedupe: Dedupe
    webhook: Webhook | None = None
    """A webhook for the task that the message becomes part of."""


@dataclass(slots=True, kw_only=True)
class Accepted:
    """A message that is part of a task now."""

    task_id: str
    seq: int
    """Where it stands in the log: what comes after may be the answer."""
    repeated: bool = False
    """It was accepted before, by an earlier call."""
    writer: Writer | None = None
    """Set where the turn that answers it begins in this process, in this very moment: nothing is written yet."""


class Engine:
    """Runs turns of all tenants on this replica."""

    def __init__(
        self,
        agent_of: Callable[[str], Agent | None],
        store: TaskStore,
        tail: LogTail,
        letters: DeadLetters,
        *,
        limits: Limits,
        max_turns: int,
        mixed_timeout: float,
        snapshot_events: int,
        lease_ttl: float,
        patience: float,
    ) -> None:
        """`agent_of` gives the agent of a tenant; None: there is no such tenant here (any more, or yet).

        `max_turns` run here at once, more wait for a replica; `mixed_timeout` in seconds (see `Answers.MIXED`).

        `lease_ttl` and `patience` in seconds: see `Lease`.
        """
        self._letters = letters
        self.agent_of = agent_of
        self._store = store
        self._tail = tail
        self._limits = limits
        self.max_turns = max_turns
        self._mixed_timeout = mixed_timeout
        self._snapshot_events = snapshot_events
        self._runs: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._reserved = 0
        self._placing: dict[str, int] = {}
        """Tasks that the store is asked to give to this replica, and by how many."""
        self._wake_up = asyncio.Event()
        self._rested = asyncio.Event()
        """Set whenever a turn or a reservation ends."""
        self._closing = False
        self._unfinished: dict[tuple[str, int], float] = {}
        """Turns, each with its epoch, that were begun here and that nobody ended or gave back; and since when."""
        self._left: dict[str, float] = {}
        """Tasks whose turns are left to others, because their tenants are not served here; and until when."""
        self.lease = Lease(
            store.registry,
            ttl=lease_ttl,
            patience=patience,
            load=lambda: (self.running, self.max_turns),
            on_lost=self._fence,
            recover=self._recover_all,
        )
        for keys in store.all_keys():
            tail.watch(keys.wake(store.replica), self._woken)
            tail.watch(keys.ready_channel, lambda _: self._wake_up.set())

    @property
    def running(self) -> int:
        """How many turns run here now."""
        return len(self._runs)

    async def start(self) -> None:
        """Join the other replicas, and begin to claim turns that wait."""
        await self.lease.beat()
        self._spawn(self.lease.run(), "lease")
        self._spawn(self._claim_waiting(), "claims")

    def retire(self) -> None:
        """Claim nothing any more: what comes in from now on is stored for other replicas."""
        self._closing = True

    async def idle(self) -> None:
        """Wait until no turn runs here."""
        while self._runs or self._reserved:
            self._rested.clear()
            await self._rested.wait()

    async def close(self) -> None:
        """Stop claiming, interrupt what runs, and give it back to the ready queue."""
        self.retire()
        for run in list(self._runs.values()):
            run.stop()
        await self._hand_over(self._limits.cancel_grace + 1)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.lease.close()
        try:
            await self._give_back()
            held = await self._store.held()
            if held.task_ids or not held.complete:
                # Ends that the store did not take in time. Others write them, once this replica is taken for lost.
                log.warning("some of what ran here is not given back; it stays with this replica until it is missed")
            else:
                await self._store.registry.leave()
        except StoreUnavailableError as error:
            log.warning("could not give back what ran here: %s", error)

    async def _hand_over(self, grace: float) -> None:
        """Give back each turn as soon as it is over, for as long as `grace` seconds: a deaf one holds up no other."""
        until = asyncio.get_running_loop().time() + grace
        while self._runs and (left := until - asyncio.get_running_loop().time()) > 0:
            self._rested.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._rested.wait()
            with contextlib.suppress(StoreUnavailableError):
                await self._give_back()

    # -- taking messages in ------------------------------------------------------------------------------------------

    async def answer(self, intake: Intake) -> a2a_pb2.Message | Accepted:
        """Answer a message that belongs to no task as its skill declares: with a message, or with a new task.

        Raises:
            ResourceExhaustedError: too many turns wait already; nothing was stored.
            InvalidAgentResponseError: the agent answers with messages only and gave none.
            InvalidArgumentError: the message id was used for another message.
            StoreUnavailableError: a task had to be stored and could not be.
        """
        if intake.skill.answers is Answers.TASK:
            return await self._create(intake)
        return await self._try(intake)

    async def follow_up(self, intake: Intake, stored: StoredTask) -> Accepted:
        """Send a message to the task `stored`: it begins the next turn, or waits for it.

        Raises: as `answer`; UnsupportedOperationError where the task has ended, TaskNotFoundError where it is gone.
        """
        for _ in range(_MAX_RACES):
            if stored.state in states.TERMINAL:
                # A message that was accepted before the end may be sent again after it.
                known = await self._store.known(intake.scope, intake.dedupe, stored.task_id)
                if known is not None:
                    return self._accepted(known, intake)
                raise UnsupportedOperationError(
                    f"The task has ended ({states.name(stored.state)}) and takes no more messages. "
                    "Send the message without a task id to start a new task in the same context."
                )
            resumed = status_changed(stored.task_id, stored.context, states.WORKING, now_ms())
            span = publishing(stored.task_id)
            claim = self._reserve(stored.task_id)
            try:
                placed = await self._store.follow_up(
                    stored, resumed, intake.origin, intake.dedupe, claim=claim, webhook=intake.webhook
                )
                if placed.outcome is Outcome.STARTED and placed.epoch:
                    return await self._resume(placed, stored, resumed, intake)
            finally:
                self._unreserve(stored.task_id, claim)
            if placed.outcome is not Outcome.STATE:
                if span is not None and placed.outcome is Outcome.STARTED:
                    span.end()
                return self._accepted(placed, intake)
            current = await self._store.read(stored.task_id)
            if current is None:
                raise TaskNotFoundError("There is no such task.")
            stored = current
        raise ResourceExhaustedError("The task changes too fast; send the message again.", retry_after=_RETRY_AFTER)

    async def enqueue(self, intake: Intake) -> Accepted:
        """Store a message as a new task that waits for any replica. Raises: as `answer`."""
        entry, limit = self._new_task(intake), self._limits.attempts(intake.skill)
        placed = await self._store.create(entry, intake.scope, intake.origin, intake.dedupe, claim=False, limit=limit)
        return self._accepted(placed, intake)

    async def _create(self, intake: Intake) -> Accepted:
        entry = self._new_task(intake)
        span = publishing(entry.task.id)
        claim = self._reserve(entry.task.id)
        try:
            limit = self._limits.attempts(intake.skill)
            placed = await self._store.create(
                entry, intake.scope, intake.origin, intake.dedupe, claim=claim, limit=limit, webhook=intake.webhook
            )
            accepted = self._accepted(placed, intake)
            if span is not None and placed.outcome is Outcome.CREATED and not placed.epoch:
                span.end()
            if placed.outcome is Outcome.CREATED and placed.epoch:
                claimed = self._claimed(entry, intake.scope, placed, limit)
                accepted.writer = self._begin(claimed, intake.origin, intake.skill)
        finally:
            self._unreserve(entry.task.id, claim)
        return accepted

    async def _try(self, intake: Intake) -> a2a_pb2.Message | Accepted:
        """Run the turn without a task until it is clear what it answers with."""
        message_only = intake.skill.answers is Answers.MESSAGE
        if not message_only and (known := await self._store.known(intake.scope, intake.dedupe)) is not None:
            return self._accepted(known, intake)
        entry = self._new_task(intake)
        if not self._reserve(entry.task.id, leased=not message_only):
            if not message_only and not self.lease.valid:
                raise StoreUnavailableError("this replica has no lease at the moment")
            if self._closing:
                raise UnavailableError("The server is shutting down; send the message again.", retry_after=_RETRY_AFTER)
            raise ResourceExhaustedError("This replica runs as many turns as it may.", retry_after=_RETRY_AFTER)
        trial = Trial(partial(lookup, self._store, intake.scope), message_only=message_only)
        turn = Turn(
            sink=trial,
            task_id=entry.task.id,
            context_id=entry.task.context_id,
            tenant=intake.scope.tenant,
            caller=intake.scope.owner,
            message=intake.origin.message,
            request=intake.origin.request,
            history=(),
            extensions=intake.origin.extensions,
        )
        place = Place(
            parent=intake.origin.trace, agent=self._name(intake.scope.tenant), turn=1, epoch=_FIRST_EPOCH, waited=False
        )
        know_more(task_id=entry.task.id, context_id=entry.task.context_id)
        body = self._spawn(invoke(intake.skill, turn, place), f"trial-{entry.task.id}")
        decided = asyncio.create_task(trial.decided.wait())
        try:
            timeout = (self._limits.of(intake.skill) or None) if message_only else self._mixed_timeout
            await asyncio.wait({body, decided}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if trial.message is not None:
                return trial.message
            if body.cancelled() and self._closing:
                raise UnavailableError("The server is shutting down; send the message again.", retry_after=_RETRY_AFTER)
            if message_only:
                return _no_message(trial, body)
            return await self._become_task(intake, entry, turn, trial, body, place)
        finally:
            self._unreserve(entry.task.id, True)
            decided.cancel()
            if not trial.answered:
                body.cancel()
            if not trial.adopted:
                body.add_done_callback(partial(_ended, place))

    async def _become_task(
        self,
        intake: Intake,
        entry: a2a_pb2.StreamResponse,
        turn: Turn,
        trial: Trial,
        body: asyncio.Task[End],
        place: Place,
    ) -> Accepted:
        trial.close()
        limit = self._limits.attempts(intake.skill)
        # Its function is at work: should the task be stored and nobody be told, that was an attempt.
        turn_begun = (entry.task.id, _FIRST_EPOCH)
        self._unfinished[turn_begun] = asyncio.get_running_loop().time()
        placed = await self._store.create(
            entry,
            intake.scope,
            intake.origin,
            intake.dedupe,
            claim=True,
            limit=limit,
            begun=True,
            webhook=intake.webhook,
        )
        del self._unfinished[turn_begun]
        accepted = self._accepted(placed, intake)
        if placed.outcome is Outcome.CREATED:
            run = self._run(self._claimed(entry, intake.scope, placed, limit))
            trial.become(run)
            run.adopt(intake.skill, turn, body, place)
            accepted.writer = run.writer
        return accepted

    def _new_task(self, intake: Intake) -> a2a_pb2.StreamResponse:
        """The first entry of a new task's log."""
        message = intake.origin.message
        message.context_id = message.context_id or ids.new_id()
        message.task_id = self._store.new_task_id(intake.scope, intake.dedupe.message_id)
        entry = a2a_pb2.StreamResponse()
        task = entry.task
        task.id = message.task_id
        task.context_id = message.context_id
        task.status.state = states.SUBMITTED
        set_timestamp(task.status.timestamp, now_ms())
        task.history.append(message)
        return entry

    def _accepted(self, placed: Placed, intake: Intake) -> Accepted:
        match placed.outcome:
            case Outcome.KNOWN if placed.digest != intake.dedupe.digest:
                raise InvalidArgumentError(
                    "This message id was used for another message.",
                    violations=[Violation("message.message_id", "use a new id for each message, the same for a retry")],
                )
            case Outcome.KNOWN:
                return Accepted(task_id=placed.task_id, seq=placed.seq, repeated=True)
            case Outcome.FULL:
                # The service's trouble: no quota of anybody is used up.
                raise ResourceExhaustedError(
                    "Too much waits for a replica already; nothing was stored.", retry_after=_RETRY_AFTER
                )
            case Outcome.CROWDED:
                raise limit_reached(
                    "Too much waits for this task already; nothing was stored.",
                    "task:waiting",
                    f"{MAX_QUEUE} messages that wait",
                    retry_after=_RETRY_AFTER,
                )
            case Outcome.HOOKED:
                assert intake.webhook is not None  # noqa: S101 -- it is the one that was refused
                raise limit_reached(
                    "The task has as many push notification configs as it may; nothing was stored. Delete one first, "
                    "or send the message without.",
                    "task:webhooks",
                    f"{intake.webhook.limit} push notification configs",
                )
            case Outcome.GONE:
                raise TaskNotFoundError("There is no such task.")
        return Accepted(task_id=placed.task_id, seq=placed.seq)

    # -- running -----------------------------------------------------------------------------------------------------

    def _room(self, *, leased: bool = True) -> int:
        """How many more turns may begin here now; `leased`: only while others would notice the loss of this replica."""
        if self._closing or (leased and not self.lease.valid):
            return 0
        return max(0, self.max_turns - self.running - self._reserved)

    def _reserve(self, task_id: str, *, leased: bool = True) -> bool:
        """Whether there is room for one more turn here, which is kept for `task_id` until `_unreserve`."""
        claim = self._room(leased=leased) > 0
        if claim:
            self._reserved += 1
            self._place(task_id)
        return claim

    def _unreserve(self, task_id: str, claim: bool) -> None:
        if claim:
            if self.running + self._reserved == self.max_turns:
                # There was no room; turns may wait for this place.
                self._wake_up.set()
            self._reserved -= 1
            self._rested.set()
            self._unplace(task_id)

    def _place(self, task_id: str) -> None:
        self._placing[task_id] = self._placing.get(task_id, 0) + 1

    def _unplace(self, task_id: str) -> None:
        left = self._placing.pop(task_id) - 1
        if left:
            self._placing[task_id] = left

    def _claimed(self, entry: a2a_pb2.StreamResponse, scope: Scope, placed: Placed, limit: int) -> StoredTask:
        return StoredTask(
            task_id=entry.task.id,
            scope=scope,
            context=entry.task.context_id,
            state=entry.task.status.state,
            seq=placed.seq,
            epoch=placed.epoch,
            holder=self._store.replica,
            attempt=1,
            turn=placed.seq,
            queue=(),
            canceling=False,
            checkpoint=None,
            told=placed.seq,
            limit=limit,
            first=1,
            fold=Fold(entry.task),
        )

    async def _resume(
        self, placed: Placed, stored: StoredTask, resumed: a2a_pb2.StreamResponse, intake: Intake
    ) -> Accepted:
        """Begin the turn of a message that found its task parked and was claimed with it."""
        if placed.seq == stored.seq + 2 and placed.epoch == stored.epoch + 1 and not stored.holder:
            # Nobody had it since it was read, so nothing of it has changed.
            stored.fold.apply(resumed)
            stored.fold.apply(message_added(intake.origin.message))
            claimed = replace(
                stored,
                state=states.WORKING,
                seq=placed.seq,
                epoch=placed.epoch,
                holder=self._store.replica,
                attempt=1,
                turn=placed.seq,
                told=placed.seq - 1,
            )
        else:
            found = await self._store.read(stored.task_id)
            if found is None:
                raise TaskNotFoundError("There is no such task.")
            if found.epoch != placed.epoch:
                return Accepted(task_id=stored.task_id, seq=placed.seq)
            claimed = found
        return Accepted(
            task_id=stored.task_id, seq=placed.seq, writer=self._begin(claimed, intake.origin, intake.skill)
        )

    def _name(self, tenant: str) -> str:
        agent = self.agent_of(tenant)
        return "" if agent is None else agent.card.name

    def _begin(self, stored: StoredTask, origin: Origin, skill: Skill | None = None, *, waited: bool = False) -> Writer:
        run = self._run(stored, waited=waited)
        run.begin(origin, stored, skill)
        return run.writer

    def _run(self, stored: StoredTask, *, waited: bool = False) -> Run:
        writer = Writer(self._store, self._tail, stored, snapshot_events=self._snapshot_events)
        run = Run(
            self.agent_of(stored.scope.tenant),
            self._store,
            self._letters,
            writer,
            self._limits,
            self._over,
            attempt=stored.attempt,
            attempts=self._limits.max_attempts if stored.limit is None else stored.limit,
            waited=waited,
        )
        if (overtaken := self._runs.get(stored.task_id)) is not None:
            # This replica lost the task without noticing, and has it again.
            overtaken.fence()
        self._runs[stored.task_id] = run
        self._tail.run_begins(stored.task_id)
        return run

    def _over(self, run: Run) -> None:
        task_id = run.writer.task_id
        if self.running + self._reserved >= self.max_turns:
            # There was no room; turns may wait for the place that is free now.
            self._wake_up.set()
        if run.unfinished:
            self._unfinished[task_id, run.writer.epoch] = asyncio.get_running_loop().time()
        if self._runs.get(task_id) is run:
            del self._runs[task_id]
            self._rested.set()
            if self._tail.run_ends(task_id, ended=run.writer.ended):
                self._spawn(self._tail.go_on(task_id), f"go-on-{task_id}")

    def _woken(self, data: bytes | None) -> None:
        """Another replica wants something of a task that runs here; None: some wishes may have been lost."""
        for task_id in list(self._runs) if data is None else [data.decode()]:
            if task_id in self._runs:
                self._spawn(self._look(self._runs[task_id]), f"look-{task_id}")

    async def _look(self, run: Run) -> None:
        with contextlib.suppress(StoreUnavailableError):
            stored = await self._store.read(run.writer.task_id, artifacts=False)
            if stored is None:
                # The task was erased: there is nothing to work for any more.
                run.fence()
                return
            if stored.epoch != run.writer.epoch:
                return
            if stored.canceling:
                run.ask_cancel()
            if stored.queue:
                run.nudge()

    async def _claim_waiting(self) -> None:
        """Claim turns that wait whenever there is room, first come first served."""
        loop = asyncio.get_running_loop()
        sweep_at = loop.time()
        while not self._closing:
            self._wake_up.clear()
            try:
                if loop.time() >= sweep_at:
                    sweep_at = loop.time() + _SWEEP
                    self._left = {task_id: until for task_id, until in self._left.items() if until > loop.time()}
                    await self._give_back()
                    await self._store.promote()
                while room := self._room():
                    # Those that are left to others may stand in front of those that are to be claimed.
                    wanted = room + len(self._left)
                    waiting = await self._store.waiting(wanted)
                    for task_id in islice((task_id for task_id in waiting if task_id not in self._left), room):
                        try:
                            await self._claim(task_id)
                        except StoreUnavailableError:
                            raise
                        except Exception:
                            # One task that cannot be read must not keep the others from being run.
                            log.exception("task %s: cannot be claimed", task_id)
                    if len(waiting) < wanted:
                        break
            except StoreUnavailableError:
                pass
            except Exception:
                log.exception("claiming failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLAIM_POLL):
                    await self._wake_up.wait()

    async def _claim(self, task_id: str) -> None:
        claim = self._reserve(task_id)
        try:
            epoch = await self._store.claim(task_id) if claim else None
            if epoch is not None:
                await self._take_on(task_id, epoch)
        finally:
            self._unreserve(task_id, claim)

    async def _take_on(self, task_id: str, epoch: int) -> None:
        """Run the turn of a task that this replica has claimed."""
        stored = await self._store.read(task_id)
        if stored is None or stored.epoch != epoch:
            return
        origin = await self._store.origin(task_id, stored.turn)
        if self.agent_of(stored.scope.tenant) is None:
            await self._leave_to_others(stored, origin)
        elif origin is not None:
            self._begin(stored, origin, waited=True)
        else:
            log.error("task %s: the message of its turn is gone", task_id)
            self._run(stored).end_unrun(stored, None, "The message that this was to answer is lost.")

    async def _leave_to_others(self, stored: StoredTask, origin: Origin | None) -> None:
        """Give back a turn whose tenant is not served here, which it may be elsewhere; or end it.

        Replicas are given another set of tenants one after the other, so that for a while not all of them know all.
        """
        now, since = now_ms(), milliseconds(stored.fold.head.status.timestamp)
        if stored.canceling or now - since > _NO_AGENT_MS or not self._may_begin(stored):
            self._run(stored).end_unrun(stored, origin, "There is no agent for this tenant any more.")
            return
        log.warning("task %s: there is no tenant %r here; it is left to others", stored.task_id, stored.scope.tenant)
        # Who knows the tenant hears of it at once, and must not lose the race for it to this replica again and again.
        self._left[stored.task_id] = asyncio.get_running_loop().time() + _NO_AGENT_PAUSE
        await self._store.put_back(stored.task_id, stored.epoch)

    def _may_begin(self, stored: StoredTask) -> bool:
        return stored.attempt <= (self._limits.max_attempts if stored.limit is None else stored.limit)

    async def _give_back(self) -> None:
        """Give back what this replica holds and does not run.

        That is a task whose caller left while it was stored, one whose claim the store took and could not answer, and
        one whose run had to give up on a store that was away. Only the last has used up an attempt.
        """
        held = set[tuple[str, int]]()
        for task_id in (await self._store.held()).task_ids:
            if task_id in self._runs:
                continue
            found = await self._store.holder(task_id)
            if task_id in self._runs or task_id in self._placing:
                continue
            holder, epoch = found if found is not None else (self._store.replica, 0)
            held.add((task_id, epoch))
            if holder == self._store.replica:
                # Otherwise its run ended while this looked, which is no news.
                level = logging.INFO if self._closing else logging.WARNING
                log.log(level, "task %s: held and not run here; it is given back", task_id)
            if (task_id, epoch) in self._unfinished:
                await self._recover(task_id, epoch, self._store.replica)
            else:
                await self._store.put_back(task_id, epoch)
        # What is not held was taken by others. But a new task may still be on its way to the store.
        recent = asyncio.get_running_loop().time() - _ON_ITS_WAY
        self._unfinished = {turn: at for turn, at in self._unfinished.items() if turn in held or at > recent}

    def _fence(self) -> None:
        """Stop everything that runs here: others have it, or will have."""
        for run in list(self._runs.values()):
            run.fence()
        # A store that was emptied knows nobody any more, and nobody would tell of the tasks that are gone.
        self._tail.doubt()

    async def _recover_all(self, lost: str, since: int | None) -> bool:
        """Take the turns of a replica that was lost, if it is the one that was condemned at `since`.

        Whether nothing is left that it holds.
        """
        held = await self._store.held(lost)
        found = await asyncio.gather(
            *(self._store.holder(task_id) for task_id in held.task_ids), return_exceptions=True
        )
        if since is not None and await self._store.registry.condemned_since(lost) != since:
            # It has come back meanwhile: what it holds now, it holds by right.
            return False
        complete = held.complete
        for task_id, holding in zip(held.task_ids, found, strict=True):
            # A part of a cluster that is away must not keep the turns of the others from being run.
            try:
                if isinstance(holding, BaseException):
                    raise holding
                _, epoch = holding if holding is not None else ("", 0)
                await self._recover(task_id, epoch, lost)
            except StoreUnavailableError:
                complete = False
        return complete and not (await self._store.held(lost)).task_ids

    async def _recover(self, task_id: str, epoch: int, lost: str) -> None:
        """Have a turn run again that was begun and not ended; where it may not be, write its end."""
        self._place(task_id)
        try:
            claimed = await self._store.recover(task_id, epoch, lost, default_limit=self._limits.max_attempts)
            if claimed is not None:
                await self._take_on(task_id, claimed)
        finally:
            self._unplace(task_id)

    def _spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _no_message(trial: Trial, body: asyncio.Task[End]) -> a2a_pb2.Message:
    """Say why an agent that answers with messages only gave none."""
    if not trial.misused and body.done() and not body.cancelled():
        end = body.result()
        if end.state == states.REJECTED:
            raise UnsupportedOperationError(end.words or "The agent refuses this message.")
        if end.refused:
            raise InvalidAgentResponseError(end.words or "The agent failed.")
        if end.state == states.FAILED:
            raise InternalError(end.words or "The agent failed.")
    raise InvalidAgentResponseError("The agent answers with messages only and gave none.")


def _ended(place: Place, body: asyncio.Task[End]) -> None:
    """The function of a turn that has become no task is over: so is the turn."""
    if not body.cancelled():
        place.end(states.label(body.result().state))
