"""A replica's view of the store: its steps and what it follows."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from a2a_grpc.server.core.events import Event
from a2a_grpc.server.store.opening import open_nodes
from a2a_grpc.server.store.records import StoredTask
from a2a_grpc.server.store.tail import Follower, LogTail
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.tasks import open_store
from tests.support.waiting import wait_until


class Place:
    """`store` and `tail` of one replica."""

    def __init__(self, store: TaskStore, tail: LogTail) -> None:
        self.store = store
        self.tail = tail
        self.wakes: list[bytes | None] = []
        """What came over the channel on which others wake this replica."""
        self.begun = 0
        """How many `collect` have read their task and wait for events."""

    async def collect(self, task_id: str, until: int) -> list[Event]:
        """Follow first, read the task, then take every event up to the seq `until`."""
        async with self.tail.follow(task_id) as follower:
            stored = await self.store.read(task_id)
            assert stored is not None
            follower.begin(stored.seq)
            self.begun += 1
            return await take(follower, stored, until)


async def take(follower: Follower, stored: StoredTask, until: int) -> list[Event]:
    """The events after `stored`, up to the seq `until`."""
    events: list[Event] = []
    while (events[-1].seq if events else stored.seq) < until:
        events.append(await follower.next())
    return events


@contextlib.asynccontextmanager
async def open_place(
    url: str, replica: str = "r1", *, tail_url: str = "", buffer: int = 256, patience: float = 30.0, **settings: Any
) -> AsyncIterator[Place]:
    """A place on the server at `url` that is connected; `tail_url` where the events come another way."""
    async with open_store(url, replica, **settings) as store:
        nodes = open_nodes(tail_url, timeout=1.5) if tail_url else store.nodes
        tail = LogTail(
            nodes,
            store,
            lambda task_id: store.keys_of(task_id).events(task_id),
            buffer=buffer,
            timeout=1.5,
            patience=patience,
        )
        place = Place(store, tail)
        tail.watch(store.all_keys()[0].wake(replica), place.wakes.append)
        await tail.start()
        try:
            await wait_until(lambda: tail.connected, "the tail is connected")
            yield place
        finally:
            await tail.close()
            await nodes.close()
