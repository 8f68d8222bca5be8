"""Tells one webhook what it does not know yet, for whoever has claimed it.

Each event that was taken moves the cursor on in the store before the next one is sent: what is lost with a sender is
the answer to one request, which is then repeated.
"""

import asyncio
import logging
import time
from dataclasses import dataclass

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server import audit
from a2a_grpc.server.core.events import Event, delivered
from a2a_grpc.server.push.configs import PushConfigs
from a2a_grpc.server.push.courier import Courier, Failure
from a2a_grpc.server.push.destinations import Destination
from a2a_grpc.server.push.leases import Leases
from a2a_grpc.server.push.patience import Patience
from a2a_grpc.server.push.places import Places
from a2a_grpc.server.push.sealing import SealedError
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.store.webhooks import Claim
from a2a_grpc.server.telemetry.instruments import DEAD_LETTERS, WEBHOOK_ATTEMPTS, WEBHOOKS
from a2a_grpc.server.telemetry.tracing import TRACES
from a2a_grpc.wire.errors import excerpt

log = logging.getLogger(__name__)

# Entries of a log that are read at once; they may be large, and each costs a request of its own anyway.
_PAGE = 8
# Seconds until the log is read again where the store that was read from is behind the one that was written to.
_BEHIND = 0.05


@dataclass(slots=True)
class _Progress:
    """How far a claim has come."""

    cursor: int
    attempts: int
    """How often the next event has failed."""


class Teller:
    """What a sender does with each claim."""

    def __init__(
        self,
        store: TaskStore,
        configs: PushConfigs,
        courier: Courier,
        leases: Leases,
        *,
        patience: Patience,
        places: Places,
    ) -> None:
        self._store = store
        self._configs = configs
        self._courier = courier
        self._leases = leases
        self._patience = patience
        self._places = places

    async def close(self) -> None:
        """Close the connections to receivers."""
        await self._courier.close()

    async def tell(self, claim: Claim) -> None:
        """Tell it everything, or as far as it goes. Raises: StoreUnavailableError."""
        progress = _Progress(claim.cursor, claim.attempts)
        try:
            await self._tell(claim, progress)
        except StoreUnavailableError:
            raise
        except Exception:
            # Counted like any failure: what cannot be told once must not be tried for ever.
            log.exception("%s", _named(claim))
            failure = Failure("the service could not make a request of it; the cause is in its log")
            await self._failed(claim, progress, progress.cursor + 1, failure)

    async def _tell(self, claim: Claim, progress: _Progress) -> None:
        try:
            config = self._configs.unpack(claim.content, claim.scope, claim.task_id, claim.webhook_id)
        except SealedError as error:
            failure = Failure(f"its config cannot be read: {error}")
            await self._failed(claim, progress, claim.cursor + 1, failure)
            return
        destination = self._courier.destination(config)
        if isinstance(destination, Failure):
            await self._failed(claim, progress, claim.cursor + 1, destination)
            return
        if wait := self._places.take(destination.authority):
            # Who waits for a busy receiver must not take the place of those who don't.
            await self._leases.give_back(claim, wait)
            return
        try:
            await self._tell_all(claim, progress, config, destination)
        finally:
            self._places.leave(destination.authority)

    async def _tell_all(
        self,
        claim: Claim,
        progress: _Progress,
        config: a2a_pb2.TaskPushNotificationConfig,
        destination: Destination,
    ) -> None:
        trace = await self._store.trace(claim.task_id) if TRACES.on else None
        while True:
            events = await self._after(claim.task_id, progress.cursor)
            for event in events:
                if event.response.HasField("task") or delivered(event.response):
                    if not self._leases.holds(claim):
                        return
                    begun = time.perf_counter()
                    failure = await self._courier.deliver(config, destination, event, trace)
                    if failure is None or not failure.refused:
                        WEBHOOKS.record(time.perf_counter() - begun, "delivered" if failure is None else "failed")
                    self._places.answered(destination.authority, failure is None)
                    if failure is not None:
                        await self._failed(claim, progress, event.seq, failure, destination.origin)
                        return
                    WEBHOOK_ATTEMPTS.add("delivered")
                    progress.attempts = 0
                    if not await self._leases.advance(claim, event.seq):
                        return
                progress.cursor = event.seq
            if not events:
                await asyncio.sleep(_BEHIND)
            if not (events and delivered(events[-1].response)) and not await self._leases.advance(
                claim, progress.cursor
            ):
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

    async def _failed(self, claim: Claim, progress: _Progress, seq: int, failure: Failure, origin: str = "") -> None:
        """The event `seq` could not be delivered."""
        since = (claim.now_ms - claim.since_ms) / 1000 if progress.attempts else 0.0
        failed, named = progress.attempts + 1, _named(claim)
        WEBHOOK_ATTEMPTS.add("refused" if failure.refused else "failed")
        if failure.refused:
            audit.note(
                "webhook-refused",
                principal=claim.scope.owner,
                tenant=claim.scope.tenant,
                task_id=claim.task_id,
                webhook_id=claim.webhook_id,
                reason=failure.reason,
            )
        if failure.final or self._patience.exhausted(failed, since):
            at = f" at {origin}" if origin else ""
            reason = f"The webhook {excerpt(claim.webhook_id)}{at} could not be told of event {seq}: {failure.reason}."
            letter = await self._leases.give_up(claim, seq, reason)
            if letter is not None:
                DEAD_LETTERS.add("webhook")
                log.warning("%s is given up (dead letter %s): %s", named, letter, failure.reason)
            return
        delay = self._patience.delay(failed, failure.retry_after)
        log.info("%s, event %d, attempt %d: %s; again in %.1f s", named, seq, failed, failure.reason, delay)
        await self._leases.give_back(claim, delay, counted=True)


def _named(claim: Claim) -> str:
    """For the log, whatever a caller has called it."""
    return f"webhook {excerpt(claim.webhook_id)} of {claim.task_id}"
