"""One connection to the store as an asyncio protocol: commands go out as they come, replies come back in order.

redis-py opens the connection (address, TLS, credentials, database, failover); the replies are then read here. Its own
reader takes one coroutine and one timer for each reply, which is more than everything else the service does with it.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from hiredis import Reader, pack_command

from a2a_grpc.server.store.connections import Connect
from a2a_grpc.server.telemetry.instruments import STORE_WAITS

Argument = str | bytes | int


def pack(*command: Argument) -> bytes:
    """A command as it goes out."""
    return cast("bytes", pack_command(command))  # type: ignore[arg-type]


class Link(asyncio.Protocol):
    """Tells its owner of every reply, in the order of the commands, and of the end of the connection."""

    def __init__(
        self,
        on_reply: Callable[[Any], None],
        on_lost: Callable[["Link"], None],
        before_write: Callable[[], bytes] | None = None,
    ) -> None:
        """`before_write` is asked before each write for what shall stand at its end."""
        self._on_reply = on_reply
        self._on_lost = on_lost
        self._before_write = before_write
        self._reader = Reader()
        self.heard = 0.0
        """When the server last sent something, by the loop's clock."""
        self._transport: asyncio.Transport | None = None
        # The transport is closed with its writer when that is collected.
        self._writer: asyncio.StreamWriter | None = None
        self._writing = False
        self._aborted = False
        self._out: list[bytes] = []
        self._since = 0.0
        """When the call was made that waits longest to be written, by the loop's clock; 0.0: not known."""

    async def open(self, connect: Connect) -> None:
        """Take over a connection that `connect` made. Raises: what redis-py raises where that fails."""
        connection = await connect()
        # Two things taken from redis-py's inside; a test says so if a release moves them. The connection must not think
        # that it is open, or it complains when it is collected.
        self._writer = cast("asyncio.StreamWriter", connection._writer)  # noqa: SLF001
        connection._reader = connection._writer = None  # noqa: SLF001
        self._transport = cast("asyncio.Transport", self._writer.transport)
        self._transport.set_protocol(self)
        self.heard = asyncio.get_running_loop().time()
        if self._transport.is_closing():
            raise ConnectionResetError("the server closed the connection at once")

    def send(self, packed: bytes, made: float = 0.0) -> None:
        """Send a command, together with those that come in the same turn of the event loop.

        `made`: when somebody called for it, by the loop's clock.
        """
        self._out.append(packed)
        if made and (not self._since or made < self._since):
            self._since = made
        if not self._writing:
            self._writing = True
            asyncio.get_running_loop().call_soon(self._write)

    def abort(self) -> None:
        """Cut the connection; its owner is told as if the peer had done it."""
        self._aborted = True
        if self._transport is not None:
            self._transport.abort()

    def _write(self) -> None:
        self._writing = False
        out, self._out = self._out, []
        if self._transport is None or self._aborted:
            return  # its owner has taken them back
        if self._before_write is not None:
            out.append(self._before_write())
        self._transport.write(b"".join(out))
        if STORE_WAITS.wanted and self._since:
            STORE_WAITS.record(asyncio.get_running_loop().time() - self._since)
        self._since = 0.0

    def data_received(self, data: bytes) -> None:
        """Hand out the replies that are complete."""
        if self._aborted:
            return
        self.heard = asyncio.get_running_loop().time()
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            self._on_reply(reply)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the peer's reason helps nobody
        """Tell the owner."""
        self._transport = None
        self._on_lost(self)
