"""One run: load and faults for some time, then peace; what is left is written down, and all of it is checked."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from tests.chaos import notes
from tests.chaos.faults import Injector
from tests.chaos.fleet import KEYS, MAX_ATTEMPTS, Fleet
from tests.chaos.history import History
from tests.chaos.load import Account, Worker
from tests.chaos.report import Report, judge, keep
from tests.chaos.survey import survey

WORKERS = 16
INJECTORS = 2
_LEAVE = 90.0

FleetMaker = Callable[[Path], AbstractAsyncContextManager[Fleet]]


async def chaos(seed: int, seconds: float, make: FleetMaker, kinds: Mapping[str, int]) -> Report:
    """Load and faults of these `kinds` for so many `seconds`, on a fleet of its own."""
    history = new_history(seed)
    with tempfile.TemporaryDirectory(prefix="a2a-chaos-notes-") as folder:
        async with make(Path(folder)) as fleet, recorded(fleet, history):
            workers = hire(fleet, history)
            until = time.monotonic() + seconds
            async with asyncio.TaskGroup() as group:
                for number in range(INJECTORS):
                    injector = Injector(number, fleet, history, [worker.cut for worker in workers])
                    group.create_task(injector.run(until, kinds))
                group.create_task(work(workers, until))
            await survey(fleet, history)
    return judge(history)


def new_history(seed: int) -> History:
    """Of a run with the settings of the suite."""
    return History(seed=seed, max_attempts=MAX_ATTEMPTS)


@contextlib.asynccontextmanager
async def recorded(fleet: Fleet, history: History) -> AsyncIterator[None]:
    """Completes the history, also where the run itself fails: then it is kept in a file, which the error names."""
    try:
        yield
    except Exception as error:
        _complete(fleet, history)
        error.add_note(f"the history is in {keep(history)}")
        raise
    _complete(fleet, history)


def _complete(fleet: Fleet, history: History) -> None:
    history.notes.extend(notes.read(fleet.notes))
    history.logs = fleet.logs()


def hire(fleet: Fleet, history: History, old: set[int] | None = None) -> list[Worker]:
    """The callers' workers."""
    accounts = [Account(name, key) for name, key in KEYS.items()]
    return [
        Worker(number, accounts[number // 2 % len(accounts)], fleet.replicas, history, old or set())
        for number in range(WORKERS)
    ]


async def work(workers: Sequence[Worker], until: float) -> None:
    """All workers, until each has brought to an end what it had begun."""
    try:
        async with asyncio.timeout(until - time.monotonic() + _LEAVE), asyncio.TaskGroup() as group:
            for worker in workers:
                group.create_task(worker.run(until))
    finally:
        for worker in workers:
            await worker.close()
