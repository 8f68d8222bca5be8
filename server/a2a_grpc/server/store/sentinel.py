"""A master that sentinels know: asked for before every connection, and watched, since it may change unseen."""

import asyncio
import contextlib
import logging

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from a2a_grpc.server.store.asking import ask_all
from a2a_grpc.server.store.connections import Connect, to_master, to_server
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.location import Endpoint, Location
from a2a_grpc.server.store.nodes import OneServer
from a2a_grpc.server.store.pipeline import Pipeline

log = logging.getLogger(__name__)

_ANSWER = 0.5
# A server that is stopped takes connections and says nothing. One that works says who it is in milliseconds.
_HANDSHAKE = 0.5
_LOOK = 1.0
_AT_MOST = 0.1


class Sentinels:
    """What the sentinels say about one master."""

    def __init__(self, location: Location) -> None:
        """Raises: StoreMisconfiguredError for options that cannot be used."""
        self._name = location.master
        self._asked = [
            Pipeline(to_server(location.sentinel_url(endpoint)), _ANSWER, name=f"the sentinel {endpoint}")
            for endpoint in location.endpoints
        ]

    async def master(self) -> Endpoint:
        """Where the master is, as the sentinel with the newest knowledge says. Raises: ConnectionError."""
        try:
            asking = [asyncio.ensure_future(self._ask(asked)) for asked in self._asked]
            answers: list[tuple[int, Endpoint] | None] = await ask_all(asking)
        except (StoreUnavailableError, RedisError) as error:
            raise ConnectionError(f"no sentinel says where the master {self._name} is: {error}") from None
        _, newest = max(answer for answer in answers if answer is not None)
        return newest

    async def _ask(self, sentinel: Pipeline) -> tuple[int, Endpoint]:
        """What one sentinel says, and how new that is."""
        # Both are needed. While a failover is being completed, the sentinel that leads it has the new epoch, and tells
        # the new address only to those who ask for nothing else; with the epoch it still tells the old one.
        address, facts = await asyncio.gather(
            sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._name),
            sentinel.command("SENTINEL", "MASTER", self._name),
        )
        epoch = facts[facts.index(b"config-epoch") + 1]
        return int(epoch), Endpoint(address[0].decode(), int(address[1]))

    async def close(self) -> None:
        """Close the connections."""
        for asked in self._asked:
            await asked.close()


class SentinelMaster(OneServer):
    """The master of a set of servers; after a failover, the next one.

    A connection is left as soon as the sentinels name another master: the old one may be only stopped, and come back
    with what it had, to answer whoever is still connected.
    """

    def __init__(self, location: Location, timeout: float, replicas: int) -> None:
        """Raises: StoreMisconfiguredError for options that cannot be used."""
        self._location = location
        self._sentinels = Sentinels(location)
        self._servers: dict[Endpoint, Connect] = {}
        self._to(location.endpoints[0])  # so that wrong options are told now
        self._master: Endpoint | None = None
        self._wake = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        super().__init__(self._to_the_master, timeout, replicas)

    def look(self) -> None:
        """See `Nodes`."""
        self._wake.set()

    async def close(self) -> None:
        """See `Nodes`."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await super().close()
        await self._sentinels.close()

    def _to(self, endpoint: Endpoint) -> Connect:
        if endpoint not in self._servers:
            self._servers[endpoint] = to_master(to_server(self._location.server_url(endpoint)))
        return self._servers[endpoint]

    async def _to_the_master(self) -> AbstractConnection:
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="sentinel-watch")
        master = await self._sentinels.master()
        try:
            async with asyncio.timeout(_HANDSHAKE):
                connection = await self._to(master)()
        except TimeoutError:
            raise ConnectionError(f"the master {master} does not answer") from None
        try:
            await self._confirm(master)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        self._note(master)
        return connection

    async def _confirm(self, master: Endpoint) -> None:
        # It may have been stopped meanwhile, and may have gone on as a master that no sentinel knows as one.
        if await self._sentinels.master() != master:
            raise ConnectionError("the master has changed")

    async def _watch(self) -> None:
        while True:
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK):
                        await self._wake.wait()
                self._wake.clear()
                self._note(await self._sentinels.master())
                await asyncio.sleep(_AT_MOST)
            except OSError:
                # Without news what is connected stays so.
                await asyncio.sleep(_AT_MOST)
            except Exception:
                log.exception("watching the sentinels failed")
                await asyncio.sleep(_LOOK)

    def _note(self, master: Endpoint) -> None:
        before, self._master = self._master, master
        if before is not None and before != master:
            log.warning("the master of the store was %s and is %s now", before, master)
            self._renew()
