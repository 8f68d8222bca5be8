"""Which URL of an agent is which, and where its card and its first interface are."""

import pytest

from a2a_grpc.server.push.allowed import parse_allowed
from a2a_grpc.server.push.destinations import Destinations, RefusedDestinationError
from a2a_grpc.server.registry.addresses import address_of, card_target, parse_address
from tests.registry.processes import card


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://Agent.Example.COM", "https://agent.example.com"),
        ("HTTPS://agent.example.com:443/", "https://agent.example.com"),
        ("https://agent.example.com/a/?x=1", "https://agent.example.com/a/?x=1"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[2001:db8::1]:80/x", "http://[2001:db8::1]/x"),
        ("grpc://Agent.example.com", "grpc://agent.example.com:80"),
        ("GRPCS://agent.example.com", "grpcs://agent.example.com:443"),
        ("grpc://[::1]:50051/", "grpc://[::1]:50051"),
    ],
)
def test_one_spelling_for_one_agent(text: str, url: str) -> None:
    address = parse_address(text)

    assert address.url == url
    assert address.grpc == url.startswith("grpc")
    assert parse_address(url) == address


@pytest.mark.parametrize(
    "text",
    [
        "", "agent.example.com:50051", "ftp://agent.example.com", "https://", "grpc://", "https://a b", "https://a#b",
        "https://user@agent.example.com", "grpc://user@agent.example.com:1", "https://agent.example.com.",
        "https://0x7f.1", "https://[::ffff:127.0.0.1]", "grpc://agent.example.com:50051/x", "grpc://agent:0",
        "https://agent.example.com:65536", "https://agent\\@example.com", "https://" + "x" * 2048,
    ],
)  # fmt: skip
def test_what_readers_could_understand_differently_is_no_address(text: str) -> None:
    with pytest.raises(RefusedDestinationError):
        parse_address(text)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("https://agent.example.com", False),
        ("grpcs://agent.example.com:50051", False),
        ("http://agent.example.com", True),
        ("grpc://agent.example.com:50051", True),
        ("https://10.0.0.1", True),
        ("grpcs://10.1.0.1:443", False),
        ("https://127.0.0.1", True),
        ("https://localhost", True),
        ("grpcs://[::1]:443", True),
    ],
)
def test_where_the_registry_would_connect(text: str, refused: bool) -> None:
    destinations = Destinations(allowed=parse_allowed("10.1.0.0/16"))

    assert bool(parse_address(text).refusal(destinations)) is refused


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("https://a.example.com", "/.well-known/agent-card.json"),
        ("https://a.example.com/b/", "/b/.well-known/agent-card.json"),
        ("https://a.example.com/b?c=d", "/b/.well-known/agent-card.json?c=d"),
        ("https://a.example.com/card.json?v=1", "/card.json?v=1"),
        ("https://a.example.com/.well-known/agent.json", "/.well-known/agent.json"),
    ],
)
def test_where_the_card_is(text: str, target: str) -> None:
    assert card_target(parse_address(text).destination) == target


@pytest.mark.parametrize(
    ("binding", "interface", "url"),
    [
        ("GRPC", "agent.example.com:50051", "grpc://agent.example.com:50051"),
        ("GRPC", "agent.example.com:443", "grpcs://agent.example.com:443"),
        ("grpc", "https://agent.example.com/x", "grpcs://agent.example.com:443"),
        ("GRPC", "grpc://agent.example.com:1", "grpc://agent.example.com:1"),
        ("HTTP+JSON", "https://agent.example.com/v1", "https://agent.example.com/v1"),
        ("JSONRPC", "https://agent.example.com/", "https://agent.example.com"),
    ],
)
def test_the_first_interface_says_where_the_agent_is(binding: str, interface: str, url: str) -> None:
    one = card(supportedInterfaces=[{"url": interface, "protocolBinding": binding, "protocolVersion": "1.0"}])

    assert address_of(one).url == url
