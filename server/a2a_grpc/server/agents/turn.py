"""`Turn`: what an agent's function is given. One turn is one run of the agent on one message."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, NoReturn, Protocol, TypeAlias

from google.protobuf import json_format
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer
from google.protobuf.struct_pb2 import Struct, Value

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents.ends import TurnOverError
from a2a_grpc.server.agents.schemas import ArtifactChecks
from a2a_grpc.server.core import ids, states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.core.events import status_changed
from a2a_grpc.server.telemetry.tracing import TRACES
from a2a_grpc.wire import protojson

# The setting is for what callers send. What stock parsers can read bounds it in any case, and nothing else has to.
_MAX_NESTING = 100

Words: TypeAlias = str | a2a_pb2.Message | a2a_pb2.Part | Sequence[a2a_pb2.Part]
"""What an agent says: a text, or parts, or a whole message whose ids are filled in."""


class Sink(Protocol):
    """Where a turn's events go. The engine implements it."""

    async def emit(self, response: a2a_pb2.StreamResponse) -> None:
        """Take one event; returns when there is room for more. Raises TurnOverError."""
        ...

    async def reply(self, message: a2a_pb2.Message) -> None:
        """Answer with a message instead of a task. Raises TurnOverError."""
        ...

    async def flush(self) -> None:
        """Wait until everything emitted is stored."""
        ...

    async def next_message(self) -> a2a_pb2.Message:
        """The next message a caller sends to the running task; waits for it."""
        ...

    async def keep(self, checkpoint: bytes) -> None:
        """Store a checkpoint, after everything emitted before it."""
        ...

    async def task(self, task_id: str) -> a2a_pb2.Task | None:
        """Another task of the same caller."""
        ...


class _Over:
    """The sink of a turn that has ended: a task that its function left behind must not write into the next one."""

    async def _refuse(self, *_: object) -> NoReturn:
        raise TurnOverError("the turn is over")

    emit = reply = flush = next_message = keep = task = _refuse


class Inbox:
    """Messages that callers send while the turn runs. What nobody takes becomes a turn of its own afterwards."""

    def __init__(self, turn: "Turn") -> None:
        self._turn = turn

    async def get(self) -> a2a_pb2.Message:
        """The next message; waits for one."""
        message = await self._turn.sink.next_message()
        self._turn.goes_on()
        return message

    async def __aiter__(self) -> AsyncIterator[a2a_pb2.Message]:
        while True:
            yield await self.get()


class Turn:
    """One run of the agent on one message, and the only way in which it answers.

    Every method that writes raises `TurnOverError` once the turn has ended, and ValueError for content that no caller
    could read: none at all, data that nests too deep, a number that is not finite. Data that does not match its schema
    is an ArtifactMismatchError, which is a ValueError, too. Events are stored in the order they
    were written; a writing method returns as soon as there is room for more, `flush` waits until all is stored.
    """

    def __init__(
        self,
        *,
        sink: Sink,
        task_id: str,
        context_id: str,
        tenant: str,
        caller: str,
        message: a2a_pb2.Message,
        request: a2a_pb2.SendMessageRequest,
        history: Sequence[a2a_pb2.Message],
        extensions: Sequence[str],
        attempt: int = 1,
        checkpoint: bytes | None = None,
        current: Callable[[], a2a_pb2.Task] | None = None,
    ) -> None:
        """Made by the engine; an author never constructs a turn."""
        self.sink: Sink = sink
        self.task_id = task_id
        self.context_id = context_id
        self.tenant = tenant
        self.caller = caller
        """Who calls; empty for an anonymous caller."""
        self.message = message
        self.history = history
        """What was said in this task before, oldest first, without `message`."""
        self.extensions = extensions
        """The extensions that are active for this message (4.6)."""
        self._request = request
        self.attempt = attempt
        """1, or more where an earlier run of this turn was lost."""
        self.restored = checkpoint
        """What `checkpoint` last stored for this task, or None."""
        self._current = current
        self._begun: set[str] = set()
        self.checks: ArtifactChecks | None = None
        """Set by the engine where the data of artifacts has schemas."""
        self._state: a2a_pb2.TaskState = states.WORKING

    def goes_on(self) -> None:
        """Called when the answer to a question has come: the task does not wait any more."""
        self._state = states.WORKING

    def returned(self) -> None:
        """Called by the engine when the function has returned.

        Raises: ArtifactMismatchError where that completes the task, and an artifact lacks what its schema wants.
        """
        if self.checks is not None and self._state not in states.SETTLED:
            self.checks.complete()

    def end(self) -> None:
        """Called by the engine when the function has ended."""
        self.sink = _Over()

    @property
    def inbox(self) -> Inbox:
        """Messages that callers send while the turn runs."""
        return Inbox(self)

    @property
    def request(self) -> a2a_pb2.SendMessageRequest:
        """A copy of the request that brought the message, without the push notification config."""
        request = a2a_pb2.SendMessageRequest()
        request.CopyFrom(self._request)
        request.message.CopyFrom(self.message)
        return request

    def task(self) -> a2a_pb2.Task | None:
        """A copy of the task as it was when this turn began, `message` included; None where there was none yet."""
        return None if self._current is None else self._current()

    @property
    def tracer(self) -> Any:
        """An `opentelemetry.trace.Tracer`, whose spans become part of the trace of this turn.

        Its span is current while the function runs. Where nothing is traced, spans go nowhere.
        """
        return TRACES.tracer

    @property
    def metadata(self) -> dict[str, Any]:
        """The request's metadata (3.2.5)."""
        return json_format.MessageToDict(self._request.metadata)

    @property
    def accepted_output_modes(self) -> Sequence[str]:
        """Media types the caller can use; empty where it did not say."""
        return self._request.configuration.accepted_output_modes

    @property
    def parts(self) -> Sequence[a2a_pb2.Part]:
        """The parts of the message."""
        return self.message.parts

    @property
    def references(self) -> Sequence[str]:
        """Ids of tasks that the message refers to (3.4.3); `reference` loads one."""
        return self.message.reference_task_ids

    @property
    def text(self) -> str:
        """The text parts of the message, joined by line feeds."""
        return "\n".join(part.text for part in self.message.parts if part.HasField("text"))

    @property
    def data(self) -> list[Any]:
        """The data parts of the message, as JSON values."""
        return [protojson.to_dict(part)["data"] for part in self.message.parts if part.HasField("data")]

    async def working(self, words: Words | None = None) -> None:
        """Say that the work is going on, and how."""
        await self._status(states.WORKING, words)

    async def artifact(
        self,
        name: str = "",
        *,
        text: str | None = None,
        data: Any = None,
        raw: bytes | None = None,
        url: str | None = None,
        parts: Sequence[a2a_pb2.Part] = (),
        media_type: str = "",
        filename: str = "",
        description: str = "",
        metadata: dict[str, Any] | None = None,
        artifact_id: str = "",
    ) -> str:
        """Write a whole artifact, replacing one of the same id; returns its id."""
        response, update = self._update(last=True)
        artifact = update.artifact
        _fill(artifact.parts, text, data, raw, url, parts, media_type, filename)
        written = artifact.artifact_id = artifact_id or ids.new_id()
        artifact.name = name
        artifact.description = description
        if metadata is not None:
            artifact.metadata.CopyFrom(_struct(metadata))
        await self._write(response, update)
        return written

    async def stream(
        self,
        name: str,
        *,
        text: str | None = None,
        data: Any = None,
        raw: bytes | None = None,
        url: str | None = None,
        parts: Sequence[a2a_pb2.Part] = (),
        media_type: str = "",
        filename: str = "",
        last: bool = False,
        anew: bool = False,
    ) -> None:
        """Write the next chunk of the artifact `name`; `last` with the one after which nothing follows (4.2.2).

        `anew` begins the artifact again, in place of all that was written of it.
        """
        first = anew or name not in self._begun
        response, update = self._update(append=not first, last=last)
        artifact = update.artifact
        _fill(artifact.parts, text, data, raw, url, parts, media_type, filename)
        # The name of a streamed artifact is its id too, so a later attempt replaces what a lost one left behind.
        artifact.artifact_id = name
        if first:
            artifact.name = name
            self._begun.add(name)
        await self._write(response, update)

    async def emit(self, event: a2a_pb2.TaskStatusUpdateEvent | a2a_pb2.TaskArtifactUpdateEvent) -> None:
        """Write a status or an artifact as somebody else made it; its ids and the time of a status are filled in."""
        metadata = event.metadata if event.HasField("metadata") else None
        if metadata is not None:
            _check_data(metadata)
        if isinstance(event, a2a_pb2.TaskStatusUpdateEvent):
            words = event.status.message if event.status.HasField("message") else None
            await self._status(event.status.state, words, metadata)
            return
        _check_parts(event.artifact.parts)
        _check_data(event.artifact.metadata)
        response, update = self._update(append=event.append, last=event.last_chunk)
        update.artifact.CopyFrom(event.artifact)
        update.artifact.artifact_id = update.artifact.artifact_id or ids.new_id()
        if metadata is not None:
            update.metadata.CopyFrom(metadata)
        await self._write(response, update)

    async def complete(self, words: Words | None = None) -> None:
        """End the task: COMPLETED. Returning from the function does the same without words."""
        await self._status(states.COMPLETED, words)

    async def require_input(self, words: Words) -> None:
        """Ask the caller: INPUT_REQUIRED. Return afterwards; the answer is the next turn. Or take it from `inbox`."""
        await self._status(states.INPUT_REQUIRED, words)

    async def require_auth(self, words: Words) -> None:
        """Say what authorization is missing: AUTH_REQUIRED (7.6). Go on with `working` once it came, or return."""
        await self._status(states.AUTH_REQUIRED, words)

    async def reject(self, words: Words) -> None:
        """Refuse the task: REJECTED."""
        await self._status(states.REJECTED, words)

    async def fail(self, words: Words) -> None:
        """End the task: FAILED, with a reason that the caller may read."""
        await self._status(states.FAILED, words)

    async def reply(self, words: Words) -> None:
        """Answer with a message instead of a task (3.1.1); on a task that exists it completes it with these words."""
        if self.checks is not None:
            self.checks.complete()
        await self.sink.reply(self.say(words))
        self._state = states.COMPLETED

    async def flush(self) -> None:
        """Wait until everything written is stored."""
        await self.sink.flush()

    async def checkpoint(self, state: bytes) -> None:
        """Store `state`, and all that was written before: a later attempt or turn finds it in `restored`."""
        await self.sink.keep(state)

    async def reference(self, task_id: str) -> a2a_pb2.Task | None:
        """A task of the same caller, such as one of `references`; None where there is none."""
        return await self.sink.task(task_id)

    def say(self, words: Words) -> a2a_pb2.Message:
        """A message of the agent in this task and context. Raises: ValueError for content that no caller could read."""
        message = a2a_pb2.Message()
        match words:
            case str():
                message.parts.add(text=words)
            case a2a_pb2.Message():
                message.CopyFrom(words)
            case a2a_pb2.Part():
                message.parts.append(words)
            case _:
                message.parts.extend(words)
        if not isinstance(words, str):
            if not message.parts:
                raise ValueError("a message needs at least one part")
            _check_parts(message.parts)
            _check_data(message.metadata)
        message.role = a2a_pb2.ROLE_AGENT
        message.message_id = message.message_id or ids.new_id()
        message.context_id = self.context_id
        message.task_id = self.task_id
        return message

    async def _status(self, state: a2a_pb2.TaskState, words: Words | None, metadata: Struct | None = None) -> None:
        message = None if words is None else self.say(words)
        if self.checks is not None and state == states.COMPLETED:
            self.checks.complete()
        await self.sink.emit(status_changed(self.task_id, self.context_id, state, now_ms(), message, metadata))
        self._state = state

    # Made in place: the constructors of the classes of protobuf copy what they are given, at each level once more, and
    # take four times as long.
    def _update(
        self, *, append: bool = False, last: bool
    ) -> tuple[a2a_pb2.StreamResponse, a2a_pb2.TaskArtifactUpdateEvent]:
        """An event and its update, without an artifact yet."""
        response = a2a_pb2.StreamResponse()
        update = response.artifact_update
        update.task_id = self.task_id
        update.context_id = self.context_id
        update.append = append
        update.last_chunk = last
        return response, update

    async def _write(self, response: a2a_pb2.StreamResponse, update: a2a_pb2.TaskArtifactUpdateEvent) -> None:
        if self.checks is not None:
            self.checks.take(update)
        await self.sink.emit(response)


def _fill(
    into: RepeatedCompositeFieldContainer[a2a_pb2.Part],
    text: str | None,
    data: Any,
    raw: bytes | None,
    url: str | None,
    parts: Sequence[a2a_pb2.Part],
    media_type: str,
    filename: str,
) -> None:
    """Add the parts of an artifact. Raises: ValueError where there are none, or no caller could read them."""
    if parts:
        _check_parts(parts)
        into.extend(parts)
    if text is not None:
        _add(into, media_type, filename).text = text
    if data is not None:
        value = json_format.ParseDict(data, Value())
        _check_data(value)
        _add(into, media_type, filename).data.CopyFrom(value)
    if raw is not None:
        _add(into, media_type, filename).raw = raw
    if url is not None:
        _add(into, media_type, filename).url = url
    if not into:
        raise ValueError("an artifact needs content: text, data, raw, url or parts")


def _add(into: RepeatedCompositeFieldContainer[a2a_pb2.Part], media_type: str, filename: str) -> a2a_pb2.Part:
    part = into.add()
    if media_type:
        part.media_type = media_type
    if filename:
        part.filename = filename
    return part


def _struct(metadata: dict[str, Any]) -> Struct:
    struct = json_format.ParseDict(metadata, Struct())
    _check_data(struct)
    return struct


def _check_parts(parts: Iterable[a2a_pb2.Part]) -> None:
    """Hold an agent to what callers are held to. Raises: ValueError."""
    for part in parts:
        if part.WhichOneof("content") is None:
            raise ValueError("a part needs content: text, data, raw or url")
        _check_data(part.data)
        _check_data(part.metadata)


def _check_data(value: Value | Struct) -> None:
    """Refuse what some caller cannot read: stock parsers stop at a depth, and JSON has no NaN. Raises: ValueError."""
    problem = protojson.fault(value, _MAX_NESTING)
    if problem is not None:
        raise ValueError(f"data {problem}")
