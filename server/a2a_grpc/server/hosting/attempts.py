"""Not listening for a while to those who showed bad credentials too often."""

import asyncio
from collections import OrderedDict
from typing import Final

from a2a_grpc.server.auth.refusals import NotAdmittedError
from a2a_grpc.server.hosting.networks import network_of
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.quotas import Quotas
from a2a_grpc.server.store.stock import Bucket, Rate
from a2a_grpc.server.telemetry.instruments import LIMITS_REACHED, LIMITS_UNCHECKED
from a2a_grpc.wire.errors import QuotaExceededError, Violation

_WHAT: Final = "authentication"
_REMEMBERED: Final = 10_000
"""Addresses that are remembered here. Of others the store tells when they fail again."""


class Attempts:
    """A token bucket for each network address, of which bad credentials take one.

    It is kept here, so that whoever has credentials that hold waits for nothing, and in the store, so that replicas
    share it: each failure is told there, and the answer corrects what is known here. A replica may check one attempt
    more before it knows what others have seen.
    """

    def __init__(self, quotas: Quotas, rate: Rate | None) -> None:
        """`rate` of bad credentials for one network address; None sets no limit."""
        self._quotas = quotas
        self._rate = rate
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Tokens by address, and when (by the loop's clock) there were so many."""
        self._telling: set[asyncio.Task[None]] = set()

    def check(self, peer: str) -> None:
        """Before anybody looks at the credentials of `peer`. Raises: QuotaExceededError."""
        if not self._left or self._rate is None:
            return
        tokens = self._tokens(network_of(peer), self._rate)
        if tokens >= 1:
            return
        LIMITS_REACHED.add("", "peer", _WHAT)
        limit = f"{self._rate.per_second:g} a second, {self._rate.burst:g} at once"
        raise QuotaExceededError(
            "Too many calls with bad credentials came from your network address. Try again later.",
            quotas=[Violation(f"peer:{_WHAT}", f"The limit is {limit}.")],
            retry_after=(1 - tokens) / self._rate.per_second,
        )

    def failed(self, peer: str, error: NotAdmittedError) -> None:
        """`peer` was not admitted. No credentials at all are no attempt: that is how callers ask what is wanted."""
        if self._rate is None or not error.scheme:
            return
        network = network_of(peer)
        self._note(network, self._tokens(network, self._rate) - 1)
        telling = asyncio.get_running_loop().create_task(self._tell(network, self._rate), name="failed-authentication")
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _tell(self, network: str, rate: Rate) -> None:
        try:
            wait = await self._quotas.spend("", Bucket(("", "peer", network), _WHAT, rate))
        except StoreUnavailableError:
            LIMITS_UNCHECKED.add()
            return
        if wait:
            self._note(network, min(self._tokens(network, rate), 1 - wait * rate.per_second))

    def _tokens(self, network: str, rate: Rate) -> float:
        tokens, since = self._left.get(network, (rate.burst, 0.0))
        return min(rate.burst, tokens + (asyncio.get_running_loop().time() - since) * rate.per_second)

    def _note(self, network: str, tokens: float) -> None:
        self._left[network] = tokens, asyncio.get_running_loop().time()
        self._left.move_to_end(network)
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)
