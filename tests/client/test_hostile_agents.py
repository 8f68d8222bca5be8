"""Agents that want to do harm, or are broken: what they send costs the caller little, and hides nothing from it."""

import asyncio
import base64
import gzip
import json
import re
import resource
import zlib
from collections.abc import Awaitable, Callable

import pytest

from a2a_grpc.client import (
    A2AClient,
    A2AError,
    ApiKey,
    CardError,
    CardResolver,
    CredentialsError,
    InvalidAgentResponseError,
    InvalidArgumentError,
    Registry,
    UnavailableError,
)
from a2a_grpc.client.credentials import Surroundings, Wanted
from a2a_grpc.client.credentials.endpoint import Client, Token, TokenRefusedError, ask, token_in
from a2a_grpc.client.interfaces import BINDINGS, HTTP_JSON, JSONRPC
from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.registry.v1 import registry_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.sequence import EVENT_SEQUENCE
from tests.client.peers import (
    SSE_HEAD,
    Request,
    answer_to,
    card,
    dead_port,
    http_peer,
    response,
    status_event,
    task,
    task_event,
)
from tests.client.test_resuming import SEND, SUBSCRIBE, Agent, Answer, client_of, received

WORKING, COMPLETED = pb.TASK_STATE_WORKING, pb.TASK_STATE_COMPLETED
AROUND = Surroundings(5.0, None, lambda _: True)
MIB = 1024 * 1024


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


def zeros(mebibytes: int) -> bytes:
    """So many of them, compressed."""
    deflate, packed = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS), bytearray()
    for _ in range(mebibytes):
        packed += deflate.compress(bytes(MIB))
    return bytes(packed + deflate.flush())


# -- what is compressed ------------------------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip"])
async def test_what_is_compressed_takes_no_more_memory_than_is_read_of_it(coding: str) -> None:
    """Twice compressed, 3 KB are 512 MiB."""
    bomb = zeros(512) if coding == "gzip" else gzip.compress(zeros(512))

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(body=bomb, headers={"content-encoding": coding}))

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with http_peer(respond) as peer, CardResolver() as resolver:
        with pytest.raises(CardError, match=r"longer than|cannot be decompressed"):
            await resolver.resolve(peer.url)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 48 * 1024  # KiB


async def test_a_stream_that_was_compressed_unasked_is_read_no_further_than_its_limit() -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(
            SSE_HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip, gzip\r\n\r\n") + gzip.compress(zeros(9))
        )
        writer.close()

    async with http_peer(respond) as peer, await A2AClient.connect(card((HTTP_JSON, "1.0", peer.url))) as client:
        with pytest.raises(InvalidAgentResponseError, match="cannot be decompressed"):
            await received(client.send_streaming_message(SEND))


async def test_what_is_compressed_once_is_read() -> None:
    found = card((HTTP_JSON, "1.0", "https://agent.example.com"))
    packed = gzip.compress(protojson.dumps(found))

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        assert request.headers["accept-encoding"] == "gzip"
        body = packed + b"rubbish" if request.target.startswith("/more") else packed
        body = packed[:-20] if request.target.startswith("/less") else body
        body = b"no gzip" if request.target.startswith("/none") else body
        writer.write(response(body=body, headers={"content-encoding": "gzip"}))

    async with http_peer(respond) as peer, CardResolver() as resolver:
        assert await resolver.resolve(peer.url) == found
        assert await resolver.resolve(f"{peer.url}/more") == found
        for path in ("less", "none"):
            with pytest.raises(CardError):
                await resolver.resolve(f"{peer.url}/{path}")


# -- cards and addresses -----------------------------------------------------------------------------------------------


async def test_a_card_with_thousands_of_interfaces_costs_a_few_attempts() -> None:
    offered = card(*((HTTP_JSON, "1.0", f"http://127.0.0.1:{dead_port()}/{number}") for number in range(10_000)))
    async with await A2AClient.connect(offered) as client:
        with pytest.raises(A2AError) as caught:
            await client.get_task(pb.GetTaskRequest(id="t1"))
        assert len(client._transports) <= 16
    assert len(caught.value.message) < 4096

    for interface in offered.supported_interfaces:
        interface.protocol_version = "9.9"
    with pytest.raises(CardError) as refused:
        await A2AClient.connect(offered)
    assert len(refused.value.message) < 1024


@pytest.mark.parametrize(
    "broken", ["http://[::1", "http://127.0.0.1:99999", "http://user:pw@127.0.0.1", "ipv4:127.0.0.1:1"]
)
async def test_an_interface_whose_address_cannot_be_read_is_left_for_the_next(broken: str) -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        found = card(("GRPC" if "ipv4" in broken else HTTP_JSON, "1.0", broken), (JSONRPC, "1.0", peer.url))
        writer.write(response(body=protojson.dumps(found)))

    async with http_peer(respond) as peer, await A2AClient.connect(peer.url) as client:
        assert client.interface.protocol_binding == JSONRPC


async def _client(url: str) -> None:
    await A2AClient.connect(url, connect_timeout=1)


async def _resolver(url: str) -> None:
    async with CardResolver(connect_timeout=1) as resolver:
        await resolver.resolve(url)


async def _registry(url: str) -> None:
    async with await Registry.connect(url, connect_timeout=1) as registry:
        await registry.get("x")


@pytest.mark.parametrize("call", [_client, _resolver, _registry])
@pytest.mark.parametrize(
    "url", ["https://[::1", "grpcs://[::1", "http://127.0.0.1:99999", "https://user:s3cret@127.0.0.1:1/x"]
)
async def test_an_address_that_is_none_or_holds_a_password_is_refused_without_it(
    url: str, call: Callable[[str], Awaitable[None]]
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await call(url)
    assert "s3cret" not in str(caught.value)


# -- streams -----------------------------------------------------------------------------------------------------------


async def test_an_event_of_another_task_is_an_error(binding: str) -> None:
    agent = Agent([(1, task_event(WORKING)), (2, status_event(COMPLETED, "t2"))])
    async with client_of(agent, binding) as client:
        events = client.send_streaming_message(SEND)
        assert await anext(events) == task_event(WORKING)
        with pytest.raises(InvalidAgentResponseError, match="another task"):
            await anext(events)

    async with client_of(Agent([(1, task_event(WORKING, "t2"))]), binding) as client:
        with pytest.raises(InvalidAgentResponseError, match="another task"):
            await received(client.subscribe_to_task(SUBSCRIBE))


async def test_events_that_come_again_are_left_out(binding: str) -> None:
    again: list[Answer] = [(3, status_event(WORKING)), (1, status_event(WORKING)), (3, task_event(WORKING))]
    agent = Agent([(2, task_event(WORKING)), (3, status_event(WORKING)), *again, (4, status_event(COMPLETED))])
    async with client_of(agent, binding) as client:
        seen = await received(client.send_streaming_message(SEND))
    assert seen == [task_event(WORKING), status_event(WORKING), status_event(COMPLETED)]


async def test_an_agent_that_has_lost_events_counts_on_from_what_it_has(binding: str) -> None:
    agent = Agent([(5, task_event(WORKING)), (3, task_event(WORKING)), (4, status_event(COMPLETED))])
    async with client_of(agent, binding) as client:
        seen = await received(client.send_streaming_message(SEND))
    assert seen == [task_event(WORKING), task_event(WORKING), status_event(COMPLETED)]


async def test_ids_of_events_are_no_numbers_unless_the_agent_says_so(binding: str) -> None:
    """An agent may give all its events one id."""
    agent = Agent([(7, task_event(WORKING)), (7, status_event(WORKING)), (7, status_event(COMPLETED))])
    async with client_of(agent, binding, known=False) as client:
        seen = [event async for event in client.sending(SEND)]
    assert [(event.seq, event.response) for event in seen] == [
        (0, task_event(WORKING)),
        (0, status_event(WORKING)),
        (0, status_event(COMPLETED)),
    ]


async def test_a_task_that_has_ended_ends_its_stream_whatever_the_agent_goes_on_with(binding: str) -> None:
    late: list[Answer] = [0.2, (0, status_event(WORKING))]
    agent = Agent([(0, task_event(WORKING)), (0, status_event(COMPLETED)), *late * 200])
    async with client_of(agent, binding, known=False) as client, asyncio.timeout(10):
        seen = await received(client.send_streaming_message(SEND))
    assert seen[:2] == [task_event(WORKING), status_event(COMPLETED)] and len(seen) < 30


@pytest.mark.parametrize("over", [HTTP_JSON, JSONRPC])
async def test_a_stream_that_never_begins_is_given_up_when_the_patience_is_over(over: str) -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with http_peer(respond) as peer, asyncio.timeout(10):
        found = card((over, "1.0", peer.url))
        found.capabilities.extensions.add(uri=EVENT_SEQUENCE)
        async with await A2AClient.connect(found, patience=0.2, idle_timeout=0.3) as client:
            with pytest.raises(UnavailableError, match=r"within 0\.3 s"):
                await received(client.send_streaming_message(SEND))
    assert 1 < len(peer.requests) < 6


# -- pages -------------------------------------------------------------------------------------------------------------


async def test_a_page_that_leads_to_itself_is_an_error() -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        page = pb.ListTasksResponse(next_page_token="again")
        found = registry_pb2.SearchAgentsResponse(next_page_token="again")
        writer.write(answer_to(request, found if request.target.startswith("/v1") else page))

    async with http_peer(respond) as peer:
        async with await A2AClient.connect(card((HTTP_JSON, "1.0", peer.url))) as client:
            with pytest.raises(InvalidAgentResponseError, match="leads to itself"):
                [one async for one in client.list_all_tasks()]
        async with await Registry.connect(peer.url) as registry:
            with pytest.raises(InvalidAgentResponseError, match="leads to itself"):
                [one async for one in registry.search()]
    assert len(peer.requests) == 4


# -- credentials -------------------------------------------------------------------------------------------------------


async def test_cookies_that_an_agent_sets_are_not_kept() -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        answer = answer_to(request, task(WORKING))
        writer.write(answer.replace(b"\r\n\r\n", f"\r\nset-cookie: c{len(peer.requests)}=1\r\n\r\n".encode(), 1))

    async with http_peer(respond) as peer, await A2AClient.connect(card((HTTP_JSON, "1.0", peer.url))) as client:
        for _ in range(2):
            await client.get_task(pb.GetTaskRequest(id="t1"))
    assert ["cookie" in request.headers for request in peer.requests] == [False, False]


@pytest.mark.parametrize("name", ["café", "a=b; c", "a\r\nb", ""])
async def test_a_cookie_has_a_name_that_cookies_can_have(name: str) -> None:
    place = pb.APIKeySecurityScheme(location="cookie", name=name)
    wanted = Wanted("key", pb.SecurityScheme(api_key_security_scheme=place))
    with pytest.raises(CredentialsError, match="name of a cookie"):
        await ApiKey("k").access(wanted, AROUND)


@pytest.mark.parametrize("where", ["error", "error_description"])
@pytest.mark.parametrize("form", [{}, {"refresh_token": "r-e-f"}, {"device_code": "d-e-v"}])
async def test_what_an_authorization_server_repeats_of_secrets_is_not_told(where: str, form: dict[str, str]) -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        repeated = request.headers["authorization"] + request.body.decode()
        writer.write(response(400, json.dumps({"error": "invalid", where: f"not {repeated}"}).encode()))

    async with http_peer(respond) as peer:
        with pytest.raises(TokenRefusedError) as caught:
            await ask(peer.url, Client("machine", "s3cret"), form, AROUND)
    told = f"{caught.value} {caught.value.code}"
    pair = base64.b64encode(b"machine:s3cret").decode()
    assert not re.search(f"{pair}|s3cret|r-e-f|d-e-v", told)
    assert "HTTP status 400" in told if where == "error" else "invalid" in told


@pytest.mark.parametrize(
    ("said", "holds"), [("²", True), ("٣", True), (-5, True), (True, True), ("9" * 5000, True), (0, False)]
)
def test_a_life_time_that_is_no_number_is_none(said: object, holds: bool) -> None:
    found = token_in({"access_token": "a", "token_type": "bearer", "expires_in": said}, "https://login.example.com")
    assert isinstance(found, Token) and found.holds is holds


# -- closing -----------------------------------------------------------------------------------------------------------


async def test_a_client_that_is_closed_while_it_connects_opens_nothing_more() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        knocked.set()  # and TLS is never answered
        await reader.read()
        writer.close()

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answer_to(request, task(COMPLETED)))

    knocked = asyncio.Event()
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    first = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, http_peer(respond) as peer:
        found = card((HTTP_JSON, "1.0", first), (HTTP_JSON, "1.0", peer.url))
        client = await A2AClient.connect(found, connect_timeout=0.5)
        call = asyncio.create_task(client.get_task(pb.GetTaskRequest(id="t1")))
        await knocked.wait()
        await client.aclose()
        with pytest.raises(UnavailableError):
            await call
        assert client._transports == {} and peer.requests == []
