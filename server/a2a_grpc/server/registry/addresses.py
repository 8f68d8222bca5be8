"""Where an agent says that it is, and whether the registry would connect there."""

from dataclasses import dataclass
from ipaddress import ip_network
from typing import Final
from urllib.parse import urlsplit

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.push.allowed import Allowed
from a2a_grpc.server.push.destinations import Destination, Destinations, RefusedDestinationError

_WELL_KNOWN: Final = "/.well-known/agent-card.json"
# gRPC has no URLs of its own; these are read as if they were the ones of HTTP.
_AS_HTTP: Final = {"grpc": "http", "grpcs": "https"}
_AS_GRPC: Final = {http: grpc for grpc, http in _AS_HTTP.items()}
_HTTPS_PORT: Final = ":443"
# What can be read at all; where the registry connects is another question.
_ANYWHERE: Final = Destinations(
    allowed=Allowed(networks=(ip_network("0.0.0.0/0"), ip_network("::/0"))),
    http=True,
)


@dataclass(frozen=True, slots=True)
class AgentAddress:
    """The URL of an agent, read."""

    url: str
    """In the one spelling that tells agents apart: host in lower case, no port where it is the scheme's own."""
    grpc: bool
    destination: Destination
    """With the scheme http or https also for gRPC."""

    def refusal(self, destinations: Destinations) -> str:
        """Why the registry does not connect there, half a sentence; "" where it may, as far as the URL tells."""
        try:
            destinations.read(_joined(self.destination))
        except RefusedDestinationError as error:
            return str(error)
        return ""


def parse_address(text: str) -> AgentAddress:
    """The address in `text`: http, https, grpc or grpcs. Raises: RefusedDestinationError that says what is wrong."""
    scheme, separator, rest = text.partition("://")
    as_http = _AS_HTTP.get(scheme.lower()) if separator else None
    destination = _ANYWHERE.read(f"{as_http}://{rest}" if as_http else text)
    if as_http is None:
        return AgentAddress(_joined(destination), grpc=False, destination=destination)
    if destination.target != "/":
        raise RefusedDestinationError("must be like grpc://agent.example.com:50051, without a path")
    host = f"[{destination.host}]" if ":" in destination.host else destination.host
    return AgentAddress(f"{scheme.lower()}://{host}:{destination.port}", grpc=True, destination=destination)


def address_of(card: a2a_pb2.AgentCard) -> AgentAddress:
    """Where the first interface of `card` is. Raises: RefusedDestinationError."""
    interface = next(iter(card.supported_interfaces), a2a_pb2.AgentInterface())
    url = interface.url
    if interface.protocol_binding.upper() != "GRPC":
        return parse_address(url)
    scheme, separator, rest = url.partition("://")
    if not separator:  # host:port
        return parse_address(f"{'grpcs' if url.endswith(_HTTPS_PORT) else 'grpc'}://{url}")
    return parse_address(f"{_AS_GRPC.get(scheme.lower(), scheme)}://{urlsplit(f'//{rest}').netloc}")


def card_target(destination: Destination) -> str:
    """Path and query of the card of the agent at `destination` (8.2): its base, or that of the card itself."""
    path, mark, query = destination.target.partition("?")
    if not path.endswith(".json") and "/.well-known/" not in path:
        path = path.rstrip("/") + _WELL_KNOWN
    return path + mark + query


def _joined(destination: Destination) -> str:
    target = "" if destination.target == "/" else destination.target
    return f"{destination.origin}{target}"
