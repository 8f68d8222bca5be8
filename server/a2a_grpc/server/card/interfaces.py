"""Where the agent is reached, as the card says it (8.3.1): from configured public addresses only.

Neither the bind address nor anything in a request (Host, X-Forwarded-*) gets in here: the first cannot be reached from
outside, the second is whatever a caller wrote, and the card is cached for others (B093).
"""

from urllib.parse import quote, urlsplit

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.headers import SUPPORTED_VERSION


def with_interfaces(card: a2a_pb2.AgentCard, grpc_addr: str, http_url: str, tenant: str = "") -> a2a_pb2.AgentCard:
    """A copy of `card` with the interfaces of this server, the preferred one first: GRPC, HTTP+JSON, JSONRPC.

    `grpc_addr` is "host:port" and `http_url` an absolute URL, both as callers reach them; an empty one leaves its
    interfaces out. `tenant` is what callers of these interfaces must send (8.3.2). Raises ValueError for an address of
    another form.
    """
    completed = a2a_pb2.AgentCard()
    completed.CopyFrom(card)
    completed.ClearField("supported_interfaces")
    served = [("GRPC", _grpc(grpc_addr))] if grpc_addr else []
    if http_url:
        base = _http(http_url)
        # Callers of HTTP+JSON put the tenant into the path themselves (11.3); those of JSON-RPC have one address only.
        served += [("HTTP+JSON", base), ("JSONRPC", f"{base}/{quote(tenant, safe='')}/" if tenant else f"{base}/")]
    for binding, url in served:
        completed.supported_interfaces.add(
            url=url, protocol_binding=binding, tenant=tenant, protocol_version=SUPPORTED_VERSION
        )
    return completed


def _grpc(address: str) -> str:
    try:
        parts = urlsplit(f"//{address}")
        valid = bool(parts.hostname) and parts.port is not None and parts.netloc == address
        valid = valid and not any(c.isspace() or c == "@" for c in address)
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(f"the public gRPC address must be host:port, not {address!r}")
    return address


def _http(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        valid = valid and not (parts.query or parts.fragment or "@" in parts.netloc or any(c.isspace() for c in url))
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(f"the public HTTP URL must be like https://agent.example.com/path, not {url!r}")
    return url.rstrip("/")
