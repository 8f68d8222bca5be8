"""The audit trail: who was refused, who ended what, what operators did. One record for each event, without secrets.

The records go to the logger `a2a_grpc.audit`, whatever the level of the log; in the JSON form of the log each fact is a
field of its own.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from a2a_grpc.wire.errors import excerpt

log = logging.getLogger("a2a_grpc.audit")

_MOST_KINDS: Final = 10_000


class Seldom:
    """Tells the first of many like events from those that follow it, so that a flood does not flood the record."""

    def __init__(self, seconds: float = 10.0) -> None:
        """`seconds` for which an event is like the first one."""
        self._seconds = seconds
        self._until: OrderedDict[Hashable, float] = OrderedDict()

    def first(self, kind: Hashable) -> bool:
        """Whether an event of this kind is to be put on record."""
        now = time.monotonic()
        if now < self._until.get(kind, 0.0):
            return False
        self._until[kind] = now + self._seconds
        self._until.move_to_end(kind)
        if len(self._until) > _MOST_KINDS:
            self._until.popitem(last=False)
        return True


def note(
    event: str, *, principal: str = "", tenant: str = "", peer: str = "", request_id: str = "", **facts: str | int
) -> None:
    """Put `event` on record.

    `principal` is the name of the caller, "" for one that is not known; `peer` its network address. Facts must
    hold nothing that opens a door: names of schemes and scopes, ids, addresses, never what was sent as credentials.
    """
    fields: dict[str, str | int] = {
        "event": event,
        "principal": excerpt(principal),
        "tenant": excerpt(tenant),
        "peer": excerpt(peer),
        "request_id": excerpt(request_id),
        **{name: excerpt(value) if isinstance(value, str) else value for name, value in facts.items()},
    }
    told = " ".join(f"{name}={value!r}" for name, value in fields.items() if value != "" and name != "event")
    log.info("%s %s", event, told, extra={"fields": fields})
