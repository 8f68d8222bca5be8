"""One module for each binding, behind the seam in `base`. Only this package imports grpc."""

from a2a_grpc.client.interfaces import GRPC, HTTP_JSON, grpc_address
from a2a_grpc.client.options import Options
from a2a_grpc.client.transports.base import Transport
from a2a_grpc.client.transports.observed import ObservedTransport
from a2a_grpc.pb import a2a_pb2


def transport_for(interface: a2a_pb2.AgentInterface, options: Options, *, tls_by_default: bool) -> Transport:
    """The transport for an interface that `interfaces.usable` has let through."""
    made = _transport_for(interface, options, tls_by_default=tls_by_default)
    return ObservedTransport(made, options.observer, interface) if options.observer else made


def _transport_for(interface: a2a_pb2.AgentInterface, options: Options, *, tls_by_default: bool) -> Transport:
    # grpc and httpx take a few hundred milliseconds to import: each is loaded by those who use it.
    if interface.protocol_binding.upper() == GRPC:
        from a2a_grpc.client.transports.grpc import GrpcTransport  # noqa: PLC0415

        return GrpcTransport(grpc_address(interface.url, tls_by_default=tls_by_default), options)
    if interface.protocol_binding.upper() == HTTP_JSON:
        from a2a_grpc.client.transports.http import HttpTransport  # noqa: PLC0415

        return HttpTransport(interface.url, options)
    from a2a_grpc.client.transports.jsonrpc import JsonRpcTransport  # noqa: PLC0415

    return JsonRpcTransport(interface.url, options)
