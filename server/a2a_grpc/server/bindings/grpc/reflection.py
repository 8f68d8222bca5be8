"""Server reflection, so that grpcurl and its like need no proto files."""

from collections.abc import Iterable
from typing import Final

import grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import SERVICE_NAME
from grpc_reflection.v1alpha.reflection import aio as reflection

from a2a_grpc.server.bindings.grpc.registrar import Registrar

# The messages of v1 are those of v1alpha, byte for byte; grpcio-reflection knows only the older name.
SERVICE_NAMES: Final = ("grpc.reflection.v1.ServerReflection", SERVICE_NAME)


def add_reflection(services: Iterable[str], registrar: Registrar) -> None:
    """Serve the descriptors of `services`, by their full names, under both versions of the protocol."""
    servicer = reflection.ReflectionServicer(service_names=services)
    method = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        reflection_pb2.ServerReflectionRequest.FromString,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    for name in SERVICE_NAMES:
        registrar.add_registered_method_handlers(name, {"ServerReflectionInfo": method})
