"""Browsers as callers of the API."""

import pytest

from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.wire.errors import TaskNotFoundError
from tests.support.http_bindings import (
    TASK,
    ScriptedHandler,
    answering,
    emitting,
    raising,
    serving,
)

ORIGIN = {"origin": "https://ui.example"}


@pytest.mark.parametrize(
    ("path", "verbs"),
    [
        ("/message:send", "POST, OPTIONS"),
        ("/acme/tasks/t1:subscribe", "GET, HEAD, POST, OPTIONS"),
        ("/tasks", "GET, HEAD, OPTIONS"),
        ("/", "POST, OPTIONS"),
    ],
)
async def test_preflight(path: str, verbs: str) -> None:
    asked = "authorization,a2a-version,content-type,x-api-key"
    headers = {**ORIGIN, "access-control-request-method": "POST", "access-control-request-headers": asked}
    async with serving(ScriptedHandler()) as client:
        response = await client.options(path, headers=headers)

    assert (response.status_code, response.content) == (204, b"")
    assert response.headers["allow"] == response.headers["access-control-allow-methods"] == verbs
    assert response.headers["access-control-allow-origin"] == "*"
    # Which header carries the credentials is up to the card's security schemes.
    assert response.headers["access-control-allow-headers"] == asked
    assert response.headers["access-control-max-age"] == "600"


async def test_preflight_of_a_path_that_does_not_exist() -> None:
    async with serving(ScriptedHandler()) as client:
        response = await client.options("/nothing", headers=ORIGIN)

    assert response.status_code == 404


@pytest.mark.parametrize("asked", ["x\u00e9", "a" * 2000, "a;b"])
async def test_nonsense_is_not_echoed(asked: str) -> None:
    async with serving(ScriptedHandler()) as client:
        headers = [(b"origin", b"https://ui.example"), (b"access-control-request-headers", asked.encode("latin-1"))]
        response = await client.options("/message:send", headers=headers)

    assert "a2a-version" in response.headers["access-control-allow-headers"]
    assert asked not in response.headers["access-control-allow-headers"]


async def test_answers_errors_and_streams_can_be_read() -> None:
    stream = emitting()
    async with serving(ScriptedHandler(answering(TASK), stream)) as client:
        for path in ("/tasks/t1", "/tasks/t1:subscribe", "/nothing"):
            response = await client.get(path, headers=ORIGIN)
            assert response.headers["access-control-allow-origin"] == "*"
            exposed = response.headers["access-control-expose-headers"].split(", ")
            assert {"a2a-extensions", "last-event-id", "x-request-id", "retry-after"} <= set(exposed)
            assert "www-authenticate" in exposed
        assert "access-control-allow-origin" not in (await client.get("/tasks/t1")).headers
    async with serving(ScriptedHandler(raising(TaskNotFoundError("No.")))) as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t"}}
        assert (await client.post("/", json=body, headers=ORIGIN)).headers["access-control-allow-origin"] == "*"


async def test_only_the_origins_of_the_setting() -> None:
    async with serving(ScriptedHandler(answering(TASK)), cors=Cors(("https://ui.example",))) as client:
        allowed = await client.get("/tasks/t1", headers=ORIGIN)
        refused = await client.get("/tasks/t1", headers={"origin": "https://ui.example.evil"})
        preflight = await client.options("/tasks/t1", headers={"origin": "https://evil.example"})

    assert (allowed.headers["access-control-allow-origin"], allowed.headers["vary"]) == ("https://ui.example", "origin")
    assert "access-control-allow-origin" not in refused.headers
    assert "access-control-allow-origin" not in preflight.headers
