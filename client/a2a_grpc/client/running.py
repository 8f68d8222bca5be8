"""One run of a remote agent: its events become updates and, at the end, a result."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Final, TypeAlias, TypeVar

from a2a_grpc.client.client import A2AClient, NumberedEvents
from a2a_grpc.client.continuation import Address, Continuation
from a2a_grpc.client.errors import InvalidArtifactError, StreamBrokenError
from a2a_grpc.client.portable import portable
from a2a_grpc.client.results import (
    ArtifactChunk,
    Reply,
    Result,
    StatusUpdate,
    StillRunningError,
    TaskUpdate,
    Update,
    result_of,
)
from a2a_grpc.client.retries import Retries
from a2a_grpc.client.states import INTERRUPTED, TERMINAL, task_id_in
from a2a_grpc.client.transports.base import Numbered
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import A2AError, DeadlineExceededError, InvalidAgentResponseError, UnavailableError
from a2a_grpc.wire.folding import Fold

Updates: TypeAlias = AsyncGenerator[Update | Result, None]
"""What happens, each thing once; the last item is the Result."""

IsOld: TypeAlias = Callable[[a2a_pb2.TaskStatus], bool]
"""Whether a status in which a task waits, and which a stream begins with, was there before the run."""

_STOPS: Final = TERMINAL | INTERRUPTED

# The end travels with the last event. An agent that keeps the stream open loses the connection, and nothing else.
_END_SECONDS: Final = 0.25
# What is known already is the result then.
_CORRECTION_SECONDS: Final = 10.0

T = TypeVar("T")


class Run:
    """What is known of a run: the task so far, and where its stream stands."""

    def __init__(
        self, target: Address, is_old: IsOld, *, task_id: str = "", context_id: str = "", cursor: int = 0
    ) -> None:
        self.task_id = task_id
        self.context_id = context_id
        self.cursor = cursor
        self.over = False
        """There is a result, whatever else the stream would bring."""
        self._target = target
        self._is_old = is_old
        self._fold = Fold()
        self._message: a2a_pb2.Message | None = None

    @property
    def waits(self) -> bool:
        """The result is that the task waits for somebody."""
        return self.over and self.state in INTERRUPTED

    @property
    def state(self) -> a2a_pb2.TaskState | None:
        """The state that the task is in; None: nothing was heard of it."""
        return self._fold.state or None

    @property
    def changed_at(self) -> str:
        """When the task came into this state."""
        return time_of(self._fold.head.status)

    def add(self, event: Numbered) -> Update | None:
        """Take the next event; None where it is nothing new, or a message, which is the result alone.

        Raises InvalidAgentResponseError for one that cannot be of this run.
        """
        response = event.response
        if self.task_id and task_id_in(response) not in ("", self.task_id):
            raise InvalidAgentResponseError(f"The agent sent an event of another task among those of {self.task_id}.")
        update: Update
        match response.WhichOneof("payload"):
            case "message":
                self._message = response.message
                self.context_id = response.message.context_id or self.context_id
                self.over = True
                return None
            case "task":
                self._name(response.task.id, response.task.context_id)
                status = response.task.status
                self.over = status.state in TERMINAL or (status.state in INTERRUPTED and not self._is_old(status))
                if response.task == self._fold.task():
                    return None
                update = TaskUpdate(response.task)
            case "status_update":
                self._name(response.status_update.task_id, response.status_update.context_id)
                self.over = response.status_update.status.state in _STOPS
                update = StatusUpdate(response.status_update)
            case "artifact_update":
                self._name(response.artifact_update.task_id, response.artifact_update.context_id)
                update = ArtifactChunk(response.artifact_update)
            case _:
                raise InvalidAgentResponseError("The agent sent an event with nothing in it.")
        self._fold.apply(response)
        self.cursor = event.seq or self.cursor
        return update

    def differs(self, artifacts: Sequence[a2a_pb2.Artifact]) -> bool:
        """Whether these are other artifacts than those that were told."""
        return list(artifacts) != list(self._fold.artifacts.artifacts)

    def result(self) -> Result:
        """How it went. Raises InvalidAgentResponseError where the agent has stopped without saying that."""
        if self._message is not None:
            return Reply(self._message)
        task = self._fold.task()
        # Agents that leave out the Task at the beginning name it in every event.
        task.id, task.context_id = task.id or self.task_id, task.context_id or self.context_id
        return result_of(task, self.continuation())

    def continuation(self) -> Continuation:
        """Where somebody else can go on."""
        return Continuation(
            target=self._target,
            task_id=self.task_id,
            context_id=self.context_id,
            cursor=self.cursor,
            state=self.state,
            changed_at=self.changed_at,
        )

    def _name(self, task_id: str, context_id: str) -> None:
        self.task_id = task_id or self.task_id
        self.context_id = context_id or self.context_id


class Runner:
    """Runs an agent through its client."""

    def __init__(self, client: A2AClient, patience: float) -> None:
        self.client = client
        self.target = portable(client.url, client.card, client.interface)
        self._patience = patience

    def send(self, request: a2a_pb2.SendMessageRequest, is_old: IsOld, timeout: float | None) -> tuple[Run, Updates]:
        """Send a message and follow what comes of it."""
        run = Run(self.target, is_old)
        return run, self._updates(run, self.client.sending(request), timeout, is_replay=False)

    def resume(self, place: Continuation, timeout: float | None) -> tuple[Run, Updates]:
        """Follow a task from a place on."""

        def is_old(status: a2a_pb2.TaskStatus) -> bool:
            # An authorization comes by another way, so whoever was told about it waits. A question waits for a message.
            known = status.state == place.state and time_of(status) == place.changed_at
            return known and status.state == a2a_pb2.TASK_STATE_AUTH_REQUIRED

        run = Run(self.target, is_old, task_id=place.task_id, context_id=place.context_id, cursor=place.cursor)
        return run, self._updates(run, self.client.following(place.task_id, place.cursor), timeout, is_replay=True)

    async def _updates(self, run: Run, events: NumberedEvents, timeout: float | None, *, is_replay: bool) -> Updates:
        """The updates of a run and its result. A replay may tell of questions that were answered long ago.

        A task whose stream or polling breaks is looked for again where the client itself gives up at once: with agents
        that number no events, and with those that don't stream. Nothing is sent again here.
        """
        card = self.client.card
        is_client_patient = self.client.numbers_events and (card is None or card.capabilities.streaming)
        retries = Retries(0.0 if is_client_patient else self._patience, asyncio.Event())
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        is_subscription = is_replay
        while True:
            try:
                async with aclosing(events):
                    while not run.over:
                        event = await _by(deadline, anext(events, None), run, timeout)
                        if event is None:
                            break
                        retries.connected()
                        update = run.add(event)
                        if update is not None:
                            retries.news()
                            yield update
                        if is_replay and run.waits:
                            run.over = await _by(deadline, self._is_at(run), run, timeout)
                    # A subscription goes on at a question, and any stream where an authorization is missing.
                    if not run.waits or (not is_replay and run.state == a2a_pb2.TASK_STATE_INPUT_REQUIRED):
                        await _to_the_end(events)
            except UnavailableError as error:
                failure = error
            except InvalidArtifactError as error:
                run.task_id = run.task_id or error.task_id
                error.continuation = run.continuation()
                raise
            else:
                if is_subscription and not self.client.numbers_events:
                    corrected = await self._corrected(run)
                    if corrected is not None:
                        yield corrected
                yield run.result()
                return
            if not run.task_id:
                raise failure
            if not await _by(deadline, retries.pause(failure), run, timeout):
                raise StreamBrokenError(
                    failure.message, task_id=run.task_id, continuation=run.continuation()
                ) from failure
            events = self.client.following(run.task_id, run.cursor)
            is_subscription = True

    async def _is_at(self, run: Run) -> bool:
        """Whether the task still waits as the run knows it."""
        task = await self.client.get_task(a2a_pb2.GetTaskRequest(id=run.task_id, history_length=0))
        return task.status.state == run.state and time_of(task.status) == run.changed_at

    async def _corrected(self, run: Run) -> Update | None:
        """The task as its agent has it at the end, where that is something else; the run knows it from then on.

        Without numbers nobody can tell whether a chunk that comes after the Task of a subscription is in that already.
        """
        with suppress(TimeoutError, A2AError):
            async with asyncio.timeout(_CORRECTION_SECONDS):
                task = await self.client.get_task(a2a_pb2.GetTaskRequest(id=run.task_id))
            if task.status.state == run.state and run.differs(task.artifacts):
                return run.add(Numbered(0, a2a_pb2.StreamResponse(task=task)))
        return None


async def drained(updates: Updates) -> Result:
    """The result at the end of the updates."""
    async with aclosing(updates):
        async for item in updates:
            if isinstance(item, Result):
                return item
    raise InvalidAgentResponseError("The agent stopped without a result.")


def time_of(status: a2a_pb2.TaskStatus) -> str:
    """When a task came into a state; "" where the agent does not say."""
    return status.timestamp.ToJsonString() if status.HasField("timestamp") else ""


async def _to_the_end(events: NumberedEvents) -> None:
    """Read on where nothing is to come but the end of the stream: its connection can then be used again (HTTP/1.1)."""
    with suppress(TimeoutError, A2AError):
        async with asyncio.timeout(_END_SECONDS):
            await anext(events, None)


async def _by(deadline: float | None, work: Awaitable[T], run: Run, timeout: float | None) -> T:
    """The outcome of `work`, where it comes before the deadline, a time of the event loop."""
    limit = asyncio.timeout_at(deadline)
    try:
        async with limit:
            return await work
    except TimeoutError as error:
        if not limit.expired():
            raise
        message = f"No result within the {timeout:g} seconds that the caller gave."
        if not run.task_id:
            raise DeadlineExceededError(message) from error
        raise StillRunningError(f"{message} Task {run.task_id} goes on.", run.continuation()) from error
