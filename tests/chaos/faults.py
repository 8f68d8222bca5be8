"""What goes wrong in a run, picked at random from a seed: one thing at a time, or several that overlap."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from tests.chaos.fleet import LEASE, Fleet
from tests.chaos.history import Fault, History
from tests.support.nodes import Node
from tests.support.sentinel import SentinelSet
from tests.support.servers import StoreServer

_PAUSE = (0.3, 2.5)
"""Seconds between two faults of one injector."""
_OUTLASTS = (1.5 * LEASE, 4 * LEASE)
_BRIEF = (0.1, 0.6 * LEASE)
_EXIT = 30.0
# The sentinels need a second to notice, and a moment to agree: at times they are not given that.
_FAILOVER = (0.5, 6.0)

Action = Callable[[], Awaitable[None]]


class Injector:
    """Breaks one thing after another, and mends each before it goes on to the next."""

    def __init__(self, number: int, fleet: Fleet, history: History, cut: Sequence[Action]) -> None:
        """`cut`: what breaks the connections of one caller each."""
        self._fleet = fleet
        self._history = history
        self._random = random.Random(f"{history.seed} injector {number}")
        self._cut = cut

    async def run(self, until: float, kinds: Mapping[str, int]) -> None:
        """Goes on until then (by the monotonic clock); `kinds` says how often each kind of fault comes, relatively.

        They are dealt like cards: before one comes too often, every other has come.
        """
        known: dict[str, Action] = {
            "kill": self._kill,
            "drain": self._drain,
            "stop": lambda: self._stop(_OUTLASTS),
            "stop briefly": lambda: self._stop(_BRIEF),
            "cut off": lambda: self._cut_off(_OUTLASTS),
            "cut off briefly": lambda: self._cut_off(_BRIEF),
            "lose an answer": self._lose_an_answer,
            "store frozen": self._freeze_store,
            "store paused": self._pause_store,
            "store restarted": lambda: self._restart_store(signal.SIGTERM),
            "store killed": lambda: self._restart_store(signal.SIGKILL),
            "store connections cut": self._cut_store_connections,
            "store master killed": lambda: self._lose_a_node(
                "store master killed", lambda store: store.master(), Node.kill
            ),
            "store master stopped": lambda: self._lose_a_node(
                "store master stopped", lambda store: store.master(), Node.stop
            ),
            "store follower killed": lambda: self._lose_a_node("store follower killed", self._some_follower, Node.kill),
            "store follower stopped": lambda: self._lose_a_node(
                "store follower stopped", self._some_follower, Node.stop
            ),
            "store sentinel killed": lambda: self._lose_a_node("store sentinel killed", self._some_sentinel, Node.kill),
            "callers cut": self._cut_callers,
        }
        deck: list[str] = []
        while time.monotonic() < until:
            if not deck:
                deck = [kind for kind, times in kinds.items() for _ in range(times)]
                self._random.shuffle(deck)
            await known[deck.pop()]()
            await asyncio.sleep(self._random.uniform(*_PAUSE))

    @contextlib.asynccontextmanager
    async def _fault(self, kind: str, replica: int | None) -> AsyncIterator[None]:
        pid = self._fleet.replicas[replica].pid if replica is not None else 0
        fault = Fault(kind=kind, replica=replica, pid=pid, began=time.monotonic())
        self._history.faults.append(fault)
        try:
            yield
        finally:
            fault.ended = time.monotonic()

    # -- replicas ------------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _some_replica(self) -> AsyncIterator[int]:
        number = self._random.randrange(len(self._fleet.replicas))
        async with self._fleet.busy[number]:
            yield number

    async def _kill(self) -> None:
        async with self._some_replica() as number:
            replica = self._fleet.replicas[number]
            async with self._fault("kill", number):
                replica.kill()
            await asyncio.sleep(self._random.uniform(0, 3 * LEASE))
            await asyncio.to_thread(replica.start)

    async def _drain(self) -> None:
        async with self._some_replica() as number:
            replica = self._fleet.replicas[number]
            async with self._fault("drain", number):
                replica.terminate()
                status = await asyncio.to_thread(replica.wait, _EXIT)
            assert status == 0, f"a drained replica ended with {status}:\n{replica.log()}"
            await asyncio.sleep(self._random.uniform(0, LEASE))
            await asyncio.to_thread(replica.start)

    async def _stop(self, seconds: tuple[float, float]) -> None:
        async with self._some_replica() as number:
            replica = self._fleet.replicas[number]
            async with self._fault("stop" if seconds is _OUTLASTS else "stop briefly", number):
                replica.stop_signal()
                await asyncio.sleep(self._random.uniform(*seconds))
                replica.cont()

    async def _cut_off(self, seconds: tuple[float, float]) -> None:
        async with self._some_replica() as number:
            link = self._fleet.links[number]
            async with self._fault("cut off" if seconds is _OUTLASTS else "cut off briefly", number):
                link.hold()
                await asyncio.sleep(self._random.uniform(*seconds))
                link.let_go()

    async def _lose_an_answer(self) -> None:
        async with self._some_replica() as number, self._fault("lose an answer", number):
            self._fleet.links[number].lose_after(self._random.randrange(20))

    # -- the store -----------------------------------------------------------------------------------------------------

    @property
    def _server(self) -> StoreServer:
        assert isinstance(self._fleet.store, StoreServer)
        return self._fleet.store

    async def _freeze_store(self) -> None:
        async with self._fleet.store_busy, self._fault("store frozen", None):
            os.kill(self._server.pid, signal.SIGSTOP)
            await asyncio.sleep(self._random.uniform(0.3, 4 * LEASE))
            os.kill(self._server.pid, signal.SIGCONT)

    async def _pause_store(self) -> None:
        async with self._fleet.store_busy, self._fault("store paused", None):
            seconds = self._random.uniform(0.3, 3 * LEASE)
            await asyncio.to_thread(self._server.pause, seconds)
            await asyncio.sleep(seconds)

    async def _restart_store(self, by: signal.Signals) -> None:
        kind = "store killed" if by is signal.SIGKILL else "store restarted"
        async with self._fleet.store_busy, self._fault(kind, None):
            await asyncio.to_thread(self._server.kill, by)
            await asyncio.sleep(self._random.uniform(0, 3 * LEASE))
            await asyncio.to_thread(self._server.start)

    async def _cut_store_connections(self) -> None:
        async with self._fleet.store_busy, self._fault("store connections cut", None):
            await asyncio.to_thread(self._server.cut_connections, self._random.choice(["normal", "pubsub"]))

    # -- a store of several servers ------------------------------------------------------------------------------------

    async def _lose_a_node(self, kind: str, pick: Callable[[SentinelSet], Node], how: Callable[[Node], None]) -> None:
        store = self._fleet.store
        assert isinstance(store, SentinelSet)
        async with self._fleet.store_busy, self._fault(kind, None):
            await asyncio.to_thread(how, await asyncio.to_thread(pick, store))
            await asyncio.sleep(self._random.uniform(*_FAILOVER))
            await asyncio.to_thread(store.repair)

    def _some_follower(self, store: SentinelSet) -> Node:
        return self._random.choice(store.replicas())

    def _some_sentinel(self, store: SentinelSet) -> Node:
        return self._random.choice(store.sentinels)

    # -- callers -------------------------------------------------------------------------------------------------------

    async def _cut_callers(self) -> None:
        async with self._fault("callers cut", None):
            await self._random.choice(self._cut)()


ON_ONE_SERVER: Mapping[str, int] = {
    "kill": 5,
    "drain": 3,
    "stop": 4,
    "stop briefly": 2,
    "cut off": 4,
    "cut off briefly": 2,
    "lose an answer": 3,
    "store frozen": 2,
    "store paused": 2,
    "store restarted": 2,
    "store killed": 2,
    "store connections cut": 2,
    "callers cut": 4,
}
"""How often each kind comes on one server."""

ON_SENTINEL: Mapping[str, int] = {
    "kill": 4,
    "drain": 2,
    "stop": 3,
    "store master killed": 5,
    "store master stopped": 5,
    "store follower killed": 2,
    "store follower stopped": 2,
    "store sentinel killed": 2,
    "callers cut": 3,
}
"""How often each kind comes where sentinels watch over the store."""
