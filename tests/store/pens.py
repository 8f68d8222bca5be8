"""Who writes to a task, and who looks on."""

from a2a_grpc.server.store.records import StoredTask
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.places import Place
from tests.support.tasks import chunk, step


class Pen:
    """Writes chunks to a task as its holder."""

    def __init__(self, store: TaskStore, stored: StoredTask) -> None:
        self.store = store
        self.stored = stored
        self.operation = 0
        self.seq = stored.seq

    async def write(self, count: int = 1) -> None:
        self.operation += 1
        entries = [chunk(self.stored, f"{self.seq + at}") for at in range(count)]
        appended = await self.store.append(step(self.stored, self.operation, *entries))
        self.seq = appended.first + count - 1


async def see(place: Place, stored: StoredTask, seen: list[int]) -> None:
    """Put the numbers of all events after `stored` into `seen` as they come, until it is cancelled."""
    async with place.tail.follow(stored.task_id) as follower:
        follower.begin(stored.seq)
        place.begun += 1
        while True:
            seen.append((await follower.next()).seq)
