"""Peers that do not speak gRPC are turned away, and everybody else notices nothing (B109)."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable

import grpc.aio
import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from tests.bindings_grpc.frames import GOAWAY, RST_STREAM, http2, tcp
from tests.bindings_grpc.scripted import Scripted, serving

GET = a2a_pb2.GetTaskRequest(id="t-1")


async def speak(address: str, words: bytes) -> None:
    """Send `words` and read until the server hangs up."""
    async with tcp(address) as (reader, writer):
        writer.write(words)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            await reader.read()


async def http1_get(address: str) -> None:
    await speak(address, b"GET / HTTP/1.1\r\nHost: agent.example.com\r\nConnection: close\r\n\r\n")


async def http1_post(address: str) -> None:
    await speak(address, b"POST /message:send HTTP/1.1\r\nHost: agent\r\nContent-Length: 2\r\n\r\n{}")


async def noise(address: str) -> None:
    await speak(address, bytes(range(256)) * 8)


async def tls_hello(address: str) -> None:
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(host, int(port), ssl=context)


async def head_over_http2(address: str) -> None:
    """As `curl --http2-prior-knowledge -I` and some load balancers do: refused, and the connection can go on."""
    async with http2(address) as wire:
        for stream in (1, 3):
            headers = ((":method", "HEAD"), (":scheme", "http"), (":path", "/"), (":authority", "agent"))
            await wire.request(stream, headers)
            frame = await wire.read_until(RST_STREAM, GOAWAY)
            assert frame is not None
            assert (frame.kind, frame.stream) == (RST_STREAM, stream)


async def hangs_up_at_once(address: str) -> None:
    async with tcp(address):
        pass


Stranger = Callable[[str], Awaitable[None]]
STRANGERS: tuple[Stranger, ...] = (http1_get, http1_post, noise, tls_hello, head_over_http2, hangs_up_at_once)


@pytest.mark.parametrize("stranger", STRANGERS, ids=[stranger.__name__ for stranger in STRANGERS])
async def test_calls_go_on_after_strangers(
    stranger: Stranger, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    handler = Scripted()
    async with serving(handler) as address, grpc.aio.insecure_channel(address) as old:
        stub = A2AServiceStub(old)
        await stub.GetTask(GET)
        for _ in range(5):
            async with asyncio.timeout(5):
                await stranger(address)
        for _ in range(10):
            # A pool of its own, or the library would use the connection that is there.
            options = (("grpc.use_local_subchannel_pool", 1),)
            async with grpc.aio.insecure_channel(address, options=options) as new:
                for _ in range(10):
                    await A2AServiceStub(new).GetTask(GET, timeout=5)
                    await stub.GetTask(GET, timeout=5)
    assert len(handler.calls) == 201
    assert caplog.records == []
    written = capfd.readouterr()
    assert len((written.out + written.err).splitlines()) <= 10  # not more than a line for each odd request
