"""How long a card is kept, and how it is asked for again: specification 8.6.2, RFC 9111."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from a2a_grpc.client import CardError, CardResolver
from a2a_grpc.wire import protojson
from tests.client.peers import HttpPeer, Request, card, http_peer, response


@dataclass
class Origin:
    """A server whose card has these caching headers, and which knows its ETag and date."""

    headers: dict[str, str] = field(default_factory=dict)
    name: str = "first"


@pytest.fixture
async def origin() -> Origin:
    return Origin()


@pytest.fixture
async def peer(origin: Origin) -> AsyncIterator[HttpPeer]:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        tag, date = origin.headers.get("etag"), origin.headers.get("last-modified")
        if (tag and request.headers.get("if-none-match") == tag) or (
            date and request.headers.get("if-modified-since") == date
        ):
            writer.write(response(304, headers=origin.headers))
            return
        current = card(("GRPC", "1.0", "agent.example:443"))
        current.name = origin.name
        writer.write(response(body=protojson.dumps(current), media_type="application/json", headers=origin.headers))

    async with http_peer(respond) as peer:
        yield peer


async def names(resolver: CardResolver, url: str, times: int) -> list[str]:
    return [(await resolver.resolve(url)).name for _ in range(times)]


async def test_a_fresh_card_is_not_asked_for_again(origin: Origin, peer: HttpPeer) -> None:
    origin.headers = {"cache-control": "public, max-age=60", "etag": '"1"'}

    async with CardResolver() as resolver:
        assert await names(resolver, peer.url, 3) == ["first"] * 3
        assert await names(resolver, f"{peer.url}/.well-known/agent-card.json", 1) == ["first"]

    assert len(peer.requests) == 1


async def test_what_a_caller_does_to_a_card_stays_with_the_caller(origin: Origin, peer: HttpPeer) -> None:
    origin.headers = {"cache-control": "max-age=60"}

    async with CardResolver() as resolver:
        (await resolver.resolve(peer.url)).name = "changed"
        assert await names(resolver, peer.url, 1) == ["first"]


@pytest.mark.parametrize(
    ("headers", "condition"),
    [
        ({"cache-control": "max-age=0", "etag": '"1"'}, ("if-none-match", '"1"')),
        ({"cache-control": "max-age=60, no-cache", "etag": 'W/"1"'}, ("if-none-match", 'W/"1"')),
        ({"cache-control": "max-age=60", "age": "60", "etag": '"1"'}, ("if-none-match", '"1"')),
        ({"etag": '"1"'}, ("if-none-match", '"1"')),
        (
            {"last-modified": "Mon, 30 Nov 2026 07:00:00 GMT"},
            ("if-modified-since", "Mon, 30 Nov 2026 07:00:00 GMT"),
        ),
    ],
)
async def test_a_card_that_is_not_fresh_is_asked_for_with_its_validator(
    origin: Origin, peer: HttpPeer, headers: dict[str, str], condition: tuple[str, str]
) -> None:
    origin.headers = headers
    name, value = condition

    async with CardResolver() as resolver:
        assert await names(resolver, peer.url, 2) == ["first", "first"]
        assert name not in peer.requests[0].headers
        assert peer.requests[1].headers[name] == value

        origin.headers = {key: value.replace("1", "2").replace("07:", "08:") for key, value in headers.items()}
        origin.name = "second"
        assert await names(resolver, peer.url, 1) == ["second"]


async def test_of_very_many_cards_those_that_were_fetched_longest_ago_are_forgotten(
    origin: Origin, peer: HttpPeer
) -> None:
    origin.headers = {"cache-control": "max-age=60"}

    async with CardResolver() as resolver:
        for number in range(257):
            await resolver.resolve(f"{peer.url}/agents/{number}")
        asked = len(peer.requests)
        await names(resolver, f"{peer.url}/agents/1", 1)
        assert len(peer.requests) == asked
        await names(resolver, f"{peer.url}/agents/0", 1)
        assert len(peer.requests) == asked + 1


async def test_a_304_makes_a_card_fresh_again(origin: Origin, peer: HttpPeer) -> None:
    origin.headers = {"cache-control": "max-age=0", "etag": '"1"'}

    async with CardResolver() as resolver:
        await resolver.resolve(peer.url)
        origin.headers["cache-control"] = "max-age=60"
        assert await names(resolver, peer.url, 3) == ["first"] * 3

    assert len(peer.requests) == 2


async def test_a_card_that_must_not_be_stored_is_fetched_whole_each_time(origin: Origin, peer: HttpPeer) -> None:
    origin.headers = {"cache-control": "no-store", "etag": '"1"'}

    async with CardResolver() as resolver:
        await names(resolver, peer.url, 2)

    assert [request.headers.get("if-none-match") for request in peer.requests] == [None, None]


async def test_a_304_that_nobody_asked_for_is_no_card() -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(304))

    async with http_peer(respond) as peer, CardResolver() as resolver:
        with pytest.raises(CardError, match="HTTP status 304"):
            await resolver.resolve(peer.url)


async def test_headers_go_with_the_request(peer: HttpPeer) -> None:
    async with CardResolver(headers={"authorization": "Bearer x"}) as resolver:
        await resolver.resolve(peer.url)

    assert peer.requests[0].headers["authorization"] == "Bearer x"
