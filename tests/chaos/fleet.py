"""What a run is about: replicas in processes of their own, the store they share, and the ways to reach it."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import redis

from tests.chaos.notes import FOLDER
from tests.support.lossy import LossyLink, lossy
from tests.support.replica import Replica
from tests.support.sentinel import SentinelSet, sentinel_set
from tests.support.servers import StoreServer, fresh_store_server

AGENT = "tests.chaos.agent:agent"
REPLICAS = 3
LEASE = 1.0
MAX_ATTEMPTS = 4
KEYS = {name: f"key-of-{name}" for name in ("ada", "ben", "cem", "dot")}
"""The callers, each with its key."""

SETTINGS: Mapping[str, str] = {
    "A2A_LEASE_TTL": str(LEASE),
    "A2A_MAX_ATTEMPTS": str(MAX_ATTEMPTS),
    # Fewer than there is to do when a replica is away, so that turns have to wait.
    "A2A_MAX_TURNS": "8",
    "A2A_CANCEL_GRACE": "1",
    "A2A_DRAIN_GRACE": "0.5",
    "A2A_DRAIN_TIMEOUT": "8",
    # Small enough that tasks of this size have several snapshots.
    "A2A_SNAPSHOT_EVENTS": "8",
    "A2A_API_KEYS": ",".join(f"{name}:{hashlib.sha256(key.encode()).hexdigest()}" for name, key in KEYS.items()),
}


@dataclass(kw_only=True)
class Fleet:
    """Everything that a run may break."""

    replicas: list[Replica]
    store: StoreServer | SentinelSet
    notes: Path
    links: Sequence[LossyLink] = ()
    """The way of each replica to the store, where there is one that can be cut."""
    busy: list[asyncio.Lock] = field(init=False)
    """For each replica: held by whoever does something to it."""
    store_busy: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.busy = [asyncio.Lock() for _ in self.replicas]

    def client(self) -> redis.Redis:
        """A client of the server that holds the data now."""
        return self.store.client if isinstance(self.store, StoreServer) else self.store.master().client

    def logs(self) -> list[str]:
        """All that the replicas said."""
        return [one._log_path.read_text(errors="replace") for one in self.replicas]


@contextlib.asynccontextmanager
async def plain_fleet(notes: Path) -> AsyncIterator[Fleet]:
    """Three replicas on one server, each over a way of its own."""
    with fresh_store_server() as store:
        async with contextlib.AsyncExitStack() as stack:
            links = [await stack.enter_async_context(lossy(store)) for _ in range(REPLICAS)]
            replicas = [make_replica(link.url, notes) for link in links]
            fleet = Fleet(replicas=replicas, store=store, notes=notes, links=links)
            await stack.enter_async_context(running(fleet))
            yield fleet


@contextlib.asynccontextmanager
async def sentinel_fleet(notes: Path) -> AsyncIterator[Fleet]:
    """Three replicas on a master with two followers, watched by sentinels, and set up to lose nothing acknowledged.

    All three servers have what is acknowledged: a follower that has more than the others is no help where the sentinels
    have chosen another one already. And it is on the disk of each: a master that is back before it was replaced makes
    the others forget what it forgot.
    """
    with sentinel_set(options=("--appendfsync", "always")) as store:
        fleet = Fleet(
            replicas=[make_replica(store.url, notes, A2A_STORE_REPLICAS="2") for _ in range(REPLICAS)],
            store=store,
            notes=notes,
        )
        async with running(fleet):
            yield fleet


def make_replica(url: str, notes: Path, **env: str) -> Replica:
    """A replica with the settings and the agent of the suite."""
    return Replica(agent=AGENT, redis_url=url, env={**SETTINGS, FOLDER: str(notes), **env})


@contextlib.asynccontextmanager
async def running(fleet: Fleet) -> AsyncIterator[None]:
    """Starts all replicas of the fleet and ends them."""
    try:
        await asyncio.gather(*(asyncio.to_thread(one.start) for one in fleet.replicas))
        yield
    finally:
        await asyncio.gather(*(asyncio.to_thread(one.close) for one in fleet.replicas))
