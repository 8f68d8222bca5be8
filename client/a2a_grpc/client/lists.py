"""Parameters that take several texts."""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T", bound=str)


def listed(given: Iterable[T] | T) -> tuple[T, ...]:
    """What was given for a parameter that takes several texts.

    One alone is that one. As a sequence it would be its letters, of which one may be the star that allows everything.
    """
    return (given,) if isinstance(given, str) else tuple(given)
