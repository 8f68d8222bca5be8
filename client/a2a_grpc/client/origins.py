"""Whom a card that was fetched may name, and who may be told secrets."""

import ipaddress
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from a2a_grpc.client.interfaces import GRPC, grpc_address
from a2a_grpc.client.lists import listed
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import InvalidArgumentError, excerpt

ANY: Final = "*"
_PLAIN: Final = frozenset({"http", "grpc"})
_SCHEMES: Final = _PLAIN | {"https", "grpcs"}
_UNIX: Final = ("unix:", "unix-abstract:")


class Endpoint(NamedTuple):
    """Where a connection goes. The host is empty for a socket of this machine."""

    host: str
    port: int | None
    tls: bool

    @property
    def on_this_machine(self) -> bool:
        """Whether nobody on the way could read along."""
        if self.host in ("", "localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def endpoint(url: str) -> Endpoint:
    """The endpoint of a URL; TLS is what https is. Raises InvalidArgumentError, also for one with a password in it."""
    try:
        parts = urlsplit(url)
        if "@" in parts.netloc:
            # Errors and logs name addresses.
            raise InvalidArgumentError("An address must not hold credentials: give them as such, or as headers.")
        return Endpoint(_host(parts.hostname or ""), parts.port, parts.scheme.lower() not in _PLAIN)
    except ValueError as error:
        raise _no_address(url, error) from error


def interface_endpoint(interface: a2a_pb2.AgentInterface, *, tls_by_default: bool) -> Endpoint:
    """The endpoint of an interface. Raises: InvalidArgumentError."""
    if interface.protocol_binding.upper() != GRPC:
        found = endpoint(interface.url)
        if not found.host or not interface.url.lower().startswith(("http://", "https://")):
            raise _no_address(interface.url, ValueError("a URL of http or https is needed"))
        return found
    try:
        address = grpc_address(interface.url, tls_by_default=tls_by_default)
    except ValueError as error:
        raise _no_address(interface.url, error) from error
    if address.target.startswith(_UNIX):
        return Endpoint("", None, address.tls)
    # A target of gRPC itself is scheme://authority/name; what is connected to is the name.
    name = address.target.rpartition("/")[2] if "://" in address.target else address.target.removeprefix("dns:")
    return endpoint(f"{'https' if address.tls else 'http'}://{name}")


def is_readable(interface: a2a_pb2.AgentInterface) -> bool:
    """Whether the address of an interface can be used: one that cannot says nothing about the others of its card."""
    try:
        interface_endpoint(interface, tls_by_default=False)
    except InvalidArgumentError:
        return False
    return True


class Origins:
    """What the caller allows beyond the rule: an origin is `host`, `host:port` or `scheme://host[:port]`.

    Without a scheme it means TLS. `http` and `grpc` allow plain text too. The host may be `*`, for all hosts; `*` alone
    lets a card name whatever it likes, and still keeps secrets off connections in plain text.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        """Raises InvalidArgumentError for what is no origin."""
        origins = listed(allowed)
        self._anything = ANY in origins
        self._allowed = tuple(_origin(text) for text in origins if text != ANY)

    def may_name(self, named: Endpoint, card: Endpoint) -> bool:
        """Whether a card from one endpoint may name the other: one of the same host over TLS.

        A card of this machine may also name this machine in plain text.
        """
        if self._anything or (named.tls and named.host == card.host and named.host):
            return True
        if card.on_this_machine and named.on_this_machine and named.host:
            return True
        return any(_matches(origin, named) for origin in self._allowed)

    def may_have_secrets(self, called: Endpoint) -> bool:
        """Whether what is sent there stays between the two sides, or the caller has said that it need not."""
        if called.tls or called.on_this_machine:
            return True
        return any(not origin.tls and _matches(origin, called) for origin in self._allowed)


def _matches(origin: Endpoint, found: Endpoint) -> bool:
    return (
        origin.host in (ANY, found.host)
        and (origin.port is None or origin.port == found.port)
        and (found.tls or not origin.tls)
        and bool(found.host)
    )


def _origin(text: str) -> Endpoint:
    scheme, separator, rest = text.partition("://")
    if separator and scheme.lower() not in _SCHEMES:
        raise InvalidArgumentError(
            f"{excerpt(text)} is no origin: its scheme is none of {', '.join(sorted(_SCHEMES))}."
        )
    found = endpoint(text if separator else f"https://{text}")
    if not found.host or "/" in (rest if separator else text).rstrip("/"):
        raise InvalidArgumentError(f"{excerpt(text)} is no origin: write host, host:port, or https://host:port.")
    return found


def _no_address(url: str, error: ValueError) -> InvalidArgumentError:
    if "@" in url:
        # Where a user and a password end is not known, and the reason quotes what it stumbles over.
        return InvalidArgumentError("An address with an @ in it cannot be read: give credentials as such.")
    return InvalidArgumentError(f"{excerpt(url)} is no address: {error}.")


def _host(name: str) -> str:
    return name.lower().rstrip(".")
