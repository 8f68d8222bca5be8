"""GetTask (3.1.3)."""

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core.history import trim
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.service.finding import find
from a2a_grpc.server.store.tasks import TaskStore


class GetTask:
    """A task as it stands now."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store

    async def run(self, request: a2a_pb2.GetTaskRequest, caller: Caller) -> a2a_pb2.Task:
        """The caller's task. Raises: TaskNotFoundError; StoreUnavailableError."""
        stored = await find(self._store, caller, request.id)
        return trim(stored.fold.task(), request.history_length if request.HasField("history_length") else None)
