"""The webhooks of tasks, and how far each of them has been told.

A webhook is one more follower of its task's log, with a cursor that outlives every process. The steps of a task's life
mark it as due together with what they write; whoever claims it has a lease, which others take over when it lapses, and
a fence, so that who was overtaken cannot move the cursor any more. What a webhook is (its content) the store does not
look into.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from a2a_grpc.server.core import states
from a2a_grpc.server.store import scripts
from a2a_grpc.server.store.keys import Keys
from a2a_grpc.server.store.letters import MARGIN_MS
from a2a_grpc.server.store.records import Outcome, Scope, StoredTask, Webhook
from a2a_grpc.server.store.scripts import Script
from a2a_grpc.server.store.tasks import TaskStore

_PUT = Script(
    "put_webhook",
    scripts.WEBHOOKS
    + """
-- KEYS: task push pushdue   ARGV: id webhook content limit terminal_state...
-- A webhook hears of what happens from now on; of a task that has ended it hears the end.
local task = redis.call('HMGET', KEYS[1], 'seq', 'state', 'told')
if not task[1] then return {'GONE'} end
if redis.call('HEXISTS', KEYS[2], 'c:' .. ARGV[2]) == 1 then
  rehook(KEYS[2], KEYS[3], ARGV[1], ARGV[2], ARGV[3])
  return {'OK'}
end
if hooks(KEYS[2]) >= tonumber(ARGV[4]) then return {'HOOKED'} end
local ended = false
for at = 5, #ARGV do ended = ended or ARGV[at] == task[2] end
hook(KEYS[1], KEYS[2], ARGV[2], ARGV[3], ended and whole(task[3] - 1) or task[1])
if ended then
  redis.call('PEXPIRE', KEYS[2], redis.call('PTTL', KEYS[1]))
  announce(KEYS[2], KEYS[3], ARGV[1])
end
return {'OK'}
""",
)

_REMOVE = Script(
    "remove_webhook",
    scripts.WEBHOOKS
    + """
-- KEYS: task push pushdue   ARGV: id webhook
redis.call('HDEL', KEYS[2], 'c:' .. ARGV[2], 's:' .. ARGV[2], 'd:' .. ARGV[2])
redis.call('ZREM', KEYS[3], row_of(ARGV[1], ARGV[2]))
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('HDEL', KEYS[1], 'push') end
return {'OK'}
""",
)

_REVIVE = Script(
    "revive_webhook",
    scripts.WEBHOOKS
    + """
-- KEYS: task push pushdue   ARGV: id webhook
local content = redis.call('HGET', KEYS[2], 'c:' .. ARGV[2])
if not content or redis.call('EXISTS', KEYS[1]) == 0 then return {'GONE'} end
if redis.call('HEXISTS', KEYS[2], 'd:' .. ARGV[2]) == 1 then rehook(KEYS[2], KEYS[3], ARGV[1], ARGV[2], content) end
return {'OK'}
""",
)

_DUE = Script(
    "due_webhooks",
    scripts.WEBHOOKS
    + """
-- Which are due and since when, the longest first, and in how many milliseconds the next one is.
-- KEYS: pushdue   ARGV: limit
local now = whole(clock())
local rows = redis.call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[1], 'WITHSCORES')
local later = redis.call('ZRANGE', KEYS[1], '(' .. now, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
return {rows, later[2] and whole(later[2] - now) or ''}
""",
)

_CLAIM = Script(
    "claim_webhook",
    scripts.WEBHOOKS
    + """
-- KEYS: task push pushdue   ARGV: id webhook lease
local row, now = row_of(ARGV[1], ARGV[2]), clock()
local due = redis.call('ZSCORE', KEYS[3], row)
if not due or tonumber(due) > now then return {'LOST'} end
local task = redis.call('HMGET', KEYS[1], 'seq', 'tenant', 'owner')
local hooked = redis.call('HMGET', KEYS[2], 's:' .. ARGV[2], 'c:' .. ARGV[2])
if not task[1] or not hooked[1] or not hooked[2] then
  redis.call('ZREM', KEYS[3], row)
  return {'GONE'}
end
local cursor, fence, attempts, since, created = string.match(hooked[1], '^(%d+) (%d+) (%d+) (%d+) (%d+)')
fence = whole(fence + 1)
redis.call('HSET', KEYS[2], 's:' .. ARGV[2], table.concat({cursor, fence, attempts, since, created}, ' '))
redis.call('ZADD', KEYS[3], whole(now + ARGV[3]), row)
return {'CLAIMED', fence, cursor, attempts, since, task[2], task[3], hooked[2], whole(now)}
""",
)

# Whoever has the present fence may go on. `mine` gives the cursor, the attempts, since when there are any, and when the
# webhook was made.
_MINE = (
    scripts.WEBHOOKS
    + """
local function mine(push, webhook, fence)
  local state = redis.call('HGET', push, 's:' .. webhook)
  if not state then return false end
  local cursor, current, attempts, since, created = string.match(state, '^(%d+) (%d+) (%d+) (%d+) (%d+)')
  if current ~= fence then return false end
  return {cursor, attempts, since, created}
end
"""
)

_ADVANCE = Script(
    "advance_webhook",
    _MINE
    + """
-- KEYS: task push pushdue   ARGV: id webhook fence cursor lease
local state = mine(KEYS[2], ARGV[2], ARGV[3])
local last = redis.call('HGET', KEYS[1], 'seq')
if not state or not last then return {'FENCED'} end
-- A store that has lost the end of a log, because it took over from another, will number other entries like those.
local cursor, fence = ARGV[4], ARGV[3]
local row, over = row_of(ARGV[1], ARGV[2]), tonumber(last) <= tonumber(cursor)
-- What is over has another fence: a renewal that comes late must not put off what is due since.
if over then cursor, fence = last, whole(fence + 1) end
redis.call('HSET', KEYS[2], 's:' .. ARGV[2], table.concat({cursor, fence, 0, 0, state[4]}, ' '))
if over then
  redis.call('ZREM', KEYS[3], row)
  return {'NONE'}
end
redis.call('ZADD', KEYS[3], whole(clock() + ARGV[5]), row)
return {'OK'}
""",
)

_RENEW = Script(
    "renew_webhook",
    _MINE
    + """
-- KEYS: push pushdue   ARGV: id webhook fence lease
if not mine(KEYS[1], ARGV[2], ARGV[3]) then return {'FENCED'} end
redis.call('ZADD', KEYS[2], 'XX', whole(clock() + ARGV[4]), row_of(ARGV[1], ARGV[2]))
return {'OK'}
""",
)

_DEFER = Script(
    "defer_webhook",
    _MINE
    + """
-- KEYS: push pushdue   ARGV: id webhook fence delay counted
local state = mine(KEYS[1], ARGV[2], ARGV[3])
if not state then return {'FENCED'} end
local now = clock()
local attempts, since = state[2], state[3]
if ARGV[5] == '1' then
  if attempts == '0' then since = whole(now) end
  attempts = whole(attempts + 1)
end
redis.call('HSET', KEYS[1], 's:' .. ARGV[2],
  table.concat({state[1], whole(ARGV[3] + 1), attempts, since, state[4]}, ' '))
redis.call('ZADD', KEYS[2], whole(now + ARGV[4]), row_of(ARGV[1], ARGV[2]))
if ARGV[4] == '0' then redis.call('SPUBLISH', KEYS[2], ARGV[1]) end
return {'OK'}
""",
)

_GIVE_UP = Script(
    "give_up_webhook",
    _MINE
    + """
-- The webhook stays, and is not told anything any more. A dead letter says why.
-- KEYS: task push pushdue dead letter   ARGV: id webhook fence seq reason letter ttl
local state = mine(KEYS[2], ARGV[2], ARGV[3])
local task = redis.call('HMGET', KEYS[1], 'tenant', 'owner', 'context', 'created')
if not state or not task[1] then return {'FENCED'} end
local now, attempts = whole(clock()), whole(state[2] + 1)
redis.call('HDEL', KEYS[2], 's:' .. ARGV[2])
redis.call('HSET', KEYS[2], 'd:' .. ARGV[2], table.concat({state[1], ARGV[3], attempts, state[3], state[4]}, ' '))
redis.call('ZREM', KEYS[3], row_of(ARGV[1], ARGV[2]))
redis.call('DEL', KEYS[5])
redis.call('HSET', KEYS[5], 'tenant', task[1], 'owner', task[2], 'context', task[3], 'task', ARGV[1], 'turn', ARGV[4],
  'reason', ARGV[5], 'attempts', attempts, 'created', task[4], 'died', now, 'webhook', ARGV[2])
redis.call('PEXPIRE', KEYS[5], ARGV[7])
redis.call('ZADD', KEYS[4], now, ARGV[6])
return {'OK'}
""",
)


class Hooked(NamedTuple):
    """A webhook as it is kept."""

    id: str
    content: bytes
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to tell a webhook, until the lease lapses. All times are milliseconds of the store's clock."""

    task_id: str
    webhook_id: str
    scope: Scope
    fence: str
    content: bytes
    cursor: int
    """The last entry of the log that it was told, or that it need not be told."""
    attempts: int
    """How often the next one was tried already."""
    since_ms: int
    """When that was tried first."""
    now_ms: int


class Due(NamedTuple):
    """Webhooks that somebody may claim, as (task, webhook), and in how many seconds the next will be due, if any."""

    rows: list[tuple[str, str]]
    next: float | None


class Webhooks:
    """The webhooks of a store. All methods raise StoreUnavailableError."""

    def __init__(self, store: TaskStore, *, letter_ttl: float) -> None:
        """`letter_ttl` in seconds: how long a dead letter is kept."""
        self._store = store
        self._letter_ttl_ms = int(letter_ttl * 1000)

    # -- what callers do ---------------------------------------------------------------------------------------------

    async def put(self, stored: StoredTask, webhook: Webhook) -> Outcome:
        """Add a webhook to a task, or replace that of the same id: OK, GONE, or HOOKED where there are too many."""
        keys, task_id = self._store.keys_of(stored.task_id), stored.task_id
        reply = await self._store.pipeline.script(
            _PUT,
            [keys.task(task_id), keys.push(task_id), keys.push_due],
            [task_id, webhook.id, webhook.content, webhook.limit, *sorted(states.TERMINAL)],
        )
        return Outcome(reply[0].decode())

    async def get(self, task_id: str, webhook_id: str) -> bytes | None:
        """The content of one webhook, or None."""
        keys = self._store.keys_of(task_id)
        found: bytes | None = await self._store.pipeline.command("HGET", keys.push(task_id), f"c:{webhook_id}")
        return found

    async def all(self, task_id: str) -> list[Hooked]:
        """The webhooks of a task, in no order."""
        flat = await self._store.pipeline.command("HGETALL", self._store.keys_of(task_id).push(task_id))
        fields = {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)}
        found = []
        for name, content in fields.items():
            kind, _, webhook_id = name.partition(":")
            if kind == "c":
                state = fields.get(f"s:{webhook_id}") or fields.get(f"d:{webhook_id}") or b"0"
                found.append(Hooked(webhook_id, content, int(state.split()[-1])))
        return found

    async def remove(self, task_id: str, webhook_id: str) -> None:
        """Remove a webhook; who delivers to it is stopped. Nothing happens where there is none."""
        keys = self._store.keys_of(task_id)
        await self._store.pipeline.script(
            _REMOVE, [keys.task(task_id), keys.push(task_id), keys.push_due], [task_id, webhook_id]
        )

    async def revive(self, task_id: str, webhook_id: str) -> bool:
        """Begin again where a webhook was given up; False where it is not kept any more."""
        keys = self._store.keys_of(task_id)
        reply = await self._store.pipeline.script(
            _REVIVE, [keys.task(task_id), keys.push(task_id), keys.push_due], [task_id, webhook_id]
        )
        return Outcome(reply[0].decode()) is Outcome.OK

    # -- what senders do ---------------------------------------------------------------------------------------------

    async def due(self, limit: int) -> Due:
        """Up to `limit` webhooks that are due, the longest first, whatever their shards."""
        replies = await asyncio.gather(
            *(self._store.pipeline.script(_DUE, [keys.push_due], [limit]) for keys in self._store.all_keys())
        )
        found = sorted(
            ((int(since), row) for rows, _ in replies for row, since in zip(rows[::2], rows[1::2], strict=True)),
            key=lambda due: due[0],
        )
        rows = [_task_and_webhook(row) for _, row in found[:limit]]
        return Due(rows, min((int(wait) / 1000 for _, wait in replies if wait), default=None))

    async def claim(self, task_id: str, webhook_id: str, lease_ms: int) -> Claim | None:
        """Claim a webhook that is due; None where somebody was faster, or it is gone."""
        keys = self._store.keys_of(task_id)
        reply = await self._store.pipeline.script(
            _CLAIM, [keys.task(task_id), keys.push(task_id), keys.push_due], [task_id, webhook_id, lease_ms]
        )
        if Outcome(reply[0].decode()) is not Outcome.CLAIMED:
            return None
        _, fence, cursor, attempts, since, tenant, owner, content, now = reply
        return Claim(
            task_id=task_id,
            webhook_id=webhook_id,
            scope=Scope(tenant.decode(), owner.decode()),
            fence=fence.decode(),
            content=content,
            cursor=int(cursor),
            attempts=int(attempts),
            since_ms=int(since),
            now_ms=int(now),
        )

    async def advance(self, claim: Claim, cursor: int, lease_ms: int) -> Outcome:
        """It was told everything up to `cursor`.

        OK: there is more, and the lease is new. NONE: there is no more, and the claim is over. FENCED: it is somebody
        else's, or gone.
        """
        reply = await self._store.pipeline.script(
            _ADVANCE, [self._task(claim), *self._places(claim)], [*_claimed(claim), cursor, lease_ms]
        )
        return Outcome(reply[0].decode())

    async def renew(self, claim: Claim, lease_ms: int) -> bool:
        """Keep a claim for longer; False where it is somebody else's now, or gone."""
        reply = await self._store.pipeline.script(_RENEW, self._places(claim), [*_claimed(claim), lease_ms])
        return Outcome(reply[0].decode()) is Outcome.OK

    async def defer(self, claim: Claim, delay_ms: int, *, counted: bool) -> None:
        """Give a claim back, not to be claimed for `delay_ms`; `counted`: an attempt has failed."""
        await self._store.pipeline.script(_DEFER, self._places(claim), [*_claimed(claim), delay_ms, int(counted)])

    async def give_up(self, claim: Claim, seq: int, reason: str) -> str | None:
        """Tell it nothing more, since `seq` could not be delivered; the dead letter's id, or None where fenced."""
        keys, letter_id = self._store.keys_of(claim.task_id), f"{claim.task_id}.{seq}.{_short(claim.webhook_id)}"
        reply = await self._store.pipeline.script(
            _GIVE_UP,
            [self._task(claim), *self._places(claim), keys.dead, keys.letter(letter_id)],
            [*_claimed(claim), seq, reason, letter_id, self._letter_ttl_ms + MARGIN_MS],
        )
        return letter_id if Outcome(reply[0].decode()) is Outcome.OK else None

    def channels(self) -> list[str]:
        """On these it is published that a webhook is due."""
        return [keys.push_due for keys in self._store.all_keys()]

    def _keys(self, claim: Claim) -> Keys:
        return self._store.keys_of(claim.task_id)

    def _task(self, claim: Claim) -> str:
        return self._keys(claim).task(claim.task_id)

    def _places(self, claim: Claim) -> list[str]:
        keys = self._keys(claim)
        return [keys.push(claim.task_id), keys.push_due]


def _claimed(claim: Claim) -> Sequence[str]:
    return (claim.task_id, claim.webhook_id, claim.fence)


def _task_and_webhook(row: bytes) -> tuple[str, str]:
    task_id, _, webhook_id = row.decode().partition(" ")
    return task_id, webhook_id


def _short(webhook_id: str) -> str:
    return blake2b(webhook_id.encode(), digest_size=8).hexdigest()
