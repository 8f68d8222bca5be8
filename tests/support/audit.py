"""Looks at everything a store holds and says what does not fit together.

It reads the keys by itself, not through the code under test: every task hash with its log, every index row, every
queue. What it returns are sentences; a store in order gives none. It must stand still meanwhile.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import redis

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids, states
from a2a_grpc.server.core.events import Fold, milliseconds
from a2a_grpc.server.store import keys

_PLACEHOLDERS = {
    "ID": r"[0-9a-f]{32}-[0-9a-f]{1,4}",
    "LETTER": r"[0-9a-f]{32}-[0-9a-f]{1,4}\.[0-9]+(\.[0-9a-f]{16})?",
    "H": "[0-9a-f]{22}",
    "STATE": "[1-8]",
    "REPLICA": ".+",
    "ETAG": ".+",
}


class KeyRow(NamedTuple):
    """A row of the table in `store/keys.py`: which keys there may be, of which type, for how long."""

    pattern: re.Pattern[str]
    type: str
    life_time: str


def key_table() -> list[KeyRow]:
    """The table as the docstring of `store/keys.py` has it."""
    rows = []
    for line in (keys.__doc__ or "").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 3:
            for name in re.findall("`([^`]+)`", cells[0]):
                parts = [_PLACEHOLDERS.get(part, re.escape(part)) for part in name.split(":")]
                prefix = "" if name.startswith("a2a:") else r"a2a:\{[0-9a-f]+\}:"
                rows.append(KeyRow(re.compile(prefix + ":".join(parts)), cells[1], cells[2]))
    return rows


@dataclass
class _Found:
    """What the store holds, read key by key."""

    tasks: dict[str, dict[str, bytes]] = field(default_factory=dict)
    logs: dict[str, list[tuple[bytes, dict[bytes, bytes]]]] = field(default_factory=dict)
    indexes: dict[str, dict[str, int]] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)
    fair: dict[str, dict[str, bytes]] = field(default_factory=dict)
    since: set[str] = field(default_factory=set)
    tallies: dict[str, dict[str, int]] = field(default_factory=dict)
    due: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    letters: set[str] = field(default_factory=set)
    webhooks: dict[str, dict[str, bytes]] = field(default_factory=dict)
    push_due: set[str] = field(default_factory=set)
    ttls: dict[str, int] = field(default_factory=dict)
    held: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def audit(client: redis.Redis, *, one_version: bool = True) -> list[str]:
    """Everything that is wrong with what the store of `client` holds.

    Without `one_version` older versions have used it too, which know nothing of some keys.
    """
    table, found, problems = key_table(), _Found(), list[str]()
    for name, kind, ttl, value in _everything(client):
        row = next((row for row in table if row.pattern.fullmatch(name)), None)
        if row is None:
            problems.append(f"{name}: no key of this name is in the table")
            continue
        if kind != row.type:
            problems.append(f"{name}: a {kind}, where the table says {row.type}")
            continue
        if ttl == -1 and not row.life_time.startswith(("none", "as its task")):
            problems.append(f"{name}: stays for ever, where the table says {row.life_time}")
        found.ttls[name] = ttl
        _note(name, kind, value, found)
    for task_id, task in found.tasks.items():
        problems += [f"{task_id}: {problem}" for problem in _task(task_id, task, found)]
    problems += [f"log of {task_id}: there is no task" for task_id in found.logs.keys() - found.tasks.keys()]
    problems += _indexes(found)
    for replica, held in found.held.items():
        holds = {task_id for task_id, task in found.tasks.items() if task["holder"].decode() == replica}
        problems += [f"held:{replica} names {task_id}, which it does not hold" for task_id in held - holds]
    waiting = found.ready | found.later
    problems += [f"ready names {task_id}, which is no task" for task_id in waiting - found.tasks.keys()]
    if found.fair and not found.ready:
        problems.append("fair keeps the places of a queue in which nobody waits")
    if one_version:
        problems += _tallies(found)
        problems += [f"since and ready differ in {task_id}" for task_id in found.since ^ found.ready]
    problems += [f"purge names {task_id}, which is no task" for task_id in found.due - found.tasks.keys()]
    problems += _webhooks(found)
    problems += [f"dead names {letter_id}, which is no letter" for letter_id in found.dead - found.letters]
    problems += [f"{letter_id} is a letter that dead does not name" for letter_id in found.letters - found.dead]
    return problems


def _everything(client: redis.Redis) -> Iterator[tuple[str, str, int, Any]]:
    """Every key: its name, type, life time in milliseconds (-1: for ever) and value."""
    names = sorted(cast("list[bytes]", client.keys("*")))
    with client.pipeline(transaction=False) as asked:
        for name in names:
            asked.type(name)
            asked.pttl(name)
        facts = asked.execute()
        kinds = [kind.decode() for kind in facts[::2]]
        for name, kind in zip(names, kinds, strict=True):
            match kind:
                case "hash":
                    asked.hgetall(name)
                case "stream":
                    asked.xrange(name)
                case "set":
                    asked.smembers(name)
                case "zset":
                    asked.zrange(name, 0, -1, withscores=True)
                case _:
                    asked.get(name)
        for name, kind, ttl, value in zip(names, kinds, facts[1::2], asked.execute(), strict=True):
            yield name.decode(), kind, ttl, value


def _note(name: str, kind: str, value: Any, found: _Found) -> None:
    tail = name.rpartition(":")[2]
    match kind:
        case "hash" if tail == "fair":
            found.fair[name.removesuffix("fair")] = {key.decode(): content for key, content in value.items()}
        case "hash" if tail == "tally":
            found.tallies[name.removesuffix("tally")] = {key.decode(): int(number) for key, number in value.items()}
        case "hash" if ":task:" in name:
            found.tasks[tail] = {key.decode(): content for key, content in value.items()}
        case "hash" if ":push:" in name:
            found.webhooks[tail] = {key.decode(): content for key, content in value.items()}
        case "hash" if ":letter:" in name:
            found.letters.add(tail)
        case "stream":
            found.logs[tail] = value
        case "set":
            found.held[tail] |= {one.decode() for one in value}
        case "zset" if tail == "pushdue":
            found.push_due |= {member.decode() for member, _ in value}
        case "zset":
            rows = {member.decode().partition(" ")[0]: int(score) for member, score in value}
            if tail == "ready":
                found.ready |= rows.keys()
            elif tail == "since":
                found.since |= rows.keys()
            elif tail == "later":
                found.later |= rows.keys()
            elif tail == "purge":
                found.due |= rows.keys()
            elif ":places:" in name:
                return
            elif tail == "dead":
                found.dead |= rows.keys()
            else:
                found.indexes[name] = rows


def _task(task_id: str, task: dict[str, bytes], found: _Found) -> list[str]:
    """What is wrong with one task."""
    problems = []
    state, seq, holder = states.parse(task["state"]), int(task["seq"]), task["holder"].decode()
    shard = keys.Keys(ids.made_in(task_id))
    entries, base = found.logs.get(task_id, []), int(task.get("base", b"0"))
    if [entry_id for entry_id, _ in entries] != [f"{at}-0".encode() for at in range(base + 1, seq + 1)]:
        problems.append(f"the log has entries {[entry_id for entry_id, _ in entries]}, the task stands at {seq}")
    log = [a2a_pb2.StreamResponse.FromString(fields[b"e"]) for _, fields in entries]
    whole = Fold.from_bytes(task.get("base_head", b""), task.get("base_artifacts", b""))
    before = whole.state if base else None
    for entry in log:
        whole.apply(entry)
    if whole.state != state:
        problems.append(f"the log ends in {states.name(whole.state)}, the task is {states.name(state)}")
    if milliseconds(whole.head.status.timestamp) != int(task["stamp"]):
        problems.append(f"the status is of {milliseconds(whole.head.status.timestamp)}, the task of {task['stamp']!r}")
    fold = Fold.from_bytes(task.get("head", b""), task.get("artifacts", b""))
    for entry in log[int(task["at"]) - base :]:
        fold.apply(entry)
    if fold.task() != whole.task():
        problems.append(f"the snapshot at {task['at']!r} and the log after it are not the whole log")
    problems += [f"illegal move: {move}" for move in _illegal_moves(log, before)]
    problems += _place(task_id, state, holder, task["queue"].decode(), found)
    ttl = [found.ttls.get(key, -2) for key in (shard.task(task_id), shard.log(task_id))]
    if state in states.TERMINAL and not (ttl[0] > 0 and abs(ttl[0] - ttl[1]) < 1000):
        problems.append(f"has ended and lives for {ttl} ms")
    if state not in states.TERMINAL and ttl != [-1, -1]:
        problems.append(f"has not ended and lives for {ttl} ms")
    if (state in states.TERMINAL) != (task_id in found.due):
        problems.append(f"{states.name(state)} and {'' if task_id in found.due else 'not '}to be erased")
    return problems


def _illegal_moves(log: list[a2a_pb2.StreamResponse], before: a2a_pb2.TaskState | None) -> list[str]:
    problems = []
    first = log[0].task.status.state if log else states.SUBMITTED
    current = first if before is None else before
    for entry in log[1 if before is None else 0 :]:
        if current in states.TERMINAL:
            problems.append(f"{entry.WhichOneof('payload')} after the end")
        if entry.HasField("status_update"):
            following = entry.status_update.status.state
            if not states.legal(current, following):
                problems.append(f"{states.name(current)} to {states.name(following)}")
            current = following
    return problems


def _place(task_id: str, state: a2a_pb2.TaskState, holder: str, queue: str, found: _Found) -> list[str]:
    """A task that has not ended is run by one replica, waits for one, or waits for its caller."""
    problems = []
    if holder and task_id not in found.held[holder]:
        problems.append(f"held by {holder}, which does not know it")
    if holder and state in states.TERMINAL:
        problems.append(f"has ended and is held by {holder}")
    waits = (task_id in found.ready) + (task_id in found.later)
    if waits and (waits > 1 or holder or state in states.TERMINAL):
        problems.append(f"{states.name(state)}, held by {holder!r}, and ready to be claimed")
    if not holder and not waits:
        if state not in states.SETTLED:
            problems.append(f"{states.name(state)}, and nobody runs it")
        elif queue and state not in states.TERMINAL:
            problems.append(f"parked while the messages {queue} wait")
    return problems


def _webhooks(found: _Found) -> list[str]:
    """A webhook is of a task and lives as long, and one that does not know everything is due or given up."""
    problems = []
    for task_id, fields in found.webhooks.items():
        task = found.tasks.get(task_id)
        if task is None:
            problems.append(f"webhooks of {task_id}: there is no task")
            continue
        if "push" not in task:
            problems.append(f"{task_id}: has webhooks and does not know it")
        shard = keys.Keys(ids.made_in(task_id))
        lives = [found.ttls.get(key, -2) for key in (shard.task(task_id), shard.push(task_id))]
        if abs(lives[0] - lives[1]) > 1000:
            problems.append(f"{task_id} lives for {lives[0]} ms, its webhooks for {lives[1]} ms")
        for webhook in (name[2:] for name in fields if name.startswith("c:")):
            state = fields.get(f"s:{webhook}")
            if (state is None) == (f"d:{webhook}" not in fields):
                problems.append(f"{task_id}: the webhook {webhook} is neither told nor given up, or both")
            if state is not None and f"{task_id} {webhook}" not in found.push_due and _untold(state, task_id, found):
                problems.append(f"{task_id}: the webhook {webhook} is to be told more, and is not due")
        if {name[2:] for name in fields if name[0] in "sd"} != {name[2:] for name in fields if name[0] == "c"}:
            problems.append(f"{task_id}: webhooks without content, or without a place: {sorted(fields)}")
    known = {f"{task_id} {name[2:]}" for task_id, fields in found.webhooks.items() for name in fields if name[0] == "s"}
    problems += [f"pushdue names {row}, which is no webhook that is told" for row in found.push_due - known]
    return problems


def _untold(state: bytes, task_id: str, found: _Found) -> bool:
    """Whether an entry behind the cursor is one that webhooks hear of."""
    cursor = int(state.split()[0])
    entries = [a2a_pb2.StreamResponse.FromString(fields[b"e"]) for at, fields in found.logs.get(task_id, [])
               if int(at.partition(b"-")[0]) > cursor]  # fmt: skip
    return any(entry.WhichOneof("payload") in {"status_update", "artifact_update"} for entry in entries)


def _indexes(found: _Found) -> list[str]:
    expected: dict[str, dict[str, int]] = defaultdict(dict)
    for task_id, task in found.tasks.items():
        tenant, owner, context = (task[name].decode() for name in ("tenant", "owner", "context"))
        prefix = f"a2a:{{{ids.made_in(task_id):x}}}:"
        for place in (f"owner:{ids.scope(tenant, owner)}", f"ctx:{ids.scope(tenant, owner, context)}"):
            for name in (place, f"{place}:{int(task['state'])}"):
                expected[prefix + name][task_id] = int(task["stamp"])
    problems = []
    for name in sorted(expected.keys() | found.indexes.keys()):
        rows, wanted = found.indexes.get(name, {}), expected.get(name, {})
        if rows != wanted:
            problems.append(f"{name}: holds {rows}, should hold {wanted}")
    return problems


def _tallies(found: _Found) -> list[str]:
    """Each task is counted once, in the state it has."""
    expected: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    problems = []
    for task_id, task in found.tasks.items():
        place = task.get("tally", b"").decode()
        if place.partition(":")[2] != task["state"].decode():
            problems.append(f"{task_id}: counted as {place!r}, in the state {task['state']!r}")
        expected[f"a2a:{{{ids.made_in(task_id):x}}}:"][place] += 1
    for shard in found.tallies.keys() | expected.keys():
        counted = {place: number for place, number in found.tallies.get(shard, {}).items() if ":" in place and number}
        if counted != expected[shard]:
            problems.append(f"{shard}tally: counts {counted}, there are {dict(expected[shard])}")
    return problems
