"""The replicas that share a store: who is there, who was lost, and whose turns are to be recovered.

Every replica says a few times within the lease that it is there. The store's clock dates each word, so that the clocks
of the replicas don't have to agree. A replica that was silent for too long is condemned: it may not come back under its
name before what it held is recovered.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import orjson

from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.store.pipeline import Calls
from a2a_grpc.server.store.scripts import Script

# Milliseconds since 1970 by the store's clock, as a text.
_NOW = """
local time = redis.call('TIME')
local now = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
"""

_BEAT = Script(
    "beat",
    _NOW
    + """
-- KEYS: replicas condemned   ARGV: name about enters
-- Who was condemned, or is not known any more, hears it; with `enters` it is taken in (anew).
if ARGV[3] == '1' then
  if redis.call('HEXISTS', KEYS[2], ARGV[1]) == 1 then return {'CONDEMNED'} end
elseif redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return {'CONDEMNED'}
end
redis.call('HSET', KEYS[1], ARGV[1], now .. ' ' .. ARGV[2])
return {'OK', now, redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2])}
""",
)

_CENSUS = Script(
    "census",
    _NOW
    + """
-- KEYS: replicas condemned
return {now, redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2])}
""",
)

_CONDEMN = Script(
    "condemn",
    _NOW
    + """
-- KEYS: replicas condemned   ARGV: name beat
-- Only if it has said nothing since.
local row = redis.call('HGET', KEYS[1], ARGV[1])
if not row or string.match(row, '^%d+') ~= ARGV[2] then return {'ALIVE'} end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], now)
return {'OK'}
""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRow:
    """One replica that is there."""

    name: str
    beat_ms: int
    """When it was last heard of, by the store's clock."""
    started_ms: int
    turns: int
    """How many turns it runs."""
    max_turns: int
    version: str
    tallies: bool
    """It counts the tasks as it changes them, which older versions do not: see `store/levels.py`."""


@dataclass(slots=True, kw_only=True)
class Roll:
    """Who is there and who was lost, by name. All times are milliseconds of the store's clock."""

    now_ms: int
    beats: dict[str, int]
    """When each replica was last heard of."""
    condemned: dict[str, int]
    """Since when each lost one is taken for that."""


@dataclass(slots=True, kw_only=True)
class Census:
    """The replicas by name, those that are there and those that were lost a moment ago."""

    now_ms: int
    """By the store's clock."""
    replicas: list[ReplicaRow]
    condemned: list[str]


class Registry:
    """The list of replicas, with this one's place in it. All methods raise StoreUnavailableError."""

    def __init__(self, pipeline: Calls, replicas: str, condemned: str, name: str) -> None:
        """`replicas` and `condemned` are keys of one shard; `name` is that of this process and of no other, ever."""
        self.name = name
        self._pipeline = pipeline
        self._keys = [replicas, condemned]
        self._version = version("a2a-grpc")
        self._started_ms = now_ms()

    async def beat(self, turns: int, max_turns: int, *, enters: bool) -> Roll | None:
        """Say that this replica is there; None where others have taken it for lost.

        `enters` for the first time, and to come back when everything it held was recovered.
        """
        about = orjson.dumps(
            {
                "started": self._started_ms,
                "turns": turns,
                "max_turns": max_turns,
                "version": self._version,
                "tallies": True,
            }
        )
        reply = await self._pipeline.script(_BEAT, self._keys, [self.name, about, "1" if enters else "0"])
        if reply[0] == b"CONDEMNED":
            return None
        _, now, rows, condemned = reply
        return Roll(
            now_ms=int(now),
            beats={name.decode(): int(row.partition(b" ")[0]) for name, row in _pairs(rows)},
            condemned={name.decode(): int(since) for name, since in _pairs(condemned)},
        )

    async def census(self) -> Census:
        """Who is there and who was lost, with what the replicas say about themselves."""
        now, rows, condemned = await self._pipeline.script(_CENSUS, self._keys, [])
        return Census(
            now_ms=int(now),
            replicas=sorted((_row(name, row) for name, row in _pairs(rows)), key=lambda row: row.name),
            condemned=sorted(name.decode() for name, _ in _pairs(condemned)),
        )

    async def condemn(self, name: str, beat_ms: int) -> bool:
        """Take a replica for lost; False where it was heard of after `beat_ms`."""
        reply = await self._pipeline.script(_CONDEMN, self._keys, [name, beat_ms])
        return bool(reply[0] == b"OK")

    async def condemned_since(self, name: str) -> int | None:
        """Since when `name` is taken for lost (ms by the store's clock), or None."""
        found = await self._pipeline.command("HGET", self._keys[1], name)
        return None if found is None else int(found)

    async def acquit(self, name: str) -> None:
        """Everything that `name` held was recovered."""
        await self._pipeline.command("HDEL", self._keys[1], name)

    async def leave(self) -> None:
        """This replica holds nothing any more and goes."""
        await self._pipeline.command("HDEL", self._keys[0], self.name)


def _pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _row(name: bytes, row: bytes) -> ReplicaRow:
    beat, _, text = row.partition(b" ")
    about: dict[str, Any] = orjson.loads(text)
    return ReplicaRow(
        name=name.decode(),
        beat_ms=int(beat),
        started_ms=about["started"],
        turns=about["turns"],
        max_turns=about["max_turns"],
        version=about["version"],
        tallies=about.get("tallies", False),
    )
