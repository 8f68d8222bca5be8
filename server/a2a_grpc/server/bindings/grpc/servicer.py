"""The eleven operations over gRPC (specification section 10.4)."""

# ruff: noqa: N802  # the proto names the methods

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar, cast

import grpc.aio
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceServicer
from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.bindings.grpc.metadata import parameters, peer_address
from a2a_grpc.server.bindings.grpc.tls import peer_certificate
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.handler import Handler
from a2a_grpc.wire.errors import A2AError
from a2a_grpc.wire.headers import REQUEST_ID

BINDING: Final = "GRPC"

_Q = TypeVar("_Q")
_R = TypeVar("_R")
_One = grpc.aio.ServicerContext[_Q, Awaitable[_R]]
_Many = grpc.aio.ServicerContext[_Q, AsyncIterator[pb.StreamResponse]]

MakeCall = Callable[[str, grpc.aio.ServicerContext[Any, Any]], Call]


class Passing:
    """What passes calls to a Handler, whatever the service."""

    def __init__(self, handler: Handler, make_call: MakeCall) -> None:
        self._handler = handler
        self._make_call = make_call

    async def refused(self, method: str, context: grpc.aio.ServicerContext[Any, Any], error: A2AError) -> None:
        """Tell the handler of a call that does not come to it."""
        call = self._make_call(method, context)
        await self._handler.refused(call, error)
        await _send_with_status(call, context)

    async def _unary(self, method: str, request: Message, context: _One[Any, _R]) -> _R:
        call = self._make_call(method, context)
        try:
            response = await self._handler.unary(method, request, call)
        except Exception:
            await _send_with_status(call, context)
            raise
        await _send_with_status(call, context)
        return cast("_R", response)


class Servicer(Passing, A2AServiceServicer):
    """Passes each call to a Handler. After a change of the proto the type checker names what is missing here."""

    async def _stream(
        self, method: str, request: Message, context: _Many[Any]
    ) -> AsyncGenerator[pb.StreamResponse, None]:
        call = self._make_call(method, context)
        events = self._handler.stream(method, request, call)
        announced = False
        try:
            async for event in events:
                if not announced:
                    announced = True
                    await _send_ahead(call.response_parameters, context)
                yield event.response
        except Exception:
            if not announced:
                # With the status: a client of grpc.aio loses initial metadata that the status overtakes.
                context.set_trailing_metadata(tuple(call.response_parameters.items()))
            raise
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    def SendMessage(
        self, request: pb.SendMessageRequest, context: _One[pb.SendMessageRequest, pb.SendMessageResponse]
    ) -> Awaitable[pb.SendMessageResponse]:
        return self._unary("SendMessage", request, context)

    def SendStreamingMessage(
        self, request: pb.SendMessageRequest, context: _Many[pb.SendMessageRequest]
    ) -> AsyncIterator[pb.StreamResponse]:
        return self._stream("SendStreamingMessage", request, context)

    def GetTask(self, request: pb.GetTaskRequest, context: _One[pb.GetTaskRequest, pb.Task]) -> Awaitable[pb.Task]:
        return self._unary("GetTask", request, context)

    def ListTasks(
        self, request: pb.ListTasksRequest, context: _One[pb.ListTasksRequest, pb.ListTasksResponse]
    ) -> Awaitable[pb.ListTasksResponse]:
        return self._unary("ListTasks", request, context)

    def CancelTask(
        self, request: pb.CancelTaskRequest, context: _One[pb.CancelTaskRequest, pb.Task]
    ) -> Awaitable[pb.Task]:
        return self._unary("CancelTask", request, context)

    def SubscribeToTask(
        self, request: pb.SubscribeToTaskRequest, context: _Many[pb.SubscribeToTaskRequest]
    ) -> AsyncIterator[pb.StreamResponse]:
        return self._stream("SubscribeToTask", request, context)

    def CreateTaskPushNotificationConfig(
        self,
        request: pb.TaskPushNotificationConfig,
        context: _One[pb.TaskPushNotificationConfig, pb.TaskPushNotificationConfig],
    ) -> Awaitable[pb.TaskPushNotificationConfig]:
        return self._unary("CreateTaskPushNotificationConfig", request, context)

    def GetTaskPushNotificationConfig(
        self,
        request: pb.GetTaskPushNotificationConfigRequest,
        context: _One[pb.GetTaskPushNotificationConfigRequest, pb.TaskPushNotificationConfig],
    ) -> Awaitable[pb.TaskPushNotificationConfig]:
        return self._unary("GetTaskPushNotificationConfig", request, context)

    def ListTaskPushNotificationConfigs(
        self,
        request: pb.ListTaskPushNotificationConfigsRequest,
        context: _One[pb.ListTaskPushNotificationConfigsRequest, pb.ListTaskPushNotificationConfigsResponse],
    ) -> Awaitable[pb.ListTaskPushNotificationConfigsResponse]:
        return self._unary("ListTaskPushNotificationConfigs", request, context)

    def GetExtendedAgentCard(
        self, request: pb.GetExtendedAgentCardRequest, context: _One[pb.GetExtendedAgentCardRequest, pb.AgentCard]
    ) -> Awaitable[pb.AgentCard]:
        return self._unary("GetExtendedAgentCard", request, context)

    def DeleteTaskPushNotificationConfig(
        self,
        request: pb.DeleteTaskPushNotificationConfigRequest,
        context: _One[pb.DeleteTaskPushNotificationConfigRequest, Empty],
    ) -> Awaitable[Empty]:
        return self._unary("DeleteTaskPushNotificationConfig", request, context)


def make_call(method: str, context: grpc.aio.ServicerContext[Any, Any], *, certificates: bool = False) -> Call:
    """The call as the pipeline sees it; `certificates`: callers show them here, and it costs something to look."""
    sent = parameters(context.invocation_metadata() or ())
    certificate = peer_certificate(context) if certificates else None
    return Call(
        method=method,
        binding=BINDING,
        parameters=sent,
        credentials=Credentials(parameters=sent, query=sent, cookies=sent, certificate=certificate),
        peer=peer_address(context.peer()),
        timeout=context.time_remaining(),
    )


async def _send_ahead(response_parameters: Mapping[str, str], context: grpc.aio.ServicerContext[Any, Any]) -> None:
    if response_parameters:
        await context.send_initial_metadata(tuple(response_parameters.items()))


async def _send_with_status(call: Call, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    # Initial metadata is one more trip through the gRPC core, which costs a seventh of a whole unary call that does
    # nothing. The request id is on every call, so it takes the free ride in the trailers.
    ahead = call.response_parameters
    if REQUEST_ID in ahead:
        context.set_trailing_metadata(((REQUEST_ID, ahead[REQUEST_ID]),))
        ahead = {name: value for name, value in ahead.items() if name != REQUEST_ID}
    await _send_ahead(ahead, context)
