"""The registry of agents, over gRPC or HTTP."""

from typing import Final
from urllib.parse import urlsplit

from a2a_grpc.client.interfaces import grpc_address
from a2a_grpc.client.options import Options
from a2a_grpc.client.transports.base import Transport
from a2a_grpc.registry.v1 import registry_pb2
from a2a_grpc.wire.errors import InvalidArgumentError, excerpt
from a2a_grpc.wire.rules import Rules

_GRPC: Final = ("grpc://", "grpcs://")
_HTTP: Final = ("http://", "https://")


def registry_transport(url: str, options: Options) -> Transport:
    """The transport to the registry at `url`: http, https, grpc or grpcs. Raises: InvalidArgumentError."""
    if url.startswith(_GRPC) and urlsplit(url).netloc:
        from a2a_grpc.client.transports.grpc import GrpcTransport  # noqa: PLC0415 - as in `transport_for`
        from a2a_grpc.registry.v1.registry_pb2_grpc import RegistryServiceStub  # noqa: PLC0415

        return GrpcTransport(grpc_address(url, tls_by_default=False), options, RegistryServiceStub)
    if url.startswith(_HTTP) and urlsplit(url).netloc:
        from a2a_grpc.client.transports.http import HttpTransport  # noqa: PLC0415

        return HttpTransport(url, options, Rules(registry_pb2.DESCRIPTOR.services_by_name["RegistryService"]))
    raise InvalidArgumentError(f"{excerpt(url)!r} is no registry: give a URL (http, https, grpc or grpcs).")
