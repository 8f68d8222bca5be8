"""The steps of a task's life, one Lua script each: atomic, on one slot, and safe to call again.

The scripts enforce; they never decide. States come in as arguments and are compared, never spelled. A caller that was
overtaken gets the name of what stands against it (`STATE`, `FENCED`, `QUEUED`, `GONE`), nothing is written, and it
decides anew.
"""

from dataclasses import dataclass, field
from hashlib import sha1


@dataclass(frozen=True)
class Script:
    """A Lua script and the digest that EVALSHA knows it by."""

    name: str
    source: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", sha1(self.source.encode(), usedforsecurity=False).hexdigest())


# Turns that wait for a replica. They stand at a virtual time: a caller's next turn one after its last, and never before
# the clock, which is where the turn stood that was claimed last. So callers are served in turn, whatever each has sent,
# and each caller's turns in their order. `fair` holds the clock, and for each caller where its last turn stands;
# `since` when each turn came, by the clock on the wall.
_QUEUE = """
local function enqueue(ready, fair, since, id, caller, first)
  local at = tonumber(redis.call('HGET', fair, 'clock') or 0)
  if not first then
    at = math.max(at, tonumber(redis.call('HGET', fair, caller) or 0)) + 1
    redis.call('HSET', fair, caller, at)
  end
  redis.call('ZADD', ready, at, id)
  local time = redis.call('TIME')
  redis.call('ZADD', since, time[1] * 1000 + math.floor(time[2] / 1000), id)
end

local function dequeue(ready, fair, since, id, caller, claimed)
  local at = redis.call('ZSCORE', ready, id)
  if not at then return false end
  redis.call('ZREM', ready, id)
  redis.call('ZREM', since, id)
  if redis.call('EXISTS', ready) == 0 then
    redis.call('DEL', fair)
    return true
  end
  if claimed and tonumber(at) > tonumber(redis.call('HGET', fair, 'clock') or 0) then
    redis.call('HSET', fair, 'clock', at)
  end
  if redis.call('HGET', fair, caller) == at then redis.call('HDEL', fair, caller) end
  return true
end

local function caller_of(tenant, owner) return tenant .. '\\n' .. owner end
"""

# How many tasks there are in each state. `tally` holds it as `GENERATION:STATE`, and each task under which of these it
# is counted, so that it can be seen whether it was, and how: see `store/levels.py`.
TALLY = """
local function count(tally, from, state)
  local generation = from and string.match(from, '^%d+') or redis.call('HGET', tally, 'generation') or '0'
  local place = generation .. ':' .. state
  if from == place then return place end
  if from then redis.call('HINCRBY', tally, from, -1) end
  redis.call('HINCRBY', tally, place, 1)
  return place
end

local function uncount(tally, from)
  if from then redis.call('HINCRBY', tally, from, -1) end
end
"""

# KEYS[1] is the task and KEYS[2] its log wherever these are used; KEYS[3..8] are the indexes of `Keys.indexes`.
_WRITE = """
-- `request`, `extensions` and `trace` go with the last entry: what else the caller said with its message.
-- Large entries are announced without their content: the server cuts off a follower for whom 32 MiB wait.
local function append(seq, entries, first, channel, request, extensions, trace)
  local published, size = {tostring(seq + 1), '\\n'}, 0
  for at = first, #entries do
    seq = seq + 1
    if trace and trace ~= '' and at == #entries then
      redis.call('XADD', KEYS[2], seq .. '-0', 'e', entries[at], 'r', request, 'x', extensions, 't', trace)
    elseif request and at == #entries then
      redis.call('XADD', KEYS[2], seq .. '-0', 'e', entries[at], 'r', request, 'x', extensions)
    else
      redis.call('XADD', KEYS[2], seq .. '-0', 'e', entries[at])
    end
    published[#published + 1] = struct.pack('>I4', #entries[at])
    published[#published + 1] = entries[at]
    size = size + #entries[at]
  end
  if size > 262144 then published = {published[1], published[2]} end
  if channel ~= '' then redis.call('SPUBLISH', channel, table.concat(published)) end
  return seq
end

local function reindex(id, stamp)
  redis.call('ZADD', KEYS[3], stamp, id)
  redis.call('ZADD', KEYS[4], stamp, id)
  if KEYS[5] ~= KEYS[7] then
    redis.call('ZREM', KEYS[5], id)
    redis.call('ZREM', KEYS[6], id)
  end
  redis.call('ZADD', KEYS[7], stamp, id)
  redis.call('ZADD', KEYS[8], stamp, id)
end

-- The sweep erases a task with its index rows at `due`; the keys' own life time is the net under it. `row` says where
-- the task stands in the indexes, for a sweep that comes when the task itself is gone.
local function retain(purge, row, ttl, due, push)
  redis.call('ZADD', purge, due, row)
  redis.call('PEXPIRE', KEYS[1], ttl + 3600000)
  redis.call('PEXPIRE', KEYS[2], ttl + 3600000)
  if push then redis.call('PEXPIRE', push, ttl + 3600000) end
end
"""

# The webhooks of a task. `push:ID` holds for each of them `c:WEBHOOK` with its content, and where it stands in its log:
# `s:WEBHOOK` is "cursor fence attempts since created", `d:WEBHOOK` the same of one given up. A row of `pushdue`
# is "TASK WEBHOOK" at the time (of the store's clock) from which on somebody may deliver: whoever delivers moves it on,
# and whoever has delivered everything removes it.
WEBHOOKS = """
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function whole(number) return string.format('%d', number) end

local function row_of(id, webhook) return id .. ' ' .. webhook end

-- There are new entries. Who is at work already, or waits for another attempt, finds them then.
local function announce(push, due, id)
  local now, idle = whole(clock()), 0
  for _, field in ipairs(redis.call('HKEYS', push)) do
    if string.sub(field, 1, 2) == 's:' then
      idle = idle + redis.call('ZADD', due, 'NX', now, row_of(id, string.sub(field, 3)))
    end
  end
  if idle > 0 then redis.call('SPUBLISH', due, id) end
end

local function hook(task, push, webhook, content, cursor)
  redis.call('HSET', task, 'push', '1')
  redis.call('HSET', push, 'c:' .. webhook, content,
    's:' .. webhook, table.concat({cursor, 0, 0, 0, whole(clock())}, ' '))
end

-- Other content for a webhook that is there. Who delivers to the old one is stopped; one given up begins again.
local function rehook(push, due, id, webhook, content)
  redis.call('HSET', push, 'c:' .. webhook, content)
  local state = redis.call('HGET', push, 's:' .. webhook) or redis.call('HGET', push, 'd:' .. webhook)
  local cursor, fence, created = string.match(state, '^(%d+) (%d+) %d+ %d+ (%d+)')
  redis.call('HDEL', push, 'd:' .. webhook)
  redis.call('HSET', push, 's:' .. webhook, table.concat({cursor, whole(fence + 1), 0, 0, created}, ' '))
  redis.call('ZADD', due, whole(clock()), row_of(id, webhook))
  redis.call('SPUBLISH', due, id)
end

local function hooks(push)
  local count = 0
  for _, field in ipairs(redis.call('HKEYS', push)) do
    if string.sub(field, 1, 2) == 'c:' then count = count + 1 end
  end
  return count
end

local function unhook_all(push, due, id)
  for _, field in ipairs(redis.call('HKEYS', push)) do
    redis.call('ZREM', due, row_of(id, string.sub(field, 3)))
  end
  redis.call('DEL', push)
end
"""

CREATE = Script(
    "create",
    _QUEUE
    + TALLY
    + _WRITE
    + WEBHOOKS
    + """
-- KEYS: task log index*6 held ready fair dedupe push since tally
-- ARGV: id accepted window replica now stamp state tenant owner context max_ready ready_channel limit
--       request extensions trace entry begun [webhook content]
-- `accepted` says who sent what; a call that was answered before finds it, with the answer behind it.
local known = redis.call('GET', KEYS[12])
if known then return {'KNOWN', known} end
-- Where others wait, a new turn waits behind them, unless it is at work already.
local waiting = redis.call('ZCARD', KEYS[10])
local claimed = ARGV[4] ~= '' and (waiting == 0 or ARGV[18] == '1')
if not claimed and waiting >= tonumber(ARGV[11]) then return {'FULL'} end
local seq = append(0, {ARGV[17]}, 1, '', ARGV[14], ARGV[15], ARGV[16])
local epoch = claimed and 1 or 0
redis.call('HSET', KEYS[1], 'tenant', ARGV[8], 'owner', ARGV[9], 'context', ARGV[10], 'state', ARGV[7],
  'stamp', ARGV[6], 'created', ARGV[5], 'seq', seq, 'epoch', epoch, 'holder', claimed and ARGV[4] or '',
  'attempt', epoch, 'limit', ARGV[13], 'turn', 1, 'queue', '', 'at', 0, 'told', seq,
  'tally', count(KEYS[15], false, ARGV[7]))
if ARGV[19] then hook(KEYS[1], KEYS[13], ARGV[19], ARGV[20], seq) end
reindex(ARGV[1], ARGV[6])
if claimed then
  redis.call('SADD', KEYS[9], ARGV[1])
else
  enqueue(KEYS[10], KEYS[11], KEYS[14], ARGV[1], caller_of(ARGV[8], ARGV[9]))
  redis.call('SPUBLISH', ARGV[12], ARGV[1])
end
redis.call('SET', KEYS[12], table.concat({ARGV[2], 'CREATED', seq, epoch}, ' '), 'PX', ARGV[3])
return {'CREATED', seq, epoch}
""",
)

FOLLOW_UP = Script(
    "follow_up",
    _QUEUE
    + TALLY
    + _WRITE
    + WEBHOOKS
    + """
-- KEYS: task log index*6 held ready fair later dedupe push pushdue since tally
-- ARGV: id accepted window replica stamp expected new channel wake_prefix max_ready ready_channel
--       request extensions trace resumed message max_queue [webhook content max_webhooks]
local known = redis.call('GET', KEYS[13])
if known then return {'KNOWN', known} end
local task = redis.call('HMGET', KEYS[1], 'state', 'holder', 'seq', 'queue', 'epoch', 'tenant', 'owner', 'push',
  'tally')
if not task[1] then return {'GONE'} end
if task[1] ~= ARGV[6] then return {'STATE', task[1]} end
local busy = task[2] ~= '' or redis.call('ZSCORE', KEYS[10], ARGV[1]) or redis.call('ZSCORE', KEYS[12], ARGV[1])
local waiting = redis.call('ZCARD', KEYS[10])
local claimed = ARGV[4] ~= '' and waiting == 0
if not busy and not claimed and waiting >= tonumber(ARGV[10]) then return {'FULL'} end
local new = ARGV[18] and redis.call('HEXISTS', KEYS[14], 'c:' .. ARGV[18]) == 0
if new and hooks(KEYS[14]) >= tonumber(ARGV[20]) then return {'HOOKED'} end
local function accept(outcome, seq, epoch)
  if new then
    hook(KEYS[1], KEYS[14], ARGV[18], ARGV[19], task[3])
  elseif ARGV[18] then
    rehook(KEYS[14], KEYS[15], ARGV[1], ARGV[18], ARGV[19])
  end
  if new or task[8] then announce(KEYS[14], KEYS[15], ARGV[1]) end
  redis.call('SET', KEYS[13], table.concat({ARGV[2], outcome, seq, epoch}, ' '), 'PX', ARGV[3])
  return {outcome, seq, epoch}
end
if busy then
  local _, queued = string.gsub(task[4], '%d+', '')
  if queued >= tonumber(ARGV[17]) then return {'CROWDED'} end
  local seq = append(tonumber(task[3]), {ARGV[16]}, 1, ARGV[8], ARGV[12], ARGV[13], ARGV[14])
  local queue = task[4] == '' and tostring(seq) or (task[4] .. ' ' .. seq)
  redis.call('HSET', KEYS[1], 'seq', seq, 'queue', queue)
  if task[2] ~= '' then redis.call('SPUBLISH', ARGV[9] .. task[2], ARGV[1]) end
  return accept('QUEUED', seq, 0)
end
-- The resumed status comes first: it moves the question into the history before the answer joins it.
local seq = append(tonumber(task[3]), {ARGV[15], ARGV[16]}, 1, ARGV[8], ARGV[12], ARGV[13], ARGV[14])
local epoch = tonumber(task[5]) + (claimed and 1 or 0)
redis.call('HSET', KEYS[1], 'state', ARGV[7], 'stamp', ARGV[5], 'seq', seq, 'turn', seq, 'epoch', epoch,
  'holder', claimed and ARGV[4] or '', 'attempt', claimed and 1 or 0, 'told', seq - 1,
  'tally', count(KEYS[17], task[9], ARGV[7]))
reindex(ARGV[1], ARGV[5])
if claimed then
  redis.call('SADD', KEYS[9], ARGV[1])
else
  enqueue(KEYS[10], KEYS[11], KEYS[16], ARGV[1], caller_of(task[6], task[7]))
  redis.call('SPUBLISH', ARGV[11], ARGV[1])
end
return accept('STARTED', seq, claimed and epoch or 0)
""",
)

RELEASE = Script(
    "release",
    """
-- KEYS: dedupe   ARGV: reservation
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return {'OK'}
""",
)

APPEND = Script(
    "append",
    TALLY
    + _WRITE
    + WEBHOOKS
    + """
-- Drop the log up to `mark`, behind a snapshot of there. Messages that are still to be answered are kept aside.
local function forget(mark, queue)
  local base = redis.call('HMGET', KEYS[1], 'mark_head', 'mark_artifacts', 'turn', 'kept')
  local fields, wanted = {'base', mark, 'base_head', base[1], 'base_artifacts', base[2]}, {}
  for at in string.gmatch(base[3] .. ' ' .. queue, '%d+') do
    if tonumber(at) <= mark then
      wanted[#wanted + 1] = at
      local entry = redis.call('XRANGE', KEYS[2], at .. '-0', at .. '-0')[1]
      if entry then
        for side = 1, #entry[2], 2 do
          fields[#fields + 1] = 'kept:' .. at .. ':' .. entry[2][side]
          fields[#fields + 1] = entry[2][side + 1]
        end
      end
    end
  end
  for at in string.gmatch(base[4] or '', '%d+') do
    local still = false
    for _, one in ipairs(wanted) do still = still or one == at end
    if not still then
      local kept = 'kept:' .. at
      redis.call('HDEL', KEYS[1], kept .. ':e', kept .. ':r', kept .. ':x', kept .. ':t')
    end
  end
  fields[#fields + 1] = 'kept'; fields[#fields + 1] = table.concat(wanted, ' ')
  redis.call('HSET', KEYS[1], unpack(fields))
  redis.call('XTRIM', KEYS[2], 'MINID', '=', (mark + 1) .. '-0')
end

-- KEYS: task log index*6 held purge push pushdue tally
-- ARGV: id epoch operation expected new stamp idle_only release ttl due snapshot_seq head artifacts channel row told
--       keep entry...
-- `told` counts the entries up to the last status among them.
local task = redis.call('HMGET', KEYS[1], 'epoch', 'state', 'seq', 'operation', 'appended', 'cancel', 'queue', 'push',
  'tally')
if not task[1] then return {'GONE'} end
if task[4] == ARGV[2] .. ':' .. ARGV[3] then return {'OK', tonumber(task[5]), task[6] or '', task[7]} end
if task[1] ~= ARGV[2] then return {'FENCED'} end
if task[2] ~= ARGV[4] then return {'STATE', task[2]} end
-- Who was asked to cancel must not park: nobody would be left to do it.
if ARGV[8] == '1' and ARGV[9] == '' and task[6] then return {'ASKED'} end
if ARGV[7] == '1' and task[7] ~= '' then return {'QUEUED'} end
local before = tonumber(task[3])
local seq = append(before, ARGV, 18, ARGV[14])
local fields = {'seq', seq, 'operation', ARGV[2] .. ':' .. ARGV[3], 'appended', before + 1}
local function set(name, value) fields[#fields + 1] = name; fields[#fields + 1] = value end
if ARGV[11] == tostring(before) then
  set('at', seq); set('head', ARGV[12]); set('artifacts', ARGV[13])
  if seq >= tonumber(ARGV[17]) then
    local mark = tonumber(redis.call('HGET', KEYS[1], 'mark') or 0)
    if seq - mark >= tonumber(ARGV[17]) then
      if mark > 0 then forget(mark, task[7]) end
      set('mark', seq); set('mark_head', ARGV[12]); set('mark_artifacts', ARGV[13])
    end
  end
end
if ARGV[6] ~= '' then
  set('state', ARGV[5]); set('stamp', ARGV[6]); set('told', before + ARGV[16])
  set('tally', count(KEYS[13], task[9], ARGV[5]))
  reindex(ARGV[1], ARGV[6])
end
if ARGV[8] == '1' then
  set('holder', '')
  redis.call('SREM', KEYS[9], ARGV[1])
end
redis.call('HSET', KEYS[1], unpack(fields))
if ARGV[9] ~= '' then retain(KEYS[10], ARGV[15], tonumber(ARGV[9]), ARGV[10], task[8] and KEYS[11]) end
if task[8] and seq > before then announce(KEYS[11], KEYS[12], ARGV[1]) end
return {'OK', before + 1, task[6] or '', task[7]}
""",
)

CANCEL = Script(
    "cancel",
    _QUEUE
    + TALLY
    + _WRITE
    + WEBHOOKS
    + """
-- KEYS: task log index*6 ready fair later purge held push pushdue since tally
-- ARGV: id expected new stamp channel wake_prefix over ttl due now call row entry
-- `over` names a holder that was asked and did not answer: its turn ends without it, and `held` is what it holds.
local task = redis.call('HMGET', KEYS[1], 'state', 'holder', 'seq', 'epoch', 'canceled', 'tenant', 'owner', 'push',
  'tally')
if not task[1] then return {'GONE'} end
if task[5] == ARGV[11] then return {'CANCELED', tonumber(task[3])} end
if task[1] ~= ARGV[2] then return {'STATE', task[1]} end
if task[2] ~= '' and task[2] ~= ARGV[7] then
  redis.call('HSETNX', KEYS[1], 'cancel', ARGV[10])
  redis.call('SPUBLISH', ARGV[6] .. task[2], ARGV[1])
  return {'ASKED', task[2]}
end
local seq = append(tonumber(task[3]), {ARGV[13]}, 1, ARGV[5])
redis.call('HSET', KEYS[1], 'state', ARGV[3], 'stamp', ARGV[4], 'seq', seq, 'epoch', tonumber(task[4]) + 1,
  'holder', '', 'cancel', ARGV[10], 'canceled', ARGV[11], 'told', seq,
  'tally', count(KEYS[17], task[9], ARGV[3]))
reindex(ARGV[1], ARGV[4])
dequeue(KEYS[9], KEYS[10], KEYS[16], ARGV[1], caller_of(task[6], task[7]))
redis.call('ZREM', KEYS[11], ARGV[1])
redis.call('SREM', KEYS[13], ARGV[1])
retain(KEYS[12], ARGV[12], tonumber(ARGV[8]), ARGV[9], task[8] and KEYS[14])
if task[8] then announce(KEYS[14], KEYS[15], ARGV[1]) end
return {'CANCELED', seq}
""",
)

CLAIM = Script(
    "claim",
    _QUEUE
    + """
-- KEYS: task held ready fair since   ARGV: id replica call
local task = redis.call('HMGET', KEYS[1], 'holder', 'claim', 'epoch', 'tenant', 'owner')
if not dequeue(KEYS[3], KEYS[4], KEYS[5], ARGV[1], caller_of(task[4] or '', task[5] or ''), true) then
  -- A claim whose answer was lost is answered again. Another one is not, not even by the holder: it would run twice.
  if task[1] ~= ARGV[2] or task[2] ~= ARGV[3] then return {'LOST'} end
  return {'CLAIMED', tonumber(task[3])}
end
if not task[3] then return {'LOST'} end
redis.call('HSET', KEYS[1], 'holder', ARGV[2], 'claim', ARGV[3])
redis.call('HINCRBY', KEYS[1], 'attempt', 1)
redis.call('SADD', KEYS[2], ARGV[1])
return {'CLAIMED', redis.call('HINCRBY', KEYS[1], 'epoch', 1)}
""",
)

PUT_BACK = Script(
    "put_back",
    _QUEUE
    + """
-- The holder gives an unfinished turn back, to be run again: at once and before all others, or at `due`.
-- KEYS: task held ready fair later since   ARGV: id epoch replica counted due ready_channel
local task = redis.call('HMGET', KEYS[1], 'epoch', 'holder', 'tenant', 'owner')
if task[2] ~= ARGV[3] then redis.call('SREM', KEYS[2], ARGV[1]) end
if task[1] ~= ARGV[2] or task[2] ~= ARGV[3] then return {'FENCED'} end
redis.call('HSET', KEYS[1], 'holder', '', 'epoch', tonumber(ARGV[2]) + 1)
if ARGV[4] == '0' then redis.call('HINCRBY', KEYS[1], 'attempt', -1) end
redis.call('SREM', KEYS[2], ARGV[1])
if ARGV[5] ~= '' then
  redis.call('ZADD', KEYS[5], ARGV[5], ARGV[1])
else
  enqueue(KEYS[3], KEYS[4], KEYS[6], ARGV[1], caller_of(task[3], task[4]), true)
  redis.call('SPUBLISH', ARGV[6], ARGV[1])
end
return {'OK'}
""",
)

PROMOTE = Script(
    "promote",
    _QUEUE
    + """
-- A turn whose time has come joins those that wait for a replica.
-- KEYS: task ready fair later since   ARGV: id ready_channel
if redis.call('ZREM', KEYS[4], ARGV[1]) == 0 then return {'LOST'} end
local task = redis.call('HMGET', KEYS[1], 'tenant', 'owner')
if not task[1] then return {'GONE'} end
enqueue(KEYS[2], KEYS[3], KEYS[5], ARGV[1], caller_of(task[1], task[2]))
redis.call('SPUBLISH', ARGV[2], ARGV[1])
return {'OK'}
""",
)

RECOVER = Script(
    "recover",
    _QUEUE
    + """
-- Takes a turn from a replica that was lost. One that may be run again waits for a replica, before all others. For one
-- that may not, this replica becomes the holder, to write its end: that is one more claim, and counts as one.
-- KEYS: task held ready fair own_held since   ARGV: id epoch lost replica call default_limit ready_channel
local task = redis.call('HMGET', KEYS[1], 'epoch', 'holder', 'attempt', 'limit', 'tenant', 'owner', 'claim')
if task[2] == ARGV[4] and task[7] == ARGV[5] then return {'CLAIMED', tonumber(task[1])} end
if task[2] ~= ARGV[3] then redis.call('SREM', KEYS[2], ARGV[1]) end
if task[1] ~= ARGV[2] or task[2] ~= ARGV[3] then return {'FENCED'} end
local epoch = tonumber(ARGV[2]) + 1
redis.call('SREM', KEYS[2], ARGV[1])
if tonumber(task[3]) >= tonumber(task[4] or ARGV[6]) then
  redis.call('HSET', KEYS[1], 'holder', ARGV[4], 'epoch', epoch, 'claim', ARGV[5], 'attempt', task[3] + 1)
  redis.call('SADD', KEYS[5], ARGV[1])
  return {'CLAIMED', epoch}
end
redis.call('HSET', KEYS[1], 'holder', '', 'epoch', epoch)
enqueue(KEYS[3], KEYS[4], KEYS[6], ARGV[1], caller_of(task[5], task[6]), true)
redis.call('SPUBLISH', ARGV[7], ARGV[1])
return {'OK'}
""",
)

TAKE = Script(
    "take",
    """
-- The holder takes the next waiting message of its task. An append may be in flight beside it, so that both may be
-- repeated: each remembers its own last operation.
-- KEYS: task   ARGV: epoch operation
local task = redis.call('HMGET', KEYS[1], 'epoch', 'queue', 'take', 'taken')
if not task[1] then return {'GONE'} end
local operation = ARGV[1] .. ':' .. ARGV[2]
if task[3] == operation then return {'TOOK', tonumber(task[4])} end
if task[1] ~= ARGV[1] then return {'FENCED'} end
local first, rest = string.match(task[2], '^(%d+) ?(.*)$')
if not first then return {'NONE'} end
redis.call('HSET', KEYS[1], 'queue', rest, 'turn', first, 'attempt', 1, 'take', operation, 'taken', first)
return {'TOOK', tonumber(first)}
""",
)

CHECKPOINT = Script(
    "checkpoint",
    """
-- KEYS: task   ARGV: epoch checkpoint
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if not epoch then return {'GONE'} end
if epoch ~= ARGV[1] then return {'FENCED'} end
redis.call('HSET', KEYS[1], 'checkpoint', ARGV[2])
return {'OK'}
""",
)

READ = Script(
    "read",
    """
-- KEYS: task log   ARGV: with_artifacts [tenant owner]
-- To who asks for a task of somebody else it is not there, and takes as long to find.
if ARGV[2] then
  local whose = redis.call('HMGET', KEYS[1], 'tenant', 'owner')
  if whose[1] ~= ARGV[2] or whose[2] ~= ARGV[3] then return false end
end
local task = redis.call('HMGET', KEYS[1], 'tenant', 'owner', 'context', 'state', 'stamp', 'seq', 'epoch', 'holder',
  'attempt', 'turn', 'queue', 'cancel', 'checkpoint', 'told', 'at', 'head', 'artifacts', 'limit', 'base')
if not task[1] then return false end
if ARGV[1] == '0' then task[17] = false end
if tonumber(task[15]) < tonumber(task[6]) then
  task[20] = redis.call('XRANGE', KEYS[2], '(' .. task[15] .. '-0', '+')
end
return task
""",
)

TRACE = Script(
    "trace",
    """
-- Where the message of the present turn stands in a trace.
-- KEYS: task log
local turn = redis.call('HGET', KEYS[1], 'turn')
if not turn then return false end
local entry = redis.call('XRANGE', KEYS[2], turn .. '-0', turn .. '-0')[1]
if not entry then return redis.call('HGET', KEYS[1], 'kept:' .. turn .. ':t') end
for side = 1, #entry[2], 2 do
  if entry[2][side] == 't' then return entry[2][side + 1] end
end
return false
""",
)

PAGE = Script(
    "page",
    """
-- KEYS: index   ARGV: least limit cursor_stamp cursor_id
local total = redis.call('ZCOUNT', KEYS[1], ARGV[1], '+inf')
local first = 0
if ARGV[3] then
  -- Tasks of one timestamp stand in descending order of their ids: find where the cursor's place is among them, in
  -- steps that don't grow with their number.
  first = redis.call('ZCOUNT', KEYS[1], '(' .. ARGV[3], '+inf')
  local last = first + redis.call('ZCOUNT', KEYS[1], ARGV[3], ARGV[3])
  while first < last do
    local middle = math.floor((first + last) / 2)
    if redis.call('ZREVRANGE', KEYS[1], middle, middle)[1] < ARGV[4] then last = middle else first = middle + 1 end
  end
end
local rows = redis.call('ZREVRANGE', KEYS[1], first, first + ARGV[2] - 1, 'WITHSCORES')
return {total, rows}
""",
)

ERASE = Script(
    "erase",
    TALLY
    + WEBHOOKS
    + """
-- KEYS: task log index*4 purge push pushdue tally   ARGV: id row ttl patience again
-- A task stays until its webhooks know how it ended, for `patience` at most; it is looked at once more at `again`.
local task = redis.call('HMGET', KEYS[1], 'push', 'stamp', 'tally')
if task[1] then
  local left = tonumber(task[2]) + tonumber(ARGV[3]) + tonumber(ARGV[4]) - clock()
  for _, field in ipairs(left > 0 and redis.call('HKEYS', KEYS[8]) or {}) do
    if string.sub(field, 1, 2) == 's:' and redis.call('ZSCORE', KEYS[9], row_of(ARGV[1], string.sub(field, 3))) then
      redis.call('ZADD', KEYS[7], ARGV[5], ARGV[2])
      for _, key in ipairs({KEYS[1], KEYS[2], KEYS[8]}) do redis.call('PEXPIRE', key, whole(left + 3600000)) end
      return {'KEPT'}
    end
  end
  unhook_all(KEYS[8], KEYS[9], ARGV[1])
end
-- Where the keys' own life time was faster (see `retain`), it is counted still, unless all were counted anew since.
local due = redis.call('ZSCORE', KEYS[7], ARGV[2])
if not task[2] and due and due + 3600000 > tonumber(redis.call('HGET', KEYS[10], 'walked') or 0) then
  task[3] = (redis.call('HGET', KEYS[10], 'generation') or '0') .. ':' .. string.match(ARGV[2], ' (%d+)$')
end
uncount(KEYS[10], task[3])
redis.call('DEL', KEYS[1], KEYS[2])
for at = 3, 6 do redis.call('ZREM', KEYS[at], ARGV[1]) end
redis.call('ZREM', KEYS[7], ARGV[2])
return {'OK'}
""",
)

DELETE = Script(
    "delete",
    _QUEUE
    + TALLY
    + WEBHOOKS
    + """
-- A task is erased whole, whatever its state: `seq` and `holder` are those that the caller knows of. Its holder is
-- woken, to find that there is nothing to write to any more, and so are its followers.
-- KEYS: task log held ready fair later purge index*18 push pushdue since tally
-- ARGV: id holder seq channel wake_prefix purge_row*4
local task = redis.call('HMGET', KEYS[1], 'holder', 'tenant', 'owner', 'tally')
if not task[1] then return {'GONE'} end
-- A message that came since is known by a key of its own, which has to go as well.
if task[1] ~= ARGV[2] then return {'CHANGED'} end
for _, entry in ipairs(redis.call('XRANGE', KEYS[2], '(' .. ARGV[3] .. '-0', '+')) do
  if #entry[2] > 2 then return {'CHANGED'} end
end
uncount(KEYS[29], task[4])
redis.call('DEL', KEYS[1], KEYS[2])
unhook_all(KEYS[26], KEYS[27], ARGV[1])
redis.call('SREM', KEYS[3], ARGV[1])
dequeue(KEYS[4], KEYS[5], KEYS[28], ARGV[1], caller_of(task[2], task[3]))
redis.call('ZREM', KEYS[6], ARGV[1])
for at = 6, 9 do redis.call('ZREM', KEYS[7], ARGV[at]) end
for at = 8, 25 do redis.call('ZREM', KEYS[at], ARGV[1]) end
redis.call('SPUBLISH', ARGV[4], '0\\n')
if task[1] ~= '' then redis.call('SPUBLISH', ARGV[5] .. task[1], ARGV[1]) end
return {'OK'}
""",
)

FORGET = Script(
    "forget",
    """
-- KEYS: dedupe...   ARGV: id
-- A message id may meanwhile stand for a message to another task.
for _, key in ipairs(KEYS) do
  local known = redis.call('GET', key)
  if known and string.find(known, ' ' .. ARGV[1] .. ' ', 1, true) then redis.call('DEL', key) end
end
return {'OK'}
""",
)
