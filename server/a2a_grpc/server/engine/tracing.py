"""The spans of turns: where they are put to wait, and each time that one is run."""

from dataclasses import dataclass, field
from hashlib import blake2b

from a2a_grpc.server.agents import Skill, Turn
from a2a_grpc.server.core import states
from a2a_grpc.server.telemetry.tracing import TRACES, Context, Kind, Span, Unsampled

_SINCE_LAST = 2
"""How much further the epoch is at the next attempt: it is given back, or taken from who was lost, and claimed."""
_WELL = {states.label(state) for state in (states.COMPLETED, *states.INTERRUPTED)}
_NO_FAULT = {states.label(state) for state in (states.REJECTED, states.CANCELED)}
"""Ends that somebody wanted."""


@dataclass(slots=True, kw_only=True)
class Place:
    """Where a run of a turn stands in a trace: from the call of the agent's function until its end is stored."""

    parent: Context | None
    """Of the call that brought its message."""
    agent: str
    """The name of the agent."""
    turn: int
    """The seq of its message."""
    epoch: int
    """Of the claim that it is run under."""
    waited: bool
    """It stood in `ready`, and may have been put there by somebody else."""
    interrupted: str = ""
    """Why it is interrupted, in the words of `a2a.turn.outcome`; "" unless it is."""
    _span: Span | None = field(default=None, init=False)

    def begin(self, skill: Skill, turn: Turn) -> None:
        """Begin the span and make it current.

        Its id follows from the task, the turn and the epoch, so that the next attempt can name it, on whatever
        replica.
        """
        if self.parent is not None and not TRACES.takes(self.parent):
            self._span = Unsampled(0, self.parent.unsampled())
        else:
            self._span = self._recorded(skill, turn)
        self.enter()

    def _recorded(self, skill: Skill, turn: Turn) -> Span:
        links: tuple[Context, ...] = ()
        if turn.attempt > 1 and self.parent is not None:
            earlier = _span_id(turn.task_id, self.turn, self.epoch - _SINCE_LAST)
            links = (self.parent._replace(span_id=f"{earlier:016x}"),)
        return TRACES.start(
            f"invoke_agent {self.agent}",
            Kind.CONSUMER if self.waited else Kind.INTERNAL,
            self.parent,
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": self.agent,
                "gen_ai.conversation.id": turn.context_id,
                "a2a.task.id": turn.task_id,
                **({"a2a.tenant": turn.tenant} if turn.tenant else {}),
                "a2a.skill.id": skill.card.id,
                "a2a.attempt": turn.attempt,
            },
            span_id=_span_id(turn.task_id, self.turn, self.epoch),
            links=links,
        )

    def enter(self) -> None:
        """Make the span current in the calling task, and in what is begun from here on."""
        if self._span is not None:
            TRACES.enter(self._span, around_agent=True)

    def end(self, outcome: str) -> None:
        """End the span: the turn has come to `outcome`, in the words of `a2a.turn.outcome`."""
        span, self._span = self._span, None
        if span is None:
            return
        if outcome in _WELL:
            span.end()
        else:
            span.end(outcome, fault=outcome not in _NO_FAULT)

    def leave(self) -> None:
        """End the span of a turn without an end of its own: why it was interrupted is what it has come to."""
        self.end(self.interrupted or "canceled")


def publishing(task_id: str) -> Span | None:
    """Begin the span of a turn that may be put into `ready`; None where that would not be recorded.

    It is for who has put it there to end it; what never ends is never recorded.
    """
    if not TRACES.recording:
        return None
    attributes = {
        "messaging.system": "redis",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "ready",
        "a2a.task.id": task_id,
    }
    return TRACES.start_here("a2a.turn publish", Kind.PRODUCER, attributes)


def _span_id(task_id: str, turn: int, epoch: int) -> int:
    digest = blake2b(f"{task_id} {turn} {epoch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) or 1
