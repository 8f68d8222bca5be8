"""Dead letters: what was given up, kept with everything that it takes to try it again: turns, and webhooks.

A letter stands in the shard of its task: a hash, and a row of `dead` by the time at which it died. It outlives its task
where it is kept for longer.
"""

import asyncio
import heapq
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.core.pages import Cursor
from a2a_grpc.server.store import scripts
from a2a_grpc.server.store.keys import Keys
from a2a_grpc.server.store.link import Argument
from a2a_grpc.server.store.records import Origin, Scope, StoredTask
from a2a_grpc.server.store.scripts import Script
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.telemetry.instruments import DEAD_LETTERS

# The sweep removes letters; the keys' own life time is the net under it.
MARGIN_MS = 3_600_000
_BATCH = 100
# Behind the task: the message's seq; of a webhook the event's, and what tells the webhooks of a task apart.
_REST = re.compile(r"[0-9]+(\.[0-9a-f]{16})?")
# Rows that one look at the letters of some caller goes through, so that it ends in time whatever it finds.
_SCANNED = 500

BURY = Script(
    "bury",
    """
-- KEYS: task dead letter   ARGV: id now ttl field value...
if redis.call('EXISTS', KEYS[3]) == 1 then return {'KNOWN'} end
local created = redis.call('HGET', KEYS[1], 'created')
if not created then return {'GONE'} end
redis.call('HSET', KEYS[3], 'created', created, 'died', ARGV[2], unpack(ARGV, 4))
redis.call('PEXPIRE', KEYS[3], ARGV[3])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
return {'OK'}
""",
)

DISCARD = Script(
    "discard",
    """
-- KEYS: dead letter   ARGV: id
local known = redis.call('DEL', KEYS[2])
return math.max(known, redis.call('ZREM', KEYS[1], ARGV[1]))
""",
)

MARK = Script(
    "mark",
    """
-- KEYS: letter   ARGV: task
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'redriven', ARGV[1]) end
return {'OK'}
""",
)

_FACTS = ("tenant", "owner", "context", "task", "turn", "reason", "attempts", "created", "died", "redriven", "webhook")
_CONTENT = ("message", "request", "extensions")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A turn that was given up, or a webhook."""

    id: str
    scope: Scope
    context: str
    task_id: str
    turn: int
    """The seq of the message that it was to answer; of a webhook: of the event that it was to be told."""
    reason: str
    attempts: int
    """How often it was begun."""
    created_ms: int
    """When the task was created, in milliseconds since 1970."""
    died_ms: int
    redriven: str
    """The task that the letter was sent again as, or ""; of a webhook: the task that it was told of again."""
    webhook: str
    """The id of the webhook that was given up; "" for a turn."""


class Letters(NamedTuple):
    """One page of letters, the latest first, and where the next one begins; None where there is no more."""

    letters: list[DeadLetter]
    cursor: Cursor | None


class DeadLetters:
    """The dead letters of a store. All methods raise StoreUnavailableError."""

    def __init__(self, store: TaskStore, *, ttl: float) -> None:
        """`ttl` in seconds: how long a letter is kept."""
        self._store = store
        self.ttl_ms = int(ttl * 1000)

    async def bury(self, stored: StoredTask, origin: Origin | None, reason: str, now_ms: int) -> None:
        """Keep the present turn of `stored`, whose message is `origin`, as a dead letter; once, however often called.

        `reason` is a sentence for operators. Waits through an outage of the store for as long as its patience lasts.
        """
        keys, letter_id = self._store.keys_of(stored.task_id), f"{stored.task_id}.{stored.turn}"
        fields: list[Argument] = [
            "tenant", stored.scope.tenant, "owner", stored.scope.owner, "context", stored.context,
            "task", stored.task_id, "turn", stored.turn, "reason", reason, "attempts", stored.attempt,
        ]  # fmt: skip
        if origin is not None:
            request, extensions, _ = origin.packed()
            fields += ["message", origin.message.SerializeToString(), "request", request, "extensions", extensions]
        reply = await self._store.pipeline.script(
            BURY,
            [keys.task(stored.task_id), keys.dead, keys.letter(letter_id)],
            [letter_id, now_ms, self.ttl_ms + MARGIN_MS, *fields],
            self._store.patience,
        )
        if reply[0] == b"OK":
            DEAD_LETTERS.add("turn")

    async def page(self, tenant: str | None, owner: str | None, cursor: Cursor | None, limit: int) -> Letters:
        """Up to `limit` letters after `cursor`, of one tenant or owner where that is not None.

        There may be fewer, and still more behind them.
        """
        some = tenant is not None or owner is not None
        rows, more = await self._rows(cursor, max(limit, _SCANNED) if some else limit)
        found: list[DeadLetter] = []
        for at in range(0, len(rows), _BATCH):
            batch = rows[at : at + _BATCH]
            letters = await asyncio.gather(*(self._facts(row.task_id) for row in batch))
            for row, letter in zip(batch, letters, strict=True):
                if letter is None or not _is_of(letter, tenant, owner):
                    continue
                found.append(letter)
                if len(found) == limit:
                    return Letters(found, row if more or row != rows[-1] else None)
        return Letters(found, rows[-1] if more else None)

    async def find(self, letter_id: str) -> tuple[DeadLetter, Origin | None] | None:
        """A letter with its message; the message is None where it was not known any more when the turn was given up."""
        if (keys := self._keys_of(letter_id)) is None:
            return None
        letter, content = await asyncio.gather(
            self._facts(letter_id), self._store.pipeline.command("HMGET", keys.letter(letter_id), *_CONTENT)
        )
        return None if letter is None else (letter, _origin(content))

    async def mark_redriven(self, letter_id: str, task_id: str) -> None:
        """Note that the letter was sent again as the task `task_id`."""
        keys = self._store.keys_of(letter_id.partition(".")[0])
        await self._store.pipeline.script(MARK, [keys.letter(letter_id)], [task_id])

    async def discard(self, letter_id: str) -> bool:
        """Remove one letter; False where there was none."""
        if (keys := self._keys_of(letter_id)) is None:
            return False
        return bool(await self._store.pipeline.script(DISCARD, [keys.dead, keys.letter(letter_id)], [letter_id]))

    async def discard_before(self, died_ms: int | None) -> int:
        """Remove the letters that died at `died_ms` (ms since 1970) or before, or all; how many there were."""
        removed, until = 0, "+inf" if died_ms is None else str(died_ms)
        for keys in self._store.all_keys():
            while True:
                rows = await self._store.pipeline.command(
                    "ZRANGE", keys.dead, "-inf", until, "BYSCORE", "LIMIT", 0, _BATCH
                )
                removed += sum(await asyncio.gather(*(self.discard(row.decode()) for row in rows)))
                if len(rows) < _BATCH:
                    break
        return removed

    async def discard_of(self, task_id: str) -> int:
        """Remove the letters of one task; how many there were."""
        keys, cursor, found = self._store.keys_of(task_id), b"0", set[str]()
        while True:
            cursor, rows = await self._store.pipeline.command(
                "ZSCAN", keys.dead, cursor, "MATCH", f"{task_id}.*", "COUNT", 1000
            )
            found.update(row.decode() for row in rows[::2])
            if cursor == b"0":
                break
        return sum(await asyncio.gather(*(self.discard(letter_id) for letter_id in found)))

    async def sweep(self) -> int:
        """Remove the letters whose time is over; how many there were. Any replica may do it."""
        return await self.discard_before(now_ms() - self.ttl_ms)

    def _keys_of(self, letter_id: str) -> Keys | None:
        """The shard of a letter, or None for what is no letter's id."""
        task_id, dot, rest = letter_id.partition(".")
        known = dot and _REST.fullmatch(rest) and ids.shard_of(task_id, self._store.shards) is not None
        return self._store.keys_of(task_id) if known else None

    async def _rows(self, cursor: Cursor | None, count: int) -> tuple[list[Cursor], bool]:
        """Up to `count` rows of all shards after `cursor`, and whether there are more."""
        arguments: list[Argument] = ["-inf", count + 1]
        if cursor is not None:
            arguments += [cursor.timestamp_ms, cursor.task_id]
        replies = await asyncio.gather(
            *(self._store.pipeline.script(scripts.PAGE, [keys.dead], arguments) for keys in self._store.all_keys())
        )
        merged = list(islice(heapq.merge(*(_cursors(rows) for _, rows in replies), reverse=True), count + 1))
        return merged[:count], len(merged) > count

    async def _facts(self, letter_id: str) -> DeadLetter | None:
        keys = self._store.keys_of(letter_id.partition(".")[0])
        found = await self._store.pipeline.command("HMGET", keys.letter(letter_id), *_FACTS)
        return None if found[3] is None else _letter(letter_id, found)


def _cursors(rows: Sequence[bytes]) -> list[Cursor]:
    return [Cursor(int(died), row.decode()) for row, died in zip(rows[::2], rows[1::2], strict=True)]


def _is_of(letter: DeadLetter, tenant: str | None, owner: str | None) -> bool:
    return tenant in {None, letter.scope.tenant} and owner in {None, letter.scope.owner}


def _letter(letter_id: str, found: Sequence[bytes | None]) -> DeadLetter:
    facts = {name: value.decode() for name, value in zip(_FACTS, found, strict=True) if value is not None}
    return DeadLetter(
        id=letter_id,
        scope=Scope(facts["tenant"], facts["owner"]),
        context=facts["context"],
        task_id=facts["task"],
        turn=int(facts["turn"]),
        reason=facts["reason"],
        attempts=int(facts["attempts"]),
        created_ms=int(facts["created"]),
        died_ms=int(facts["died"]),
        redriven=facts.get("redriven", ""),
        webhook=facts.get("webhook", ""),
    )


def _origin(content: Sequence[bytes | None]) -> Origin | None:
    message, request, extensions = content
    if message is None:
        return None
    return Origin(
        message=a2a_pb2.Message.FromString(message),
        request=a2a_pb2.SendMessageRequest.FromString(request or b""),
        extensions=tuple(uri for uri in (extensions or b"").decode().split(",") if uri),
    )
