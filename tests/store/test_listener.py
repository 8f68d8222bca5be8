"""The connection that hears what is published: what it says is confirmed is heard from then on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable

from a2a_grpc.server.store.connections import to_server
from a2a_grpc.server.store.listener import Listener
from tests.support.servers import StoreServer
from tests.support.waiting import wait_until


class Notes:
    """A `Hearer` that notes what it is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        """The channels that were confirmed, in their order."""

    def confirmed(self, channel: str) -> None:
        self.heard.append(channel)

    def published(self, channel: str, data: bytes) -> None:
        self.heard.append(f"{channel} {data!r}")

    def interrupted(self, channels: Iterable[str]) -> None:
        """Nobody waits for these."""

    def away(self, listener: Listener) -> None:
        """The store is there."""

    def astray(self) -> None:
        """There is one node."""


@contextlib.asynccontextmanager
async def listening(server: StoreServer, notes: Notes) -> AsyncIterator[Listener]:
    """A listener with a connection, on which the channel `first` is confirmed."""
    listener = Listener(to_server(server.url), notes, timeout=1.5, patience=30.0)
    listener.add("first")
    listener.start()
    try:
        await wait_until(lambda: listener.connected, "it listens")
        yield listener
    finally:
        await listener.close()


async def test_a_channel_that_was_dropped_meanwhile_is_not_confirmed(store_server: StoreServer) -> None:
    """It has another home now. Who looked into the log for it here would not do so again when it is confirmed there."""
    notes = Notes()
    async with listening(store_server, notes) as listener:
        listener.add("moving")
        listener.drop("moving")
        listener.add("last")
        await wait_until(lambda: "last" in notes.heard, "what was asked for after it is confirmed")
        assert notes.heard == ["first", "last"]


async def test_a_channel_that_comes_back_at_once_is_confirmed_once(store_server: StoreServer) -> None:
    notes = Notes()
    async with listening(store_server, notes) as listener:
        listener.add("back")
        listener.drop("back")
        listener.add("back")
        listener.add("last")
        await wait_until(lambda: "last" in notes.heard, "what was asked for after it is confirmed")
        assert notes.heard == ["first", "back", "last"]
        await asyncio.to_thread(store_server.client.execute_command, "SPUBLISH", "back", "news")
        await wait_until(lambda: "back b'news'" in notes.heard, "it is heard")
