"""The agent card over HTTP: where it is, and how it is cached (8.2, 8.6)."""

import asyncio
import json

import httpx
import pytest

from a2a_grpc.server.bindings.asgi.card import CardEndpoint
from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.card.interfaces import with_interfaces
from a2a_grpc.server.card.published import PublishedCard, Request, publish
from a2a_grpc.wire.errors import UnavailableError
from tests.support.http_bindings import (
    CARD_DATE,
    ScriptedHandler,
    card,
    compose,
    connected,
    http_request,
    listening,
    published,
    serving,
)

PATH = "/.well-known/agent-card.json"
ETAG = published().etag


@pytest.mark.parametrize("path", [PATH, "/.well-known/agent.json"])
async def test_the_card_and_its_headers(path: str) -> None:
    async with serving(ScriptedHandler()) as client:
        response = await client.get(path)

    assert response.status_code == 200
    assert response.content == published().body
    # 14.1.1: application/a2a+json is for the messages of the HTTP+JSON binding; this is the document of 14.3.
    assert response.headers["content-type"] == "application/json"
    assert response.headers["etag"] == ETAG
    assert response.headers["last-modified"] == "Mon, 30 Nov 2026 12:00:00 GMT"
    assert set(response.headers["cache-control"].split(", ")) == {"public", "max-age=300"}
    assert response.headers["access-control-allow-origin"] == "*"


FRESH = [
    {"if-none-match": ETAG},
    {"if-none-match": f"W/{ETAG}"},
    {"if-none-match": f'"a", {ETAG},"b"'},
    {"if-none-match": f'"a, {ETAG[1:-1]}", W/{ETAG}'},
    {"if-none-match": "*"},
    {"if-none-match": ETAG, "if-modified-since": "Mon, 30 Nov 2020 12:00:00 GMT"},
    {"if-modified-since": "Mon, 30 Nov 2026 12:00:00 GMT"},
    {"if-modified-since": "Mon, 30 Nov 2026 14:00:00 +0200"},
    {"if-modified-since": "Tue, 01 Dec 2026 00:00:00 GMT"},
]
STALE = [
    {},
    {"if-none-match": '"a", "b"'},
    {"if-none-match": ETAG.strip('"')},
    {"if-none-match": ""},
    {"if-none-match": '"*"'},
    {"if-none-match": f'"a {ETAG}'},
    # Where If-None-Match is present, the date is not looked at (RFC 9110 section 13.2.2).
    {"if-none-match": '"a"', "if-modified-since": "Tue, 01 Dec 2026 00:00:00 GMT"},
    {"if-none-match": "", "if-modified-since": "Tue, 01 Dec 2026 00:00:00 GMT"},
    {"if-modified-since": "Mon, 30 Nov 2026 11:59:59 GMT"},
    {"if-modified-since": "yesterday"},
    {"if-modified-since": ""},
]


@pytest.mark.parametrize("verb", ["GET", "HEAD"])
async def test_a_copy_that_is_still_good(verb: str) -> None:
    """B095: the tag, weak, in a list, or *; the date. 304 without a body, with what a cache needs to go on."""
    async with serving(ScriptedHandler()) as client:
        for headers in FRESH:
            response = await client.request(verb, PATH, headers=headers)
            assert (response.status_code, response.content) == (304, b""), headers
            assert response.headers["etag"] == ETAG
            assert "max-age=300" in response.headers["cache-control"]
            assert "content-type" not in response.headers and "transfer-encoding" not in response.headers


async def test_a_copy_that_is_not() -> None:
    async with serving(ScriptedHandler()) as client:
        for headers in STALE:
            response = await client.get(PATH, headers=headers)
            assert (response.status_code, response.content) == (200, published().body), headers


async def test_head_has_the_headers_of_get_and_no_body() -> None:
    async with listening(compose(ScriptedHandler())) as (_, port), connected(port) as raw:
        await raw.send(http_request("HEAD", PATH) + http_request("GET", PATH))
        code, head = await raw.head()
        _, got, _ = await raw.response()

    assert code == 200
    assert {k: v for k, v in head.items() if k != "date"} == {k: v for k, v in got.items() if k != "date"}


async def test_a_304_leaves_the_connection_usable() -> None:
    async with listening(compose(ScriptedHandler())) as (_, port), connected(port) as raw:
        await raw.send(http_request("GET", PATH, if_none_match="*") + http_request("GET", "/healthz"))
        assert (await raw.head())[0] == 304
        assert (await raw.response())[2] == b'{"status":"ok"}'


@pytest.mark.parametrize("verb", ["POST", "PUT", "DELETE"])
async def test_a_card_can_only_be_read(verb: str) -> None:
    async with serving(ScriptedHandler()) as client:
        response = await client.request(verb, PATH)

    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert response.json()["error"]["details"][0]["reason"] == "METHOD_NOT_ALLOWED"


async def test_each_tenant_has_its_own_card() -> None:
    """B091: 100 requests at once, each gets its own; nobody gets the general one for a tenant that has none."""
    cards = {
        name: publish(with_interfaces(card(), "", "https://x.example", name), CARD_DATE) for name in ("", "a b", "ü")
    }
    async with serving(ScriptedHandler(), cards=cards) as client:
        paths = {"": PATH, "a b": f"/a%20b{PATH}", "ü": f"/%C3%BC{PATH}"}
        names = list(paths) * 34
        headers = [{"x-forwarded-prefix": f"/p{number}", "host": f"h{number}.example"} for number in range(len(names))]
        answers = await asyncio.gather(
            *(client.get(paths[name], headers=header) for name, header in zip(names, headers, strict=True))
        )
        for name, answer in zip(names, answers, strict=True):
            assert answer.content == cards[name].body
        assert json.loads(cards["a b"].body)["supportedInterfaces"][0]["tenant"] == "a b"


@pytest.mark.parametrize("name", ["nobody", "%0d%0aset-cookie:x=1", "x" * 5000])
async def test_a_tenant_without_a_card(name: str) -> None:
    async with serving(ScriptedHandler()) as client:
        response = await client.get(f"/{name}{PATH}")

    assert response.status_code == 404 and len(response.content) < 1000
    assert response.json()["error"]["details"][0]["reason"] == "NOT_FOUND"
    assert "tenant" in response.json()["error"]["message"]
    assert response.headers["cache-control"] == "no-store" and "set-cookie" not in response.headers


async def test_a_server_without_a_card() -> None:
    async with serving(ScriptedHandler(), cards={}) as client:
        response = await client.get(PATH)

    assert response.status_code == 404
    assert response.json()["error"]["message"] == "No agent card is published here."


async def test_a_source_that_does_not_answer() -> None:
    """A gateway whose upstream is away has no card at the moment, which is not the same as none."""

    class Away:
        async def public_card(self, _tenant: str, _request: Request) -> PublishedCard | None:
            raise UnavailableError("The agent's server does not answer.", retry_after=2.0)

    async with (
        listening(CardEndpoint(Away())) as (_, port),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        response = await client.get(PATH)

    assert (response.status_code, response.headers["retry-after"]) == (503, "2")


async def test_nothing_of_the_request_gets_into_the_card() -> None:
    """B093: the bytes are the same whatever Host and X-Forwarded-* say, so caches cannot be poisoned."""
    async with serving(ScriptedHandler()) as client:
        spoofed = {"host": "evil.example", "x-forwarded-host": "evil.example", "x-forwarded-proto": "http"}
        response = await client.get(PATH, headers={**spoofed, "forwarded": "host=evil.example"})

    assert response.content == published().body and b"evil" not in response.content


async def test_preflight_and_origins() -> None:
    asked = {"origin": "https://ui.example", "access-control-request-method": "GET"}
    async with serving(ScriptedHandler()) as client:
        preflight = await client.options(
            PATH, headers={**asked, "access-control-request-headers": "x-own, a2a-version"}
        )
        assert (preflight.status_code, preflight.content) == (204, b"")
        assert preflight.headers["access-control-allow-origin"] == "*"
        assert preflight.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
        assert preflight.headers["access-control-allow-headers"] == "x-own, a2a-version"
        assert "etag" in (await client.get(PATH, headers=asked)).headers["access-control-expose-headers"]


async def test_a_cached_card_fits_every_origin_it_is_served_to() -> None:
    """With a list of origins the answers differ, and say so to caches, also those that carry no permission."""
    async with serving(ScriptedHandler(), cors=Cors(("https://ui.example", "https://b.example"))) as client:
        allowed = await client.get(PATH, headers={"origin": "https://ui.example"})
        other = await client.get(PATH, headers={"origin": "https://evil.example"})
        plain = await client.get(PATH)
        revalidated = await client.get(PATH, headers={"origin": "https://ui.example", "if-none-match": "*"})

    assert allowed.headers["access-control-allow-origin"] == "https://ui.example"
    assert revalidated.headers["access-control-allow-origin"] == "https://ui.example"
    assert "access-control-allow-origin" not in other.headers and "access-control-allow-origin" not in plain.headers
    assert {response.headers["vary"] for response in (allowed, other, plain, revalidated)} == {"origin"}


async def test_without_cors() -> None:
    async with serving(ScriptedHandler(), cors=Cors(())) as client:
        response = await client.get(PATH, headers={"origin": "https://ui.example"})

    assert not [name for name in response.headers if name.startswith("access-control")]
