"""Where the card says that the agent is reached (8.3.1, B093)."""

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.card.interfaces import with_interfaces
from tests.support.http_bindings import card


def interfaces(of: a2a_pb2.AgentCard) -> list[tuple[str, str, str, str]]:
    return [(i.protocol_binding, i.url, i.protocol_version, i.tenant) for i in of.supported_interfaces]


def test_every_served_binding_is_declared_in_order_of_preference() -> None:
    """5.2: all of them; 8.3.1: the preferred one first. What the author's file said about it is replaced."""
    completed = with_interfaces(card(), "agent.example.org:443", "https://agent.example.org/a2a")

    assert interfaces(completed) == [
        ("GRPC", "agent.example.org:443", "1.0", ""),
        ("HTTP+JSON", "https://agent.example.org/a2a", "1.0", ""),
        ("JSONRPC", "https://agent.example.org/a2a/", "1.0", ""),
    ]
    assert card().supported_interfaces[0].url == "agent.example.com:443"  # the card given is left alone


def test_a_slash_at_the_end_is_not_doubled() -> None:
    completed = with_interfaces(card(), "", "http://127.0.0.1:8080/")

    assert interfaces(completed) == [
        ("HTTP+JSON", "http://127.0.0.1:8080", "1.0", ""),
        ("JSONRPC", "http://127.0.0.1:8080/", "1.0", ""),
    ]


def test_the_tenant_stands_in_every_interface() -> None:
    """8.3.2: callers send exactly what the interface they chose declares."""
    completed = with_interfaces(card(), "a.example:443", "https://a.example", tenant="acme")

    assert interfaces(completed) == [
        ("GRPC", "a.example:443", "1.0", "acme"),
        ("HTTP+JSON", "https://a.example", "1.0", "acme"),
        ("JSONRPC", "https://a.example/acme/", "1.0", "acme"),
    ]


def test_without_http_only_grpc_is_declared() -> None:
    assert interfaces(with_interfaces(card(), "[2001:db8::1]:50051", "")) == [
        ("GRPC", "[2001:db8::1]:50051", "1.0", "")
    ]


@pytest.mark.parametrize("address", ["agent.example", "https://agent.example:443", "agent:grpc", "a b:1", ":50051"])
def test_a_grpc_address_is_host_and_port(address: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        with_interfaces(card(), address, "")


@pytest.mark.parametrize(
    "url",
    [
        "agent.example",
        "ftp://agent.example",
        "https://",
        "https://a.example/?q=1",
        "https://a.example/#x",
        "https://user:secret@a.example",
        "https://a.example:port",
        "https://a.example/ x",
    ],
)
def test_an_http_address_is_an_absolute_url(url: str) -> None:
    with pytest.raises(ValueError, match=r"https://agent\.example\.com/path"):
        with_interfaces(card(), "", url)
