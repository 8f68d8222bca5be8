"""Whether a gRPC server answers, asked at addresses that were checked."""

import ssl
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2

from a2a_grpc.server.push.allowed import Address
from a2a_grpc.server.registry.addresses import AgentAddress

# Whoever has no health service says so, and is there.
_THERE: Final = frozenset({grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNAUTHENTICATED,
                           grpc.StatusCode.PERMISSION_DENIED})  # fmt: skip
_MAX_BYTES: Final = 64 * 1024
_IPV4: Final = 4


async def ask_health(agent: AgentAddress, addresses: Sequence[Address], timeout: float) -> str:
    """See `Probe`. gRPC looks no name up: it connects to `addresses` alone, and expects the certificate of the host."""
    host, port = agent.destination.host, agent.destination.port
    target = _target(addresses, port)
    options: list[tuple[str, Any]] = [
        ("grpc.default_authority", agent.destination.authority),
        ("grpc.enable_http_proxy", 0),
        ("grpc.max_receive_message_length", _MAX_BYTES),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if agent.destination.scheme == "https":
        options.append(("grpc.ssl_target_name_override", host))
        channel = grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(_roots()), options)
    else:
        channel = grpc.aio.insecure_channel(target, options)
    async with channel:
        check: Any = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            response: health_pb2.HealthCheckResponse = await check(health_pb2.HealthCheckRequest(), timeout=timeout)
        except grpc.aio.AioRpcError as error:
            if error.code() in _THERE:
                return ""
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return f"it did not answer within {timeout:g} s"
            return "it cannot be reached"
    return "" if response.status == health_pb2.HealthCheckResponse.SERVING else "it says that it does not serve"


@cache
def _roots() -> bytes | None:
    """The certificates that this machine trusts (SSL_CERT_FILE), as over HTTPS; None: those that gRPC comes with."""
    path = ssl.get_default_verify_paths().cafile
    return Path(path).read_bytes() if path else None


def _target(addresses: Sequence[Address], port: int) -> str:
    """For gRPC, which takes addresses of one family together: the family of the first."""
    family = addresses[0].version
    same = [str(address) for address in addresses if address.version == family]
    return f"ipv{family}:" + ",".join(f"{address if family == _IPV4 else f'[{address}]'}:{port}" for address in same)
