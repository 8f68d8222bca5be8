"""Wherever the client takes several texts, one may be given as it is, and is not taken for its letters."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import pytest

from a2a_grpc.client import A2AClient, ClientCredentials, Configuration, CredentialsError, message
from a2a_grpc.client.credentials import BearerToken
from a2a_grpc.client.credentials.base import Surroundings
from a2a_grpc.client.registry import Registry
from a2a_grpc.client.verifying import CardVerifier
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.registry.v1 import registry_pb2
from tests.client.peers import HttpPeer, Request, answer_to, card, http_peer, response, task

SEND = a2a_pb2.SendMessageRequest(message=message("hello"))


@pytest.fixture
async def peer() -> AsyncIterator[HttpPeer]:
    """An agent, an authorization server, and a registry without agents."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target == "/token":
            answer = response(body=b'{"access_token": "t", "token_type": "Bearer"}')
        elif request.target.startswith("/v1/"):
            answer = answer_to(request, registry_pb2.SearchAgentsResponse())
        else:
            answer = answer_to(request, a2a_pb2.SendMessageResponse(task=task(a2a_pb2.TASK_STATE_COMPLETED)))
        writer.write(answer)

    async with http_peer(respond) as served:
        yield served


@pytest.mark.parametrize("configured", [False, True])
async def test_extensions(peer: HttpPeer, configured: bool) -> None:
    target = Configuration(url=peer.url, binding="HTTP+JSON", extensions="urn:x") if configured else None
    given = {} if configured else {"extensions": "urn:x"}
    agent = card(("HTTP+JSON", "1.0", peer.url))
    async with await A2AClient.connect(target or agent, **given) as client:  # type: ignore[arg-type]
        await client.send_message(SEND)
    assert [request.headers["a2a-extensions"] for request in peer.requests] == ["urn:x"]


async def test_origins_of_a_configuration() -> None:
    """The star in it is a part of it, and so allows no plain text."""
    there = Configuration(
        url="http://other.invalid", binding="HTTP+JSON", allow_origins="https://*", credentials=[BearerToken("t")]
    )
    with pytest.raises(CredentialsError, match=r"not sent to http://other\.invalid in plain text"):
        await A2AClient.connect(there)


async def test_scopes(peer: HttpPeer) -> None:
    credentials = ClientCredentials("machine", "s", scopes="admin", token_url=f"{peer.url}/token")
    await credentials.access(None, Surroundings(10.0, None, lambda _: True))
    assert parse_qs(peer.requests[0].body.decode())["scope"] == ["admin"]


async def test_capabilities(peer: HttpPeer) -> None:
    async with await Registry.connect(peer.url) as registry:
        assert [found async for found in registry.search(capabilities="push_notifications")] == []
    asked = parse_qs(urlsplit(peer.requests[0].target).query)
    assert asked["capabilities"] == ["CAPABILITY_PUSH_NOTIFICATIONS"]


async def test_addresses_of_keys() -> None:
    async with CardVerifier(jwks_urls="https://agent.invalid/jwks.json"):
        pass


def test_references() -> None:
    assert message("x", reference_task_ids="t-1").reference_task_ids == ["t-1"]
