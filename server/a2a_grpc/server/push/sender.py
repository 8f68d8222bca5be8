"""Delivers the events of tasks to their webhooks; every replica does.

A webhook that is due is claimed with a lease, told the events behind its cursor one after the other, and let go when it
knows them all. Each event that was taken moves the cursor on in the store before the next one is sent: what is lost
with a sender is the answer to one request, which is then repeated. There is one request at a time for each webhook, so
it gets events in their order.
"""

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server import audit
from a2a_grpc.server.core.events import Event, delivered
from a2a_grpc.server.push.configs import PushConfigs
from a2a_grpc.server.push.courier import Courier, Failure
from a2a_grpc.server.push.destinations import Destination
from a2a_grpc.server.push.sealing import SealedError
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.records import Outcome
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.store.webhooks import Claim, Webhooks
from a2a_grpc.server.telemetry.instruments import DEAD_LETTERS, WEBHOOK_ATTEMPTS

log = logging.getLogger(__name__)

# Without any news the store is asked so often, in seconds; a webhook whose time comes earlier is not late.
_POLL = 1.0
_RENEWALS = 3
"""How often a lease is renewed in its time."""
_PAGE = 64
_FAREWELL = 2.0
"""Seconds that requests under way have to be answered when the process ends."""
_CROWDED = 0.5
_BEHIND = 0.05
_MOST_CROWDED = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an event is tried."""

    attempts: int
    """So often at most."""
    limit: float
    """Seconds from the first attempt on, at most."""
    first: float
    """Seconds until the second attempt; they double with each further one."""
    most: float
    """Seconds between two attempts at most, unless the receiver asks for more."""

    def delay(self, attempt: int, asked: float | None) -> float:
        """Seconds to wait after the attempt number `attempt` has failed; `asked` by the receiver."""
        longest = min(self.most, self.first * 2.0 ** min(attempt - 1, 60))
        return max(longest * random.uniform(0.5, 1.0), asked or 0.0)  # noqa: S311 - spreads load, hides nothing


@dataclass(slots=True, eq=False)
class _Held:
    claim: Claim
    until: float
    """By the loop's clock: others may have it from then on."""


class PushSender:
    """The sender of one replica."""

    def __init__(
        self,
        store: TaskStore,
        webhooks: Webhooks,
        configs: PushConfigs,
        courier: Courier,
        *,
        patience: Patience,
        lease_ttl: float,
        concurrency: int,
        per_host: int,
    ) -> None:
        """`concurrency` webhooks at the same time are told something, `per_host` of them at one host.

        `lease_ttl` in seconds: when a sender is lost, others go on after that.
        """
        self._store = store
        self._webhooks = webhooks
        self._configs = configs
        self._courier = courier
        self._patience = patience
        self._lease = lease_ttl
        self._lease_ms = int(lease_ttl * 1000)
        self._concurrency = concurrency
        self._per_host = per_host
        self._active: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._held: dict[tuple[str, str], _Held] = {}
        self._hosts: Counter[str] = Counter()
        self._turned_away: Counter[str] = Counter()
        self._news = asyncio.Event()

    def watch(self, watch: Callable[[str, Callable[[bytes | None], None]], None]) -> None:
        """Hear by `watch` (see `LogTail.watch`) when webhooks are due."""
        for channel in self._webhooks.channels():
            watch(channel, lambda _: self._news.set())

    async def run(self) -> None:
        """Deliver for as long as the process lives."""
        renewing = asyncio.create_task(self._renew(), name="push-leases")
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

    async def _serve(self, row: tuple[str, str]) -> None:
        began = self._now()
        try:
            claim = await self._webhooks.claim(*row, self._lease_ms)
            if claim is None:
                return
            self._held[row] = _Held(claim, began + self._lease)
            try:
                await self._tell(claim)
            except asyncio.CancelledError:
                if row in self._held:
                    await self._webhooks.defer(claim, 0, counted=False)
                raise
            finally:
                self._held.pop(row, None)
        except StoreUnavailableError as error:
            log.warning("webhook %s of %s: %s; it is tried again later", row[1], row[0], error)
        except Exception:
            log.exception("webhook %s of %s", row[1], row[0])

    async def _tell(self, claim: Claim) -> None:
        try:
            config = self._configs.unpack(claim.content, claim.scope, claim.task_id, claim.webhook_id)
        except SealedError as error:
            await self._failed(claim, claim.cursor + 1, Failure(f"its config cannot be read: {error}"), "")
            return
        destination = self._courier.destination(config)
        if isinstance(destination, Failure):
            await self._failed(claim, claim.cursor + 1, destination, "")
            return
        host = destination.authority
        if self._hosts[host] >= self._per_host:
            # Who waits for a busy receiver must not take the place of those who don't.
            self._turned_away[host] += 1
            crowd = _CROWDED * (1 + self._turned_away[host] / self._per_host)
            await self._webhooks.defer(claim, int(min(crowd, _MOST_CROWDED) * 1000), counted=False)
            return
        self._hosts[host] += 1
        try:
            await self._tell_all(claim, config, destination)
        finally:
            self._hosts[host] -= 1
            if not self._hosts[host]:
                del self._hosts[host]
            self._turned_away.pop(host, None)

    async def _tell_all(
        self, claim: Claim, config: a2a_pb2.TaskPushNotificationConfig, destination: Destination
    ) -> None:
        cursor, attempts = claim.cursor, claim.attempts
        while True:
            events = await self._after(claim.task_id, cursor)
            for event in events:
                if event.response.HasField("task") or delivered(event.response):
                    if not self._mine(claim):
                        return
                    failure = await self._courier.deliver(config, destination, event)
                    if failure is not None:
                        await self._failed(claim, event.seq, failure, destination.origin, attempts)
                        return
                    WEBHOOK_ATTEMPTS.add("delivered")
                    attempts = 0
                    if not await self._advance(claim, event.seq):
                        return
                cursor = event.seq
            if not events:
                # The store that was read from may be behind the one that was written to.
                await asyncio.sleep(_BEHIND)
            if not (events and delivered(events[-1].response)) and not await self._advance(claim, cursor):
                return

    async def _after(self, task_id: str, cursor: int) -> list[Event]:
        """The next events; where the log does not have them any more, the task as it stands."""
        events = await self._store.log(task_id, cursor, _PAGE)
        if not events or events[0].seq == cursor + 1:
            return events
        stored = await self._store.read(task_id)
        if stored is None:
            return []
        return [Event(stored.seq, a2a_pb2.StreamResponse(task=stored.fold.task()))]

    async def _advance(self, claim: Claim, cursor: int) -> bool:
        """It knows everything up to `cursor`; whether there is more to tell, and it is this sender that may."""
        began = self._now()
        row = (claim.task_id, claim.webhook_id)
        if await self._webhooks.advance(claim, cursor, self._lease_ms) is not Outcome.OK:
            self._held.pop(row, None)
            return False
        if (held := self._held.get(row)) is not None:
            held.until = began + self._lease
        return True

    async def _failed(self, claim: Claim, seq: int, failure: Failure, origin: str, attempts: int | None = None) -> None:
        """The event `seq` could not be delivered, after `attempts` others; by default those that the claim tells of."""
        tried = claim.attempts if attempts is None else attempts
        since = (claim.now_ms - claim.since_ms) / 1000 if tried else 0.0
        named = f"webhook {claim.webhook_id} of {claim.task_id}"
        WEBHOOK_ATTEMPTS.add("refused" if failure.refused else "failed")
        if failure.refused:
            audit.note(
                "webhook refused",
                principal=claim.scope.owner,
                tenant=claim.scope.tenant,
                task=claim.task_id,
                webhook=claim.webhook_id,
                reason=failure.reason,
            )
        self._held.pop((claim.task_id, claim.webhook_id), None)
        if failure.final or tried + 1 >= self._patience.attempts or since >= self._patience.limit:
            at = f" at {origin}" if origin else ""
            reason = f"The webhook {claim.webhook_id}{at} could not be told of event {seq}: {failure.reason}."
            letter = await self._webhooks.give_up(claim, seq, reason)
            if letter is not None:
                DEAD_LETTERS.add("webhook")
                log.warning("%s is given up (dead letter %s): %s", named, letter, failure.reason)
            return
        delay = self._patience.delay(tried + 1, failure.retry_after)
        log.info("%s, event %d, attempt %d: %s; again in %.1f s", named, seq, tried + 1, failure.reason, delay)
        await self._webhooks.defer(claim, int(delay * 1000), counted=True)

    # -- leases ------------------------------------------------------------------------------------------------------

    def _mine(self, claim: Claim) -> bool:
        held = self._held.get((claim.task_id, claim.webhook_id))
        return held is not None and self._now() < held.until

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._lease / _RENEWALS)
            try:
                await asyncio.gather(*(self._renew_one(row, held) for row, held in list(self._held.items())))
            except StoreUnavailableError:
                continue
            except Exception:
                log.exception("leases of webhooks cannot be renewed")

    async def _renew_one(self, row: tuple[str, str], held: _Held) -> None:
        began = self._now()
        if await self._webhooks.renew(held.claim, self._lease_ms):
            held.until = began + self._lease
        elif self._held.get(row) is held and row in self._active:
            # Somebody else has it, or nobody wants it any more.
            self._held.pop(row)
            self._active[row].cancel()

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
        await self._courier.close()

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
