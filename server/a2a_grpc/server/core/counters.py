"""Counts of what happened in this process, by name."""

from collections import Counter
from collections.abc import Mapping


class Counters:
    """Numbers that only grow. Labels must be of few values, never what a caller made up."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, tuple[str, ...]]] = Counter()

    def add(self, name: str, *labels: str) -> None:
        """Count one more under a name and the values of its labels."""
        self._counts[name, labels] += 1

    def read(self) -> Mapping[tuple[str, tuple[str, ...]], int]:
        """All counts, by name and labels."""
        return dict(self._counts)
