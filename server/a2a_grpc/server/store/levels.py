"""How many tasks there are in each state, and what waits for a replica, over a whole store.

The steps of a task's life keep the tally (`store/scripts.py`). Where it cannot be right it is not told: in a store that
an older version has used, and for as long as a replica of such a version is there, which does not keep it. Then all
tasks are walked through and counted anew, while they change: each belongs to a generation of the tally, the walk moves
it into its own, and when it has seen everything, what is left of older ones is nobody's. The same once a day, whatever
was lost in a failover or erased by others. Until then the numbers of all generations together are those of before.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from a2a_grpc.server.core import states
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.keys import Keys
from a2a_grpc.server.store.scripts import TALLY, Script
from a2a_grpc.server.store.tasks import TaskStore

log = logging.getLogger(__name__)

_EVERY = 5.0
# A look that is older tells nothing any more.
_FRESH = 2.5 * _EVERY
_WALK_EVERY_MS = 86_400_000
# A walk is given up by who makes it when it dies; somebody else begins anew then.
_WALK_LEASE_MS = 30_000
_SCAN_STEP = 500
_BATCH = 200
# Others are served meanwhile.
_PAUSE = 0.01

_CLOCK = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function whole(number) return string.format('%d', number) end
"""

_LOOK = Script(
    "look",
    _CLOCK
    + """
-- KEYS: ready since tally   ARGV: doubtful
-- A replica of an older version has put turns into the queue, or taken them from it, without a word in `since`.
local waiting, age = redis.call('ZCARD', KEYS[1]), 0
if waiting > redis.call('ZCARD', KEYS[2]) then
  for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, 199)) do redis.call('ZADD', KEYS[2], 'NX', whole(now), id) end
end
for _ = 1, 200 do
  local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  if not first[1] then break end
  if redis.call('ZSCORE', KEYS[1], first[1]) then
    age = math.max(0, now - first[2])
    break
  end
  redis.call('ZREM', KEYS[2], first[1])
end
if ARGV[1] == '1' then redis.call('HDEL', KEYS[3], 'walked') end
return {waiting, whole(age), whole(now), redis.call('HGETALL', KEYS[3])}
""",
)

_BEGIN = Script(
    "walk_begin",
    _CLOCK
    + """
-- KEYS: tally   ARGV: lease
if tonumber(redis.call('HGET', KEYS[1], 'until') or 0) > now then return 0 end
redis.call('HSET', KEYS[1], 'until', whole(now + ARGV[1]), 'begun', whole(now))
return redis.call('HINCRBY', KEYS[1], 'generation', 1)
""",
)

_STEP = Script(
    "walk_step",
    _CLOCK
    + TALLY
    + """
-- KEYS: tally task...   ARGV: generation lease
if redis.call('HGET', KEYS[1], 'generation') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'until', whole(now + ARGV[2]))
for at = 2, #KEYS do
  local task = redis.call('HMGET', KEYS[at], 'state', 'tally')
  local place = task[1] and ARGV[1] .. ':' .. task[1]
  if place and task[2] ~= place then
    uncount(KEYS[1], task[2])
    redis.call('HINCRBY', KEYS[1], place, 1)
    redis.call('HSET', KEYS[at], 'tally', place)
  end
end
return 1
""",
)

_END = Script(
    "walk_end",
    """
-- KEYS: tally   ARGV: generation
if redis.call('HGET', KEYS[1], 'generation') ~= ARGV[1] then return 0 end
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local generation = string.match(field, '^(%d+):')
  if generation and generation ~= ARGV[1] then redis.call('HDEL', KEYS[1], field) end
end
redis.call('HSET', KEYS[1], 'walked', redis.call('HGET', KEYS[1], 'begun'))
redis.call('HDEL', KEYS[1], 'until')
return 1
""",
)

_STATES: Final = {state: (states.label(state),) for state in sorted(states.TRANSITIONS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One look at all shards."""

    at: float
    """By time.monotonic()."""
    waiting: int
    age: float
    tasks: dict[tuple[str, ...], float] | None
    """None where it is not known."""


class Levels:
    """Looks at the store every few seconds. What it tells is true of a moment ago, or None."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._seen: _Seen | None = None

    def waiting(self) -> int | None:
        """How many turns wait for a replica; from any thread, as all of these."""
        seen = self._fresh()
        return None if seen is None else seen.waiting

    def age(self) -> float | None:
        """For how many seconds the one has waited that came first; 0.0 where none waits."""
        seen = self._fresh()
        return None if seen is None else seen.age

    def tasks(self) -> Mapping[tuple[str, ...], float] | None:
        """How many tasks there are by state, such as `working`."""
        seen = self._fresh()
        return None if seen is None else seen.tasks

    def _fresh(self) -> _Seen | None:
        seen = self._seen
        return None if seen is None or time.monotonic() - seen.at > _FRESH else seen

    async def watch(self) -> None:
        """Look for as long as the process lives."""
        walking: asyncio.Task[bool] | None = None
        try:
            while True:
                try:
                    uncounted = await self.look()
                    if uncounted and walking is None:
                        # Beside the looks: in a large store it takes minutes, for which the queue must not be unseen.
                        walking = asyncio.create_task(self.walk(uncounted))
                    if walking is not None:
                        await asyncio.wait((walking,), timeout=_EVERY)
                        if not walking.done():
                            continue
                        over, walking = walking, None
                        if over.result():
                            continue
                except StoreUnavailableError:
                    self._seen = None
                except Exception:
                    self._seen = None
                    log.exception("the levels of the store cannot be read")
                await asyncio.sleep(_EVERY)
        finally:
            if walking is not None:
                walking.cancel()

    async def look(self) -> list[Keys]:
        """Look at all shards once; those are returned whose tasks are to be counted. Raises: StoreUnavailableError."""
        census = await self._store.registry.census()
        doubtful = not all(row.tallies for row in census.replicas)
        shards = self._store.all_keys()
        at = time.monotonic()
        looks = await asyncio.gather(*(self._look(keys, doubtful) for keys in shards))
        waiting, age, counted = 0, 0, [0] * (max(_STATES) + 1)
        known, uncounted = not doubtful, []
        for keys, (waits, oldest, now, tally) in zip(shards, looks, strict=True):
            waiting += waits
            age = max(age, oldest)
            walked = tally.pop("walked", None)
            due = walked is None or now - walked > _WALK_EVERY_MS
            for state, number in _by_state(tally).items():
                counted[state] += number
                due = due or number < 0
            known = known and walked is not None
            if due and not doubtful:
                uncounted.append(keys)
        tasks: dict[tuple[str, ...], float] = {labels: counted[state] for state, labels in _STATES.items()}
        self._seen = _Seen(at=at, waiting=waiting, age=age / 1000, tasks=tasks if known else None)
        return uncounted

    async def _look(self, keys: Keys, doubtful: bool) -> tuple[int, int, int, dict[str, int]]:
        reply = await self._store.pipeline.script(_LOOK, [keys.ready, keys.since, keys.tally], [int(doubtful)])
        flat = reply[3]
        fields = {name.decode(): int(value) for name, value in zip(flat[::2], flat[1::2], strict=True)}
        return reply[0], int(reply[1]), int(reply[2]), fields

    async def walk(self, shards: Sequence[Keys]) -> bool:
        """Count the tasks of `shards` anew; False where somebody else does. Raises: StoreUnavailableError."""
        generations = await asyncio.gather(
            *(self._store.pipeline.script(_BEGIN, [keys.tally], [_WALK_LEASE_MS]) for keys in shards)
        )
        begun = {keys: generation for keys, generation in zip(shards, generations, strict=True) if generation}
        by_home = defaultdict[str, dict[Keys, int]](dict)
        for keys, generation in begun.items():
            by_home[self._store.nodes.home(keys.tally)][keys] = generation
        for home, here in by_home.items():
            await self._walk_home(home, here)
        return bool(begun)

    async def _walk_home(self, home: str, here: Mapping[Keys, int]) -> None:
        """Count what one server holds."""
        cursor = "0"
        while True:
            following, names = await self._store.nodes.at(
                home, "SCAN", cursor, "MATCH", "a2a:{*}:task:*", "COUNT", _SCAN_STEP
            )
            await self._count([name.decode() for name in names], here)
            cursor = following.decode()
            if cursor == "0":
                break
            await asyncio.sleep(_PAUSE)
        # What has moved to another server meanwhile may not have been seen on either.
        stayed = {keys: of for keys, of in here.items() if self._store.nodes.home(keys.tally) == home}
        await asyncio.gather(
            *(self._store.pipeline.script(_END, [keys.tally], [generation]) for keys, generation in stayed.items())
        )

    async def _count(self, names: Sequence[str], here: Mapping[Keys, int]) -> None:
        tasks = defaultdict[Keys, list[str]](list)
        for name in names:
            keys = self._store.keys_of(name.rpartition(":")[2])
            if keys in here:
                tasks[keys].append(name)
        steps: list[asyncio.Future[Any]] = [
            self._store.pipeline.script(_STEP, [keys.tally, *found[at : at + _BATCH]], [here[keys], _WALK_LEASE_MS])
            for keys, found in tasks.items()
            for at in range(0, len(found), _BATCH)
        ]
        await asyncio.gather(*steps)


def _by_state(tally: Mapping[str, int]) -> dict[int, int]:
    """The numbers of all generations together."""
    found: dict[int, int] = defaultdict(int)
    for field, number in tally.items():
        generation, colon, state = field.partition(":")
        if colon and generation.isdecimal():
            found[int(state)] += number
    return found
