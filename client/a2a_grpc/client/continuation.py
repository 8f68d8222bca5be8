"""A place in the life of a task, from which another process can go on."""

from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

from a2a_grpc.client.tokens import Fields, encode, state_word
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import InvalidArgumentError, JsonParseError

Address: TypeAlias = str | a2a_pb2.AgentCard | a2a_pb2.AgentInterface
"""What `A2AClient.connect` takes, as far as it can be written down: not a file, and nothing with credentials in it."""

_KIND: Final = "continuation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """A task that goes on at its agent, and how much of it is known. Made by `RemoteAgent.start`; never by hand.

    `RemoteAgent.resume` and `RemoteAgent.result` take it up again, also after the task has ended. As a text, made by
    `to_token` and read by `from_token`, it can be kept or given to another process. It holds no credentials: whoever
    goes on connects with credentials of their own, and only if these may read the task. A token is not signed either:
    one that comes from a stranger names whatever address the stranger likes, so don't connect to its `target`, but to
    the agent that you know.
    """

    target: Address
    """The agent, for `RemoteAgent.connect`: its URL, or else its interfaces."""
    task_id: str
    context_id: str = ""
    cursor: int = 0
    """The number of the last event that is known; 0 where the agent numbers none."""
    state: a2a_pb2.TaskState | None = None
    """The last state that is known; None: none."""
    changed_at: str = ""
    """When the task came into that state, as the agent said it."""

    def to_token(self) -> str:
        """The continuation as one word of URL-safe text."""
        return encode(
            _KIND,
            {
                **target_fields(self.target),
                "task": self.task_id,
                "context": self.context_id,
                "cursor": self.cursor,
                "state": state_word(self.state),
                "changed_at": self.changed_at,
            },
        )

    @classmethod
    def from_token(cls, token: str) -> Self:
        """The continuation that a token was made of. Raises InvalidArgumentError for anything else."""
        fields = Fields(_KIND, token)
        task_id = fields.text("task")
        if not task_id:
            raise fields.wrong("it names no task")
        return cls(
            target=target_in(fields),
            task_id=task_id,
            context_id=fields.text("context"),
            cursor=fields.number("cursor"),
            state=fields.state("state"),
            changed_at=fields.text("changed_at"),
        )


def target_fields(target: Address) -> dict[str, Any]:
    """A target as the fields of a token."""
    match target:
        case a2a_pb2.AgentCard():
            return {"card": protojson.to_dict(target)}
        case a2a_pb2.AgentInterface():
            return {"interface": protojson.to_dict(target)}
    return {"agent": target}


def target_in(fields: Fields) -> Address:
    """The target in the fields of a token. Raises InvalidArgumentError."""
    if url := fields.text("agent"):
        return url
    try:
        if card := fields.fields("card"):
            return protojson.from_dict(card, a2a_pb2.AgentCard)
        if interface := fields.fields("interface"):
            return protojson.from_dict(interface, a2a_pb2.AgentInterface)
    except (InvalidArgumentError, JsonParseError) as error:
        raise fields.wrong("the agent in it is none") from error
    raise fields.wrong("it names no agent")
