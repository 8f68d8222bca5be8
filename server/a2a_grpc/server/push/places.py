"""Who may send at the same time, so that receivers that do not answer take no time from those that do.

A request to a silent receiver holds its place until the time is over. So a host has few places, and how many depends on
how it answered last: one that has taken its last event may have all of its own, and all that are left altogether. One
that is new has a fifth of its own, while a quarter of all is left for others; one that failed the same, while half is.
So however many hosts are silent, there is room beside them.
"""

from collections import Counter

_OF_ALL = {True: 1.0, None: 0.75, False: 0.5}
"""Of all places, for hosts that have taken what they were sent last, that are not known, and that failed."""
_OF_ITS_OWN = 0.2
"""Of the places of a host, until it has taken what it was sent last."""
_KNOWN_HOSTS = 10_000
# Seconds until who was turned away comes again: the more the longer, and no longer than a request takes by default.
_CROWDED = 0.5
_MOST_CROWDED = 15.0


class Places:
    """The places of one sender. Hosts are named with their ports."""

    def __init__(self, total: int, *, per_host: int) -> None:
        """`total` requests at the same time, `per_host` of them to one host."""
        self._of_all = {took: max(1, int(total * share)) for took, share in _OF_ALL.items()}
        self._most = per_host
        self._fewest = max(1, int(per_host * _OF_ITS_OWN))
        self._taken: Counter[str] = Counter()
        self._turned_away: Counter[str] = Counter()
        self._took: dict[str, bool] = {}
        """How each host answered last, the one that was heard of last at the end."""

    def take(self, host: str) -> float:
        """Take a place at `host`: 0, or in how many seconds to come again where there is none."""
        took = self._took.get(host)
        own = self._most if took else self._fewest
        if self._taken[host] < own and self._taken.total() < self._of_all[took]:
            self._taken[host] += 1
            return 0.0
        self._turned_away[host] += 1
        return min(_CROWDED * (1 + self._turned_away[host] / self._most), _MOST_CROWDED)

    def leave(self, host: str) -> None:
        """Give a place back."""
        self._taken[host] -= 1
        if not self._taken[host]:
            del self._taken[host]
        self._turned_away.pop(host, None)

    def answered(self, host: str, took: bool) -> None:
        """Whether `host` took what it was sent."""
        self._took.pop(host, None)
        self._took[host] = took
        if len(self._took) > _KNOWN_HOSTS:
            del self._took[next(iter(self._took))]
