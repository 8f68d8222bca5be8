"""Agents written for a2a-sdk: an `AgentExecutor` of it runs here as it is, over the same log as every other agent.

The messages of a2a-sdk 1.3 are those of this project, class by class, so that nothing is translated but what an
event means. This module needs the extra `a2a-grpc[executor]`.
"""

import logging
from pathlib import Path
from typing import Any, Final

from a2a.auth.user import User
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.utils.errors import A2AError

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents.agent import Agent, Answers
from a2a_grpc.server.agents.card_file import load_card
from a2a_grpc.server.agents.ends import Fail
from a2a_grpc.server.agents.loading import load_module
from a2a_grpc.server.agents.schemas import ArtifactMismatchError
from a2a_grpc.server.agents.turn import Turn
from a2a_grpc.server.core import states

log = logging.getLogger(__name__)

ATTEMPT: Final = "attempt"
"""Under this name `context.call_context.state` holds how often the turn was begun."""


def from_executor(executor: AgentExecutor, card: a2a_pb2.AgentCard, *, attempts: int | None = None) -> Agent:
    """An agent with this card, each of whose skills is the executor; `attempts` as for `Agent`.

    Raises: ValueError for a card without a skill.
    """
    if not card.skills:
        raise ValueError("the card needs at least one skill (4.4.1)")
    agent = Agent(name=card.name, description=card.description, version=card.version)
    agent.card.CopyFrom(card)
    # a2a-sdk does not look at them, and cards that were written for it say things such as "text".
    agent.checks_media_types = False

    async def run(turn: Turn) -> None:
        task = turn.task()
        if task is not None and turn.attempt == 1 and task.status.state == states.SUBMITTED:
            # It is there, but no executor has seen it: with a2a-sdk it would be the executor that makes it.
            task = None
        queue = _Events(turn, has_task=task is not None)
        try:
            await executor.execute(await _context(turn, task), queue)
        except A2AError as error:
            # What a2a-sdk would have answered the call with.
            raise Fail(str(error)) from error
        finally:
            # Many executors say themselves that they failed, in their own words, whatever was raised to them.
            queue.check()

    async def cancel(turn: Turn) -> None:
        await turn.flush()
        theirs: Any = await turn.reference(turn.task_id)
        context = RequestContext(_call_context(turn), task_id=turn.task_id, context_id=turn.context_id, task=theirs)
        await executor.cancel(context, _Events(turn, has_task=True))

    for skill in card.skills:
        # One that has begun may answer with a message as long as there is no task: its first event says which.
        agent.skill(id=skill.id, answers=Answers.TASK if attempts == 1 else Answers.MIXED, attempts=attempts)(run)
    agent.on_cancel(cancel)
    return agent


def load_executor(reference: str, card: str | None) -> Agent:
    """The agent of the executor at `MODULE:ATTR`: a class, a function that makes one, or an executor.

    `card` is a file, or `MODULE:ATTR` that names an AgentCard; None: the executor has it as `agent_card`.

    Raises: ValueError that says what was looked for and what to write; RuntimeError where the module's own code fails.
    """
    module, attribute = load_module(reference, "the executor", "my_agent:MyExecutor")
    found = getattr(module, attribute, None)
    executor: Any = found
    if not isinstance(found, AgentExecutor) and callable(found):
        try:
            executor = found()
        except TypeError as error:
            raise ValueError(
                f"{reference!r}: it cannot be made without arguments ({error}); name an object of it instead"
            ) from error
    if not isinstance(executor, AgentExecutor):
        what = "nothing" if found is None else f"a {type(executor).__name__}"
        raise ValueError(f"{reference!r}: {attribute!r} is {what}, not an AgentExecutor of a2a-sdk")  # noqa: TRY004
    return from_executor(executor, _card(card, executor, reference))


def _card(named: str | None, executor: AgentExecutor, reference: str) -> a2a_pb2.AgentCard:
    if named is None:
        card = getattr(executor, "agent_card", None)
        where = f"{reference!r} has no agent_card"
    elif named.endswith((".yaml", ".yml", ".json")) or Path(named).is_file():
        return load_card(named)
    else:
        module, attribute = load_module(named, "the card", "card.yaml, or my_agent:agent_card")
        card = getattr(module, attribute, None)
        where = f"{named!r} is no AgentCard"
    if not isinstance(card, a2a_pb2.AgentCard):
        raise ValueError(f"{where}; name the card with --card: a file such as card.yaml, or MODULE:ATTR")  # noqa: TRY004
    return card


class _Caller(User):
    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def is_authenticated(self) -> bool:
        return bool(self._name)

    @property
    def user_name(self) -> str:
        return self._name


def _call_context(turn: Turn) -> ServerCallContext:
    return ServerCallContext(
        state={ATTEMPT: turn.attempt},
        user=_Caller(turn.caller),
        tenant=turn.tenant,
        requested_extensions=set(turn.extensions),
    )


async def _context(turn: Turn, task: a2a_pb2.Task | None) -> RequestContext:
    # The classes are the same; only their stubs are not.
    request: Any = turn.request
    related: list[Any] = [found for id_ in turn.references if (found := await turn.reference(id_)) is not None]
    theirs: Any = task
    return RequestContext(
        _call_context(turn),
        request=request,
        task_id=turn.task_id,
        context_id=turn.context_id,
        task=theirs,
        related_tasks=related,
    )


class _Events(EventQueue):
    """What an executor writes into: its events become those of the turn."""

    def __init__(self, turn: Turn, *, has_task: bool) -> None:
        self._turn = turn
        self._has_task = has_task
        """The executor knows that there is a task, or has said so."""
        self._ended = False
        self._refused: ArtifactMismatchError | None = None

    def check(self) -> None:
        """Raises: ArtifactMismatchError where an artifact was refused."""
        if self._refused is not None:
            raise self._refused

    async def enqueue_event(self, event: Any) -> None:
        """Write an event. Raises: TurnOverError where the turn was interrupted; ValueError for what is no event."""
        if self._ended:
            log.warning("task %s: what comes after the end is left out", self._turn.task_id)
            return
        self.check()
        try:
            await self._write(event)
        except ArtifactMismatchError as error:
            self._refused = error
            raise

    async def _write(self, event: Any) -> None:
        match event:
            case a2a_pb2.Message():
                await self._turn.reply(event)
                self._ended = True
            case a2a_pb2.Task():
                self._check(event.id, event.context_id)
                await self._task(event)
            case a2a_pb2.TaskStatusUpdateEvent():
                self._check(event.task_id, event.context_id)
                await self._status(event)
            case a2a_pb2.TaskArtifactUpdateEvent():
                self._check(event.task_id, event.context_id)
                self._has_task = True
                await self._turn.emit(event)
            case _:
                raise ValueError(f"{type(event).__name__} is no event of a task")

    async def _task(self, task: a2a_pb2.Task) -> None:
        """A task as a whole: the first one says what there is, those after it say nothing new."""
        if self._has_task:
            return
        for artifact in task.artifacts:
            await self._turn.emit(a2a_pb2.TaskArtifactUpdateEvent(artifact=artifact, last_chunk=True))
        metadata = task.metadata if task.HasField("metadata") else None
        await self._status(a2a_pb2.TaskStatusUpdateEvent(status=task.status, metadata=metadata))

    async def _status(self, event: a2a_pb2.TaskStatusUpdateEvent) -> None:
        status = a2a_pb2.TaskStatusUpdateEvent()
        status.CopyFrom(event)
        state = status.status.state
        if state == a2a_pb2.TASK_STATE_UNSPECIFIED and self._has_task:
            raise ValueError("a status needs a state")
        if state in {states.SUBMITTED, a2a_pb2.TASK_STATE_UNSPECIFIED}:
            # The task was submitted before the executor was asked. That it is one is news where a message would do.
            status.status.state = states.WORKING
        if not status.status.message.parts:
            status.status.ClearField("message")
        self._has_task = True
        await self._turn.emit(status)
        self._ended = state in states.TERMINAL

    def _check(self, task_id: str, context_id: str) -> None:
        if task_id not in {"", self._turn.task_id} or context_id not in {"", self._turn.context_id}:
            raise ValueError(f"an event of task {task_id} in context {context_id}, which is another one")
