"""What goes on in the background of a service: reaching and watching its store, retention, threads."""

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.server.engine.engine import Engine
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.tail import LogTail
from a2a_grpc.server.store.tasks import TaskStore

log = logging.getLogger(__name__)

_PROBE_INTERVAL = 1.0
_PURGE_INTERVAL = 5.0
_PARTING = 1.0
_WORKERS = "a2a-worker"


def spare_the_collector() -> None:
    """Leave what was loaded at start out of every garbage collection, and collect less often.

    A call makes some hundred objects that live as long as it does, so with the default threshold the collector runs in
    the middle of every call. Measured (bench/README.md): a fifth of the whole time of a SendMessage.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


class StoreWatch:
    """Keeps the readiness true to the store, with three components.

    It takes writes (`store`), it is followed (`events`), and the others know of this replica, so that it claims turns
    (`turns`).

    The service starts without its store and waits for it; it is not ready meanwhile, and not restarted for it (B103).
    """

    def __init__(self, store: TaskStore, tail: LogTail, engine: Engine, readiness: Readiness) -> None:
        self._store = store
        self._tail = tail
        self._engine = engine
        self._readiness = readiness
        readiness.set("store", False, "not reached yet")
        readiness.set("events", False, "not followed yet")
        readiness.set("turns", False, "not claimed yet")

    async def run(self, on_reached: Callable[[], Awaitable[None]]) -> None:
        """Reach the store, start what needs it, call `on_reached`, then watch it for as long as the process lives.

        Raises: StoreMisconfiguredError where the store can be reached and not be used.
        """
        await self._tail.start()
        while True:
            try:
                await self._store.check()
                break
            except StoreUnavailableError as error:
                self._note(error)
                await asyncio.sleep(_PROBE_INTERVAL)
        await on_reached()
        await self._engine.start()
        while True:
            self._note(await self._probe())
            await asyncio.sleep(_PROBE_INTERVAL)

    async def _probe(self) -> StoreUnavailableError | None:
        try:
            await self._store.ping()
        except StoreUnavailableError as error:
            return error
        return None

    def _note(self, error: StoreUnavailableError | None) -> None:
        was_ready = self._readiness.ready
        lease = self._engine.lease
        self._readiness.set("store", error is None, str(error or ""))
        self._readiness.set("turns", lease.valid, lease.trouble or "the other replicas do not know of this one")
        followed = self._tail.connected
        self._readiness.set("events", followed, "the connection that follows the store is down")
        if self._readiness.ready != was_ready:
            log.info("ready" if self._readiness.ready else f"not ready: {self._readiness.snapshot()}")


async def purge_forever(store: TaskStore, letters: DeadLetters) -> None:
    """Erase tasks and dead letters whose time is over, for as long as the process lives; any replica may do it."""
    while True:
        await asyncio.sleep(_PURGE_INTERVAL)
        try:
            while await store.purge():
                pass
            await letters.sweep()
        except StoreUnavailableError:
            continue
        except Exception:
            log.exception("purging failed")


def worker_threads() -> ThreadPoolExecutor:
    """The threads for blocking calls, an agent's among them; `part` knows them by their names."""
    return ThreadPoolExecutor(thread_name_prefix=_WORKERS)


async def part(workers: ThreadPoolExecutor) -> list[str]:
    """Cancel what is still at work when everything is closed, and name what goes on all the same after a moment.

    That is an agent's code: a function that swallows its cancellation, or a blocking call in a thread. asyncio and the
    interpreter would wait for either for as long as it takes, and a platform would have to kill the process.
    """
    until = time.monotonic() + _PARTING
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_PARTING)
    workers.shutdown(wait=False, cancel_futures=True)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(_WORKERS)]
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return [
        *(task.get_name() for task in tasks if not task.done()),
        *(thread.name for thread in threads if thread.is_alive()),
    ]
