"""Tokens of fast rates that a replica has fetched and not used yet, so that not every call asks the store."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

PART: Final = 100
"""A replica fetches this part of what a bucket holds and gets in a second, at most. Slower rates are never fetched."""
KEPT: Final = 1.0
"""Seconds after which fetched tokens are not used any more."""
_BUCKETS: Final = 1000


class Rate(NamedTuple):
    """A token bucket."""

    per_second: float
    burst: float
    """How many calls may come at once after a pause; at least 1."""

    def __str__(self) -> str:
        return f"{self.per_second:g}:{self.burst:g}"


class Bucket(NamedTuple):
    """Whose rate it is and what it counts."""

    whose: tuple[str, ...]
    """A tenant, or a tenant and a caller."""
    what: str
    rate: Rate


class Stock:
    """The tokens of one replica. Times are those of its clock."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[Bucket, tuple[int, float]] = OrderedDict()
        """How many, and until when."""
        self._fetching: set[Bucket] = set()

    def take(self, buckets: Sequence[Bucket], now: float) -> bool:
        """Take a token of each bucket; False, and nothing is taken, where one has none here."""
        if not self._tokens:
            return False
        for bucket in buckets:
            if not self._has(bucket, now):
                return False
        for bucket in buckets:
            left, until = self._tokens.pop(bucket)
            if left > 1:
                self._tokens[bucket] = left - 1, until
        return True

    def wanted(self, bucket: Bucket, now: float) -> int:
        """How many tokens to ask the store for, one of them for the call itself. `got` has to follow."""
        batch = int(min(bucket.rate.burst, bucket.rate.per_second)) // PART
        if batch <= 1 or bucket in self._fetching or self._has(bucket, now):
            return 1
        self._fetching.add(bucket)
        return batch

    def got(self, bucket: Bucket, wanted: int, tokens: int, asked_at: float) -> None:
        """The store gave `tokens` of those that were `wanted`."""
        if wanted == 1:
            return
        self._fetching.discard(bucket)
        if tokens > 1:
            self._tokens[bucket] = tokens - 1, asked_at + KEPT
            if len(self._tokens) > _BUCKETS:
                self._tokens.popitem(last=False)

    def _has(self, bucket: Bucket, now: float) -> bool:
        return bucket in self._tokens and now < self._tokens[bucket][1]
