"""What the callers of one tenant may ask for, in which time and at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from a2a_grpc.server.store.stock import Rate

SLOWEST: Final = 1e-5
"""Calls a second, not quite one a day: a slower bucket would have to be kept for ever."""

Group = Literal["send", "read", "follow", "change"]
"""Operations that a rate counts together: what makes turns, what reads, what follows a task, what changes one."""

GROUPS: Final[tuple[Group, ...]] = get_args(Group)

_GROUP_OF: Final[dict[str, Group]] = {
    "SendMessage": "send",
    "SendStreamingMessage": "send",
    "GetTask": "read",
    "ListTasks": "read",
    "GetTaskPushNotificationConfig": "read",
    "ListTaskPushNotificationConfigs": "read",
    "GetExtendedAgentCard": "read",
    "SubscribeToTask": "follow",
    "CancelTask": "change",
    "CreateTaskPushNotificationConfig": "change",
    "DeleteTaskPushNotificationConfig": "change",
    # Of the registry of agents.
    "RegisterAgent": "change",
    "RenewAgent": "change",
    "WithdrawAgent": "change",
    "GetAgent": "read",
    "SearchAgents": "read",
}


def group_of(method: str) -> Group:
    """The group of an operation; one that is new in the proto is taken for the most expensive."""
    return _GROUP_OF.get(method, "send")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The limits of one caller, or of all callers of a tenant together. What is None or not there is not limited."""

    rates: Mapping[Group, Rate] = field(default_factory=dict)
    calls: int | None = None
    """Unary calls in progress."""
    streams: int | None = None
    """Open streams."""
    tasks: int | None = None
    """Tasks that run or wait for their turn."""

    @property
    def unlimited(self) -> bool:
        """Nothing is limited."""
        return not self.rates and self.calls is None and self.streams is None and self.tasks is None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLimits:
    """All limits of one tenant."""

    max_message_bytes: int
    """The largest request, measured as protobuf."""
    caller: Quota = Quota()
    """Of each caller; who is anonymous is told apart by its network address."""
    tenant: Quota = Quota()
    """Of all callers together."""

    @property
    def unlimited(self) -> bool:
        """Nothing has to be counted."""
        return self.caller.unlimited and self.tenant.unlimited
