"""What a search finds. Expected values are worked out by hand from the five cards below."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from a2a_grpc.client import InvalidArgumentError, Registry, RouteNotFoundError, UnauthenticatedError
from a2a_grpc.pb import a2a_pb2
from tests.registry.processes import Registries, card, connected, headers_of, registries

# In the order in which they are registered; a search gives the last one first.
CARDS: Mapping[str, a2a_pb2.AgentCard] = {
    "weather": card(
        "Weather",
        description="Knows tomorrow.",
        provider={"organization": "Straße & Söhne", "url": "https://example.com"},
        capabilities={"streaming": True},
        supportedInterfaces=[
            {"url": "weather.example.com:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": "https://weather.example.com", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
        ],
        defaultOutputModes=["text/plain", "image/png"],
        skills=[
            {"id": "forecast", "name": "Forecast", "description": "Rain or shine.", "tags": ["Meteo", "daily"]},
            {
                "id": "radar",
                "name": "Radar",
                "description": "A picture.",
                "tags": ["meteo"],
                "outputModes": ["video/mp4"],
            },
        ],
    ),
    "maps": card(
        "Maps",
        description="Finds a way in any weather.",
        provider={"organization": "Example", "url": "https://example.com"},
        capabilities={"streaming": True, "pushNotifications": True},
        defaultInputModes=["application/geo+json"],
        skills=[{"id": "route", "name": "Route", "description": "From here to there.", "tags": ["travel"]}],
    ),
    "post": card(
        "Post",
        description="Sends letters.",
        provider={"organization": "EXAMPLE", "url": "https://example.com"},
        capabilities={"extendedAgentCard": True},
        defaultInputModes=["text/*"],
        skills=[{"id": "send", "name": "Send", "description": "A letter.", "tags": ["daily"]}],
    ),
    "echo": card("Echo", description="Says it again.", defaultInputModes=["*/*"], skills=[]),
    "secret": card("Secret weather", description="For members."),
}
PUBLIC = {"weather", "maps", "post", "echo"}


@pytest.fixture(scope="module")
def pair() -> Iterator[Registries]:
    with registries(
        A2A_REGISTRY_MAX_PER_OWNER="1000", A2A_REGISTRY_LEASE_TTL="600", A2A_REGISTRY_CHECK_INTERVAL="0"
    ) as pair:
        asyncio.run(fill(pair))
        yield pair


async def fill(pair: Registries) -> None:
    async with connected(pair.urls[0], "alice") as alice, connected(pair.urls[1], "bob") as bob:
        for name, one in CARDS.items():
            owner = bob if name == "echo" else alice
            await owner.register(one, url=f"https://{name}.example.com", public=name in PUBLIC)


async def names(registry: Registry, *text: str, **filters: Any) -> list[str]:
    """What is found, by the names above."""
    known = {one.name: name for name, one in CARDS.items()}
    return [known[agent.card.name] async for agent in registry.search(*text, **filters)]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["secret", "echo", "post", "maps", "weather"]),
        ({"text": "weather"}, ["secret", "maps", "weather"]),
        ({"text": "  WEATHER   way "}, ["maps"]),
        ({"text": "meteo"}, ["weather"]),
        ({"text": "forecast"}, ["weather"]),
        ({"text": "shine."}, ["weather"]),
        ({"text": "STRASSE"}, ["weather"]),
        ({"text": "example"}, ["post", "maps"]),
        ({"text": "nowhere"}, []),
        ({"text": "weatherknows"}, []),
        ({"skill": "route"}, ["maps"]),
        ({"skill": "ROUTE"}, []),
        ({"tag": "daily"}, ["post", "weather"]),
        ({"tag": "METEO"}, ["weather"]),
        ({"tag": "met"}, []),
        ({"provider": "example"}, ["post", "maps"]),
        ({"provider": "straße & söhne"}, ["weather"]),
        ({"provider": "exam"}, []),
        ({"capabilities": ["streaming"]}, ["maps", "weather"]),
        ({"capabilities": ["streaming", "push_notifications"]}, ["maps"]),
        ({"capabilities": ["extended_agent_card"]}, ["post"]),
        ({"binding": "grpc"}, ["weather"]),
        ({"binding": "HTTP+JSON"}, ["secret", "echo", "post", "maps", "weather"]),
        ({"binding": "JSONRPC"}, []),
        ({"input_mode": "text/plain"}, ["secret", "echo", "post", "weather"]),
        ({"input_mode": "text/html"}, ["echo", "post"]),
        ({"input_mode": "application/GEO+json"}, ["echo", "maps"]),
        ({"output_mode": "video/mp4"}, ["weather"]),
        ({"output_mode": "image/png"}, ["weather"]),
        ({"output_mode": "image/jpeg"}, []),
        ({"health": "unknown", "signature": "unsigned", "tag": "travel"}, ["maps"]),
        ({"health": "healthy"}, []),
        ({"signature": "verified"}, []),
        ({"mine": True}, ["secret", "post", "maps", "weather"]),
        ({"mine": True, "text": "weather", "capabilities": ["streaming"]}, ["maps", "weather"]),
    ],
)
async def test_everything_that_is_asked_for_is_met(pair: Registries, filters: dict[str, Any], found: list[str]) -> None:
    for url in pair.urls:
        async with connected(url, "alice") as alice:
            assert await names(alice, **filters) == found


async def test_a_stranger_finds_by_what_it_is_shown(pair: Registries) -> None:
    async with connected(pair.urls[0]) as over_http, connected(pair.urls[1]) as over_grpc:
        for stranger in (over_http, over_grpc):
            assert await names(stranger) == ["echo", "post", "maps", "weather"]
            assert await names(stranger, "weather") == ["maps", "weather"]
            assert await names(stranger, "example") == [], "the provider is not shown"
            assert await names(stranger, tag="daily", capabilities=["streaming"]) == ["weather"]
            assert await names(stranger, output_mode="video/mp4") == ["weather"]
            for filters in ({"provider": "Example"}, {"mine": True}):
                with pytest.raises(UnauthenticatedError):
                    await names(stranger, **filters)


async def test_pages_hold_every_agent_once_whoever_answers_and_whatever_comes_meanwhile(pair: Registries) -> None:
    async with (
        httpx.AsyncClient(base_url=pair.replicas[0].http_url, trust_env=False) as one,
        httpx.AsyncClient(base_url=pair.replicas[1].http_url, trust_env=False) as other,
        connected(pair.urls[0], "carol") as carol,
    ):
        seen: list[str] = []
        newcomers: list[str] = []
        token = ""
        for client in (one, other, one, other):
            page = (
                await client.get("/v1/agents", params={"pageSize": 2, "pageToken": token}, headers=headers_of("alice"))
            ).json()
            assert len(page["agents"]) <= 2
            seen += [agent["card"]["name"] for agent in page["agents"]]
            newcomers.append((await carol.register(card("New"), url=f"https://new{len(seen)}.example.com")).id)
            token = page.get("nextPageToken", "")
            if not token:
                break
        for newcomer in newcomers:
            await carol.withdraw(newcomer)

        assert seen == ["Secret weather", "Echo", "Post", "Maps", "Weather"]


@pytest.mark.parametrize(
    "other",
    [
        {"headers": headers_of("bob")},
        {"headers": {}},
        {"params": {"text": "weather"}},
        {"params": {"pageToken": "bm90IGEgdG9rZW4"}},
        {"params": {"pageToken": "%%%"}},
    ],
    ids=["another caller", "a stranger", "other filters", "made up", "no base64"],
)
async def test_a_page_token_of_another_search_is_refused(pair: Registries, other: dict[str, Any]) -> None:
    async with httpx.AsyncClient(base_url=pair.urls[0], trust_env=False) as client:
        first = await client.get("/v1/agents", params={"pageSize": 1}, headers=headers_of("alice"))
        token = first.json()["nextPageToken"]
        params = {"pageSize": 1, "pageToken": token} | other.get("params", {})
        answer = await client.get("/v1/agents", params=params, headers=other.get("headers", headers_of("alice")))

        assert answer.status_code == 400, answer.text
        assert "pageToken" in answer.text
        fine = await client.get("/v1/agents", params={"pageSize": 5, "pageToken": token}, headers=headers_of("alice"))
        assert len(fine.json()["agents"]) == 4, "another size is another page of the same search"


@pytest.mark.parametrize(
    "query",
    [
        {"pageSize": "101"},
        {"pageSize": "-1"},
        {"capabilities": "CAPABILITY_FLYING"},
        {"capabilities": "99"},
        {"text": "x" * 257},
        {"health": "fine"},
    ],
)
async def test_queries_that_make_no_sense(pair: Registries, query: dict[str, str]) -> None:
    async with httpx.AsyncClient(base_url=pair.urls[0], trust_env=False) as client:
        answer = await client.get("/v1/agents", params=query)

    assert answer.status_code == 400, answer.text
    assert next(iter(query)) in answer.text


@pytest.mark.wide
async def test_few_agents_among_many_are_all_found(pair: Registries) -> None:
    """More than are read at once, most of which are not wanted."""
    async with connected(pair.urls[0], "carol") as carol, connected(pair.urls[1], "carol") as other:
        made = []
        for begin in range(0, 260, 10):
            made += await asyncio.gather(
                *(
                    carol.register(card("Needle" if at % 50 == 0 else "Hay"), url=f"https://{at}.example.com", ttl=30)
                    for at in range(begin, begin + 10)
                )
            )
        needles = {agent.id for agent in made if agent.card.name == "Needle"}

        found = [agent.id async for agent in other.search("needle")]
        assert len(needles) == 6
        assert sorted(found) == sorted(needles)
        assert len([agent async for agent in other.search(mine=True)]) == 260
        assert await names(other, "weather") == ["secret", "maps", "weather"]
        for agent in made:
            await carol.withdraw(agent.id)


async def test_the_first_of_those_that_are_found(pair: Registries) -> None:
    for url in pair.urls:
        async with connected(url, "alice") as alice:
            assert (await alice.find("weather", capabilities=["streaming"])).card == CARDS["maps"]
            with pytest.raises(RouteNotFoundError):
                await alice.find(skill="fly")


async def test_words_are_checked_by_the_client(pair: Registries) -> None:
    async with connected(pair.urls[1]) as registry:
        with pytest.raises(InvalidArgumentError, match="flying"):
            await names(registry, capabilities=["flying"])
