"""Whom a card that was fetched may name: specification 8.3.2 and 13.1, B117 of the field reports.

Names that do not resolve stand for other hosts: an interface that is used there fails to connect, one that is not used
is not tried.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from a2a_grpc.client import (
    A2AClient,
    CardError,
    Continuation,
    InvalidArgumentError,
    NotConnectedError,
    RemoteAgent,
    message,
)
from a2a_grpc.client.discovery import Target
from a2a_grpc.client.interfaces import GRPC, HTTP_JSON, JSONRPC
from a2a_grpc.client.origins import Endpoint, Origins, endpoint, interface_endpoint
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from tests.client.peers import HttpPeer, Request, answer_to, card, http_peer, response, task

SEND = a2a_pb2.SendMessageRequest(message=message("hello"))
HERE = endpoint("https://agent.example.com/agents/1")
LOOPBACK = endpoint("http://localhost:8080")


def interface(binding: str, url: str) -> a2a_pb2.AgentInterface:
    return a2a_pb2.AgentInterface(protocol_binding=binding, protocol_version="1.0", url=url)


@pytest.mark.parametrize(
    ("binding", "url", "expected"),
    [
        (HTTP_JSON, "https://Agent.Example.com./a", Endpoint("agent.example.com", None, tls=True)),
        (JSONRPC, "http://agent.example.com:8080", Endpoint("agent.example.com", 8080, tls=False)),
        (GRPC, "agent.example.com:50051", Endpoint("agent.example.com", 50051, tls=True)),
        (GRPC, "grpc://agent.example.com", Endpoint("agent.example.com", 80, tls=False)),
        (GRPC, "dns:///agent.example.com:443", Endpoint("agent.example.com", 443, tls=True)),
        (GRPC, "dns:agent.example.com:443", Endpoint("agent.example.com", 443, tls=True)),
        (GRPC, "dns://8.8.8.8/agent.example.com:443", Endpoint("agent.example.com", 443, tls=True)),
        (GRPC, "grpcs://[::1]:50051", Endpoint("::1", 50051, tls=True)),
        (GRPC, "unix:///run/agent.sock", Endpoint("", None, tls=True)),
    ],
)
def test_where_an_interface_leads(binding: str, url: str, expected: Endpoint) -> None:
    assert interface_endpoint(interface(binding, url), tls_by_default=True) == expected


@pytest.mark.parametrize(
    ("named", "card_from", "allowed", "expected"),
    [
        ("https://agent.example.com/a2a", HERE, (), True),
        ("https://agent.example.com:8443", HERE, (), True),
        ("https://AGENT.example.com.", HERE, (), True),
        ("http://agent.example.com", HERE, (), False),
        ("https://evil.example.com", HERE, (), False),
        ("https://agent.example.com.evil.com", HERE, (), False),
        ("http://127.0.0.1:8080", HERE, (), False),
        ("http://127.0.0.1:50051", LOOPBACK, (), True),
        ("http://[::1]:50051", LOOPBACK, (), True),
        ("https://agent.example.com", LOOPBACK, (), False),
        ("http://127.0.0.1.example.com", LOOPBACK, (), False),
        ("https://other.example.com", HERE, ("other.example.com",), True),
        ("https://other.example.com:8443", HERE, ("other.example.com",), True),
        ("https://other.example.com:8443", HERE, ("other.example.com:8443",), True),
        ("https://other.example.com:9443", HERE, ("other.example.com:8443",), False),
        ("http://other.example.com", HERE, ("other.example.com",), False),
        ("http://other.example.com", HERE, ("https://other.example.com",), False),
        ("http://other.example.com", HERE, ("http://other.example.com",), True),
        ("https://other.example.com", HERE, ("grpc://other.example.com",), True),
        ("https://other.example.com", HERE, ("https://*",), True),
        ("http://other.example.com", HERE, ("https://*",), False),
        ("http://other.example.com", HERE, ("*",), True),
    ],
)
def test_whom_a_card_may_name(named: str, card_from: Endpoint, allowed: tuple[str, ...], expected: bool) -> None:
    assert Origins(allowed).may_name(endpoint(named), card_from) is expected


@pytest.mark.parametrize(
    ("called", "allowed", "expected"),
    [
        ("https://agent.example.com", (), True),
        ("http://127.0.0.1:8080", (), True),
        ("http://agent.example.com", (), False),
        ("http://agent.example.com", ("*",), False),
        ("http://agent.example.com", ("agent.example.com",), False),
        ("http://agent.example.com", ("http://agent.example.com",), True),
        ("http://agent.example.com", ("grpc://*",), True),
    ],
)
def test_who_may_be_told_secrets(called: str, allowed: tuple[str, ...], expected: bool) -> None:
    assert Origins(allowed).may_have_secrets(endpoint(called)) is expected


@pytest.mark.parametrize("origin", ["ftp://x", "https://", "https://x/path", "x/path", "https://x:port", ""])
async def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"no origin|no address"):
        await A2AClient.connect("grpc://127.0.0.1:1", allow_origins=[origin])


@asynccontextmanager
async def site(*interfaces: tuple[str, str, str]) -> AsyncIterator[HttpPeer]:
    """A server of this machine with a card below `/agents/1` that names these interfaces; PEER is its own address."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target == "/agents/1/.well-known/agent-card.json":
            named = [(binding, version, url.replace("PEER", peer.url)) for binding, version, url in interfaces]
            writer.write(response(body=protojson.dumps(card(*named)), media_type="application/json"))
        else:
            answer = a2a_pb2.SendMessageResponse(task=task(a2a_pb2.TASK_STATE_COMPLETED))
            writer.write(answer_to(request, answer))

    async with http_peer(respond) as peer:
        yield peer


async def test_b117_an_interface_elsewhere_is_left_out_and_the_next_is_used() -> None:
    elsewhere = (HTTP_JSON, "1.0", "https://evil.invalid")
    async with (
        site(elsewhere, (GRPC, "1.0", "evil.invalid:443"), (HTTP_JSON, "1.0", "PEER/api")) as peer,
        await A2AClient.connect(f"{peer.url}/agents/1") as client,
    ):
        assert client.interface.url == f"{peer.url}/api"
        await client.send_message(SEND)
        assert client.card is not None and len(client.card.supported_interfaces) == 3


async def test_a_card_that_names_nothing_but_others_is_refused_with_what_it_names() -> None:
    async with site((HTTP_JSON, "1.0", "https://other.invalid/a2a"), (GRPC, "1.0", "other.invalid:443")) as peer:
        with pytest.raises(
            CardError,
            match=r"The card from 127\.0\.0\.1 names https://other\.invalid/a2a, other\.invalid:443, which is not that "
            r"host over TLS\. Where that is right, name it in allow_origins\.",
        ):
            await A2AClient.connect(f"{peer.url}/agents/1")
        for allowed in ("*", "other.invalid"):
            async with await A2AClient.connect(f"{peer.url}/agents/1", allow_origins=[allowed]) as client:
                with pytest.raises(NotConnectedError, match=r"other\.invalid"):
                    await client.send_message(SEND)


async def test_one_origin_may_be_given_as_it_is() -> None:
    """And is not taken for its letters, of which the star would allow everything."""
    async with site((HTTP_JSON, "1.0", "http://other.invalid/a2a")) as peer:
        with pytest.raises(CardError, match=r"names http://other\.invalid/a2a"):
            await A2AClient.connect(f"{peer.url}/agents/1", allow_origins="https://*")


async def test_a_card_that_the_caller_has_is_believed() -> None:
    """Only who fetches a card may be given one by somebody else."""
    with pytest.raises(NotConnectedError, match=r"other\.invalid"):
        await A2AClient.connect(card((GRPC, "1.0", "other.invalid:443")), connect_timeout=5)


@pytest.mark.parametrize("bindings", [["http+json"], "Http+Json"])
async def test_the_case_of_a_binding_does_not_matter(bindings: list[str] | str) -> None:
    offered = card((GRPC, "1.0", "other.invalid:443"), (HTTP_JSON, "1.0", "http://other.invalid"))
    async with await A2AClient.connect(offered, bindings=bindings) as client:
        assert client.interface.protocol_binding == HTTP_JSON


@pytest.mark.parametrize(
    ("bindings", "told"),
    [(["GRPC", "soap"], "soap is no binding"), ("G", "G is no binding"), ([], "No binding is given")],
)
async def test_what_is_no_binding_is_no_fault_of_the_card(bindings: list[str] | str, told: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"{told}; there are GRPC, HTTP\+JSON, JSONRPC\."):
        await A2AClient.connect(card((GRPC, "1.0", "other.invalid:443")), bindings=bindings)


UNREADABLE = [
    (HTTP_JSON, "http://[::1"),
    (GRPC, "http://[fe80::1%eth0"),
    (GRPC, "localhost:none"),
    (HTTP_JSON, "http://localhost:65536"),
    (HTTP_JSON, "localhost:8080"),
    (JSONRPC, "http:///rpc"),
    (HTTP_JSON, "http://u:secret-word@127.0.0.1"),
    (GRPC, "grpc://u:secret-word@127.0.0.1:1"),
    (GRPC, "u:secret-word@127.0.0.1:1"),
    (JSONRPC, "http://u:secret-word@[::1"),
    (HTTP_JSON, "http://u:secret-word/2@127.0.0.1"),
]


@pytest.mark.parametrize(("binding", "url"), UNREADABLE)
@pytest.mark.parametrize("way", ["fetched", "in hand", "file"])
async def test_an_address_that_cannot_be_used_is_left_out(binding: str, url: str, way: str, tmp_path: Path) -> None:
    async with site((binding, "1.0", url), (HTTP_JSON, "1.0", "PEER/api")) as peer:
        known = card((binding, "1.0", url), (HTTP_JSON, "1.0", f"{peer.url}/api"))
        (tmp_path / "card.json").write_bytes(protojson.dumps(known))
        targets: dict[str, Target] = {
            "fetched": f"{peer.url}/agents/1",
            "in hand": known,
            "file": tmp_path / "card.json",
        }
        async with await RemoteAgent.connect(targets[way]) as agent:
            assert agent.client.interface.url == f"{peer.url}/api"
            place = await agent.start("hello")
        assert isinstance(place, Continuation)
        if way != "fetched":
            assert isinstance(place.target, a2a_pb2.AgentCard)
            assert [one.url for one in place.target.supported_interfaces][-1] == f"{peer.url}/api"
            assert "secret-word" not in str(place.target)


@pytest.mark.parametrize(("binding", "url"), UNREADABLE)
async def test_where_no_address_can_be_used_that_is_said_without_a_password(binding: str, url: str) -> None:
    for target, error in ((card((binding, "1.0", url)), CardError), (interface(binding, url), InvalidArgumentError)):
        with pytest.raises(error, match=r"address") as told:
            await A2AClient.connect(target)
        assert "secret-word" not in str(told.value)


@pytest.mark.parametrize(
    ("bindings", "expected"),
    [
        (None, "PEER/rpc"),
        (["GRPC", "HTTP+JSON"], "PEER/rest"),
    ],
)
async def test_b117_the_first_interface_that_is_supported_is_used(bindings: list[str] | None, expected: str) -> None:
    offered = [(GRPC, "0.3", "PEER"), (JSONRPC, "1.0", "PEER/rpc"), (HTTP_JSON, "1.0", "PEER/rest")]
    async with site(*offered) as peer:
        chosen = {"bindings": bindings} if bindings else {}
        async with await A2AClient.connect(f"{peer.url}/agents/1/", **chosen) as client:  # type: ignore[arg-type]
            await client.send_message(SEND)
            assert client.interface.url == expected.replace("PEER", peer.url)
    assert [request.target for request in peer.requests] == [
        "/agents/1/.well-known/agent-card.json",
        "/rpc" if bindings is None else "/rest/message:send",
    ]
