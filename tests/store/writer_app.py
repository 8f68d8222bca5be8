"""Another process: writes so many chunks to a task of the store at URL, in batches, and then its end.

Each line that it reads says how many chunks there may be before it reads the next one.

Usage: python -m tests.store.writer_app URL TASK_ID EPOCH COUNT
"""

import asyncio
import random
import sys

from a2a_grpc.server.core import states
from tests.support.tasks import chunk, open_store, read, status, step


async def write(url: str, task_id: str, epoch: int, count: int) -> None:
    chance = random.Random(count)
    async with open_store(url, "writer") as store:
        stored = await read(store, task_id)
        assert stored.epoch == epoch
        written = operation = allowed = 0
        while written < count:
            while written >= allowed:
                allowed = int(sys.stdin.readline())
            size = min(chance.choice([1, 1, 2, 5, 40]), count - written)
            entries = [chunk(stored, f"{written + at}") for at in range(size)]
            for entry in entries:
                stored.fold.apply(entry)
            head, artifacts = stored.fold.to_bytes()
            operation += 1
            await store.append(
                step(stored, operation, *entries, snapshot_at=written + 1, head=head, artifacts=artifacts)
                if operation % 50 == 0
                else step(stored, operation, *entries)
            )
            written += size
        await store.append(step(stored, operation + 1, status(stored, states.COMPLETED)))


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
