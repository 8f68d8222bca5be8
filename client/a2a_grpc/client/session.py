"""A conversation with an agent: messages that belong together, and the tasks that they began."""

import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final, TypeAlias

from a2a_grpc.client.continuation import Continuation
from a2a_grpc.client.messages import message as user_message
from a2a_grpc.client.results import Reply, Result, Update
from a2a_grpc.client.running import IsOld, Run, Runner, Updates, drained, time_of
from a2a_grpc.client.states import INTERRUPTED
from a2a_grpc.client.tokens import Fields, encode, state_word
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import A2AError, InvalidArgumentError, TaskNotFoundError, UnsupportedOperationError

Said: TypeAlias = str | a2a_pb2.Message | a2a_pb2.SendMessageRequest
"""What one can say to an agent: a text; a message; a message with its configuration and metadata."""

_KIND: Final = "session"
# Each is an id of some 40 bytes in every message.
_MOST_REFERENCES: Final = 32


class Session:
    """A conversation, made by `RemoteAgent.session`. Its messages share a context.

    While its task waits (INPUT_REQUIRED, AUTH_REQUIRED) the next message continues that; otherwise it begins a new task
    and refers to the earlier ones (specification 3.4), the last 32 of them.

    One message at a time: a call while another one waits for its agent is a RuntimeError. A stream that is left early
    is left for good; its task goes on, and `resume` follows it again.
    """

    def __init__(self, runner: Runner, context_id: str = "", token: str = "") -> None:
        """For `RemoteAgent.session`. Raises InvalidArgumentError for a token that is none."""
        self._runner = runner
        self._context_id = context_id
        self._tasks: list[str] = []
        self._state: a2a_pb2.TaskState | None = None
        self._changed_at = ""
        self._cursor = 0
        self._waiting = False
        self._turn = object()
        if token:
            self._load(token)

    @property
    def context_id(self) -> str:
        """The id of the conversation; "" until the agent has given it one."""
        return self._context_id

    @property
    def task_id(self) -> str:
        """The task that the last message began or continued; "" before there is one."""
        return self._tasks[-1] if self._tasks else ""

    @property
    def state(self) -> a2a_pb2.TaskState | None:
        """The state in which this task was when it was last heard of; None before there is one."""
        return self._state

    @property
    def earlier_task_ids(self) -> tuple[str, ...]:
        """The tasks before that one, the oldest first."""
        return tuple(self._tasks[:-1])

    async def run(self, message: Said, *, timeout: float | None = None) -> Result:
        """Say something and wait for what comes of it; see `RemoteAgent.run`."""
        return await drained(self.run_stream(message, timeout=timeout))

    async def run_stream(self, message: Said, *, timeout: float | None = None) -> AsyncGenerator[Update | Result, None]:
        """Say something and see what happens, as it happens; see `RemoteAgent.run_stream`."""
        turn = self._take()
        request, is_old = self._addressed(message)
        async with (
            self._learning_of(request.message.task_id),
            aclosing(self._followed(turn, *self._runner.send(request, is_old, timeout))) as updates,
        ):
            async for update in updates:
                yield update

    async def start(self, message: Said, *, timeout: float | None = None) -> Continuation | Reply:
        """Say something and don't wait; see `RemoteAgent.start`."""
        turn = self._take()
        request, _ = self._addressed(message)
        request.configuration.return_immediately = True
        async with self._learning_of(request.message.task_id):
            self._waiting = True
            try:
                response = await self._runner.client.send_message(request, timeout=timeout)
            finally:
                self._waiting = False
        self._check(turn)
        if response.HasField("message"):
            self._context_id = response.message.context_id or self._context_id
            return Reply(response.message)
        task = response.task
        # The first event of a task is its creation: all that comes after it is still to be told.
        is_new = self._runner.client.numbers_events and not request.message.task_id
        # The caller is not told the state: one that waits already is still news, whenever it began.
        self._note(task.id, task.context_id, task.status.state, "", 1 if is_new else 0)
        return Continuation(
            target=self._runner.target, task_id=task.id, context_id=task.context_id, cursor=self._cursor
        )

    async def resume(self, *, timeout: float | None = None) -> AsyncGenerator[Update | Result, None]:
        """Follow the session's task from where it was last heard of. Raises InvalidArgumentError: there is none."""
        turn = self._take()
        if not self._tasks:
            raise InvalidArgumentError("This session has no task to follow.")
        place = Continuation(
            target=self._runner.target,
            task_id=self.task_id,
            context_id=self._context_id,
            cursor=self._cursor,
            state=self._state,
            changed_at=self._changed_at,
        )
        async with aclosing(self._followed(turn, *self._runner.resume(place, timeout))) as updates:
            async for update in updates:
                yield update

    async def result(self, *, timeout: float | None = None) -> Result:
        """What comes of the session's task, as `resume` tells it at the end."""
        return await drained(self.resume(timeout=timeout))

    def to_token(self) -> str:
        """The conversation as one word of URL-safe text, for `RemoteAgent.session(token=…)` in any process.

        It holds no credentials, and does not say which agent it is with.
        """
        return encode(
            _KIND,
            {
                "context": self._context_id,
                "tasks": self._tasks[-_MOST_REFERENCES:],
                "state": state_word(self._state),
                "changed_at": self._changed_at,
                "cursor": self._cursor,
            },
        )

    def _load(self, token: str) -> None:
        fields = Fields(_KIND, token)
        found = fields.text("context")
        if self._context_id and found != self._context_id:
            raise InvalidArgumentError("The token is of a session in another context.")
        self._context_id = found
        self._tasks = list(fields.texts("tasks"))
        self._state = fields.state("state")
        self._changed_at = fields.text("changed_at")
        self._cursor = fields.number("cursor")

    def _take(self) -> object:
        if self._waiting:
            raise RuntimeError("This session waits for its agent. Let the call end first, or use another session.")
        self._turn = object()
        return self._turn

    def _check(self, turn: object) -> None:
        if turn is not self._turn:
            raise RuntimeError("This session has gone on with another call meanwhile.")

    async def _followed(self, turn: object, run: Run, updates: Updates) -> Updates:
        """The updates of a run; the session keeps up with them, and is in use while it waits for the next."""
        async with aclosing(updates):
            while True:
                self._check(turn)
                self._waiting = True
                try:
                    update = await anext(updates, None)
                finally:
                    self._waiting = False
                    if run.task_id and run.state is not None:
                        self._note(run.task_id, run.context_id, run.state, run.changed_at, run.cursor)
                    elif run.context_id:
                        self._context_id = run.context_id
                if update is None:
                    return
                yield update

    def _addressed(self, said: Said) -> tuple[a2a_pb2.SendMessageRequest, IsOld]:
        """The request for what the caller says, and which status of its task is from before it."""
        request = a2a_pb2.SendMessageRequest()
        match said:
            case str():
                request.message.CopyFrom(user_message(said))
            case a2a_pb2.Message():
                request.message.CopyFrom(said)
            case _:
                request.CopyFrom(said)
        message = request.message
        message.message_id = message.message_id or str(uuid.uuid4())
        message.role = message.role or a2a_pb2.ROLE_USER
        if self._context_id and message.context_id not in ("", self._context_id):
            raise InvalidArgumentError("The message belongs to another context than this session.")
        message.context_id = self._context_id or message.context_id
        if not message.task_id and self._state in INTERRUPTED:
            message.task_id = self.task_id
        if not message.task_id:
            known = set(message.reference_task_ids)
            message.reference_task_ids.extend(one for one in self._tasks[-_MOST_REFERENCES:] if one not in known)
            return request, lambda _: False
        if message.task_id == self.task_id and self._state is not None:
            before = self._changed_at
            return request, lambda status: time_of(status) == before
        return request, lambda _: True

    def _note(self, task_id: str, context_id: str, state: a2a_pb2.TaskState, changed_at: str, cursor: int) -> None:
        if task_id != self.task_id:
            if task_id in self._tasks:
                self._tasks.remove(task_id)
            self._tasks.append(task_id)
        self._context_id = context_id or self._context_id
        self._state, self._changed_at, self._cursor = state, changed_at, cursor

    @asynccontextmanager
    async def _learning_of(self, task_id: str) -> AsyncIterator[None]:
        """Around a message to a task (or to none): one that took no message may have ended, or be gone."""
        try:
            yield
        except TaskNotFoundError:
            if task_id and task_id == self.task_id:
                self._tasks.pop()
                self._state, self._changed_at, self._cursor = None, "", 0
            raise
        except UnsupportedOperationError:
            if task_id:
                with suppress(A2AError):
                    request = a2a_pb2.GetTaskRequest(id=task_id, history_length=0)
                    task = await self._runner.client.get_task(request)
                    self._note(task.id, task.context_id, task.status.state, time_of(task.status), 0)
            raise
