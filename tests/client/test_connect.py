"""From an address to an interface: B117 of the field reports, specification 8.2 and 8.3.2."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest

from a2a_grpc.client import (
    A2AClient,
    CardError,
    CardNotFoundError,
    InvalidArgumentError,
    NotConnectedError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    message,
)
from a2a_grpc.client.card import card_url
from a2a_grpc.client.interfaces import GrpcAddress, grpc_address
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from tests.client.peers import (
    Context,
    HttpPeer,
    Request,
    card,
    dead_port,
    grpc_peer,
    http_peer,
    response,
    start_grpc,
    task,
)
from tests.support.waiting import wait_until

DEAD = f"127.0.0.1:{dead_port()}"
SEND = a2a_pb2.SendMessageRequest(message=message("hello"))


class Recorder:
    """Answers SendMessage with a completed task and keeps what it was sent."""

    def __init__(self) -> None:
        self.requests: list[a2a_pb2.SendMessageRequest] = []
        self.metadata: list[dict[str, str | bytes]] = []

    async def send_message(self, request: a2a_pb2.SendMessageRequest, context: Context) -> a2a_pb2.SendMessageResponse:
        self.requests.append(request)
        self.metadata.append(dict(context.invocation_metadata() or ()))
        return a2a_pb2.SendMessageResponse(task=task(a2a_pb2.TASK_STATE_COMPLETED))


@pytest.fixture
async def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def grpc_address_of(recorder: Recorder) -> AsyncIterator[str]:
    async with grpc_peer(recorder) as address:
        yield address


class Site:
    """An HTTP server with cards at any path, which answers every message:send."""

    def __init__(self, peer: HttpPeer, cards: dict[str, a2a_pb2.AgentCard]) -> None:
        self.peer = peer
        self.cards = cards

    @property
    def targets(self) -> list[str]:
        return [f"{request.verb} {request.target}" for request in self.peer.requests]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    cards: dict[str, a2a_pb2.AgentCard] = {}

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target in cards:
            writer.write(response(body=protojson.dumps(cards[request.target]), media_type="application/json"))
        elif request.target.endswith("/message:send"):
            answer = a2a_pb2.SendMessageResponse(task=task(a2a_pb2.TASK_STATE_COMPLETED, "over-http"))
            writer.write(response(body=protojson.dumps(answer)))
        else:
            writer.write(response(404, b"not here", "text/plain"))

    async with http_peer(respond) as peer:
        yield Site(peer, cards)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("https://x", "https://x/.well-known/agent-card.json"),
        ("https://x/", "https://x/.well-known/agent-card.json"),
        ("https://x/agents/1", "https://x/agents/1/.well-known/agent-card.json"),
        ("https://x/agents/1/", "https://x/agents/1/.well-known/agent-card.json"),
        ("https://x/agents/1?v=2#top", "https://x/agents/1/.well-known/agent-card.json?v=2"),
        ("https://x/cards/a.json", "https://x/cards/a.json"),
        ("https://x/a/.well-known/agent-card", "https://x/a/.well-known/agent-card"),
    ],
)
def test_where_the_card_is(given: str, expected: str) -> None:
    assert card_url(given) == expected


@pytest.mark.parametrize(
    ("url", "tls_by_default", "expected"),
    [
        ("agent.example:50051", False, GrpcAddress("agent.example:50051", False)),
        ("agent.example:50051", True, GrpcAddress("agent.example:50051", True)),
        ("agent.example:443", False, GrpcAddress("agent.example:443", True)),
        ("grpc://agent.example:50051", True, GrpcAddress("agent.example:50051", False)),
        ("grpcs://agent.example:50051/", False, GrpcAddress("agent.example:50051", True)),
        ("https://agent.example/a2a", False, GrpcAddress("agent.example:443", True)),
        ("http://agent.example", True, GrpcAddress("agent.example:80", False)),
        ("grpc://[::1]:50051", False, GrpcAddress("[::1]:50051", False)),
        ("grpc://[::1]", False, GrpcAddress("[::1]:80", False)),
        ("dns:///agent.example:50051", False, GrpcAddress("dns:///agent.example:50051", False)),
    ],
)
def test_where_a_grpc_interface_is(url: str, tls_by_default: bool, expected: GrpcAddress) -> None:
    assert grpc_address(url, tls_by_default=tls_by_default) == expected


async def test_the_base_path_is_kept_for_the_card_and_for_the_calls(site: Site) -> None:
    site.cards["/agents/1/.well-known/agent-card.json"] = card(("HTTP+JSON", "1.0", f"{site.peer.url}/agents/1/api/"))

    async with await A2AClient.connect(f"{site.peer.url}/agents/1/") as client:
        answer = await client.send_message(SEND)

    assert answer.task.id == "over-http"
    assert site.targets == ["GET /agents/1/.well-known/agent-card.json", "POST /agents/1/api/message:send"]


async def test_the_url_of_a_card_is_used_as_it_is(site: Site) -> None:
    site.cards["/cards/one.json"] = card(("HTTP+JSON", "1.0", site.peer.url))

    async with await A2AClient.connect(f"{site.peer.url}/cards/one.json") as client:
        assert client.card == site.cards["/cards/one.json"]


async def test_the_first_supported_interface_is_used_and_its_tenant_sent(
    site: Site, recorder: Recorder, grpc_address_of: str
) -> None:
    agent = card(
        ("JSONRPC", "1.0", site.peer.url, "t0"),
        ("GRPC", "0.3", DEAD, "t1"),
        ("GRPC", "1.0", grpc_address_of, "t2"),
        ("HTTP+JSON", "1.0", site.peer.url, "t3"),
    )

    without_jsonrpc = ["GRPC", "HTTP+JSON"]
    async with await A2AClient.connect(agent, bindings=without_jsonrpc) as client:
        assert (await client.send_message(SEND)).task.id == "t1"
        assert client.interface == agent.supported_interfaces[2]
    async with await A2AClient.connect(agent) as client:
        assert client.interface == agent.supported_interfaces[0]
    async with await A2AClient.connect(agent, bindings=["HTTP+JSON"]) as client:
        assert (await client.send_message(SEND)).task.id == "over-http"

    assert [request.tenant for request in recorder.requests] == ["t2"]
    assert site.targets == ["POST /t3/message:send"]
    assert SEND.tenant == ""


async def test_an_interface_without_a_tenant_gets_none(recorder: Recorder, grpc_address_of: str, site: Site) -> None:
    request = a2a_pb2.SendMessageRequest(message=message("hello"), tenant="from elsewhere")

    async with await A2AClient.connect(card(("GRPC", "1.0", grpc_address_of))) as client:
        await client.send_message(request)
    async with await A2AClient.connect(card(("HTTP+JSON", "1.0", site.peer.url))) as client:
        await client.send_message(request)

    assert [sent.tenant for sent in recorder.requests] == [""]
    assert site.targets == ["POST /message:send"]
    assert "tenant" not in json.loads(site.peer.requests[0].body)


async def test_patch_numbers_of_the_version_do_not_count(grpc_address_of: str) -> None:
    async with await A2AClient.connect(card(("grpc", "1.0.7", grpc_address_of))) as client:
        assert (await client.send_message(SEND)).task.id == "t1"


async def test_falls_back_to_the_next_interface_when_the_first_cannot_be_reached(
    site: Site, recorder: Recorder, grpc_address_of: str
) -> None:
    grpc_first = card(("GRPC", "1.0", DEAD, "t1"), ("HTTP+JSON", "1.0", site.peer.url, "t2"))
    async with await A2AClient.connect(grpc_first) as client:
        assert client.interface.protocol_binding == "HTTP+JSON"
        assert (await client.send_message(SEND)).task.id == "over-http"
    assert site.targets == ["POST /t2/message:send"]

    http_first = card(("HTTP+JSON", "1.0", f"http://{DEAD}", "t1"), ("GRPC", "1.0", grpc_address_of, "t2"))
    async with await A2AClient.connect(http_first) as client:
        assert (await client.send_message(SEND)).task.id == "t1"
        assert client.interface.protocol_binding == "GRPC"
    assert [request.tenant for request in recorder.requests] == ["t2"]


async def test_falls_back_when_an_interface_goes_away_later(site: Site, recorder: Recorder) -> None:
    async with AsyncExitStack() as running:
        address = await running.enter_async_context(grpc_peer(recorder))
        agent = card(("GRPC", "1.0", address), ("HTTP+JSON", "1.0", site.peer.url))
        async with await A2AClient.connect(agent) as client:
            assert (await client.send_message(SEND)).task.id == "t1"
            await running.aclose()

            async def answered_by() -> str:
                try:
                    return (await client.send_message(SEND)).task.id
                except UnavailableError:
                    return ""  # sent before gRPC saw the end of the connection: not to be sent twice

            assert await wait_until(answered_by, "the client has noticed that the server is gone") == "over-http"


async def test_when_nothing_can_be_reached_the_error_names_every_address() -> None:
    agent = card(("GRPC", "1.0", DEAD), ("GRPC", "1.0", "agent.invalid:50051"))

    with pytest.raises(NotConnectedError) as caught:
        await A2AClient.connect(agent)

    assert f"{DEAD}: " in caught.value.message
    assert "Connection refused" in caught.value.message
    assert "agent.invalid:50051: " in caught.value.message
    assert isinstance(caught.value, UnavailableError)


async def test_an_address_that_does_not_answer_costs_the_connect_timeout_only() -> None:
    """The kernel takes the connection for a listener that never looks at it, and nobody speaks."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        started = asyncio.get_running_loop().time()

        with pytest.raises(NotConnectedError, match=r"no answer within 0\.3 s|attempt timed out"):
            await A2AClient.connect(f"grpc://{address}", connect_timeout=0.3)

        assert 0.3 <= asyncio.get_running_loop().time() - started < 5


async def test_an_unreachable_agent_is_found_again_when_it_is_back(recorder: Recorder) -> None:
    async with AsyncExitStack() as running:
        address = await running.enter_async_context(grpc_peer(recorder))
        async with await A2AClient.connect(f"grpc://{address}", patience=0) as client:
            await client.send_message(SEND)
            await running.aclose()
            with pytest.raises(UnavailableError):
                await client.send_message(SEND)

            back = await start_grpc(recorder, address)
            assert (await client.send_message(SEND)).task.id == "t1"
            await back.server.stop(None)


async def test_direct_configuration(recorder: Recorder, grpc_address_of: str, site: Site, tmp_path: Path) -> None:
    interface = a2a_pb2.AgentInterface(
        url=grpc_address_of, protocol_binding="GRPC", protocol_version="1.0", tenant="acme"
    )
    file = tmp_path / "card"
    file.write_bytes(protojson.dumps(card(("HTTP+JSON", "1.0", site.peer.url))))

    async with await A2AClient.connect(interface) as client:
        assert client.card is None
        await client.send_message(SEND)
    async with await A2AClient.connect(f"grpc://{grpc_address_of}") as client:
        await client.send_message(SEND)
    async with await A2AClient.connect(file) as client:
        assert (await client.send_message(SEND)).task.id == "over-http"
    async with await A2AClient.connect(str(file)) as client:
        assert client.card is not None

    assert [request.tenant for request in recorder.requests] == ["acme", ""]


async def test_version_extensions_and_headers_go_with_every_call(
    recorder: Recorder, grpc_address_of: str, site: Site
) -> None:
    site.cards["/.well-known/agent-card.json"] = card(("HTTP+JSON", "1.0", site.peer.url))
    headers = {"X-API-Key": "secret", "authorization": "Bearer abc"}
    extensions = ["urn:a", "urn:b"]

    async with await A2AClient.connect(f"grpc://{grpc_address_of}", headers=headers, extensions=extensions) as client:
        await client.send_message(SEND)
    async with await A2AClient.connect(site.peer.url, headers=headers, extensions=extensions) as client:
        await client.send_message(SEND)

    fetched, sent = (request.headers for request in site.peer.requests)
    assert fetched["x-api-key"] == "secret"
    for parameters in (recorder.metadata[0], sent):
        assert parameters["a2a-version"] == "1.0"
        assert parameters["a2a-extensions"] == "urn:a,urn:b"
        assert parameters["x-api-key"] == "secret"
        assert parameters["authorization"] == "Bearer abc"
    assert sent["content-type"] == "application/a2a+json"


@pytest.mark.parametrize("headers", [{"bad name": "x"}, {"": "x"}, {"x": "a\nb"}, {"x": "sécret"}, {"x-bin": "x"}])
async def test_a_header_that_cannot_be_sent_is_refused_without_showing_its_value(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await A2AClient.connect(f"grpc://{DEAD}", headers=headers)

    assert "cret" not in caught.value.message


@pytest.mark.parametrize("target", ["localhost:8080", "ftp://x", "no/such/file", ""])
async def test_a_target_that_is_none_is_refused_with_what_to_give(target: str) -> None:
    with pytest.raises((InvalidArgumentError, CardError)):
        await A2AClient.connect(target)


async def test_a_card_without_a_usable_interface_says_what_it_offers() -> None:
    with pytest.raises(
        CardError, match=r"offers SLIM 1\.0, GRPC 0\.3; GRPC 1\.0 or HTTP\+JSON 1\.0 or JSONRPC 1\.0 is needed"
    ):
        await A2AClient.connect(card(("SLIM", "1.0", "http://x"), ("GRPC", "0.3", "x:1")))
    with pytest.raises(CardError, match="offers nothing"):
        await A2AClient.connect(card())


@pytest.mark.parametrize(
    ("status", "body", "error", "text"),
    [
        (404, b"", CardNotFoundError, "HTTP status 404"),
        (400, b"", CardNotFoundError, "HTTP status 400"),
        (401, b"", UnauthenticatedError, "HTTP status 401"),
        (403, b"", PermissionDeniedError, "HTTP status 403"),
        (429, b"", ResourceExhaustedError, "HTTP status 429"),
        (503, b"<html>", UnavailableError, "HTTP status 503"),
        (200, b"<html>", CardError, "holds no agent card"),
        (200, b'{"name": 1}', CardError, "name"),
        (200, b'{"name": "' + b"x" * 1_100_000 + b'"}', CardError, "longer than 1048576 bytes"),
    ],
)
async def test_what_is_wrong_with_a_card(status: int, body: bytes, error: type[Exception], text: str) -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(status, body, "text/html"))

    async with http_peer(respond) as peer:
        with pytest.raises(error, match=text) as caught:
            await A2AClient.connect(peer.url)
    assert type(caught.value) is error


async def test_a_redirected_card_is_not_followed_since_the_headers_may_be_secret(site: Site) -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(302, headers={"location": site.peer.url}))

    async with http_peer(respond) as peer:
        with pytest.raises(CardNotFoundError, match=f"redirects to {site.peer.url}"):
            await A2AClient.connect(peer.url, headers={"x-api-key": "secret"})
    assert site.peer.requests == []


async def test_no_connection_to_the_card() -> None:
    with pytest.raises(NotConnectedError, match="Connection refused"):
        await A2AClient.connect(f"http://{DEAD}")


@pytest.fixture
def full() -> Iterator[str]:
    """The host:port of a listener whose queue is full: the system answers no more connections, as a firewall does."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse what a full queue has no room for")
@pytest.mark.parametrize("binding", ["HTTP+JSON", "JSONRPC"])
async def test_an_address_that_takes_no_connection_costs_the_connect_timeout_over_http(
    full: str, binding: str, recorder: Recorder, grpc_address_of: str
) -> None:
    """The system would try for two minutes."""
    async with asyncio.timeout(30):
        with pytest.raises(NotConnectedError, match="in time"):
            await A2AClient.connect(f"http://{full}", connect_timeout=0.3)
        found = card((binding, "1.0", f"http://{full}"), ("GRPC", "1.0", grpc_address_of))
        async with await A2AClient.connect(found, connect_timeout=0.3) as client:
            assert (await client.send_message(SEND)).task.id == "t1"
    assert len(recorder.requests) == 1
