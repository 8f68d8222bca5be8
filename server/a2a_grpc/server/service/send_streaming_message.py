"""SendStreamingMessage (3.1.2)."""

from collections.abc import AsyncGenerator

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import states
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.service.intake import Inlet
from a2a_grpc.server.service.watching import Watcher

# At INPUT_REQUIRED the caller has the word; at AUTH_REQUIRED the work goes on by itself, so the stream stays (7.6.1).
_CLOSE_AT = states.TERMINAL | {states.INPUT_REQUIRED}


class SendStreamingMessage:
    """The task and then its events until the end, or exactly one message."""

    def __init__(self, inlet: Inlet, watcher: Watcher) -> None:
        self._inlet = inlet
        self._watcher = watcher

    async def run(self, request: a2a_pb2.SendMessageRequest, caller: Caller) -> AsyncGenerator[Event, None]:
        """The events, the first of them the task or the message. Raises: as `Inlet.take`, before any event."""
        accepted = await self._inlet.take(request, caller)
        if isinstance(accepted, a2a_pb2.Message):
            yield Event(0, a2a_pb2.StreamResponse(message=accepted))
            return
        configuration = request.configuration
        length = configuration.history_length if configuration.HasField("history_length") else None
        # The number of an event means nothing to a task that begins with this call.
        caller.resumed = accepted.repeated and caller.last_event_id is not None
        cursor = caller.last_event_id if caller.resumed else None
        async for event in self._watcher.events(accepted, _CLOSE_AT, length, cursor=cursor):
            yield event
