"""Delivers the events of tasks to their webhooks; every replica does.

A webhook that is due is claimed with a lease (`leases`), told the events behind its cursor one after the other
(`teller`), and let go when it knows them all. There is one request at a time for each webhook, so it gets events in
their order.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

from a2a_grpc.server.push.leases import Leases
from a2a_grpc.server.push.teller import Teller
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.webhooks import Webhooks
from a2a_grpc.wire.errors import excerpt

log = logging.getLogger(__name__)

# Without any news the store is asked so often, in seconds; a webhook whose time comes earlier is not late.
_POLL = 1.0
# Seconds that requests under way have to be answered when the process ends.
_FAREWELL = 2.0


class PushSender:
    """The sender of one replica."""

    def __init__(self, webhooks: Webhooks, leases: Leases, teller: Teller, *, concurrency: int) -> None:
        """Up to `concurrency` webhooks are claimed at the same time."""
        self._webhooks = webhooks
        self._leases = leases
        self._teller = teller
        self._concurrency = concurrency
        self._active: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._news = asyncio.Event()

    def watch(self, watch: Callable[[str, Callable[[bytes | None], None]], None]) -> None:
        """Hear by `watch` (see `LogTail.watch`) when webhooks are due."""
        for channel in self._webhooks.channels():
            watch(channel, lambda _: self._news.set())

    async def run(self) -> None:
        """Deliver for as long as the process lives."""
        renewing = asyncio.create_task(self._leases.renew(self._lost), name="push-leases")
        try:
            while True:
                wait = _POLL
                try:
                    wait = await self._round()
                except StoreUnavailableError:
                    pass
                except Exception:
                    log.exception("webhooks cannot be looked for")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._news.wait()
        finally:
            await self._finish(renewing)

    async def _round(self) -> float:
        """Begin with what is due, as far as there is room; seconds until the next look."""
        self._news.clear()
        room = self._concurrency - len(self._active)
        if room <= 0:
            return _POLL
        due = await self._webhooks.due(room)
        for row in due.rows:
            if row not in self._active and len(self._active) < self._concurrency:
                serving = asyncio.create_task(self._serve(row), name=f"push-{row[0]}")
                self._active[row] = serving
                serving.add_done_callback(partial(self._over, row))
        return min(_POLL, max(due.next or _POLL, 0.01))

    def _over(self, row: tuple[str, str], _: asyncio.Task[None]) -> None:
        if len(self._active) >= self._concurrency:
            # Others may wait for this place.
            self._news.set()
        self._active.pop(row, None)

    def _lost(self, row: tuple[str, str]) -> None:
        if (serving := self._active.get(row)) is not None:
            serving.cancel()

    async def _serve(self, row: tuple[str, str]) -> None:
        try:
            claim = await self._leases.claim(row)
            if claim is None:
                return
            try:
                await self._teller.tell(claim)
            except asyncio.CancelledError:
                await self._leases.give_back(claim)
                raise
            finally:
                self._leases.drop(claim)
        except StoreUnavailableError as error:
            log.warning("webhook %s of %s: %s; it is tried again later", excerpt(row[1]), row[0], error)
        except Exception:
            log.exception("webhook %s of %s", excerpt(row[1]), row[0])

    async def _finish(self, renewing: asyncio.Task[None]) -> None:
        """Let requests be answered that are under way, and give the rest to others."""
        active = list(self._active.values())
        if active:
            await asyncio.wait(active, timeout=_FAREWELL)
        for serving in active:
            serving.cancel()
        await asyncio.gather(*active, return_exceptions=True)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await self._teller.close()
