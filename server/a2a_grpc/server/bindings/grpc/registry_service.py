"""The registry of agents over gRPC."""

# ruff: noqa: N802  # the proto names the methods

from collections.abc import Awaitable
from typing import Any

import grpc.aio

from a2a_grpc.registry.v1 import registry_pb2 as pb
from a2a_grpc.registry.v1.registry_pb2_grpc import RegistryServiceServicer
from a2a_grpc.server.bindings.grpc.servicer import Passing

_Context = grpc.aio.ServicerContext[Any, Any]


class RegistryServicer(Passing, RegistryServiceServicer):
    """Passes each call to a Handler."""

    def RegisterAgent(self, request: pb.RegisterAgentRequest, context: _Context) -> Awaitable[pb.RegisterAgentResponse]:
        return self._unary("RegisterAgent", request, context)

    def RenewAgent(self, request: pb.RenewAgentRequest, context: _Context) -> Awaitable[pb.RenewAgentResponse]:
        return self._unary("RenewAgent", request, context)

    def WithdrawAgent(self, request: pb.WithdrawAgentRequest, context: _Context) -> Awaitable[pb.WithdrawAgentResponse]:
        return self._unary("WithdrawAgent", request, context)

    def GetAgent(self, request: pb.GetAgentRequest, context: _Context) -> Awaitable[pb.GetAgentResponse]:
        return self._unary("GetAgent", request, context)

    def SearchAgents(self, request: pb.SearchAgentsRequest, context: _Context) -> Awaitable[pb.SearchAgentsResponse]:
        return self._unary("SearchAgents", request, context)
