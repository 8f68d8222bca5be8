"""Updates of a task by asking for it, where the agent does not stream (specification 3.5.1)."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from typing import Final

from a2a_grpc.client.states import TERMINAL
from a2a_grpc.pb import a2a_pb2

_FIRST_DELAY: Final = 0.1
_LAST_DELAY: Final = 5.0
_GROWTH: Final = 1.5


async def follow(
    task: a2a_pb2.Task, look: Callable[[], Awaitable[a2a_pb2.Task]], until: Collection[a2a_pb2.TaskState]
) -> AsyncGenerator[a2a_pb2.StreamResponse, None]:
    """The task as it is, then what changes, as a stream would tell it, up to a state in `until`.

    Looks again after 0.1 s, and then ever more rarely down to once in 5 s; a change starts that anew. A state that
    comes and goes between two looks is not seen.
    """
    yield a2a_pb2.StreamResponse(task=task)
    delay = _FIRST_DELAY
    while task.status.state not in until:
        await asyncio.sleep(delay)
        delay = min(delay * _GROWTH, _LAST_DELAY)
        before, task = task, await look()
        for event in changes(before, task):
            delay = _FIRST_DELAY
            yield event


def changes(before: a2a_pb2.Task, after: a2a_pb2.Task) -> list[a2a_pb2.StreamResponse]:
    """The events that lead from one look to the next: artifacts that are new or different, whole, then the status."""
    known = {artifact.artifact_id: artifact for artifact in before.artifacts}
    events = [
        a2a_pb2.StreamResponse(
            artifact_update=a2a_pb2.TaskArtifactUpdateEvent(
                task_id=after.id,
                context_id=after.context_id,
                artifact=artifact,
                last_chunk=after.status.state in TERMINAL,
            )
        )
        for artifact in after.artifacts
        if known.get(artifact.artifact_id) != artifact
    ]
    if before.status != after.status:
        events.append(
            a2a_pb2.StreamResponse(
                status_update=a2a_pb2.TaskStatusUpdateEvent(
                    task_id=after.id, context_id=after.context_id, status=after.status
                )
            )
        )
    return events
