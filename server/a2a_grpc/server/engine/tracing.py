"""The spans of turns: where they are put to wait, and each time that one is run."""

from dataclasses import dataclass
from hashlib import blake2b

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Skill, Turn
from a2a_grpc.server.core import states
from a2a_grpc.server.telemetry.tracing import TRACES, Context, Kind, Span, Unsampled

_SINCE_LAST = 2
"""How much further the epoch is at the next attempt: it is given back, or taken from who was lost, and claimed."""


@dataclass(slots=True, kw_only=True)
class Place:
    """Where a run of a turn stands in a trace."""

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


def publishing(task_id: str) -> Span | None:
    """Begin the span of a turn that may be put into `ready`; None where that would not be recorded.

    It is for who has put it there to end it; what never ends is never recorded.
    """
    if not TRACES.recording:
        return None
    attributes = {
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "ready",
        "a2a.task.id": task_id,
    }
    return TRACES.start_here("a2a.turn publish", Kind.PRODUCER, attributes)


def begin(place: Place, skill: Skill, turn: Turn) -> Span:
    """Begin the span of a run and make it current.

    Its id follows from the task, the turn and the epoch, so that the next attempt, on whatever replica, can name it.
    """
    if place.parent is not None and not TRACES.takes(place.parent):
        unsampled = Unsampled(0, place.parent.unsampled())
        TRACES.enter(unsampled, around_agent=True)
        return unsampled
    links: tuple[Context, ...] = ()
    if turn.attempt > 1 and place.parent is not None:
        earlier = _span_id(turn.task_id, place.turn, place.epoch - _SINCE_LAST)
        links = (place.parent._replace(span_id=f"{earlier:016x}"),)
    span = TRACES.start(
        f"invoke_agent {place.agent}",
        Kind.CONSUMER if place.waited else Kind.INTERNAL,
        place.parent,
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": place.agent,
            "gen_ai.conversation.id": turn.context_id,
            "a2a.task.id": turn.task_id,
            **({"a2a.tenant": turn.tenant} if turn.tenant else {}),
            "a2a.skill.id": skill.card.id,
            "a2a.attempt": turn.attempt,
        },
        span_id=_span_id(turn.task_id, place.turn, place.epoch),
        links=links,
    )
    TRACES.enter(span, around_agent=True)
    return span


def end(span: Span, place: Place, state: a2a_pb2.TaskState | None, *, retry: bool = False) -> None:
    """End the span of a run: its function has left the task in `state`, or without an end (None); `retry`: for now."""
    if place.interrupted or state is None:
        span.end(place.interrupted or "canceled", fault=place.interrupted != "canceled")
    elif state == states.COMPLETED:
        span.end()
    else:
        span.end("retry" if retry else states.label(state), fault=state != states.REJECTED)


def _span_id(task_id: str, turn: int, epoch: int) -> int:
    digest = blake2b(f"{task_id} {turn} {epoch}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) or 1
