"""Telling a stream that is over from one that was cut (specification 3.1.2, 3.1.6)."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from a2a_grpc.client.errors import StreamBrokenError
from a2a_grpc.client.states import INTERRUPTED, TERMINAL, state_in, task_id_in
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import UnavailableError


async def until_outcome(
    events: AsyncGenerator[a2a_pb2.StreamResponse, None],
) -> AsyncGenerator[a2a_pb2.StreamResponse, None]:
    """The same events; raises StreamBrokenError if they stop before they have told how it went.

    A stream may end after a bare message, a terminal state, or a state that waits for the caller. Once a message or
    terminal state is there, a connection that breaks takes nothing away.
    """
    task_id = ""
    state: a2a_pb2.TaskState | None = None
    answered = False
    try:
        async with aclosing(events):
            async for event in events:
                task_id = task_id_in(event) or task_id
                state = state_in(event) or state
                answered = answered or event.HasField("message")
                yield event
    except UnavailableError as error:
        if answered or state in TERMINAL:
            return
        if not task_id:
            raise
        raise StreamBrokenError(f"{error.message} The task goes on.", task_id=task_id) from error
    if not answered and state not in TERMINAL | INTERRUPTED:
        seen = f"in state {a2a_pb2.TaskState.Name(state)}" if state is not None else "before the first event"
        raise StreamBrokenError(f"The agent ended the stream {seen}, which is no end.", task_id=task_id)
