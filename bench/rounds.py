"""Statistics: sides that are compared take turns, and what counts is the median of the rounds."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

Sample = TypeVar("Sample")


def interleaved(rounds: int, sides: Mapping[str, Callable[[], Sample]]) -> dict[str, list[Sample]]:
    """What each side gave in each round. In a round all have their turn, so that they see the same machine."""
    taken: dict[str, list[Sample]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            taken[name].append(run())
    return taken


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of `values` lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def growth(values: Sequence[float]) -> float:
    """By how much the largest of `values` exceeds the first: 0.2 is a fifth, 0 is no growth."""
    return max(values) / values[0] - 1
