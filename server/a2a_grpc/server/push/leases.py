"""The claims that a sender holds: each is a lease, which is renewed until the claim is over."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.records import Outcome
from a2a_grpc.server.store.webhooks import Claim, Webhooks

log = logging.getLogger(__name__)

_RENEWALS = 3
"""How often a lease is renewed in its time."""


@dataclass(slots=True, eq=False)
class _Held:
    claim: Claim
    until: float
    """By the loop's clock: others may have it from then on."""


class Leases:
    """The claims of one sender. What asks the store raises StoreUnavailableError."""

    def __init__(self, webhooks: Webhooks, *, ttl: float) -> None:
        """`ttl` in seconds: when a sender is lost, others go on after that."""
        self._webhooks = webhooks
        self._ttl = ttl
        self._ttl_ms = int(ttl * 1000)
        self._held: dict[tuple[str, str], _Held] = {}

    async def claim(self, row: tuple[str, str]) -> Claim | None:
        """Claim the webhook (task, webhook); None where somebody was faster, or it is gone."""
        began = _now()
        claim = await self._webhooks.claim(*row, self._ttl_ms)
        if claim is not None:
            self._held[row] = _Held(claim, began + self._ttl)
        return claim

    def holds(self, claim: Claim) -> bool:
        """Whether nobody else can have it yet."""
        held = self._held.get(_row(claim))
        return held is not None and _now() < held.until

    async def advance(self, claim: Claim, cursor: int) -> bool:
        """It knows everything up to `cursor`; whether there is more to tell, and it is this sender that may."""
        began = _now()
        if await self._webhooks.advance(claim, cursor, self._ttl_ms) is not Outcome.OK:
            self.drop(claim)
            return False
        if (held := self._held.get(_row(claim))) is not None:
            held.until = began + self._ttl
        return True

    async def give_back(self, claim: Claim, delay: float = 0, *, counted: bool = False) -> None:
        """Let others have it in `delay` seconds; `counted`: an attempt has failed. Nothing happens once it is over."""
        if _row(claim) in self._held:
            self.drop(claim)
            await self._webhooks.defer(claim, int(delay * 1000), counted=counted)

    async def give_up(self, claim: Claim, seq: int, reason: str) -> str | None:
        """Tell it nothing more, since `seq` could not be delivered; the dead letter's id, or None where it is over."""
        self.drop(claim)
        return await self._webhooks.give_up(claim, seq, reason)

    def drop(self, claim: Claim) -> None:
        """It is over, or lapses by itself."""
        self._held.pop(_row(claim), None)

    async def renew(self, lost: Callable[[tuple[str, str]], None]) -> None:
        """Renew for as long as the process lives; `lost` hears of those that are somebody else's, or gone."""
        while True:
            await asyncio.sleep(self._ttl / _RENEWALS)
            try:
                await asyncio.gather(*(self._renew_one(row, held, lost) for row, held in list(self._held.items())))
            except StoreUnavailableError:
                continue
            except Exception:
                log.exception("leases of webhooks cannot be renewed")

    async def _renew_one(self, row: tuple[str, str], held: _Held, lost: Callable[[tuple[str, str]], None]) -> None:
        began = _now()
        if await self._webhooks.renew(held.claim, self._ttl_ms):
            held.until = began + self._ttl
        elif self._held.get(row) is held:
            del self._held[row]
            lost(row)


def _row(claim: Claim) -> tuple[str, str]:
    return claim.task_id, claim.webhook_id


def _now() -> float:
    return asyncio.get_running_loop().time()
