"""As much of HTTP/2 (RFC 9113) as it takes to behave oddly: frames written and read by hand."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, ACK, END_HEADERS = 1, 1, 4


class Frame(NamedTuple):
    """A frame without its length."""

    kind: int
    flags: int
    stream: int
    payload: bytes


class Wire:
    """One HTTP/2 connection, from the client's side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> None:
        head = len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4)
        self._writer.write(head + payload)
        await self._writer.drain()

    async def request(self, stream: int, headers: Sequence[tuple[str, str]], body: bytes | None = None) -> None:
        """A whole request; each header is a literal in Latin-1 that no table remembers (RFC 7541, 6.2.2)."""
        block = b"".join(b"\x00" + _string(name) + _string(value) for name, value in headers)
        if body is None:
            await self.send(HEADERS, END_HEADERS | END_STREAM, stream, block)
        else:
            await self.send(HEADERS, END_HEADERS, stream, block)
            await self.send(DATA, END_STREAM, stream, body)

    async def read(self) -> Frame | None:
        """The next frame; None at the end of the connection."""
        try:
            head = await self._reader.readexactly(9)
            payload = await self._reader.readexactly(int.from_bytes(head[:3]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return Frame(head[3], head[4], int.from_bytes(head[5:]), payload)

    async def read_until(self, *kinds: int) -> Frame | None:
        """The next frame of one of these kinds that is no acknowledgement; settings are acknowledged on the way."""
        while (frame := await self.read()) is not None:
            acknowledges = frame.kind in {SETTINGS, PING} and frame.flags & ACK
            if frame.kind == SETTINGS and not acknowledges:
                await self.send(SETTINGS, ACK)
            if frame.kind in kinds and not acknowledges:
                return frame
        return None


@contextlib.asynccontextmanager
async def http2(address: str) -> AsyncIterator[Wire]:
    """A connection on which both sides have said hello."""
    async with tcp(address) as (reader, writer):
        wire = Wire(reader, writer)
        writer.write(PREFACE)
        await wire.send(SETTINGS)
        await wire.read_until(SETTINGS)
        yield wire


@contextlib.asynccontextmanager
async def tcp(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def _string(text: str) -> bytes:
    encoded = text.encode("latin-1")
    assert len(encoded) < 127
    return bytes([len(encoded)]) + encoded
