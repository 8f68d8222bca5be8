"""The entries of the registry of agents: leases, and who looks whether an agent answers. One Lua script for each step.

The store's clock counts, so that the clocks of the replicas don't have to agree. Every script may be sent again.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from redis.exceptions import ResponseError

from a2a_grpc.server.core.pages import Cursor
from a2a_grpc.server.store import registration_keys as keys
from a2a_grpc.server.store import scripts
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.keys import Keys
from a2a_grpc.server.store.link import Argument
from a2a_grpc.server.store.nodes import Nodes
from a2a_grpc.server.store.pipeline import Calls
from a2a_grpc.server.store.scripts import Script

UNKNOWN: Final = 1
"""The state of an agent that nobody has looked for; other states are numbers that the caller gives a meaning."""
_SHARD: Final = Keys(0)
HISTORY: Final = 20
"""How many earlier states are kept."""
INSTANCES: Final = 100
"""How many processes are known to keep one entry; beyond that, those whose leases end first are not."""

_COMMON = """
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function whole(number) return string.format('%d', number) end

-- An index lives as long as the longest lease in it, and a margin.
local function keep(ttl, ...)
  for _, key in ipairs({...}) do
    if redis.call('PTTL', key) < ttl + 60000 then redis.call('PEXPIRE', key, whole(ttl + 60000)) end
  end
end

local function forget(id, ...)
  for _, key in ipairs({...}) do redis.call('ZREM', key, id) end
end

local function sweep(now, all, leases, checks)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', whole(now), 'LIMIT', 0, 100)) do
    forget(id, all, leases, checks)
  end
end

-- A process that died withdraws nothing, and each one that begins has another name.
local function forget_instances(agent, now)
  local known = {}
  for _, field in ipairs(redis.call('HKEYS', agent)) do
    if string.sub(field, 1, 2) == 'i:' then
      known[#known + 1] = {tonumber(redis.call('HGET', agent, field)), field}
    end
  end
  table.sort(known, function(a, b) return a[1] < b[1] end)
  for at, row in ipairs(known) do
    if row[1] <= now or at <= #known - MOST_INSTANCES + 1 then redis.call('HDEL', agent, row[2]) end
  end
end

local function lease(agent, all, leases, checks, owner, id, now, ttl, instance)
  local ends = whole(now + ttl)
  redis.call('HDEL', agent, 'i:' .. instance)
  forget_instances(agent, now)
  redis.call('HSET', agent, 'renewed', whole(now), 'expires', ends, 'ttl', whole(ttl), 'i:' .. instance, ends)
  redis.call('PEXPIRE', agent, whole(ttl))
  -- A sweep within the last millisecond of a lease has taken the rows of an entry that is then renewed.
  redis.call('ZADD', all, 'NX', redis.call('HGET', agent, 'created'), id)
  redis.call('ZADD', checks, 'NX', whole(now), id)
  redis.call('ZADD', leases, ends, id)
  redis.call('ZADD', owner, ends, id)
  keep(ttl, all, leases, checks, owner)
end
""".replace("MOST_INSTANCES", str(INSTANCES))

# The agent, then the four indexes: `_keys` below.
REGISTER: Final = Script(
    "register_agent",
    _COMMON
    + """
-- KEYS: agent all leases checks owner   ARGV: id ttl most_of_owner most instance field value...
local now, id = clock(), ARGV[1]
sweep(now, KEYS[2], KEYS[3], KEYS[4])
redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', whole(now))
local known = redis.call('EXISTS', KEYS[1])
if known == 0 then
  if redis.call('ZCARD', KEYS[5]) >= tonumber(ARGV[3]) then return {'OWNER'} end
  if redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[4]) then return {'FULL'} end
  redis.call('HSET', KEYS[1], 'created', whole(now), 'state', '1', 'since', whole(now))
end
redis.call('HSET', KEYS[1], unpack(ARGV, 6))
redis.call('ZADD', KEYS[4], whole(now), id)
lease(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], id, now, tonumber(ARGV[2]), ARGV[5])
return {known == 0 and 'CREATED' or 'KNOWN', redis.call('HGETALL', KEYS[1])}
""",
)

RENEW: Final = Script(
    "renew_agent",
    _COMMON
    + """
-- KEYS: agent all leases checks owner   ARGV: id owner ttl (0: as before) most instance
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[2] then return {'GONE'} end
local ttl = tonumber(ARGV[3])
if ttl == 0 then ttl = tonumber(redis.call('HGET', KEYS[1], 'ttl')) end
lease(KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], ARGV[1], clock(), math.min(ttl, tonumber(ARGV[4])), ARGV[5])
return {'OK', redis.call('HGETALL', KEYS[1])}
""",
)

WITHDRAW: Final = Script(
    "withdraw_agent",
    _COMMON
    + """
-- KEYS: agent all leases checks owner   ARGV: id owner instance ('': all)
local whose = redis.call('HGET', KEYS[1], 'owner')
if not whose then return {'GONE'} end
if whose ~= ARGV[2] then return {'OTHER'} end
if ARGV[3] ~= '' then
  redis.call('HDEL', KEYS[1], 'i:' .. ARGV[3])
  local now, fields = clock(), redis.call('HGETALL', KEYS[1])
  for at = 1, #fields, 2 do
    if string.sub(fields[at], 1, 2) == 'i:' and tonumber(fields[at + 1]) > now then return {'KEPT'} end
  end
end
redis.call('DEL', KEYS[1])
forget(ARGV[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
return {'OK'}
""",
)

CLAIM: Final = Script(
    "claim_checks",
    _COMMON
    + """
-- KEYS: all leases checks   ARGV: lease how_many
-- Who claims may look until the time that the row gets; that time is its proof when it reports.
local now = clock()
sweep(now, KEYS[1], KEYS[2], KEYS[3])
local due = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', whole(now), 'LIMIT', 0, ARGV[2])
local proof = whole(now + ARGV[1])
for _, id in ipairs(due) do redis.call('ZADD', KEYS[3], proof, id) end
return {proof, due}
""",
)

REPORT: Final = Script(
    "report_check",
    _COMMON
    + """
-- KEYS: agent checks   ARGV: id proof pause state reason signature key history
if redis.call('ZSCORE', KEYS[2], ARGV[1]) ~= ARGV[2] then return {'OVERTAKEN'} end
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return {'GONE'}
end
local now = clock()
local old = redis.call('HMGET', KEYS[1], 'state', 'since', 'checked', 'reason', 'history')
if old[1] ~= ARGV[4] then
  local rows = {table.concat({old[1], old[2], old[3] or '0', old[4] or ''}, ' ')}
  for row in string.gmatch(old[5] or '', '[^\\n]+') do
    if #rows < tonumber(ARGV[8]) then rows[#rows + 1] = row end
  end
  redis.call('HSET', KEYS[1], 'state', ARGV[4], 'since', whole(now), 'history', table.concat(rows, '\\n'))
end
redis.call('HSET', KEYS[1], 'checked', whole(now), 'reason', ARGV[5], 'signature', ARGV[6], 'key', ARGV[7])
redis.call('ZADD', KEYS[2], whole(now + ARGV[3]), ARGV[1])
return {'OK'}
""",
)

_GLANCE: Final = ("owner", "public", "facets", "state", "signature")


class Seen(NamedTuple):
    """A state in which an agent was. Times in milliseconds since 1970."""

    state: int
    since_ms: int
    checked_ms: int
    """When somebody looked last; 0: nobody did."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """One entry. Times in milliseconds since 1970, by the store's clock."""

    id: str
    owner: str
    url: str
    card: bytes
    public: bool
    created_ms: int
    renewed_ms: int
    expires_ms: int
    ttl_ms: int
    health: Seen
    history: tuple[Seen, ...]
    """What the health was before, the latest first."""
    signature: int
    key_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEntry:
    """What is registered."""

    id: str
    owner: str
    url: str
    card: bytes
    facets: bytes
    """What a search looks at; the store does not look into it."""
    public: bool
    signature: int
    key_id: str
    instance: str


class Glance(NamedTuple):
    """What a search needs of an entry."""

    place: Cursor
    owner: str
    public: bool
    facets: bytes
    state: int
    signature: int


class Look(NamedTuple):
    """A page of glances, and whether there are more behind the last row that was looked at."""

    glances: list[Glance]
    last: Cursor | None
    more: bool


class Claim(NamedTuple):
    """The right to look for some agents until a time."""

    proof: str
    ids: list[str]


class Full(Enum):
    """Why there is no room for another entry."""

    OWNER = "OWNER"
    """Its owner has as many as one may have."""
    FULL = "FULL"
    """There are as many as there may be."""


class Withdrawal(Enum):
    """What became of an entry that was to be withdrawn."""

    OK = "OK"
    KEPT = "KEPT"
    """Other processes keep it."""
    GONE = "GONE"
    """There was none."""
    OTHER = "OTHER"
    """It is somebody else's."""


@dataclass(frozen=True, slots=True)
class OneShard:
    """A store without tasks, for what is counted in it (see `Shards`)."""

    replica: str
    pipeline: Calls

    def all_keys(self) -> Sequence[Keys]:
        """The key names of the only shard."""
        return (_SHARD,)


class Registrations:
    """The entries of a store. All methods raise StoreUnavailableError."""

    def __init__(self, nodes: Nodes, *, max_ttl: float, per_owner: int, most: int) -> None:
        """`max_ttl` in seconds: no lease is longer. `per_owner` and `most` entries are kept."""
        self._nodes = nodes
        self._calls = nodes.calls
        self._max_ttl_ms = round(max_ttl * 1000)
        self._per_owner = per_owner
        self._most = most

    async def ping(self, timeout: float) -> None:
        """See that the store takes writes, within `timeout` seconds."""
        try:
            await self._calls.command("SET", keys.MARK, "", "PX", keys.MARK_KEPT_MS, timeout=timeout)
        except ResponseError as error:  # as in `TaskStore.ping`
            raise StoreUnavailableError(f"the store refuses: {error}") from error

    async def register(self, entry: NewEntry, ttl: float) -> tuple[Registration, bool] | Full:
        """Keep `entry` for `ttl` seconds (0: as long as may be), in place of what had its id; and whether it is new."""
        fields: list[Argument] = [
            "owner", entry.owner, "url", entry.url, "card", entry.card, "facets", entry.facets,
            "public", int(entry.public), "signature", entry.signature, "key", entry.key_id,
        ]  # fmt: skip
        ttl_ms = min(round(ttl * 1000), self._max_ttl_ms) or self._max_ttl_ms
        reply = await self._calls.script(
            REGISTER,
            _keys(entry.id, entry.owner),
            [entry.id, ttl_ms, self._per_owner, self._most, entry.instance, *fields],
        )
        outcome = reply[0].decode()
        if outcome in Full.__members__:
            return Full(outcome)
        return _registration(entry.id, _pairs(reply[1])), outcome == "CREATED"

    async def renew(self, agent_id: str, owner: str, ttl: float, instance: str) -> Registration | None:
        """Keep an entry for `ttl` seconds from now (0: as long as before); None where there is none of this owner."""
        reply = await self._calls.script(
            RENEW, _keys(agent_id, owner), [agent_id, owner, round(ttl * 1000), self._max_ttl_ms, instance]
        )
        return None if reply[0] == b"GONE" else _registration(agent_id, _pairs(reply[1]))

    async def withdraw(self, agent_id: str, owner: str, instance: str) -> Withdrawal:
        """Remove an entry, or with `instance` only what that process has said, unless it was the last."""
        reply = await self._calls.script(WITHDRAW, _keys(agent_id, owner), [agent_id, owner, instance])
        return Withdrawal(reply[0].decode())

    async def find(self, agent_id: str) -> Registration | None:
        """One entry."""
        fields = _pairs(await self._nodes.reads.command("HGETALL", keys.agent(agent_id)))
        # Only with a lease is it an entry.
        return _registration(agent_id, fields) if b"expires" in fields else None

    async def look(self, after: Cursor | None, count: int) -> Look:
        """Up to `count` rows behind `after`, those that came into being last first."""
        arguments: list[Argument] = ["-inf", count + 1]
        if after is not None:
            arguments += [after.timestamp_ms, after.task_id]
        _, found = await self._nodes.reads.script(scripts.PAGE, [keys.ALL], arguments)
        rows = [Cursor(int(at), row.decode()) for row, at in zip(found[::2], found[1::2], strict=True)]
        more, rows = len(rows) > count, rows[:count]
        replies = await asyncio.gather(
            *(self._nodes.reads.command("HMGET", keys.agent(row.task_id), *_GLANCE) for row in rows)
        )
        glances = [
            Glance(row, owner.decode(), public == b"1", facets, int(state), int(signature))
            for row, (owner, public, facets, state, signature) in zip(rows, replies, strict=True)
            if owner is not None
        ]
        return Look(glances, rows[-1] if rows else None, more)

    async def claim(self, lease: float, count: int) -> Claim:
        """Up to `count` agents that are to be looked for now, by nobody else within `lease` seconds."""
        proof, due = await self._calls.script(CLAIM, [keys.ALL, keys.LEASES, keys.CHECKS], [round(lease * 1000), count])
        return Claim(proof.decode(), [row.decode() for row in due])

    async def report(
        self, agent_id: str, proof: str, *, pause: float, state: int, reason: str, signature: int, key_id: str
    ) -> bool:
        """What was seen, by whoever claimed it; the next look is due in `pause` seconds. False: somebody else has."""
        reply = await self._calls.script(
            REPORT,
            [keys.agent(agent_id), keys.CHECKS],
            [agent_id, proof, round(pause * 1000), state, reason, signature, key_id, HISTORY],
        )
        return bool(reply[0] == b"OK")


def _keys(agent_id: str, owner: str) -> list[str]:
    return [keys.agent(agent_id), keys.ALL, keys.LEASES, keys.CHECKS, keys.owner(owner)]


def _pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _registration(agent_id: str, fields: Mapping[bytes, bytes]) -> Registration:
    return Registration(
        id=agent_id,
        owner=fields[b"owner"].decode(),
        url=fields[b"url"].decode(),
        card=fields[b"card"],
        public=fields[b"public"] == b"1",
        created_ms=int(fields[b"created"]),
        renewed_ms=int(fields[b"renewed"]),
        expires_ms=int(fields[b"expires"]),
        ttl_ms=int(fields[b"ttl"]),
        health=Seen(
            int(fields[b"state"]),
            int(fields[b"since"]),
            int(fields.get(b"checked", b"0")),
            fields.get(b"reason", b"").decode(),
        ),
        history=tuple(_seen(row) for row in fields.get(b"history", b"").decode().split("\n") if row),
        signature=int(fields[b"signature"]),
        key_id=fields[b"key"].decode(),
    )


def _seen(row: str) -> Seen:
    state, since, checked, reason = row.split(" ", 3)
    return Seen(int(state), int(since), int(checked), reason)
