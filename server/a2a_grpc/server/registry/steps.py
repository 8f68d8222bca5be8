"""The steps around the calls of the registry: those of A2AService, without what only agents have."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message

from a2a_grpc.registry.v1 import registry_pb2 as pb
from a2a_grpc.server.calls import steps
from a2a_grpc.server.calls.current import Current
from a2a_grpc.server.calls.tracing import Tracing
from a2a_grpc.server.calls.validation import MAX_PAGE_SIZE, Validator
from a2a_grpc.server.hosting.limiter import Limited, Limiter
from a2a_grpc.server.hosting.limits import HostLimits
from a2a_grpc.wire.errors import Violation, invalid

_LONGEST: Final = 256
"""Characters of a text that is searched for, and of the name of a process."""
_LIMITED: Final = ("text", "skill", "tag", "provider", "binding", "input_mode", "output_mode", "instance")
_LONGEST_TTL: Final = 10 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class RegistryLimits:
    """The limits of a registry (see `Limited`). Its calls are counted apart from those of agents in the same store."""

    limits: HostLimits
    tenant: str = "a2a-grpc registry"

    @property
    def limited(self) -> bool:
        """Whether there are any."""
        return not self.limits.unlimited


class CallLimits(steps.Limits):
    """Counts the call, and refuses it where its caller or the registry has reached a limit."""

    def __init__(self, limiter: Limiter, limits: RegistryLimits) -> None:
        super().__init__(limiter)
        self._limits = limits

    def whose(self, current: Current) -> Limited:  # noqa: ARG002 -- there is one
        """See `Limits`."""
        return self._limits


class RequestValidation(steps.Step):
    """Refuses a request that is not well formed."""

    name = "validation"
    after = ("authentication", "limits")

    def __init__(self, validator: Validator, max_message_bytes: int) -> None:
        self._validator = validator
        self._max_message_bytes = max_message_bytes

    async def enter(self, current: Current) -> None:
        if current.request is None:
            return
        self._validator.check(current.request, self._max_message_bytes)
        if problems := [*_problems(current.request)]:
            raise invalid(*problems)


def _problems(request: Message) -> Iterator[Violation]:
    for name in _LIMITED:
        if len(getattr(request, name, "")) > _LONGEST:
            yield Violation(name, f"is longer than {_LONGEST} characters")
    if not 0 <= getattr(request, "ttl_seconds", 0) <= _LONGEST_TTL:
        yield Violation("ttl_seconds", "must be a number of seconds, or 0 for as long as may be")
    if isinstance(request, pb.SearchAgentsRequest) and not 0 <= request.page_size <= MAX_PAGE_SIZE:
        yield Violation("page_size", f"must be between 1 and {MAX_PAGE_SIZE}, or 0 for the default")


CHAIN: Final[tuple[type[steps.Step], ...]] = (
    steps.RequestId,
    Tracing,
    steps.AccessLog,
    steps.Audit,
    steps.Errors,
    steps.Deadline,
    steps.Authentication,
    CallLimits,
    RequestValidation,
)
