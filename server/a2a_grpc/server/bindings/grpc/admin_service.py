"""Administration over gRPC, on a listener of its own."""

# ruff: noqa: ARG002, N802  # the proto names the methods and their parameters

from collections.abc import AsyncIterator, Awaitable
from typing import Any, Final, TypeVar

import grpc.aio

from a2a_grpc.admin.v1 import admin_pb2 as pb
from a2a_grpc.admin.v1.admin_pb2_grpc import AdminServiceServicer
from a2a_grpc.server import audit
from a2a_grpc.server.bindings.grpc.metadata import peer_address
from a2a_grpc.server.service.admin.dead_letters import DeadLetterDesk
from a2a_grpc.server.service.admin.replicas import list_replicas
from a2a_grpc.server.service.admin.tasks import TaskDesk
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.registry import Registry
from a2a_grpc.wire.errors import A2AError, UnavailableError

_RETRY_AFTER: Final = 1.0

_R = TypeVar("_R")
_Context = grpc.aio.ServicerContext[Any, Any]


class AdminService(AdminServiceServicer):
    """Passes each call to the desk that answers it."""

    def __init__(self, letters: DeadLetterDesk, tasks: TaskDesk, registry: Registry) -> None:
        self._letters = letters
        self._tasks = tasks
        self._registry = registry

    def ListDeadLetters(
        self, request: pb.ListDeadLettersRequest, context: _Context
    ) -> Awaitable[pb.ListDeadLettersResponse]:
        return _answer("ListDeadLetters", context, self._letters.list(request))

    def GetDeadLetter(self, request: pb.GetDeadLetterRequest, context: _Context) -> Awaitable[pb.GetDeadLetterResponse]:
        return _answer("GetDeadLetter", context, self._letters.get(request), letter_id=request.id)

    def RedriveDeadLetter(
        self, request: pb.RedriveDeadLetterRequest, context: _Context
    ) -> Awaitable[pb.RedriveDeadLetterResponse]:
        return _answer("RedriveDeadLetter", context, self._letters.redrive(request), letter_id=request.id)

    def PurgeDeadLetters(
        self, request: pb.PurgeDeadLettersRequest, context: _Context
    ) -> Awaitable[pb.PurgeDeadLettersResponse]:
        return _answer("PurgeDeadLetters", context, self._letters.purge(request))

    def ListTasks(self, request: pb.ListTasksRequest, context: _Context) -> Awaitable[pb.ListTasksResponse]:
        return _answer("ListTasks", context, self._tasks.list(request))

    def GetTask(self, request: pb.GetTaskRequest, context: _Context) -> Awaitable[pb.GetTaskResponse]:
        return _answer("GetTask", context, self._tasks.get(request), task_id=request.id)

    async def ListTaskEvents(
        self, request: pb.ListTaskEventsRequest, context: _Context
    ) -> AsyncIterator[pb.ListTaskEventsResponse]:
        _note("ListTaskEvents", context, "begun", task_id=request.id)
        events = self._tasks.events(request)
        try:
            async for event in events:
                yield pb.ListTaskEventsResponse(seq=event.seq, event=event.response.SerializeToString())
        except StoreUnavailableError as error:
            raise _away() from error
        finally:
            await events.aclose()

    def DeleteTask(self, request: pb.DeleteTaskRequest, context: _Context) -> Awaitable[pb.DeleteTaskResponse]:
        return _answer("DeleteTask", context, self._tasks.delete(request), task_id=request.id)

    def ListReplicas(self, request: pb.ListReplicasRequest, context: _Context) -> Awaitable[pb.ListReplicasResponse]:
        return _answer("ListReplicas", context, list_replicas(self._registry))


async def _answer(method: str, context: _Context, answer: Awaitable[_R], **facts: str) -> _R:
    try:
        response = await answer
    except StoreUnavailableError as error:
        _note(method, context, UnavailableError.kind.reason, **facts)
        raise _away() from error
    except A2AError as error:
        _note(method, context, error.kind.reason, **facts)
        raise
    _note(method, context, "OK", **facts)
    return response


def _note(method: str, context: _Context, outcome: str, **facts: str) -> None:
    """Whoever reaches this listener is an operator; who it was, the machine's own log says."""
    audit.note("admin", peer=peer_address(context.peer()), method=method, outcome=outcome, **facts)


def _away() -> UnavailableError:
    return UnavailableError(
        "The task store does not answer at the moment; what was asked may have been done.", retry_after=_RETRY_AFTER
    )
