"""An application on the embedded store, to be killed by the tests.

`python -m tests.store.embedded_app DATA_DIR` starts the store and then speaks in lines on stdout:
`url URL`, then `NAME COUNT` after each acknowledged write (eight writers, one list each). On SIGINT it stops writing,
stores the key `goodbye`, ends the store and prints `stopped`.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

import uvloop
from redis.asyncio import Redis

from a2a_grpc.server.store.embedded import EmbeddedStore

WRITERS = 8


def say(line: str) -> None:
    # One write(2) a line: what is in the pipe survives the SIGKILL of this process.
    os.write(1, f"{line}\n".encode())


async def write(client: Redis, name: str, interrupted: asyncio.Event) -> None:
    count = 0
    while not interrupted.is_set():
        count += 1
        await client.rpush(name, count)
        say(f"{name} {count}")


async def main() -> None:
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted.set)
    store = EmbeddedStore(Path(sys.argv[1]))
    url = await store.start()
    say(f"url {url}")
    async with Redis.from_url(url) as client:
        await asyncio.gather(*(write(client, f"writer{n}", interrupted) for n in range(WRITERS)))
        await client.set("goodbye", "1")
    await store.stop()
    say("stopped")


if __name__ == "__main__":
    uvloop.run(main())
