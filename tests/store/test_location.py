"""A2A_REDIS_URL, taken apart."""

import pytest

from a2a_grpc.server.store.errors import StoreMisconfiguredError
from a2a_grpc.server.store.location import Endpoint, Kind, Location
from a2a_grpc.server.store.opening import open_nodes
from a2a_grpc.server.store.topology import SLOTS, Claim, slot_of, view_of


@pytest.mark.parametrize("url", ["redis://h:1/2", "rediss://u:p@h?db=1", "unix:///run/s"])
def test_the_address_of_one_server_is_left_as_it_is(url: str) -> None:
    assert Location.parse(url) == Location(Kind.SERVER, url)


def test_sentinels_and_the_servers_they_name_have_credentials_of_their_own() -> None:
    location = Location.parse(
        "redis+sentinel://me:p%40ss@one,[::1]:5/tasks/3?sentinel_username=s&sentinel_password=%2Fx%3A&client_name=c"
    )
    assert location.kind is Kind.SENTINEL
    assert location.endpoints == (Endpoint("one", 26379), Endpoint("::1", 5))
    assert location.master == "tasks"
    assert location.server_url(Endpoint("10.0.0.1", 7)) == "redis://me:p%40ss@10.0.0.1:7/3?client_name=c"
    assert location.sentinel_url(location.endpoints[1]) == "redis://s:%2Fx%3A@[::1]:5"


def test_tls_is_for_sentinels_and_servers_alike() -> None:
    location = Location.parse("rediss+sentinel://one/tasks?ssl_ca_certs=/ca.pem&password=p")
    assert location.server_url(Endpoint("h", 7)) == "rediss://h:7?ssl_ca_certs=%2Fca.pem&password=p"
    assert location.sentinel_url(Endpoint("one", 26379)) == "rediss://one:26379?ssl_ca_certs=%2Fca.pem"


def test_all_nodes_of_a_cluster_have_the_same_credentials() -> None:
    location = Location.parse("rediss+cluster://:secret@a:1,b/?ssl_ca_certs=/ca.pem")
    assert location.endpoints == (Endpoint("a", 1), Endpoint("b", 6379))
    assert location.server_url(Endpoint("c", 2)) == "rediss://:secret@c:2?ssl_ca_certs=%2Fca.pem"


@pytest.mark.parametrize(
    "url", ["redis+sentinel://a/m?socket_timeout=1", "redis+cluster://a?retry=1", "redis://a?sentinel_password=x"]
)
def test_options_of_other_kinds_are_refused(url: str) -> None:
    with pytest.raises(StoreMisconfiguredError, match=r"has the option (socket_timeout|retry|sentinel_password),"):
        open_nodes(url, timeout=1.0)


def test_keys_of_one_shard_are_in_one_slot() -> None:
    assert slot_of("123456789") == 0x31C3  # the example of the cluster's specification
    assert slot_of("a2a:{1f}:task:x") == slot_of("a2a:{1f}:ready") == slot_of("1f") < SLOTS


def test_a_node_tells_who_holds_what() -> None:
    asked = Endpoint("asked", 7000)
    text = (
        "a1 :7000@17000 myself,master - 0 0 1 connected 0-5460 5462 [5461->-b2]\n"
        "b2 10.0.0.2:7001@17001,node-b,shard-id=5 master - 0 0 7 connected 5461 5463-10922\n"
        "c3 10.0.0.3:7002@17002 master,fail - 0 0 3 disconnected 10923-16383\n"
        "d4 10.0.0.4:7003@17003 slave b2 0 0 7 connected\n"
        "e5 10.0.0.5:7004@17004 slave,fail? b2 0 0 7 connected\n"
        "f6 :0@0 slave,noaddr c3 0 0 3 disconnected\n"
        "g7 10.0.0.7:7006@17006 handshake - 0 0 0 connected\n"
    )
    view = view_of(text, asked)
    assert view.claims == (
        Claim(asked, 1, ((0, 5460), (5462, 5462))),
        Claim(Endpoint("node-b", 7001), 7, ((5461, 5461), (5463, 10922))),
        Claim(Endpoint("10.0.0.3", 7002), 3, ((10923, 16383),)),
    )
    assert view.nodes == (
        asked,
        Endpoint("node-b", 7001),
        Endpoint("10.0.0.4", 7003),
        Endpoint("10.0.0.5", 7004),
    )
