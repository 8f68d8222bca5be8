"""The administration service of a replica, over gRPC without TLS: it listens only for its own machine."""

from collections.abc import AsyncGenerator

from a2a_grpc.admin.v1 import admin_pb2
from a2a_grpc.admin.v1.admin_pb2_grpc import AdminServiceStub
from a2a_grpc.client.interfaces import GrpcAddress
from a2a_grpc.client.options import Options
from a2a_grpc.client.transports.grpc import GrpcTransport


class AdminTransport(GrpcTransport):
    """Calls AdminService by the names of its operations; errors as every transport raises them."""

    def __init__(self, target: str, *, connect_timeout: float) -> None:
        """`target` is "host:port"; `connect_timeout` in seconds."""
        options = Options(parameters={}, connect_timeout=connect_timeout, keepalive=None, ca_file=None)
        super().__init__(GrpcAddress(target, tls=False), options, AdminServiceStub)

    def events(
        self, request: admin_pb2.ListTaskEventsRequest
    ) -> AsyncGenerator[admin_pb2.ListTaskEventsResponse, None]:
        """ListTaskEvents."""
        return self._responses("ListTaskEvents", request, {})
