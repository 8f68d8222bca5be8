"""Rates and places that all replicas share.

A rate is a token bucket: the tokens that were left, and when that was. Of fast ones a replica fetches some tokens at
once (`stock`). Places are a sorted set of those who hold one, by the time at which it falls free by itself: a replica
that is gone does not renew its own.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple, Protocol

from a2a_grpc.server.core import ids, states
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.keys import Keys
from a2a_grpc.server.store.pipeline import Calls
from a2a_grpc.server.store.records import Scope
from a2a_grpc.server.store.scripts import Script
from a2a_grpc.server.store.stock import Bucket, Stock

LEASE: Final = 15.0
"""Seconds for which a place is kept for a replica that does not renew it."""
_RENEW: Final = LEASE / 3
_BATCH: Final = 1000
_MARGIN_MS: Final = 60_000

_ENTER = Script(
    "enter",
    """
-- All or nothing: a token of each rate, and a place of each kind.
-- KEYS: a string for each rate, then a sorted set for each kind of place
-- ARGV: rates member lease; for each rate: tokens a millisecond, burst, life time, how many are wanted, of which one
-- is enough; for each kind of place: how many there are
-- Sent again, it takes tokens a second time, and the same place.
-- The answer: which of the keys stands against it, or 0; ms until each rate has a token (again); the tokens of each.
-- Times that are still to come are those of a store whose clock was ahead and that this one has taken over from.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local rates, member, at = tonumber(ARGV[1]), ARGV[2], 4
local left, taken, longest, refused = {}, {}, 0, 0
for i = 1, rates do
  local speed, burst = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local tokens, row = burst, redis.call('GET', KEYS[i])
  if row then
    local kept, since = string.match(row, '^(%S+) (%d+)$')
    if tonumber(since) > now then
      redis.call('SET', KEYS[i], string.format('%s %d', kept, now), 'PX', ARGV[at + 2])
      since = now
    end
    tokens = math.min(burst, tonumber(kept) + (now - tonumber(since)) * speed)
  end
  taken[i] = math.min(tonumber(ARGV[at + 3]), math.floor(tokens))
  left[i] = tokens - taken[i]
  if tokens < 1 then
    local wait = math.ceil((1 - tokens) / speed)
    if wait > longest then longest, refused = wait, i end
  end
  at = at + 4
end
for i = rates + 1, #KEYS do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now)
  redis.call('ZREMRANGEBYSCORE', KEYS[i], string.format('(%d', now + ARGV[3]), '+inf')
  if refused == 0 and redis.call('ZCARD', KEYS[i]) >= tonumber(ARGV[at]) then
    if not redis.call('ZSCORE', KEYS[i], member) then refused = i end
  end
  at = at + 1
end
if refused > 0 then return {refused, longest} end
at = 4
for i = 1, rates do
  redis.call('SET', KEYS[i], string.format('%.6f %d', left[i], now), 'PX', ARGV[at + 2])
  if left[i] < 1 then longest = math.max(longest, math.ceil((1 - left[i]) / tonumber(ARGV[at]))) end
  at = at + 4
end
for i = rates + 1, #KEYS do
  redis.call('ZADD', KEYS[i], string.format('%d', now + ARGV[3]), member)
  redis.call('PEXPIRE', KEYS[i], string.format('%d', ARGV[3] + 60000))
end
return {0, longest, unpack(taken)}
""",
)

_RENEW_PLACES = Script(
    "renew_places",
    """
-- KEYS: a sorted set of places   ARGV: lease member…
local time = redis.call('TIME')
local ends = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[1])
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], ends, ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], string.format('%d', ARGV[1] + 60000))
return #ARGV - 1
""",
)


class Room(NamedTuple):
    """Whose places they are, for what, and how many."""

    whose: tuple[str, ...]
    what: str
    places: int


class Refused(NamedTuple):
    """What stands against a call."""

    by: Bucket | Room
    retry_after: float | None
    """Seconds until there is a token; None where a place has to fall free."""


@dataclass(slots=True, eq=False)
class Ticket:
    """What one call holds."""

    member: str
    keys: tuple[str, ...]
    """Of the places."""
    since: float = 0.0


class Shards(Protocol):
    """The store in which is counted."""

    @property
    def replica(self) -> str:
        """The name of this process, and of no other, ever."""

    @property
    def pipeline(self) -> Calls:
        """What takes the calls."""

    def all_keys(self) -> Sequence[Keys]:
        """The key names of every shard."""


class Quotas:
    """Tokens and places for calls, in the shard of their tenant."""

    def __init__(self, store: Shards) -> None:
        self._store = store
        self._numbers = count(1)
        self._held: set[Ticket] = set()
        self._stock = Stock()

    def ticket(self, tenant: str, rooms: Sequence[Room]) -> Ticket:
        """What a call will hold, for `enter` and `leave`."""
        keys = self._keys(tenant)
        member = f"{self._store.replica} {next(self._numbers)}"
        return Ticket(member, tuple(keys.places(*room.whose, room.what) for room in rooms))

    async def enter(
        self, ticket: Ticket, tenant: str, buckets: Sequence[Bucket], rooms: Sequence[Room]
    ) -> Refused | None:
        """Take a token of each bucket and a place in each room, or nothing at all.

        `leave` has to follow, however this ends. Raises: StoreUnavailableError; then the places may be taken or not.
        """
        ticket.since = now = asyncio.get_running_loop().time()
        if not rooms and self._stock.take(buckets, now):
            return None
        wanted = [1 if rooms else self._stock.wanted(bucket, now) for bucket in buckets]
        taken: list[int] = []
        try:
            refused, wait_ms, *taken = await self._enter(ticket, tenant, buckets, rooms, wanted)
        except StoreUnavailableError:
            self._hold(ticket)
            raise
        finally:
            for at, bucket in enumerate(buckets):
                self._stock.got(bucket, wanted[at], taken[at] if taken else 0, now)
        if not refused:
            self._hold(ticket)
            return None
        ticket.keys = ()
        asked_for: list[Bucket | Room] = [*buckets, *rooms]
        return Refused(asked_for[refused - 1], wait_ms / 1000 if refused <= len(buckets) else None)

    async def spend(self, tenant: str, bucket: Bucket) -> float:
        """Take a token if there is one; seconds until there is one again. Raises: StoreUnavailableError."""
        _, wait_ms, *_ = await self._enter(Ticket("", ()), tenant, [bucket], (), [1])
        return wait_ms / 1000

    def leave(self, ticket: Ticket) -> None:
        """Give the places back. Nobody waits for it: what the store does not hear falls free by itself."""
        self._held.discard(ticket)
        for key in ticket.keys:
            self._store.pipeline.command("ZREM", key, ticket.member).add_done_callback(_ignored)

    async def busy(self, scope: Scope) -> int:
        """How many tasks of an owner run, or wait for their turn. Raises: StoreUnavailableError."""
        counts = await asyncio.gather(
            *(
                self._store.pipeline.command("ZCARD", keys.index(*scope, state=state))
                for keys in self._store.all_keys()
                for state in (states.SUBMITTED, states.WORKING)
            )
        )
        return sum(counts)

    async def renew_forever(self) -> None:
        """Keep the places of calls that last, for as long as the process lives."""
        while True:
            await asyncio.sleep(_RENEW)
            with contextlib.suppress(StoreUnavailableError):
                await self._renew()

    async def _renew(self) -> None:
        old = asyncio.get_running_loop().time() - _RENEW / 2
        members = defaultdict[str, list[str]](list)
        lease = round(LEASE * 1000)
        for ticket in self._held:
            if ticket.since <= old:
                for key in ticket.keys:
                    members[key].append(ticket.member)
        # All are sent before anything else can happen: a place that is given back later must not be taken again.
        await asyncio.gather(
            *(
                self._store.pipeline.script(_RENEW_PLACES, [key], [lease, *those[first : first + _BATCH]])
                for key, those in members.items()
                for first in range(0, len(those), _BATCH)
            )
        )

    def _enter(
        self, ticket: Ticket, tenant: str, buckets: Sequence[Bucket], rooms: Sequence[Room], wanted: Sequence[int]
    ) -> asyncio.Future[list[int]]:
        keys = self._keys(tenant)
        arguments: list[str | bytes | int] = [len(buckets), ticket.member, round(LEASE * 1000)]
        for (_, _, rate), tokens in zip(buckets, wanted, strict=True):
            full_ms = round(1000 * rate.burst / rate.per_second)
            arguments += [repr(rate.per_second / 1000), repr(rate.burst), full_ms + _MARGIN_MS, tokens]
        arguments += [room.places for room in rooms]
        names = [*(keys.rate(*whose, what) for whose, what, _ in buckets), *ticket.keys]
        return self._store.pipeline.script(_ENTER, names, arguments)

    def _hold(self, ticket: Ticket) -> None:
        if ticket.keys:
            self._held.add(ticket)

    def _keys(self, tenant: str) -> Keys:
        every = self._store.all_keys()
        return every[ids.shard_for(tenant, len(every))]


def _ignored(reply: asyncio.Future[object]) -> None:
    if not reply.cancelled():
        reply.exception()
