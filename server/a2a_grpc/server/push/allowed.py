"""What an operator allows webhooks to reach besides the public internet."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

_NAME = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?")
_LOOPBACK = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))


@dataclass(frozen=True)
class Allowed:
    """Hosts by name, all hosts below a name, and networks."""

    names: frozenset[str] = frozenset()
    """In lower case; `*.example.internal` stands for all below."""
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def name(self, host: str) -> bool:
        """Whether `host` (in lower case) is allowed, wherever it leads."""
        if host in self.names:
            return True
        return any(host.endswith(name[1:]) for name in self.names if name.startswith("*."))

    def address(self, address: Address) -> bool:
        """Whether `address` is allowed, whatever it is called."""
        return any(address in network for network in self.networks)

    def __str__(self) -> str:
        return ",".join([*sorted(self.names), *(str(network) for network in self.networks)])


def parse_allowed(text: str) -> Allowed:
    """Names, `*.` names, addresses and networks with commas between them. `localhost` stands for its addresses too.

    Raises: ValueError with a sentence.
    """
    names: set[str] = set()
    networks: list[IPv4Network | IPv6Network] = []
    for entry in (part.strip().lower() for part in text.split(",")):
        try:
            networks.append(ip_network(entry))
            continue
        except ValueError:
            if "/" in entry or not _NAME.fullmatch(entry) or re.fullmatch(r"[0-9.]+", entry):
                raise ValueError(
                    f"{entry[:100]!r} is neither a host nor a network; write for example "
                    "hooks.internal, *.svc.cluster.local, 10.1.0.0/16 or fd00::/8"
                ) from None
        names.add(entry)
        if entry == "localhost":
            networks.extend(network for network in _LOOPBACK if network not in networks)
    return Allowed(frozenset(names), tuple(networks))
