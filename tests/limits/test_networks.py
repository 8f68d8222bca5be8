"""Which addresses are one caller."""

import pytest

from a2a_grpc.server.hosting.networks import network_of


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        ("192.0.2.1:40000", "192.0.2.1"),
        ("192.0.2.1:40001", "192.0.2.1"),
        # What listeners of both families show of an IPv4 peer.
        ("[::ffff:192.0.2.1]:40000", "192.0.2.1"),
        ("::ffff:192.0.2.1:40000", "192.0.2.1"),
        # gRPC writes IPv6 with brackets, HTTP without.
        ("[2001:db8:1:2::1]:40000", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1:40000", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2:ffff:ffff:ffff:ffff]:1", "2001:db8:1:2::/64"),
        ("[2001:db8:1:3::1]:40000", "2001:db8:1:3::/64"),
        ("[fe80::1%eth0]:40000", "fe80::/64"),
        # A Unix socket.
        ("", ""),
    ],
)
def test_network_of(peer: str, network: str) -> None:
    assert network_of(peer) == network
