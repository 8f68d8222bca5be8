"""This replica's place among the others: it says that it is there, sees who is lost, and knows when it is out itself.

A replica is lost when the store has not heard of it for the length of the lease, and only an observer who was heard all
that time himself may say so: what looks like the loss of everybody else is mostly an outage of the store.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.registry import Registry, Roll

log = logging.getLogger(__name__)

_BEATS = 4
"""How often a replica says that it is there, within the length of the lease."""
# A call that a lost replica had sent may reach the store late, and take a turn for it once more.
_RECOVER_AGAIN = 5.0
_RECOVER_FOR_MS = 60_000


class Lease:
    """Keeps this replica registered for as long as it can be."""

    def __init__(
        self,
        registry: Registry,
        *,
        ttl: float,
        patience: float,
        load: Callable[[], tuple[int, int]],
        on_lost: Callable[[], None],
        recover: Callable[[str, int | None], Awaitable[bool]],
    ) -> None:
        """`ttl` and `patience` in seconds.

        `load` says how many turns run here and how many may. `on_lost` is called when this replica was taken for lost,
        or could not reach the store for longer than `patience`: nothing it runs may go on. `recover` takes the turns of
        a lost replica, as long as it is the one that was condemned at the given time, and says whether none is left.
        """
        self._registry = registry
        self._ttl = ttl
        self._patience = patience
        self._load = load
        self._on_lost = on_lost
        self._recover = recover
        self._now = asyncio.get_running_loop().time
        self._heard = self._steady = self._now()
        """When the store last heard of this replica, and since when it has without a hole."""
        self._seen: dict[str, tuple[int, float]] = {}
        """The last beat of each other replica, and when it was first seen here."""
        self._recovering: dict[str, asyncio.Task[None]] = {}
        self._recovered: dict[str, float] = {}
        """When it was last tried to recover the turns of each."""
        self._done: dict[str, int] = {}
        """Those of which nothing was left the last time, with the time at which they were condemned."""
        self.valid = False
        """Turns may be claimed: somebody would notice if this replica went away."""
        self.trouble = "not reached yet"
        """Why the store has not heard of this replica at the last try, or ""."""

    async def run(self) -> None:
        """Say so for ever that this replica is there."""
        while True:
            begun = self._now()
            try:
                await self.beat()
            except Exception:
                log.exception("the lease cannot be kept")
            late = self._now() - begun
            await asyncio.sleep(max(0.0, self._ttl / _BEATS - late))

    async def beat(self) -> None:
        """One round: be heard, and look after the others."""
        turns, max_turns = self._load()
        try:
            roll = await self._registry.beat(turns, max_turns, enters=not self.valid)
            now = self._now()
            if now - self._heard > self._ttl / 2:
                self._steady = now
            self._heard, self.trouble = now, ""
            if roll is None:
                await self._condemned()
                return
            self.valid = True
            await self._look_after(roll, now)
        except StoreUnavailableError as error:
            self.trouble = str(error)
            if self.valid and self._now() - self._heard > self._patience:
                log.error("the store was not reached for %.0f s: what runs here is stopped", self._patience)
                self.valid = False
                self._on_lost()

    async def close(self) -> None:
        """Stop recovering the turns of others."""
        for recovering in self._recovering.values():
            recovering.cancel()
        await asyncio.gather(*self._recovering.values(), return_exceptions=True)

    async def _condemned(self) -> None:
        """Others have taken this replica for lost: stop everything, give back what they did not take, begin anew."""
        name = self._registry.name
        if self.valid:
            log.warning("this replica was taken for lost; its turns are run by others, and are stopped here")
            self.valid = False
            self._on_lost()
        since = await self._registry.condemned_since(name)
        if await self._recover(name, since):
            await self._registry.acquit(name)

    async def _look_after(self, roll: Roll, now: float) -> None:
        for name, beat_ms in roll.beats.items():
            if name == self._registry.name or not self._is_lost(name, beat_ms, roll.now_ms, now):
                continue
            if await self._registry.condemn(name, beat_ms):
                silence = (roll.now_ms - beat_ms) / 1000
                log.warning("replica %s was not heard of for %.1f s; its turns are recovered", name, silence)
                since = await self._registry.condemned_since(name)
                if since is not None:
                    self._begin_recovery(name, since)
        self._seen = {name: seen for name, seen in self._seen.items() if name in roll.beats}
        for name, since in roll.condemned.items():
            if roll.now_ms - since > _RECOVER_FOR_MS and self._done.get(name) == since:
                await self._registry.acquit(name)
            elif now - self._recovered.get(name, float("-inf")) >= _RECOVER_AGAIN:
                self._begin_recovery(name, since)
        self._recovered = {name: at for name, at in self._recovered.items() if name in roll.condemned}
        self._done = {name: since for name, since in self._done.items() if name in roll.condemned}

    def _is_lost(self, name: str, beat_ms: int, store_ms: int, now: float) -> bool:
        known, since = self._seen.get(name, (0, 0.0))
        if known != beat_ms:
            self._seen[name] = (beat_ms, now)
            return False
        # The store's clock may jump in a failover, so the silence must have been heard here too.
        silent = store_ms - beat_ms >= self._ttl * 1000 and now - since >= self._ttl / 2
        return silent and now - self._steady >= self._ttl

    def _begin_recovery(self, name: str, since: int) -> None:
        if name not in self._recovering:
            self._recovered[name] = self._now()
            recovering = asyncio.create_task(self._recover_turns(name, since), name=f"recover-{name}")
            self._recovering[name] = recovering
            recovering.add_done_callback(lambda _: self._recovering.pop(name, None))

    async def _recover_turns(self, name: str, since: int) -> None:
        self._done.pop(name, None)
        try:
            if await self._recover(name, since):
                self._done[name] = since
        except StoreUnavailableError as error:
            self._recovered.pop(name, None)
            log.warning("the turns of %s are not all recovered yet: %s", name, error)
        except Exception:
            log.exception("the turns of %s cannot be recovered", name)
