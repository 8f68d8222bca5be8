"""Calling an agent's function, whatever it does in return."""

import asyncio
import logging
from dataclasses import dataclass

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import ArtifactMismatchError, Fail, Reject, Retry, Skill, Turn, TurnOverError
from a2a_grpc.server.core import states
from a2a_grpc.server.engine.tracing import Place
from a2a_grpc.server.telemetry.tracing import TRACES

log = logging.getLogger(__name__)

FAILED_TEXT = "The agent failed."


@dataclass(frozen=True, slots=True)
class End:
    """How a function ended: the state it stands for and the words that the caller may read."""

    state: a2a_pb2.TaskState
    words: str | None = None
    retry_after: float | None = None
    """Seconds after which the turn should be run again instead, if it may."""
    refused: bool = False
    """What the agent wrote does not match what its card says of it. Programs of callers are told that, too."""


async def invoke(skill: Skill, turn: Turn, place: Place | None = None) -> End:
    """Run the skill's function to its end and say what that end means for the task.

    Only a cancellation from outside leaves this as an exception. SystemExit must not: in a task it would end the
    whole process with everything else that runs in it.

    `place`: in its trace. The span that begins here is for the caller to end, when that end is stored.
    """
    if place is None or not TRACES.on:
        return await _invoke(skill, turn)
    place.begin(skill, turn)
    try:
        return await _invoke(skill, turn)
    except BaseException:
        place.leave()
        raise


async def _invoke(skill: Skill, turn: Turn) -> End:
    turn.checks = skill.checks(turn)
    try:
        await skill.run(turn)
        turn.returned()
    except ArtifactMismatchError as error:
        log.error("task %s: what the agent wrote is refused: %s", turn.task_id, error.cause)
        return End(states.FAILED, str(error), refused=True)
    except Reject as reject:
        return End(states.REJECTED, str(reject) or None)
    except Fail as fail:
        log.info("task %s: the agent gave up: %s", turn.task_id, fail, exc_info=fail.__cause__)
        return End(states.FAILED, str(fail) or FAILED_TEXT)
    except Retry as retry:
        log.info("task %s: the agent wants another attempt: %s", turn.task_id, retry, exc_info=retry.__cause__)
        return End(states.FAILED, str(retry) or FAILED_TEXT, max(retry.after, 0.0))
    except TurnOverError as error:
        log.warning("task %s: the agent wrote what it may not: %s", turn.task_id, error)
        return End(states.FAILED, FAILED_TEXT)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        log.exception("task %s: the agent was cancelled from within", turn.task_id)
        return End(states.FAILED, FAILED_TEXT)
    except BaseException:
        log.exception("task %s: the agent failed", turn.task_id)
        return End(states.FAILED, FAILED_TEXT)
    return End(states.COMPLETED)
