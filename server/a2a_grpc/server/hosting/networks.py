"""Who is behind a network address, as far as it counts for limits."""

from ipaddress import IPv6Address, IPv6Network


def network_of(peer: str) -> str:
    """The address of a peer ("host:port", with or without brackets around IPv6); of IPv6 its /64.

    Whoever has one address of a /64 usually has all of them, and would otherwise be as many callers as it likes. An
    IPv4 address is the same in its mapped form, which some listeners show.
    """
    host = peer.rpartition(":")[0].strip("[]").partition("%")[0]
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((address, 64), strict=False))
