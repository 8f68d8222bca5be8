"""Rates and places that all replicas share."""

from typing import NamedTuple


class Rate(NamedTuple):
    """A token bucket."""

    per_second: float
    burst: float
    """How many calls may come at once after a pause; at least 1."""

    def __str__(self) -> str:
        return f"{self.per_second:g}:{self.burst:g}"
