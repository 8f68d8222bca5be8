"""How long an event is tried before its webhook is given up."""

import random
from dataclasses import dataclass


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

    def exhausted(self, failed: int, since: float) -> bool:
        """Whether that was the last one: `failed` attempts, the first of them `since` seconds ago."""
        return failed >= self.attempts or since >= self.limit

    def delay(self, attempt: int, asked: float | None) -> float:
        """Seconds to wait after the attempt number `attempt` has failed; `asked` by the receiver."""
        longest = min(self.most, self.first * 2.0 ** min(attempt - 1, 60))
        return max(longest * random.uniform(0.5, 1.0), asked or 0.0)  # noqa: S311 - spreads load, hides nothing
