"""Every key name of the registry of agents, with its life time.

All keys share one hash tag, `{agents}`, so each script runs on one slot of a cluster.

| key                     | type   | life time |
|-------------------------|--------|-----------|
| `a2a:{agents}:agent:ID` | hash   | its lease |
| `a2a:{agents}:all`      | zset   | the longest lease in it, and a margin; rows leave with their entry or a sweep |
| `a2a:{agents}:leases`   | zset   | as above |
| `a2a:{agents}:checks`   | zset   | as above |
| `a2a:{agents}:owner:H`  | zset   | as above |
| `a2a:{agents}:mark`     | string | a minute: written to see whether writes are taken |
"""

from typing import Final

from a2a_grpc.server.core import ids

_PREFIX: Final = "a2a:{agents}:"

ALL: Final = f"{_PREFIX}all"
"""Sorted set: ids by the time (ms) at which the entry came into being."""
LEASES: Final = f"{_PREFIX}leases"
"""Sorted set: ids by the end (ms) of their lease."""
CHECKS: Final = f"{_PREFIX}checks"
"""Sorted set: ids by the time (ms) from which on somebody may look whether the agent answers."""
MARK: Final = f"{_PREFIX}mark"
MARK_KEPT_MS: Final = 60_000


def agent(agent_id: str) -> str:
    """Hash: one entry."""
    return f"{_PREFIX}agent:{agent_id}"


def owner(name: str) -> str:
    """Sorted set: the ids of one owner by the end of their lease."""
    return f"{_PREFIX}owner:{ids.scope(name)}"
