"""Which of an agent's interfaces to use, and where it is (specification 8.3.2)."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from a2a_grpc.client.errors import CardError
from a2a_grpc.client.lists import listed
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import InvalidArgumentError, excerpt
from a2a_grpc.wire.headers import SUPPORTED_VERSION, parse_version

GRPC: Final = "GRPC"
HTTP_JSON: Final = "HTTP+JSON"
JSONRPC: Final = "JSONRPC"
BINDINGS: Final = (GRPC, HTTP_JSON, JSONRPC)

_NAMED: Final = 8
_VERSION: Final = parse_version(SUPPORTED_VERSION)
_PLAIN_SCHEMES: Final = {"grpc": 80, "http": 80}
_TLS_SCHEMES: Final = {"grpcs": 443, "https": 443}


class GrpcAddress(NamedTuple):
    """What a gRPC channel is opened to."""

    target: str
    tls: bool


def known_bindings(given: Sequence[str]) -> tuple[str, ...]:
    """Bindings as `BINDINGS` spells them, whatever the case. Raises InvalidArgumentError for others, and for none."""
    names = listed(given)
    wrong = "" if names else "No binding is given"
    for name in names:
        if name.upper() not in BINDINGS:
            wrong = f"{excerpt(name, 32)} is no binding"
    if wrong:
        raise InvalidArgumentError(f"{wrong}; there are {', '.join(BINDINGS)}.")
    return tuple(name.upper() for name in names)


def usable(card: a2a_pb2.AgentCard, bindings: Sequence[str]) -> list[a2a_pb2.AgentInterface]:
    """The interfaces of the card that speak this version over one of `bindings`, in the card's order of preference.

    Raises CardError if there is none.
    """
    found = [
        interface
        for interface in card.supported_interfaces
        if interface.protocol_binding.upper() in bindings and parse_version(interface.protocol_version) == _VERSION
    ]
    if not found:
        offered = some(excerpt(f"{i.protocol_binding} {i.protocol_version}", 64) for i in card.supported_interfaces)
        wanted = " or ".join(f"{binding} {SUPPORTED_VERSION}" for binding in bindings)
        raise CardError(f"The agent offers {offered}; {wanted} is needed.")
    return found


def some(names: Iterable[str]) -> str:
    """A few of the names, for a message to people: a card may have thousands."""
    found = list(dict.fromkeys(names))
    left = len(found) - _NAMED
    return ", ".join(found[:_NAMED]) + (f" and {left} more" if left > 0 else "") or "nothing"


def grpc_address(url: str, *, tls_by_default: bool) -> GrpcAddress:
    """The channel target of an interface: `host:port`, a URL of grpc, grpcs, http or https, or a target of gRPC itself.

    A bare `host:port` does not say whether it wants TLS. It does if its port is 443, or if `tls_by_default`: the card
    came over https, and what it names must not be less protected. A path is ignored: gRPC has no place for one. Raises
    ValueError for a URL that is none.
    """
    scheme, separator, _ = url.partition("://")
    known = _PLAIN_SCHEMES | _TLS_SCHEMES
    if separator and scheme.lower() in known:
        authority = urlsplit(url).netloc
        target = authority if _has_port(authority) else f"{authority}:{known[scheme.lower()]}"
        return GrpcAddress(target, scheme.lower() in _TLS_SCHEMES)
    return GrpcAddress(url, tls_by_default or url.endswith(":443"))


def _has_port(authority: str) -> bool:
    # An IPv6 address has colons of its own, inside brackets.
    return ":" in authority.rpartition("]")[2]
