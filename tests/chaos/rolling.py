"""Replicas of the version before this one beside current ones, on one store and under load, until all are replaced."""

import asyncio
import contextlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

from a2a_grpc.server.store.levels import Levels
from tests.chaos.faults import Injector
from tests.chaos.fleet import Fleet, make_replica, running
from tests.chaos.history import Fault, History
from tests.chaos.report import Report, judge
from tests.chaos.run import hire, new_history, recorded, work
from tests.chaos.survey import survey
from tests.support.replica import ROOT, Replica
from tests.support.servers import fresh_store_server
from tests.support.tasks import open_store

PREVIOUS = "b8fdb8e"
"""The last commit of the version before this one.

With a release it moves on: to the commit that the tag of the release names. What only the version before did goes then
from `Checker`, where it asks for `old`.
"""

OLD, CURRENT = 2, 1
_SOURCES = ("server", "client", "generated")
_EXIT = 30.0


def unpack_previous(folder: Path, commit: str = PREVIOUS) -> str:
    """Writes the sources of the previous version to `folder`. Returns why that cannot be done, or ""."""
    try:
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", commit, *_SOURCES],  # noqa: S607 - wherever git is
            capture_output=True,
            check=True,
        )
    except FileNotFoundError:
        return "there is no git"
    except subprocess.CalledProcessError as error:
        return f"this clone has no commit {commit}, as a shallow one: {error.stderr.decode().strip()}"
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as sources:
        sources.extractall(folder, filter="data")
    return ""


class Aging:
    """Some replicas of a fleet that run the sources in `folder`, until each is renewed."""

    def __init__(self, folder: Path) -> None:
        self._path = os.pathsep.join(str(folder / source) for source in _SOURCES)
        self.old: set[int] = set()

    def age(self, number: int, replica: Replica) -> None:
        """Has it run the old version from its next start on."""
        replica.env["PYTHONPATH"] = self._path
        self.old.add(number)

    def renew(self, number: int, replica: Replica) -> None:
        """Has it run the current version from its next start on."""
        del replica.env["PYTHONPATH"]
        self.old.discard(number)

    def source(self) -> str:
        """The file of the server that an old replica runs."""
        return subprocess.run(
            [sys.executable, "-c", "import a2a_grpc.server.main as main; print(main.__file__)"],
            env={**os.environ, "PYTHONPATH": self._path},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()


@contextlib.asynccontextmanager
async def mixed_fleet(notes: Path, aging: Aging) -> AsyncIterator[Fleet]:
    """Old and current replicas on one server."""
    with fresh_store_server() as store:
        replicas = [make_replica(store.url, notes) for _ in range(OLD + CURRENT)]
        for number in range(OLD):
            aging.age(number, replicas[number])
        fleet = Fleet(replicas=replicas, store=store, notes=notes)
        async with running(fleet):
            yield fleet


async def roll(seed: int, seconds: float, previous: Path, kinds: Mapping[str, int] | None = None) -> Report:
    """Load for so many seconds; in the second half of them the old replicas are replaced, one by one.

    `previous` holds the sources of the old version. In the first half there are faults of these `kinds`, so that turns
    of either version are recovered by the other.
    """
    history, aging = new_history(seed), Aging(previous)
    with tempfile.TemporaryDirectory(prefix="a2a-chaos-notes-") as folder:
        async with mixed_fleet(Path(folder), aging) as fleet, recorded(fleet, history):
            until = time.monotonic() + seconds
            workers = hire(fleet, history, aging.old)
            async with asyncio.TaskGroup() as group:
                group.create_task(work(workers, until))
                if kinds:
                    injector = Injector(0, fleet, history, [worker.cut for worker in workers])
                    await injector.run(until - seconds / 2, kinds)
                else:
                    await asyncio.sleep(seconds / 2)
                for number in sorted(aging.old):
                    await _replace(number, fleet, aging, history)
                    await asyncio.sleep(seconds / (4 * OLD))
            await survey(fleet, history, partial(_recount, fleet))
    return judge(history)


async def _recount(fleet: Fleet) -> None:
    """What a replica does that is measured: count what the old version has not."""
    async with open_store(fleet.replicas[0].env["A2A_REDIS_URL"], "counter") as store:
        levels = Levels(store)
        await levels.walk(await levels.look())
        assert await levels.look() == []


async def _replace(number: int, fleet: Fleet, aging: Aging, history: History) -> None:
    replica = fleet.replicas[number]
    fault = Fault(kind="drain of the old", replica=number, pid=replica.pid, began=time.monotonic())
    history.faults.append(fault)
    replica.terminate()
    status = await asyncio.to_thread(replica.wait, _EXIT)
    fault.ended = time.monotonic()
    assert status == 0, f"a replica of the previous version ended with {status}:\n{replica.log()}"
    aging.renew(number, replica)
    await asyncio.to_thread(replica.start)
