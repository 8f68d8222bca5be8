"""What a lost server of the store takes with it: tasks that were acknowledged and are not there afterwards.

`python -m bench.durability [--rounds N]` prints a table in Markdown. It starts servers of its own on 127.0.0.1.
A killed process is not a power cut: what it had handed to the kernel is written all the same.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.nodes import Node, binary_of
from tests.support.replica import free_ports
from tests.support.sentinel import SentinelSet, sentinel_set
from tests.support.servers import KINDS
from tests.support.tasks import create, open_store
from tests.support.waiting import wait_until

_WRITERS = 32
_LOAD = 1.0
_LAG = 0.5
REDIS = KINDS[2]


@dataclass
class Round:
    """One loss of a server."""

    acknowledged: int
    lost: int


class Writers:
    """Creates tasks as fast as they are acknowledged."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._tasks = [asyncio.create_task(self._write()) for _ in range(_WRITERS)]
        self.acknowledged: list[str] = []
        self.refused = 0

    async def _write(self) -> None:
        while True:
            try:
                self.acknowledged.append((await create(self._store)).task_id)
            except (StoreUnavailableError, AssertionError):
                # An assertion: it was acknowledged and, when it was read, gone already. It counts by the failed read.
                self.refused += 1

    async def stop(self) -> None:
        """Write no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def lost(store: TaskStore, acknowledged: Sequence[str]) -> int:
    """How many of the acknowledged tasks are not there."""
    gone = 0
    for at in range(0, len(acknowledged), 500):
        found = await asyncio.gather(*(store.read(task_id, patient=True) for task_id in acknowledged[at : at + 500]))
        gone += sum(stored is None for stored in found)
    return gone


@contextlib.contextmanager
def busy_disk(folder: Path) -> Iterator[None]:
    """Inside the block something else writes to the disk of `folder`, and has it written through again and again."""
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            with (folder / "busy").open("wb") as file:
                for _ in range(16):
                    file.write(bytes(4 << 20))
                file.flush()
                os.fsync(file.fileno())

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()
        (folder / "busy").unlink()


async def killed_alone(appendfsync: str, *, busy: bool) -> Round:
    """One server without replicas is killed under load, perhaps on a `busy` disk, and started again."""
    node = Node(binary_of(REDIS), free_ports(1)[0], ("--appendonly", "yes", "--appendfsync", appendfsync, "--save", ""))
    with contextlib.closing(node), contextlib.ExitStack() as stack:
        node.start()
        if busy:
            stack.enter_context(busy_disk(Path(tempfile.gettempdir())))
        async with open_store(f"redis://{node.address}", timeout=0.5) as store:
            writers = Writers(store)
            await asyncio.sleep(_LOAD + _LAG)
            await asyncio.to_thread(node.kill)
            await writers.stop()
            await asyncio.to_thread(node.start)
            return Round(len(writers.acknowledged), await lost(store, writers.acknowledged))


@contextlib.contextmanager
def cut_off(nodes: Sequence[Node]) -> Iterator[None]:
    """Inside the block the nodes lose their master and do not get back to it: it refuses their credentials."""
    for node in nodes:
        node.client.config_set("masteruser", "nobody")
        node.client.config_set("masterauth", "nothing")
        node.client.client_kill_filter(_type="master")
    try:
        yield
    finally:
        for node in nodes:
            node.client.config_set("masteruser", "")
            node.client.config_set("masterauth", "")


async def master_killed(servers: SentinelSet, replicas: int, behind: int) -> Round:
    """The master is killed under load, `behind` of its replicas being cut off from it half a second before."""
    master, others = servers.master(), servers.replicas()
    async with open_store(servers.url, timeout=0.5, patience=30.0, store_replicas=replicas) as store:
        writers = Writers(store)
        await asyncio.sleep(_LOAD)
        with cut_off(others[:behind]):
            await asyncio.sleep(_LAG)
            await asyncio.to_thread(master.kill)
        await writers.stop()
        await wait_until(lambda: master.port not in servers.named(), "there is another master", 20)
        found = Round(len(writers.acknowledged), await lost(store, writers.acknowledged))
    await asyncio.to_thread(servers.repair)
    return found


def _rows(rounds: int) -> Iterator[tuple[str, list[Round]]]:
    for appendfsync, busy in product(("everysec", "always"), (False, True)):
        name = f"one server, `appendfsync {appendfsync}`{', the disk busy' if busy else ''}, killed and started again"
        yield name, [asyncio.run(killed_alone(appendfsync, busy=busy)) for _ in range(rounds)]
    cases: Sequence[tuple[str, dict[str, Any], int, int]] = (
        ("2 replicas", {}, 0, 0),
        ("2 replicas, both cut off", {}, 0, 2),
        ("2 replicas, both cut off, `min-replicas-to-write 1`, `min-replicas-max-lag 1`", _MIN_REPLICAS, 0, 2),
        ("2 replicas, both cut off, `A2A_STORE_REPLICAS=1`", {}, 1, 2),
        ("2 replicas, one cut off, `A2A_STORE_REPLICAS=1`", {}, 1, 1),
        ("2 replicas, `A2A_STORE_REPLICAS=1`", {}, 1, 0),
        ("2 replicas, `A2A_STORE_REPLICAS=2`", {}, 2, 0),
        ("1 replica, cut off, `A2A_STORE_REPLICAS=1`", {"servers": 2}, 1, 1),
    )
    for name, how, replicas, behind in cases:
        with sentinel_set(REDIS, **how) as servers:
            yield name, [asyncio.run(master_killed(servers, replicas, behind)) for _ in range(rounds)]


_MIN_REPLICAS = {"options": ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "1")}


def _counted(numbers: Callable[[Round], int], rounds: Sequence[Round]) -> str:
    found = [numbers(one) for one in rounds]
    return f"{median(found):.0f} / {max(found)}"


def main() -> int:
    """Measure and print. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.durability", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    sys.stdout.write(f"{time.strftime('%Y-%m-%d')}, {rounds} rounds of each\n\n")
    sys.stdout.write(
        "| store | acknowledged, all rounds | lost, median / max | rounds with a loss |\n|---|---|---|---|\n"
    )
    for name, found in _rows(rounds):
        sys.stdout.write(
            f"| {name} | {sum(one.acknowledged for one in found)} | {_counted(lambda one: one.lost, found)} "
            f"| {sum(one.lost > 0 for one in found)} of {len(found)} |\n"
        )
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
