"""One connection to one node that carries what is published on some of its sharded channels."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable
from typing import Any, Protocol

from hiredis import ReplyError
from redis.exceptions import RedisError

from a2a_grpc.server.store.connections import Connect
from a2a_grpc.server.store.link import Link, pack

log = logging.getLogger(__name__)

_RECONNECT_PAUSE = 0.1
_TICK = 1.0
_QUIET = 5.0
_PING = pack("PING")


class Hearer(Protocol):
    """Who is told what a listener hears."""

    def confirmed(self, channel: str) -> None:
        """From now on nothing is missed that is published on `channel`."""
        ...

    def published(self, channel: str, data: bytes) -> None:
        """`data` was published on `channel`."""
        ...

    def interrupted(self, channels: Iterable[str]) -> None:
        """What is published on `channels` may be missed until they are confirmed again."""
        ...

    def away(self, listener: "Listener") -> None:
        """There has been no connection for as long as anybody should wait; told again and again."""
        ...

    def astray(self) -> None:
        """The node says that some channels are another node's."""
        ...


class Listener:
    """Keeps the channels it is given subscribed, on a connection that is made anew whenever it is lost."""

    def __init__(self, connect: Connect, hearer: Hearer, *, timeout: float, patience: float) -> None:
        """`timeout`: seconds for a connection to be made; `patience`: how long to be without one before `away`."""
        self._dial = connect
        self._hearer = hearer
        self._timeout = timeout
        self._patience = patience
        self.channels: set[str] = set()
        self.connected = False
        """Some channel was confirmed on the connection that stands."""
        self._link: Link | None = None
        self._lost = asyncio.Event()
        self._refused: str | None = None
        """What the node answered instead of a confirmation."""
        self._asked: Counter[str] = Counter()
        """How many confirmations are still to come, by channel: only the last one counts."""
        self._left: Counter[str] = Counter()
        """How many channels were left whose last word is still to come."""
        self._pinged = False
        self._runs: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to listen; the connection is made in the background."""
        self._runs = asyncio.get_running_loop().create_task(self._run(), name="store-listener")

    async def close(self) -> None:
        """Close the connection."""
        if self._runs is not None:
            self._runs.cancel()
            await asyncio.gather(self._runs, return_exceptions=True)

    def renew(self) -> None:
        """Replace the connection."""
        if self._link is not None:
            self._link.abort()

    def add(self, channel: str) -> None:
        """Listen to `channel` too."""
        self.channels.add(channel)
        if self._link is not None:
            self._subscribe(self._link, channel)

    def drop(self, channel: str) -> None:
        """Listen to `channel` no longer."""
        self.channels.discard(channel)
        if self._link is not None:
            self._left[channel] += 1
            self._link.send(pack("SUNSUBSCRIBE", channel))

    def _subscribe(self, link: Link, channel: str) -> None:
        # One command each: in a cluster the channels of one must be in one slot.
        self._asked[channel] += 1
        link.send(pack("SSUBSCRIBE", channel))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        lost, trouble = loop.time(), ""
        while True:
            try:
                await self._listen()
            except (RedisError, OSError, TimeoutError) as error:
                if self.connected:
                    lost, trouble = loop.time(), ""
                if str(error) != trouble:
                    trouble = str(error)
                    log.warning("lost the connection that follows the store: %s", error)
            except Exception:
                # Whatever it was, followers must not be left to the safety poll: connect anew, look into the log.
                log.exception("the connection that follows the store failed")
            finally:
                self.connected = False
            if loop.time() - lost >= self._patience:
                self._hearer.away(self)
            await asyncio.sleep(_RECONNECT_PAUSE)

    async def _listen(self) -> None:
        """Connect, and return only by an exception: that the connection was lost."""
        link = Link(self._on_reply, self._on_lost)
        self._lost.clear()
        self._refused, self._pinged = None, False
        try:
            async with asyncio.timeout(self._timeout):
                await link.open(self._dial)
            self._link = link
            for channel in self.channels:
                self._subscribe(link, channel)
            while not self._lost.is_set():
                await self._wait(link)
            raise ConnectionError(self._refused or "the store closed it")
        finally:
            self._link = None
            link.abort()
            self._asked.clear()
            self._left.clear()
            self._hearer.interrupted(self.channels)

    async def _wait(self, link: Link) -> None:
        try:
            async with asyncio.timeout(_TICK):
                await self._lost.wait()
        except TimeoutError:
            quiet = asyncio.get_running_loop().time() - link.heard
            if quiet < _QUIET:
                self._pinged = False
            elif not self._pinged:
                # A dead peer looks like a quiet one until it is asked.
                self._pinged = True
                link.send(_PING)
            elif quiet >= _QUIET + self._timeout:
                raise TimeoutError("the store is silent") from None

    def _on_lost(self, _: Link) -> None:
        self._lost.set()

    def _on_reply(self, reply: Any) -> None:
        if self._link is None:
            return
        if isinstance(reply, ReplyError):
            # It does not say of which channel: begin anew with all of them.
            self._refused = str(reply)
            self._hearer.astray()
            self._link.abort()
        elif isinstance(reply, list) and reply[0] != b"pong":
            kind, channel = reply[0], reply[1].decode()
            if kind == b"smessage":
                self._hearer.published(channel, reply[2])
            elif kind == b"ssubscribe":
                self._confirm(channel)
            elif kind == b"sunsubscribe":
                self._parted(channel)

    def _confirm(self, channel: str) -> None:
        self._asked[channel] -= 1
        if self._asked[channel] > 0:
            return
        del self._asked[channel]
        self.connected = True
        if channel in self.channels:
            # One that was dropped meanwhile is listened to elsewhere, and what comes there is not heard yet.
            self._hearer.confirmed(channel)

    def _parted(self, channel: str) -> None:
        if self._left[channel] > 0:
            self._left[channel] -= 1
            if not self._left[channel]:
                del self._left[channel]
            return
        if channel in self.channels and self._link is not None:
            # The node gave the slot away, and the subscription with it.
            self._hearer.astray()
            self._link.abort()
