"""A connection to a store that, when told to, loses answers or keeps requests back."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from tests.support.servers import StoreServer


class LossyLink:
    """Stands between a client and a store server. `url` is where the client connects."""

    def __init__(self, target: str, socket: Path) -> None:
        self._target = target
        self.socket = socket
        self.url = f"unix://{socket}"
        self._serving: set[asyncio.Task[None]] = set()
        self._passing: int | None = None
        self._open = asyncio.Event()
        self._open.set()
        self.held = 0
        """How many requests wait since `hold`."""
        self.lost = 0
        """How many answers were lost so far."""

    def lose_after(self, passing: int) -> None:
        """Let so many more answers pass; throw the next one away and cut its connection."""
        self._passing = passing

    def hold(self) -> None:
        """Keep requests and answers back from now on, until `let_go`."""
        self._open.clear()
        self.held = 0

    def let_go(self) -> None:
        self._open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server_reader, server_writer = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.transport.abort()
            return
        requests = asyncio.create_task(self._requests(reader, server_writer))
        this = asyncio.current_task()
        assert this is not None
        self._serving.add(this)
        try:
            while data := await server_reader.read(65536):
                if self._passing is not None:
                    self._passing -= 1
                    if self._passing < 0:
                        self._passing = None
                        self.lost += 1
                        break
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            requests.cancel()
            await asyncio.gather(requests, return_exceptions=True)
            writer.transport.abort()
            server_writer.transport.abort()

    async def ended(self) -> None:
        """Wait until all connections have ended; the client has closed its own."""
        await asyncio.gather(*self._serving)

    async def _requests(self, reader: asyncio.StreamReader, server_writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                self.held += not self._open.is_set()
                await self._open.wait()
                server_writer.write(data)
                await server_writer.drain()
        except OSError:
            pass
        finally:
            server_writer.close()


@contextlib.asynccontextmanager
async def lossy(server: StoreServer) -> AsyncIterator[LossyLink]:
    """A LossyLink to `server`."""
    with tempfile.TemporaryDirectory(prefix="a2a-test-lossy-") as folder:
        link = LossyLink(server.url.removeprefix("unix://"), Path(folder) / "s")
        listener = await asyncio.start_unix_server(link.serve, link.socket)
        try:
            yield link
        finally:
            link.let_go()
            listener.close()
            await link.ended()
