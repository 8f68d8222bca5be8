"""Where webhooks may be: which URLs are taken, and to which addresses the service connects for them.

A URL is read once, by the strict reader below; what is connected to is what it gave. Hosts are looked up only to
connect, and the address that was checked is the one that is connected to (see `network`), so nothing can change between
the two. URLs that different readers understand differently are refused, whatever they mean.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from a2a_grpc.server.push.allowed import Address, Allowed

MAX_URL_LENGTH = 2048

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(#.*)?")
_AUTHORITY = re.compile(r"(?:\[([^\[\]@]*)\]|([^\[\]:@]*))(?::([0-9]*))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
# What some readers take for an IPv4 address: 2130706433, 0x7f.1, 127.0x1.
_NUMERIC = re.compile(r"(?:[0-9]+|0[xX][0-9A-Fa-f]*)")
_MAX_NAME = 253
_PORTS = {"http": 80, "https": 443}
_HIGHEST_PORT = 65535
# RFC 6052: such an address stands for the IPv4 address in its last 32 bits.
_NAT64 = ip_network("64:ff9b::/96")
# What is routed on the internet at all (RFC 4291).
_GLOBAL = IPv6Network("2000::/3")
# What is not, though it is within that or unknown to some versions of Python: addresses that carry another one inside
# (Teredo, 6to4 and its relays), those of protocols and for documentation, and one that is the machine's own environment
# in a large cloud, for all that its number is public.
_NOT_GLOBAL = tuple(
    ip_network(network)
    for network in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16", "2001::/23", "2002::/16", "3fff::/20")
)


class RefusedDestinationError(ValueError):
    """The service does not send anything there; the text is a sentence that says why."""


class Destination(NamedTuple):
    """A webhook's URL in its parts."""

    scheme: str
    host: str
    """A name in lower case, or an address without brackets."""
    port: int
    target: str
    """Path and query."""

    @property
    def origin(self) -> str:
        """What may be told about it: never the path or the query, which may hold secrets."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """For the Host header: without the port where it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class Destinations:
    """The rules of one service."""

    allowed: Allowed = field(default_factory=Allowed)
    """What is allowed although it is not on the public internet."""
    http: bool = False
    """Whether http:// is taken as well."""

    def read(self, url: str) -> Destination:
        """The parts of `url`. Raises: RefusedDestinationError where it is none that the service would connect to.

        No name is looked up here.
        """
        destination = _read(url)
        if destination.scheme == "http" and not self.http:
            raise RefusedDestinationError("must begin with https://")
        address = _literal(destination.host)
        if address is not None:
            self.check(destination.host, address)
        elif destination.host == "localhost" or destination.host.endswith(".localhost"):
            self.check(destination.host, IPv4Address("127.0.0.1"))
        return destination

    def check(self, host: str, address: Address) -> None:
        """Raises: RefusedDestinationError unless the service may connect to `address` for the host `host`."""
        if not (self.allowed.name(host) or self.allowed.address(address) or is_public(address)):
            raise RefusedDestinationError(
                f"leads to {address}, which is not a public address"
                if _literal(host) is None
                else "is not a public address"
            )


def is_public(address: Address) -> bool:
    """Whether `address` is one of the public internet, whatever stands for it."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if address in _NAT64:
            return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _GLOBAL:
            return False
    return address.is_global and not (
        any(address in network for network in _NOT_GLOBAL)
        or address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
    )


def _read(url: str) -> Destination:
    if len(url) > MAX_URL_LENGTH:
        raise RefusedDestinationError(f"is longer than {MAX_URL_LENGTH} characters")
    if not all("!" <= character <= "~" for character in url) or "\\" in url:
        raise RefusedDestinationError(
            "may have visible ASCII characters only, others percent-encoded, and no backslash"
        )
    parts = _URL.fullmatch(url)
    if parts is None or parts[1].lower() not in _PORTS:
        raise RefusedDestinationError("must be a URL like https://example.com/hook")
    scheme, authority, target, fragment = parts[1].lower(), parts[2], parts[3], parts[4]
    if fragment is not None:
        raise RefusedDestinationError("must not have a fragment (#)")
    if "@" in authority:
        raise RefusedDestinationError("must not have a user or a password; send credentials as `authentication`")
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        raise RefusedDestinationError("has no host that can be read")
    host = _ipv6(found[1]) if found[1] is not None else _name(found[2].lower())
    port = _PORTS[scheme]
    if found[3]:
        port = int(found[3]) if len(found[3]) <= len(str(_HIGHEST_PORT)) and found[3][0] != "0" else 0
        if not 1 <= port <= _HIGHEST_PORT:
            raise RefusedDestinationError(f"has a port that is not between 1 and {_HIGHEST_PORT}, without zeros before")
    return Destination(scheme, host, port, target if target.startswith("/") else f"/{target}")


def _ipv6(text: str) -> str:
    try:
        address = IPv6Address(text)
    except ValueError:
        raise RefusedDestinationError("has an IPv6 address that cannot be read") from None
    if address.scope_id is not None or address.ipv4_mapped is not None:
        raise RefusedDestinationError(
            "must have a plain IPv6 address: without a zone, and not one that is an IPv4 address"
        )
    return str(address)


def _name(host: str) -> str:
    labels = host.split(".")
    if host.endswith("."):
        raise RefusedDestinationError("must not have a dot at the end of its host")
    if len(host) > _MAX_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise RefusedDestinationError("has no host that can be read; international names are written as xn--…")
    if _NUMERIC.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(host))
        except ValueError:
            raise RefusedDestinationError("must write an IPv4 address as four decimal numbers") from None
    return host


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def addresses(found: list[str]) -> Iterator[Address]:
    """The addresses that a look-up gave."""
    for text in found:
        yield ip_address(text)
