"""`/healthz` and `/readyz` (B103): restart me, and send me work, are two questions."""

import time

import pytest

from a2a_grpc.server.core.readiness import Readiness
from tests.support.http_bindings import ScriptedHandler, serving


async def test_live_does_not_depend_on_ready() -> None:
    readiness = Readiness()
    readiness.set("store", False, "no answer")
    async with serving(ScriptedHandler(), readiness=readiness) as client:
        live = await client.get("/healthz")
        ready = await client.get("/readyz")

    assert (live.status_code, live.json()) == (200, {"status": "ok"})
    assert ready.status_code == 503
    assert ready.json() == {"status": "not ready", "components": {"store": "no answer"}}


async def test_ready_follows_the_components() -> None:
    readiness = Readiness()
    async with serving(ScriptedHandler(), readiness=readiness) as client:
        assert (await client.get("/readyz")).status_code == 503  # nobody has said yet what is needed
        readiness.set("store", True)
        readiness.set("engine", True)
        response = await client.get("/readyz")
        assert (response.status_code, response.json()["components"]) == (200, {"store": "ok", "engine": "ok"})
        readiness.set("engine", False, "draining")
        assert (await client.get("/readyz")).status_code == 503


@pytest.mark.parametrize("query", ["verbose", "verbose=true", "probe=1&verbose="])
async def test_verbose_tells_of_each_component_since_when_and_why(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_800_000_000.0  # 2027-01-15T08:00:00Z
    monkeypatch.setattr(time, "time", lambda: now)
    readiness = Readiness()
    readiness.set("store", True)
    readiness.set("events", True)
    now += 1.5
    readiness.set("store", True)
    readiness.set("events", False, "not followed")
    async with serving(ScriptedHandler(), readiness=readiness) as client:
        response = await client.get(f"/readyz?{query}")
    monkeypatch.undo()
    assert response.status_code == 503
    assert response.json() == {
        "status": "not ready",
        "since": "2027-01-15T08:00:01.500Z",
        "components": {
            "store": {"status": "ready", "since": "2027-01-15T08:00:00.000Z", "checked": "2027-01-15T08:00:01.500Z"},
            "events": {
                "status": "not ready",
                "since": "2027-01-15T08:00:01.500Z",
                "checked": "2027-01-15T08:00:01.500Z",
                "reason": "not followed",
            },
        },
    }


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_head_and_caching(path: str) -> None:
    async with serving(ScriptedHandler()) as client:
        got, head = await client.get(path), await client.head(path)
        wrong = await client.post(path)

    assert head.status_code == got.status_code and head.content == b""
    assert head.headers["content-length"] == got.headers["content-length"]
    assert got.headers["cache-control"] == "no-store"
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD")
