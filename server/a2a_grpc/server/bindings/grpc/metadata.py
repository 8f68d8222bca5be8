"""Between gRPC metadata and the service parameters of a call (10.2)."""

from collections.abc import Iterable
from urllib.parse import unquote


def parameters(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """The parameters that a request carries. Keys arrive in lower case; binary ones are none of A2A's."""
    found: dict[str, str] = {}
    for key, value in metadata:
        if isinstance(value, bytes):
            continue
        found[key] = f"{found[key]},{value}" if key in found else value
    return found


def peer_address(peer: str) -> str:
    """The peer as "host:port": "ipv4:192.0.2.1:40000" -> "192.0.2.1:40000"; empty for a Unix socket."""
    scheme, _, address = peer.partition(":")
    if scheme == "ipv4":
        return address
    return unquote(address) if scheme == "ipv6" else ""
