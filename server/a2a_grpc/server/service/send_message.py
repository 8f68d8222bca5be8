"""SendMessage (3.1.1)."""

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core.history import trim
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.service.finding import gone
from a2a_grpc.server.service.intake import Inlet
from a2a_grpc.server.service.watching import Watcher
from a2a_grpc.server.store.tasks import TaskStore


class SendMessage:
    """Blocks until the task is terminal or interrupted, unless the caller wants it back at once (3.2.2)."""

    def __init__(self, inlet: Inlet, watcher: Watcher, store: TaskStore) -> None:
        self._inlet = inlet
        self._watcher = watcher
        self._store = store

    async def run(self, request: a2a_pb2.SendMessageRequest, caller: Caller) -> a2a_pb2.SendMessageResponse:
        """The task or the message that answers. Raises: as `Inlet.take`."""
        accepted = await self._inlet.take(request, caller)
        if isinstance(accepted, a2a_pb2.Message):
            return a2a_pb2.SendMessageResponse(message=accepted)
        response = a2a_pb2.SendMessageResponse()
        task = response.task
        configuration = request.configuration
        if not configuration.return_immediately:
            await self._watcher.settled(accepted, task)
        elif accepted.writer is not None:
            accepted.writer.fold.write(task)
        else:
            stored = await self._store.read(accepted.task_id)
            if stored is None:
                raise gone(accepted)
            stored.fold.write(task)
        if configuration.HasField("history_length"):
            trim(task, configuration.history_length)
        return response
