"""Callers may ping, idle connections are pinged, and who does not answer is let go."""

import asyncio

from a2a_grpc.server.bindings.grpc.server import Keepalive
from tests.bindings_grpc.frames import ACK, GOAWAY, PING, Frame, Wire, http2
from tests.bindings_grpc.scripted import Scripted, serving

PINGS = 12
ENHANCE_YOUR_CALM = (0xB).to_bytes(4)


def test_the_promise_is_a_ping_every_ten_seconds_and_thirty_seconds_of_idleness() -> None:
    assert (Keepalive().accept_every, Keepalive().idle) == (10.0, 30.0)


async def ping(wire: Wire, number: int) -> Frame | None:
    """Send a ping and return what comes back for it: its acknowledgement, or GOAWAY."""
    await wire.send(PING, payload=number.to_bytes(8))
    while (frame := await wire.read()) is not None and frame.kind not in {PING, GOAWAY}:
        pass
    return frame


async def test_a_caller_may_ping_at_the_promised_interval_without_calls() -> None:
    keepalive = Keepalive(accept_every=0.1)
    async with serving(Scripted(), keepalive=keepalive) as address, http2(address) as wire, asyncio.timeout(10):
        for number in range(PINGS):
            assert await ping(wire, number) == Frame(PING, ACK, 0, number.to_bytes(8))
            await asyncio.sleep(0.1)  # the interval under test


async def test_a_caller_who_pings_much_more_often_is_disconnected() -> None:
    async with serving(Scripted()) as address, http2(address) as wire, asyncio.timeout(10):
        answers: list[Frame] = []
        while not answers or answers[-1].kind == PING:
            answer = await ping(wire, len(answers))
            assert answer is not None
            answers.append(answer)
    assert len(answers) < PINGS
    assert answers[-1].payload[4:8] == ENHANCE_YOUR_CALM
    assert b"too_many_pings" in answers[-1].payload


async def test_an_idle_connection_is_pinged_and_lives_while_it_answers() -> None:
    keepalive = Keepalive(idle=0.2, timeout=1.0)
    async with serving(Scripted(), keepalive=keepalive) as address, http2(address) as wire, asyncio.timeout(10):
        for _ in range(3):
            frame = await wire.read_until(PING)
            assert frame is not None
            await wire.send(PING, ACK, payload=frame.payload)


async def test_a_connection_that_answers_no_ping_is_closed() -> None:
    keepalive = Keepalive(idle=0.2, timeout=0.2)
    async with serving(Scripted(), keepalive=keepalive) as address, http2(address) as wire, asyncio.timeout(10):
        assert await wire.read_until(PING) is not None
        while await wire.read() is not None:
            pass
