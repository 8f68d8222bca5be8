"""Looking at the tasks of all callers, as operators do: where they are and how they are run, without their content."""

import asyncio
import enum
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids, states
from a2a_grpc.server.core.pages import Cursor
from a2a_grpc.server.store.keys import Keys
from a2a_grpc.server.store.records import Scope
from a2a_grpc.server.store.scripts import Script
from a2a_grpc.server.store.tasks import TaskStore

# One look goes through so many keys at most, so that it ends in time however few of them are wanted.
_SCANNED = 20_000
_SCAN_STEP = 1000
_BATCH = 200

_SCAN = Script(
    "scan",
    """
-- A script, so that it runs where the shard is. KEYS: ready   ARGV: cursor pattern count
return redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
""",
)

_FACTS = ("tenant", "owner", "context", "state", "created", "stamp", "holder", "attempt", "limit")


class Place(enum.Enum):
    """Where a task is that has not ended and does not wait for its caller."""

    RUNNING = "running"
    READY = "ready"
    """It waits for a replica."""
    LATER = "later"
    """It waits for the time of its next attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A task, without its content."""

    task_id: str
    scope: Scope
    context: str
    state: a2a_pb2.TaskState
    created_ms: int
    stamp_ms: int
    """When it took its state, in milliseconds since 1970."""
    holder: str
    attempt: int
    limit: int | None
    """How many attempts a turn has; None where the task does not say."""
    place: Place | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which tasks are looked for; None or 0: any."""

    tenant: str | None = None
    owner: str | None = None
    state: int = 0
    place: Place | None = None

    def holds(self, task: Summary) -> bool:
        """Whether `task` is one of them."""
        return (
            self.tenant in {None, task.scope.tenant}
            and self.owner in {None, task.scope.owner}
            and self.state in {0, task.state}
            and self.place in {None, task.place}
        )


class Found(NamedTuple):
    """Some tasks, and where to look for more; an empty position where there are no more."""

    tasks: list[Summary]
    position: str


class Inspection:
    """Looks through the tasks of a store. All methods raise StoreUnavailableError.

    Nothing stands still meanwhile: a task that changes its place may be missed, or be seen twice.
    """

    def __init__(self, store: TaskStore) -> None:
        self._store = store

    async def summary(self, task_id: str) -> Summary | None:
        """One task, or None."""
        if ids.shard_of(task_id, self._store.shards) is None:
            return None
        return await self._summary(task_id)

    async def find(self, wanted: Wanted, position: str, limit: int) -> Found:
        """Up to `limit` tasks from `position` on ("" is the beginning). There may be fewer, and still more behind them.

        Raises: ValueError for a position that is none.
        """
        if wanted.tenant is not None and wanted.owner is not None and wanted.place is None:
            return await self._of_owner(Scope(wanted.tenant, wanted.owner), wanted, position, limit)
        match wanted.place:
            case Place.RUNNING:
                return await self._running(wanted, position, limit)
            case Place.READY:
                return await self._queued(lambda keys: keys.ready, wanted, position, limit)
            case Place.LATER:
                return await self._queued(lambda keys: keys.later, wanted, position, limit)
        return await self._all(wanted, position, limit)

    async def _of_owner(self, scope: Scope, wanted: Wanted, position: str, limit: int) -> Found:
        """By the index of the owner, the latest status first."""
        cursor = None
        if position:
            stamp, task_id = _parts(position, r"([0-9]{1,18})\.(\S+)")
            cursor = Cursor(int(stamp), task_id)
        page = await self._store.page(scope, "", wanted.state, None, cursor, limit + 1)
        rows = page.rows[:limit]
        more = f"{rows[-1][1]}.{rows[-1][0]}" if len(page.rows) > limit else ""
        return Found(await self._summaries([task_id for task_id, _ in rows], wanted), more)

    async def _running(self, wanted: Wanted, position: str, limit: int) -> Found:
        """By what each replica holds, in the order of their ids; there are never more than all replicas run at once."""
        census = await self._store.registry.census()
        names = {*(row.name for row in census.replicas), *census.condemned}
        held = await asyncio.gather(*(self._store.held(name) for name in sorted(names)))
        after = sorted(task_id for line in held for task_id in line.task_ids if task_id > position)
        return Found(await self._summaries(after[:limit], wanted), after[limit - 1] if len(after) > limit else "")

    async def _queued(self, key: Callable[[Keys], str], wanted: Wanted, position: str, limit: int) -> Found:
        """By a queue of each shard, first come first."""
        at, rank = (int(part) for part in _parts(position or "0.0", r"([0-9]{1,9})\.([0-9]{1,18})"))
        shards = self._store.all_keys()
        found: list[str] = []
        while at < len(shards):
            missing = limit - len(found)
            rows = await self._store.pipeline.command("ZRANGE", key(shards[at]), rank, rank + missing)
            found += [row.decode() for row in rows[:missing]]
            if len(rows) > missing:
                return Found(await self._summaries(found, wanted), f"{at}.{rank + missing}")
            at, rank = at + 1, 0
        return Found(await self._summaries(found, wanted), "")

    async def _all(self, wanted: Wanted, position: str, limit: int) -> Found:
        """By the keys of the store, in no order. A position is a step of the scan, and the last id taken from it."""
        at, cursor, after = _parts(position or "0.0.", r"([0-9]{1,9})\.([0-9]{1,20})\.(\S*)")
        shard, shards, scanned = int(at), self._store.all_keys(), 0
        found: dict[str, Summary] = {}
        while shard < len(shards):
            keys = shards[shard]
            following, names = await self._store.pipeline.script(
                _SCAN, [keys.ready], [cursor, keys.task("*"), _SCAN_STEP]
            )
            rows = sorted(task_id for name in names if (task_id := name.decode().rpartition(":")[2]) > after)
            for task in await self._summaries(rows, wanted):
                if len(found) == limit:
                    return Found(list(found.values()), f"{shard}.{cursor}.{after}")
                found[task.task_id] = task
                after = task.task_id
            cursor, after, scanned = following.decode(), "", scanned + _SCAN_STEP
            if cursor == "0":
                shard += 1
            if shard < len(shards) and scanned >= _SCANNED:
                return Found(list(found.values()), f"{shard}.{cursor}.")
        return Found(list(found.values()), "")

    async def _summaries(self, task_ids: Sequence[str], wanted: Wanted) -> list[Summary]:
        """Those of the tasks that are wanted, and are there still."""
        found: list[Summary | None] = []
        for at in range(0, len(task_ids), _BATCH):
            found += await asyncio.gather(*(self._summary(task_id) for task_id in task_ids[at : at + _BATCH]))
        return [task for task in found if task is not None and wanted.holds(task)]

    async def _summary(self, task_id: str) -> Summary | None:
        keys, command = self._store.keys_of(task_id), self._store.pipeline.command
        facts, ready, later = await asyncio.gather(
            command("HMGET", keys.task(task_id), *_FACTS),
            command("ZSCORE", keys.ready, task_id),
            command("ZSCORE", keys.later, task_id),
        )
        tenant, owner, context, state, created, stamp, holder, attempt, limit = facts
        if state is None:
            return None
        place = Place.RUNNING if holder else Place.READY if ready else Place.LATER if later else None
        return Summary(
            task_id=task_id,
            scope=Scope(tenant.decode(), owner.decode()),
            context=context.decode(),
            state=states.parse(state),
            created_ms=int(created),
            stamp_ms=int(stamp),
            holder=holder.decode(),
            attempt=int(attempt),
            limit=None if limit is None else int(limit),
            place=place,
        )


def _parts(position: str, form: str) -> tuple[str, ...]:
    found = re.fullmatch(form, position)
    if found is None:
        raise ValueError("not a position in this listing")
    return found.groups()
