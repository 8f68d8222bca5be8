"""How it went: one type for each way in which an agent can answer, and what is told on the way there."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final, NoReturn, Self, TypeAlias

from a2a_grpc.client.continuation import Continuation
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.artifact_schemas import reason_in
from a2a_grpc.wire.errors import DeadlineExceededError, InvalidAgentResponseError


class FinishReason(StrEnum):
    """Why an agent stopped: a word for each type of `Result`."""

    REPLIED = "replied"
    """It answered with a message, and there is no task."""
    COMPLETED = "completed"
    """The task is done."""
    INPUT_REQUIRED = "input_required"
    """The task waits for an answer of the caller."""
    AUTH_REQUIRED = "auth_required"
    """The task waits for an authorization."""
    FAILED = "failed"
    """The task went wrong."""
    REJECTED = "rejected"
    """The agent did not take the task."""
    CANCELED = "canceled"
    """Somebody canceled the task."""


class OutcomeError(Exception):
    """What `raise_for_outcome` raises for a result that is no answer; `result` is the whole of it."""

    def __init__(self, result: "_NoAnswer") -> None:
        said = f": {result.text}" if result.text else "."
        super().__init__(f"Task {result.task_id} gave no answer ({result.finish_reason.replace('_', ' ')}){said}")
        self.result = result


class StillRunningError(DeadlineExceededError):
    """The time of the caller is over, and the task goes on at its agent.

    `continuation` takes it up again (`RemoteAgent.resume`, `RemoteAgent.result`). Sending the message anew would begin
    a second task.
    """

    def __init__(self, message: str, continuation: Continuation) -> None:
        super().__init__(message)
        self.task_id = continuation.task_id
        self.continuation = continuation


@dataclass(frozen=True, slots=True)
class Reply:
    """The agent answered with a message instead of a task (specification 3.1.1)."""

    finish_reason: ClassVar[FinishReason] = FinishReason.REPLIED
    message: a2a_pb2.Message

    @property
    def context_id(self) -> str:
        """The conversation that the message belongs to."""
        return self.message.context_id

    @property
    def text(self) -> str:
        """The text parts of the message, joined."""
        return text_of(self.message.parts)

    @property
    def data(self) -> list[Any]:
        """The data parts of the message, as JSON values."""
        return data_of(self.message.parts)

    def raise_for_outcome(self) -> Self:
        """The result itself: it is an answer."""
        return self


@dataclass(frozen=True, slots=True)
class _OfTask:
    """What every result that has a task offers."""

    finish_reason: ClassVar[FinishReason]
    task: a2a_pb2.Task
    """The task as it is told; chunks of artifacts are merged."""

    @property
    def task_id(self) -> str:
        """The id of the task."""
        return self.task.id

    @property
    def context_id(self) -> str:
        """The conversation that the task belongs to."""
        return self.task.context_id

    @property
    def artifacts(self) -> Sequence[a2a_pb2.Artifact]:
        """What the agent has made, each artifact whole, as far as the work went."""
        return self.task.artifacts

    def artifact(self, name: str) -> a2a_pb2.Artifact | None:
        """The first artifact with this name or id; None: there is none."""
        return next((one for one in self.task.artifacts if name in (one.name, one.artifact_id)), None)

    @property
    def data(self) -> list[Any]:
        """The data parts of all artifacts, as JSON values."""
        return [value for artifact in self.task.artifacts for value in data_of(artifact.parts)]

    @property
    def said(self) -> str:
        """The text of the message that came with the state; "" where there is none."""
        return text_of(self.task.status.message.parts)


@dataclass(frozen=True, slots=True)
class Completed(_OfTask):
    """The task is done."""

    finish_reason: ClassVar[FinishReason] = FinishReason.COMPLETED

    @property
    def text(self) -> str:
        """The text of the artifacts, a line for each; what the agent said at the end where they hold none."""
        texts = (text_of(artifact.parts) for artifact in self.task.artifacts)
        return "\n".join(text for text in texts if text) or self.said

    def raise_for_outcome(self) -> Self:
        """The result itself: it is an answer."""
        return self


@dataclass(frozen=True, slots=True)
class _NoAnswer(_OfTask):
    """What every result offers that is not what the caller asked for."""

    @property
    def text(self) -> str:
        """What the agent said about it: its question, its explanation, its reason."""
        return self.said

    def raise_for_outcome(self) -> NoReturn:
        """Raises OutcomeError."""
        raise OutcomeError(self)


@dataclass(frozen=True, slots=True)
class InputRequired(_NoAnswer):
    """The agent asks back: `text` is its question. A message to the task answers it, such as the session's next one."""

    finish_reason: ClassVar[FinishReason] = FinishReason.INPUT_REQUIRED


@dataclass(frozen=True, slots=True)
class AuthRequired(_NoAnswer):
    """The task needs an authorization that is given elsewhere (7.6): `text` says which.

    `RemoteAgent.resume(result.continuation)` waits until the agent goes on.
    """

    finish_reason: ClassVar[FinishReason] = FinishReason.AUTH_REQUIRED
    continuation: Continuation


@dataclass(frozen=True, slots=True)
class Failed(_NoAnswer):
    """The work went wrong: `text` says why, if the agent does."""

    finish_reason: ClassVar[FinishReason] = FinishReason.FAILED

    @property
    def reason(self) -> str:
        """Why, for programs: "INVALID_AGENT_RESPONSE" where the service refused what the agent wrote; else ""."""
        return reason_in(self.task.status.message)


@dataclass(frozen=True, slots=True)
class Rejected(_NoAnswer):
    """The agent does not do this: `text` says why, if the agent does."""

    finish_reason: ClassVar[FinishReason] = FinishReason.REJECTED


@dataclass(frozen=True, slots=True)
class Canceled(_NoAnswer):
    """The task was canceled, by whomever."""

    finish_reason: ClassVar[FinishReason] = FinishReason.CANCELED


Result: TypeAlias = Reply | Completed | InputRequired | AuthRequired | Failed | Rejected | Canceled
"""How a run ended. Only `Reply` and `Completed` are answers; `raise_for_outcome` lets nothing else pass."""


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    """The task as it stands: at the beginning, and again, in place of what was told, where a connection was lost."""

    task: a2a_pb2.Task


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """The task changed its state, or its agent says how it goes."""

    event: a2a_pb2.TaskStatusUpdateEvent

    @property
    def state(self) -> a2a_pb2.TaskState:
        """The state of the task now."""
        return self.event.status.state

    @property
    def text(self) -> str:
        """What the agent said with it; often ""."""
        return text_of(self.event.status.message.parts)


@dataclass(frozen=True, slots=True)
class ArtifactChunk:
    """An artifact, or the next piece of one."""

    event: a2a_pb2.TaskArtifactUpdateEvent

    @property
    def artifact_id(self) -> str:
        """The same for all pieces of an artifact."""
        return self.event.artifact.artifact_id

    @property
    def name(self) -> str:
        """The name of the artifact; agents may give it with the first piece only."""
        return self.event.artifact.name

    @property
    def text(self) -> str:
        """The text parts of this piece, joined."""
        return text_of(self.event.artifact.parts)

    @property
    def data(self) -> list[Any]:
        """The data parts of this piece, as JSON values."""
        return data_of(self.event.artifact.parts)

    @property
    def append(self) -> bool:
        """Whether it continues the pieces before it; otherwise it takes the place of the artifact."""
        return self.event.append

    @property
    def last(self) -> bool:
        """Whether the agent says that it is the last one."""
        return self.event.last_chunk


Update: TypeAlias = TaskUpdate | StatusUpdate | ArtifactChunk
"""What a stream tells before its `Result`."""

_OF_STATE: Final[dict[a2a_pb2.TaskState, type[Completed | InputRequired | Failed | Rejected | Canceled]]] = {
    a2a_pb2.TASK_STATE_COMPLETED: Completed,
    a2a_pb2.TASK_STATE_INPUT_REQUIRED: InputRequired,
    a2a_pb2.TASK_STATE_FAILED: Failed,
    a2a_pb2.TASK_STATE_REJECTED: Rejected,
    a2a_pb2.TASK_STATE_CANCELED: Canceled,
}


def result_of(task: a2a_pb2.Task, continuation: Continuation) -> Result:
    """The result that a task in a terminal or interrupted state is. Raises InvalidAgentResponseError for any other."""
    if task.status.state == a2a_pb2.TASK_STATE_AUTH_REQUIRED:
        return AuthRequired(task, continuation)
    kind = _OF_STATE.get(task.status.state)
    if kind is None:
        raise InvalidAgentResponseError(f"Task {task.id} stopped in state {task.status.state}, which is no end.")
    return kind(task)


def text_of(parts: Iterable[a2a_pb2.Part]) -> str:
    """The text parts, joined: chunks of a text are parts of it."""
    return "".join(part.text for part in parts if part.HasField("text"))


def data_of(parts: Iterable[a2a_pb2.Part]) -> list[Any]:
    """The data parts, as JSON values."""
    return list(_data(parts))


def _data(parts: Iterable[a2a_pb2.Part]) -> Iterator[Any]:
    for part in parts:
        if part.HasField("data"):
            yield protojson.to_dict(part)["data"]
