"""The servers that hold the store, whether that is one, a master that may change, or a cluster.

Everybody above says what to call and on which keys; which server that is, and where to go when it is lost, is found out
here and below.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from a2a_grpc.server.store import keys as key_names
from a2a_grpc.server.store.connections import Connect
from a2a_grpc.server.store.link import Argument
from a2a_grpc.server.store.pipeline import Calls, Pipeline, Surroundings
from a2a_grpc.server.store.replicated import ReplicatedPipeline

_ONLY = ""
# Seconds between two times that all connections are replaced because a server says that it is not the one to ask.
_PATIENCE = 1.0

Moved = Callable[[], None]


class Nodes(Protocol):
    """Where to call, and where to listen."""

    @property
    def calls(self) -> Calls:
        """For what writes: answered when it is stored as safely as is set (A2A_STORE_REPLICAS)."""
        ...

    @property
    def reads(self) -> Calls:
        """For what only reads."""
        ...

    def homes(self) -> Sequence[str]:
        """Names of the servers that hold the store now, for `home` and `at`. Empty: they are not known yet."""
        ...

    def home(self, key: str) -> str:
        """The server that holds `key` (or carries this channel) now."""
        ...

    def at(self, home: str, *command: Argument) -> asyncio.Future[Any]:
        """Run a command without a key on one server. The future raises: as those of `reads`."""
        ...

    def connector(self, home: str) -> Connect:
        """Makes connections to the server `home`."""
        ...

    def look(self) -> None:
        """Somebody was refused or turned away: look for the servers again, soon."""
        ...

    def when_moved(self, moved: Moved, renew: Moved) -> None:
        """Call `moved` when keys have another home than before, and `renew` when all connections must be replaced."""
        ...

    async def close(self) -> None:
        """Close all connections; what is under way is given up."""
        ...


class OneServer(Surroundings):
    """One server at one address. It may be another one behind the same address after a failover."""

    def __init__(self, connect: Connect, timeout: float, replicas: int) -> None:
        """`timeout` in seconds; `replicas` must have a write before it is acknowledged."""
        self._connect = connect
        self._reads = Pipeline(connect, timeout, around=self)
        self._calls = (
            ReplicatedPipeline(connect, timeout, replicas, lambda: key_names.mark(0), around=self, name="the store")
            if replicas
            else Pipeline(connect, timeout, around=self)
        )
        self._renewed = float("-inf")
        self._on_renewal: list[Moved] = []

    @property
    def calls(self) -> Calls:
        """See `Nodes`."""
        return self._calls

    @property
    def reads(self) -> Calls:
        """See `Nodes`."""
        return self._reads

    def homes(self) -> Sequence[str]:
        """See `Nodes`."""
        return (_ONLY,)

    def home(self, key: str) -> str:  # noqa: ARG002 - it is all the same
        """See `Nodes`."""
        return _ONLY

    def at(self, home: str, *command: Argument) -> asyncio.Future[Any]:  # noqa: ARG002 - there is only one
        """See `Nodes`."""
        return self._reads.command(*command)

    def connector(self, home: str) -> Connect:  # noqa: ARG002 - there is only one
        """See `Nodes`."""
        return self._connect

    def look(self) -> None:
        """See `Nodes`."""

    def when_moved(self, moved: Moved, renew: Moved) -> None:  # noqa: ARG002 - nothing moves
        """See `Nodes`."""
        self._on_renewal.append(renew)

    async def close(self) -> None:
        """See `Nodes`."""
        await self._calls.close()
        await self._reads.close()

    def astray(self, pipeline: Pipeline) -> None:
        """A write was refused: what only reads and listens would not notice that it is left at the wrong server."""
        pipeline.renew()
        if asyncio.get_running_loop().time() - self._renewed >= _PATIENCE:
            self._renew()
        self.look()

    def _renew(self) -> None:
        self._renewed = asyncio.get_running_loop().time()
        self._calls.renew()
        self._reads.renew()
        for renew in self._on_renewal:
            renew()
