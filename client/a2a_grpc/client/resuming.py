"""Streams that go on when their connections do not (specification 3.1.2, 3.1.6, 3.5.2)."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Final

from a2a_grpc.client.errors import StreamBrokenError
from a2a_grpc.client.retries import Retries
from a2a_grpc.client.states import INTERRUPTED, TERMINAL, state_in, task_id_in
from a2a_grpc.client.transports.base import Numbered
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import A2AError, InvalidAgentResponseError, ResourceExhaustedError, UnavailableError

# For the end of a stream after the end of its task: an agent that closes none holds nobody up for longer, and an agent
# that does leaves a connection that can be used again.
_END_SECONDS: Final = 2.0

Open = Callable[[str, int], AsyncGenerator[Numbered, None]]
"""Opens a stream: of the task (empty while it is not known), after the event of this number (0: none yet)."""


async def resuming(
    open_stream: Open, ends: frozenset[a2a_pb2.TaskState], retries: Retries, *, task_id: str = "", after: int = 0
) -> AsyncGenerator[Numbered, None]:
    """The events of a stream, each once, over as many connections as that takes.

    `after` is the number of an event that was told before, by somebody else: the stream begins with the task as it
    stood then.

    A stream is over after a bare message or a state in `ends`; on agents that do not number their events also after any
    state that waits for the caller. One that was cut before is opened again, and what it begins with is left out: the
    caller knows it. A Task in the middle of the events is the sign of a gap: the agent no longer has the events before
    it, and that Task holds what they said.

    After the end of a task the agent has two seconds for what it still says. What was told already is left out.

    Raises StreamBrokenError where it cannot go on, for want of numbers or of a connection in the time that `retries`
    allow; InvalidAgentResponseError for an event of another task; and what the agent answers. A connection that breaks
    when the outcome is there takes nothing away.
    """
    told = _Told(task_id, after)
    again = False
    while True:
        try:
            async with aclosing(open_stream(told.task_id, told.seq)) as events:
                async for event in events:
                    retries.connected()
                    if told.holds(event):
                        continue
                    told.add(event)
                    retries.news()
                    yield event
                    if again and told.outcome(ends):
                        return  # a subscription would stay open where an answer to a message does not
                    if told.ended:
                        async with aclosing(_last(events)) as last:
                            async for more in last:
                                if not told.holds(more):
                                    yield more
                        return
            if told.outcome(ends) or told.closed(ends):
                return
            failure: A2AError = told.early_end()
        except (UnavailableError, ResourceExhaustedError) as error:
            if told.outcome(ends):
                return
            failure = error
        can_go_on = told.seq or not told.anything
        if not can_go_on or not await retries.pause(failure):
            if not told.anything or isinstance(failure, StreamBrokenError | ResourceExhaustedError):
                raise failure
            raise StreamBrokenError(f"{failure.message} The task goes on.", task_id=told.task_id) from failure
        again = True


class _Told:
    """What the caller of a stream has been told."""

    def __init__(self, task_id: str, seq: int) -> None:
        self.task_id = task_id
        self.seq = seq
        """The number of the last event; 0: there was none, or it had none."""
        self.anything = False
        self._state: a2a_pb2.TaskState | None = None
        self._answered = False
        self._changed = False
        """The state is news, rather than what the stream began with."""

    @property
    def ended(self) -> bool:
        """Whether nothing more can happen to the task."""
        return self._state in TERMINAL

    def holds(self, event: Numbered) -> bool:
        """Whether `event` was told already.

        A Task with an earlier number was not: the agent has lost what came after it, and counts on from there.
        """
        if not self.anything or not event.seq:
            return False
        return event.seq == self.seq or (event.seq < self.seq and not event.response.HasField("task"))

    def add(self, event: Numbered) -> None:
        """Take the next event. Raises: InvalidAgentResponseError for one of another task."""
        task_id = task_id_in(event.response)
        if task_id and self.task_id and task_id != self.task_id:
            raise InvalidAgentResponseError("The agent sent an event of another task than the one that was asked for.")
        state = state_in(event.response)
        if state is not None:
            self._changed = self.anything
            self._state = state
        self.anything = True
        self.task_id = task_id or self.task_id
        self.seq = event.seq
        self._answered = self._answered or event.response.HasField("message")

    def outcome(self, ends: frozenset[a2a_pb2.TaskState]) -> bool:
        """Whether the caller knows how it went, whatever becomes of the stream."""
        return self._answered or self._state in TERMINAL or (self._changed and self._state in ends)

    def closed(self, ends: frozenset[a2a_pb2.TaskState]) -> bool:
        """Whether the agent may have closed the stream here."""
        return self._state in (ends if self.seq else TERMINAL | INTERRUPTED)

    def early_end(self) -> StreamBrokenError:
        seen = "before the first event"
        if self._state is not None:
            known = a2a_pb2.TaskState.DESCRIPTOR.values_by_number.get(self._state)
            seen = f"in state {known.name if known else self._state}"
        return StreamBrokenError(f"The agent ended the stream {seen}, which is no end.", task_id=self.task_id)


async def _last(events: AsyncGenerator[Numbered, None]) -> AsyncGenerator[Numbered, None]:
    """What an agent still says when the outcome is there, for a moment; how it ends is of no interest any more."""
    deadline = asyncio.get_running_loop().time() + _END_SECONDS
    with suppress(TimeoutError, A2AError):
        while True:
            async with asyncio.timeout_at(deadline):
                event = await anext(events, None)
            if event is None:
                return
            yield event
