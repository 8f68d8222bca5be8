"""`TaskStore`: every step of a task's life over Redis."""

import asyncio
import heapq
import logging
import random
import re
from collections.abc import Awaitable, Iterable, Sequence
from itertools import islice, zip_longest
from typing import Any, cast

from redis.exceptions import ResponseError

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids, states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.core.events import Event, Fold, message_added, milliseconds
from a2a_grpc.server.core.pages import Cursor
from a2a_grpc.server.store import keys as key_names
from a2a_grpc.server.store import scripts
from a2a_grpc.server.store.errors import StoreMisconfiguredError, StoreUnavailableError
from a2a_grpc.server.store.keys import Keys
from a2a_grpc.server.store.link import Argument
from a2a_grpc.server.store.opening import open_nodes
from a2a_grpc.server.store.pipeline import Calls
from a2a_grpc.server.store.records import (
    Append,
    Appended,
    Dedupe,
    Held,
    Origin,
    Outcome,
    Page,
    Placed,
    Scope,
    StoredTask,
    Webhook,
    entries_of,
    kept_origin,
    origin_of,
)
from a2a_grpc.server.store.registry import Registry
from a2a_grpc.server.telemetry.instruments import TURNS_RECOVERED
from a2a_grpc.server.telemetry.tracing import Context

log = logging.getLogger(__name__)

# Seconds. A failover takes two or more, and readiness shall tell of each.
_SOON = 1.0
_CARD_KEPT_MS = 400 * 86_400_000
_LOOK_AGAIN_MS = 5000
_OLDEST_SERVER = (7, 0)
MAX_QUEUE = 100
"""Messages that wait for one task's turn. Each is read again with whatever reads the task until a snapshot holds it."""
# So many entries are folded before others get their turn.
_FOLD_PAGE = 1000


class TaskStore:
    """Tasks over one Redis or Valkey. Every step is one script on one shard and is safe to repeat.

    All methods raise `StoreUnavailableError` when the store does not answer within the store timeout.
    """

    def __init__(
        self,
        url: str,
        *,
        replica: str,
        shards: int,
        timeout: float,
        task_ttl: float,
        patience: float,
        max_ready: int,
        log_events: int,
        store_replicas: int = 0,
        webhook_patience: float = 0,
    ) -> None:
        """`timeout`, `task_ttl` and `patience` in seconds; `replica` names this process and no other, ever.

        A write is acknowledged when so many `store_replicas` of the store have it.

        At least `log_events` entries of a log are kept; of a longer one the oldest go. A task whose webhooks do not
        know of its end yet stays for up to `webhook_patience` seconds longer than others.
        """
        self.replica = replica
        self.shards = shards
        self._patience = max(patience, timeout)
        self._soon = min(_SOON, timeout)
        self._task_ttl_ms = int(task_ttl * 1000)
        self._max_ready = max_ready
        self.log_events = log_events
        self._webhook_patience_ms = int(webhook_patience * 1000)
        self.nodes = open_nodes(url, timeout=timeout, replicas=store_replicas)
        self._pipeline = self.nodes.calls
        self._reads = self.nodes.reads
        self._keys = [Keys(shard) for shard in range(shards)]
        self.registry = Registry(self._pipeline, self._keys[0].replicas, self._keys[0].condemned, replica)

    async def check(self) -> None:
        """See that the store answers, is recent enough, and holds this number of shards (set at the first start).

        Raises:
            StoreMisconfiguredError: another number of shards, or a server before Redis 7.0.
        """
        await self.ping()
        for home in self.nodes.homes():
            await self._check_version(home)
        stored = int(await self._pipeline.command("GET", key_names.SHARDS))
        if stored != self.shards:
            raise StoreMisconfiguredError(
                f"this store was started with A2A_SHARDS={stored}, this process has {self.shards}: "
                f"task ids carry their shard, so set A2A_SHARDS={stored} or use an empty store"
            )

    async def _check_version(self, home: str) -> None:
        info = await self.nodes.at(home, "INFO", "server")
        found = re.search(r"^redis_version:(([0-9]+)\.([0-9]+).*?|.*?)\r?$", info.decode(), re.MULTILINE)
        version = found[1] if found else "of no version"
        if not found or not found[2] or (int(found[2]), int(found[3])) < _OLDEST_SERVER:
            raise StoreMisconfiguredError(
                f"the store is Redis {version}; sharded pub/sub needs Redis 7.0 or Valkey 7.2, or later"
            )

    async def ping(self) -> None:
        """See that every server of the store takes writes now. Raises: StoreUnavailableError."""
        try:
            await asyncio.gather(
                self._pipeline.command("SET", key_names.SHARDS, self.shards, "NX", timeout=self._soon),
                *(
                    self._pipeline.command(
                        "SET", key_names.mark(shard), "", "PX", key_names.MARK_KEPT_MS, timeout=self._soon
                    )
                    for shard in self._one_of_each()
                ),
            )
        except ResponseError as error:
            # A user who may not write any more, say. Whoever changed that changes it back, and nobody need restart.
            raise StoreUnavailableError(f"the store refuses: {error}") from error

    def _one_of_each(self) -> Sequence[int]:
        """One shard on each server of a cluster."""
        found: dict[str, int] = {}
        several = len(self.nodes.homes())
        if several > 1:
            for shard, keys in enumerate(self._keys):
                found.setdefault(self.nodes.home(keys.ready), shard)
                if len(found) == several:
                    break
        return list(found.values())

    async def close(self) -> None:
        """Close the connections; what is under way is given up."""
        await self.nodes.close()

    @property
    def pipeline(self) -> Calls:
        """What the other parts of the store send their calls through."""
        return self._pipeline

    @property
    def patience(self) -> float:
        """Seconds that a step waits through an outage where nobody waits for its answer."""
        return self._patience

    def keys_of(self, task_id: str) -> Keys:
        """The key names of the shard that holds the task `task_id`, which must be one that this store made."""
        return self._keys[ids.made_in(task_id)]

    def all_keys(self) -> Sequence[Keys]:
        """The key names of every shard."""
        return self._keys

    def new_task_id(self, scope: Scope, message_id: str) -> str:
        """An id for a new task, in the shard where the same message would go again."""
        return ids.new_task_id(self._shard_for(scope, message_id))

    def home_of(self, scope: Scope, message_id: str) -> Keys:
        """The key names of the shard where the message `message_id` would begin a task."""
        return self._keys[self._shard_for(scope, message_id)]

    def _shard_for(self, scope: Scope, message_id: str) -> int:
        if self.shards == 1:
            return 0
        return ids.shard_for(ids.scope(scope.tenant, scope.owner, message_id), self.shards)

    # -- steps -------------------------------------------------------------------------------------------------------

    async def create(
        self,
        entry: a2a_pb2.StreamResponse,
        scope: Scope,
        origin: Origin,
        dedupe: Dedupe,
        *,
        claim: bool,
        limit: int,
        begun: bool = False,
        webhook: Webhook | None = None,
    ) -> Placed:
        """Store the new task in `entry`, run by this replica (`claim`) or waiting for one.

        Where others wait already it waits behind them, whatever `claim` says, unless its turn has `begun`. `limit` is
        how many attempts each of its turns has. `webhook` hears of everything that happens from then on.
        """
        task = entry.task
        keys, now = self.keys_of(task.id), now_ms()
        state = task.status.state
        stamp = milliseconds(task.status.timestamp)
        reply = await self._pipeline.script(
            scripts.CREATE,
            [
                keys.task(task.id),
                keys.log(task.id),
                *keys.indexes(scope.tenant, scope.owner, task.context_id, state, state),
                keys.held(self.replica),
                keys.ready,
                keys.fair,
                keys.dedupe(scope.tenant, scope.owner, dedupe.message_id),
                keys.push(task.id),
                keys.since,
                keys.tally,
            ],
            [
                task.id,
                f"{dedupe.call_id} {dedupe.digest} {task.id}",
                dedupe.window_ms,
                self.replica if claim else "",
                now,
                stamp,
                state,
                scope.tenant,
                scope.owner,
                task.context_id,
                self._max_ready,
                keys.ready_channel,
                limit,
                *origin.packed(),
                entry.SerializeToString(),
                int(begun),
                *(() if webhook is None else webhook.packed()),
            ],
        )
        return _placed(reply, task.id, dedupe)

    async def follow_up(
        self,
        stored: StoredTask,
        resumed: a2a_pb2.StreamResponse,
        origin: Origin,
        dedupe: Dedupe,
        *,
        claim: bool,
        webhook: Webhook | None = None,
    ) -> Placed:
        """Send a message to a task: it begins a turn where the task is parked, and waits its turn otherwise.

        `resumed` is the status that a parked task takes. `webhook` is one more of the task, or takes the place of that
        with the same id. STATE and GONE mean that `stored` is out of date, FULL that too much waits for a replica
        already, CROWDED that too much does for the task, HOOKED that the task has as many webhooks as it may.
        """
        task_id, scope, keys = stored.task_id, stored.scope, self.keys_of(stored.task_id)
        status = resumed.status_update.status
        known = await self._reserve(scope, dedupe, task_id)
        if known is not None and known.digest != dedupe.digest:
            return known
        reply = await self._pipeline.script(
            scripts.FOLLOW_UP,
            [
                keys.task(task_id),
                keys.log(task_id),
                *keys.indexes(scope.tenant, scope.owner, stored.context, stored.state, status.state),
                keys.held(self.replica),
                keys.ready,
                keys.fair,
                keys.later,
                keys.dedupe(scope.tenant, scope.owner, dedupe.message_id),
                keys.push(task_id),
                keys.push_due,
                keys.since,
                keys.tally,
            ],
            [
                task_id,
                f"{dedupe.call_id} {dedupe.digest} {task_id}",
                dedupe.window_ms,
                self.replica if claim else "",
                milliseconds(status.timestamp),
                stored.state,
                status.state,
                keys.events(task_id),
                keys.wake_prefix,
                self._max_ready,
                keys.ready_channel,
                *origin.packed(),
                resumed.SerializeToString(),
                message_added(origin.message).SerializeToString(),
                MAX_QUEUE,
                *(() if webhook is None else (*webhook.packed(), webhook.limit)),
            ],
        )
        placed = _placed(reply, task_id, dedupe)
        if placed.outcome in {Outcome.FULL, Outcome.CROWDED, Outcome.HOOKED, Outcome.GONE, Outcome.STATE}:
            await self._release(scope, dedupe, task_id)
        elif known is not None and known.task_id == task_id:
            # Whoever noted it first may take it back.
            await self._note(scope, dedupe, task_id)
        return placed

    async def _reserve(self, scope: Scope, dedupe: Dedupe, task_id: str) -> Placed | None:
        """See to it that a message id means one thing also where its task is in another shard than it would begin one.

        None where it was not known there yet, and in the shard of the task it is looked up by the script itself.
        """
        home = self.home_of(scope, dedupe.message_id)
        if home is self.keys_of(task_id):
            return None
        found = await self._note(scope, dedupe, task_id, "NX", "GET")
        if found is None or found.startswith(dedupe.call_id.encode()):
            return None
        return _placed([b"KNOWN", found], "", dedupe)

    def _note(self, scope: Scope, dedupe: Dedupe, task_id: str, *options: str) -> asyncio.Future[Any]:
        home = self.home_of(scope, dedupe.message_id)
        key, entry = home.dedupe(scope.tenant, scope.owner, dedupe.message_id), _reservation(dedupe, task_id)
        return self._pipeline.command("SET", key, entry, *options, "PX", dedupe.window_ms)

    async def _release(self, scope: Scope, dedupe: Dedupe, task_id: str) -> None:
        """Take back what `_reserve` noted for this call: the message was not accepted."""
        home = self.home_of(scope, dedupe.message_id)
        if home is not self.keys_of(task_id):
            key = home.dedupe(scope.tenant, scope.owner, dedupe.message_id)
            await self._pipeline.script(scripts.RELEASE, [key], [_reservation(dedupe, task_id)])

    async def append(self, step: Append) -> Appended:
        """Write the holder's entries; waits through an outage of the store for as long as the patience lasts."""
        keys = self.keys_of(step.task_id)
        after = step.state if step.state is not None else step.expected
        reply = await self._pipeline.script(
            scripts.APPEND,
            [
                keys.task(step.task_id),
                keys.log(step.task_id),
                *keys.indexes(step.scope.tenant, step.scope.owner, step.context, step.expected, after),
                keys.held(self.replica),
                keys.purge,
                keys.push(step.task_id),
                keys.push_due,
                keys.tally,
            ],
            [
                step.task_id,
                step.epoch,
                step.operation,
                step.expected,
                after,
                step.stamp_ms if step.state is not None else "",
                int(step.idle_only),
                int(step.release),
                self._task_ttl_ms if step.terminal else "",
                now_ms() + self._task_ttl_ms,
                "" if step.snapshot_at is None else step.snapshot_at,
                step.head,
                step.artifacts,
                keys.events(step.task_id) if step.entries else "",
                keys.purge_row(step.task_id, step.scope.tenant, step.scope.owner, step.context, after)
                if step.terminal
                else "",
                step.told,
                self.log_events,
                *step.entries,
            ],
            self._patience,
        )
        outcome = _outcome(reply)
        if outcome is not Outcome.OK:
            return Appended(outcome=outcome)
        return Appended(outcome=outcome, first=reply[1], canceling=bool(reply[2]))

    async def take(self, task_id: str, epoch: int, operation: int) -> tuple[Outcome, int]:
        """The holder takes the next waiting message: TOOK and its seq, or NONE."""
        reply = await self._pipeline.script(
            scripts.TAKE, [self.keys_of(task_id).task(task_id)], [epoch, operation], self._patience
        )
        outcome = _outcome(reply)
        return outcome, reply[1] if outcome is Outcome.TOOK else 0

    async def cancel(
        self, stored: StoredTask, canceled: a2a_pb2.StreamResponse, *, over: str = "", call_id: str = ""
    ) -> Outcome:
        """Cancel a task that nobody runs, or ask its holder to; `over` a holder that does not answer."""
        task_id, scope, keys = stored.task_id, stored.scope, self.keys_of(stored.task_id)
        status = canceled.status_update.status
        reply = await self._pipeline.script(
            scripts.CANCEL,
            [
                keys.task(task_id),
                keys.log(task_id),
                *keys.indexes(scope.tenant, scope.owner, stored.context, stored.state, status.state),
                keys.ready,
                keys.fair,
                keys.later,
                keys.purge,
                keys.held(over or self.replica),
                keys.push(task_id),
                keys.push_due,
                keys.since,
                keys.tally,
            ],
            [
                task_id,
                stored.state,
                status.state,
                milliseconds(status.timestamp),
                keys.events(task_id),
                keys.wake_prefix,
                over,
                self._task_ttl_ms,
                now_ms() + self._task_ttl_ms,
                now_ms(),
                call_id or ids.new_id(),
                keys.purge_row(task_id, scope.tenant, scope.owner, stored.context, status.state),
                canceled.SerializeToString(),
            ],
        )
        return _outcome(reply)

    async def claim(self, task_id: str, call_id: str = "") -> int | None:
        """Claim a turn that waits: the fencing epoch, or None where somebody was faster."""
        keys = self.keys_of(task_id)
        reply = await self._pipeline.script(
            scripts.CLAIM,
            [keys.task(task_id), keys.held(self.replica), keys.ready, keys.fair, keys.since],
            [task_id, self.replica, call_id or ids.new_id()],
        )
        return reply[1] if _outcome(reply) is Outcome.CLAIMED else None

    async def put_back(self, task_id: str, epoch: int, *, counted: bool = False, due_ms: int | None = None) -> None:
        """Give an unfinished turn back, to be run before all others, or not before `due_ms` (ms since 1970).

        `counted`: the attempt stays one of those that the turn has, which asked for the next one itself; it waits
        through an outage of the store.
        """
        keys = self.keys_of(task_id)
        await self._pipeline.script(
            scripts.PUT_BACK,
            [keys.task(task_id), keys.held(self.replica), keys.ready, keys.fair, keys.later, keys.since],
            [
                task_id,
                epoch,
                self.replica,
                int(counted),
                "" if due_ms is None else due_ms,
                keys.ready_channel,
            ],
            self._patience if counted else None,
        )

    async def promote(self, count: int = 100) -> None:
        """Let the turns whose time has come wait for a replica like others."""
        lines = await _from_all(
            self._pipeline.command("ZRANGE", keys.later, "-inf", now_ms(), "BYSCORE", "LIMIT", 0, count)
            for keys in self._keys
        )
        for keys, due in zip(self._keys, lines, strict=True):
            for task_id in due or ():
                await self._pipeline.script(
                    scripts.PROMOTE,
                    [keys.task(task_id.decode()), keys.ready, keys.fair, keys.later, keys.since],
                    [task_id, keys.ready_channel],
                )

    async def recover(
        self, task_id: str, epoch: int, lost: str, *, default_limit: int, call_id: str = ""
    ) -> int | None:
        """Take a turn from a replica that was lost, to be run again, by anybody.

        Where no attempt is left it is claimed by this replica, to write its end: the fencing epoch then, else None.
        `default_limit` is for tasks that do not say how many attempts a turn has.
        """
        keys = self.keys_of(task_id)
        reply = await self._pipeline.script(
            scripts.RECOVER,
            [keys.task(task_id), keys.held(lost), keys.ready, keys.fair, keys.held(self.replica), keys.since],
            [task_id, epoch, lost, self.replica, call_id or ids.new_id(), default_limit, keys.ready_channel],
        )
        if _outcome(reply) is not Outcome.FENCED:
            TURNS_RECOVERED.add()
        return reply[1] if _outcome(reply) is Outcome.CLAIMED else None

    async def checkpoint(self, task_id: str, epoch: int, checkpoint: bytes) -> Outcome:
        """Keep `checkpoint` with the task for a later attempt or turn."""
        reply = await self._pipeline.script(
            scripts.CHECKPOINT, [self.keys_of(task_id).task(task_id)], [epoch, checkpoint], self._patience
        )
        return _outcome(reply)

    async def known(self, scope: Scope, dedupe: Dedupe, task_id: str = "") -> Placed | None:
        """Where the same message went before, if it did: as the first of a task, or to the task `task_id`."""
        keys = self.keys_of(task_id) if task_id else self.home_of(scope, dedupe.message_id)
        found = await self._pipeline.command("GET", keys.dedupe(scope.tenant, scope.owner, dedupe.message_id))
        return None if found is None else _placed([b"KNOWN", found], "", dedupe)

    # -- reading -----------------------------------------------------------------------------------------------------

    # A running turn reads with `patient`: it waits through an outage of the store for as long as the patience lasts.

    async def read(
        self, task_id: str, *, artifacts: bool = True, patient: bool = False, scope: Scope | None = None
    ) -> StoredTask | None:
        """The task as it stands now, or None. With `scope` a task of another one is None, and is not looked at."""
        shard = ids.shard_of(task_id, self.shards)
        if shard is None:
            return None
        keys = self._keys[shard]
        reply = await self._reads.script(
            scripts.READ,
            [keys.task(task_id), keys.log(task_id)],
            ["1" if artifacts else "0", *(scope or ())],
            self._patience if patient else None,
        )
        return None if reply is None else _stored(task_id, reply)

    async def log(self, task_id: str, after: int, count: int = 512, *, patient: bool = False) -> list[Event]:
        """Up to `count` entries of a task with a seq above `after`."""
        keys, limit = self.keys_of(task_id), self._patience if patient else None
        found = await self._reads.command(
            "XRANGE", keys.log(task_id), f"({after}-0", "+", "COUNT", count, timeout=limit
        )
        return entries_of(found)

    async def origin(self, task_id: str, seq: int, *, patient: bool = False) -> Origin | None:
        """The message that the entry `seq` of a task's log brought; None where the task was erased."""
        keys, at, limit = self.keys_of(task_id), f"{seq}-0", self._patience if patient else None
        found = await self._reads.command("XRANGE", keys.log(task_id), at, at, timeout=limit)
        if found:
            return origin_of(found[0][1])
        kept = (f"kept:{seq}:{side}" for side in "erxt")
        return kept_origin(*await self._reads.command("HMGET", keys.task(task_id), *kept, timeout=limit))

    async def trace(self, task_id: str) -> Context | None:
        """Where the call stands in a trace that brought the message of the task's present turn."""
        keys = self.keys_of(task_id)
        found = await self._reads.script(scripts.TRACE, [keys.task(task_id), keys.log(task_id)], [])
        return None if found is None else Context.unpack(found)

    async def as_of(self, task_id: str, seq: int) -> Fold | None:
        """The task as it stood after the entry `seq`; None where that is not kept any more, or has not come yet."""
        keys = self.keys_of(task_id)
        while True:
            base, head, artifacts = await self._reads.command(
                "HMGET", keys.task(task_id), "base", "base_head", "base_artifacts"
            )
            at = int(base or 0)
            if seq < max(at, 1):
                return None
            fold = Fold.from_bytes(head or b"", artifacts or b"")
            while at < seq:
                events = await self.log(task_id, at, min(seq - at, _FOLD_PAGE))
                if not events or events[0].seq != at + 1:
                    break
                for event in events:
                    fold.apply(event.response)
                at = events[-1].seq
            else:
                return fold
            if await self._reads.command("HGET", keys.task(task_id), "base") == base:
                return None
            # The log was cut meanwhile.

    async def page(
        self, scope: Scope, context: str, state: int, since_ms: int | None, cursor: Cursor | None, limit: int
    ) -> Page:
        """Up to `limit` ids of a scope's tasks after `cursor`, newest status first, ids descending on ties (3.1.4)."""
        least = "-inf" if since_ms is None else str(since_ms)
        arguments: list[Argument] = [least, limit]
        if cursor is not None:
            arguments += [cursor.timestamp_ms, cursor.task_id]
        replies = await asyncio.gather(
            *(
                self._reads.script(scripts.PAGE, [keys.index(scope.tenant, scope.owner, context, state)], arguments)
                for keys in self._keys
            )
        )
        listings = [
            [
                (int(stamp), task_id.decode())
                for task_id, stamp in zip(rows[::2], rows[1::2], strict=True)
                if since_ms is None or int(stamp) >= since_ms
            ]
            for _, rows in replies
        ]
        merged = islice(heapq.merge(*listings, reverse=True), limit)
        return Page([(task_id, stamp) for stamp, task_id in merged], sum(total for total, _ in replies))

    async def waiting(self, count: int) -> list[str]:
        """Up to `count` tasks whose turns wait for a replica, those that are due first from every shard in turn."""
        answers = await _from_all(self._pipeline.command("ZRANGE", keys.ready, 0, count - 1) for keys in self._keys)
        lines = [line for line in answers if line]
        # Replicas that look at the same time should not all begin with the same shard.
        random.shuffle(lines)
        in_turn = (task_id for rank in zip_longest(*lines) for task_id in rank if task_id is not None)
        return [task_id.decode() for task_id in islice(in_turn, count)]

    async def held(self, replica: str = "") -> Held:
        """The tasks that `replica` (default: this one) holds."""
        name = replica or self.replica
        found = await _from_all(self._pipeline.command("SMEMBERS", keys.held(name)) for keys in self._keys)
        return Held(task_ids=[task_id.decode() for held in found for task_id in held or ()], complete=None not in found)

    async def exists(self, task_id: str, *, patient: bool = False) -> bool:
        """Whether there is a task of this id, which must be one that this store made."""
        limit = self._patience if patient else None
        return bool(await self._pipeline.command("EXISTS", self.keys_of(task_id).task(task_id), timeout=limit))

    async def holder(self, task_id: str) -> tuple[str, int] | None:
        """Who holds a task (or ""), and its epoch; None where there is no such task."""
        found = await self._pipeline.command("HMGET", self.keys_of(task_id).task(task_id), "holder", "epoch")
        return None if found[0] is None else (found[0].decode(), int(found[1]))

    # -- retention ---------------------------------------------------------------------------------------------------

    async def purge(self, count: int = 100) -> int:
        """Erase up to `count` tasks of each shard whose retention has ended; how many there were."""
        erased = 0
        for keys in self._keys:
            due = await self._pipeline.command("ZRANGE", keys.purge, "-inf", now_ms(), "BYSCORE", "LIMIT", 0, count)
            await asyncio.gather(*(self._erase(keys, row.decode()) for row in due))
            erased += len(due)
        return erased

    async def _erase(self, keys: Keys, row: str) -> None:
        task_id, indexes = keys.purged(row)
        await self._pipeline.script(
            scripts.ERASE,
            [
                keys.task(task_id),
                keys.log(task_id),
                *indexes,
                keys.purge,
                keys.push(task_id),
                keys.push_due,
                keys.tally,
            ],
            [task_id, row, self._task_ttl_ms, self._webhook_patience_ms, now_ms() + _LOOK_AGAIN_MS],
        )

    # -- the card ----------------------------------------------------------------------------------------------------

    async def card_published_ms(self, etag: str) -> int:
        """When the card with `etag` was first published, in milliseconds since 1970: the same on every replica."""
        key = key_names.card(etag)
        await self._pipeline.command("SET", key, now_ms(), "NX", "PX", _CARD_KEPT_MS)
        await self._pipeline.command("PEXPIRE", key, _CARD_KEPT_MS)
        return int(await self._pipeline.command("GET", key))


async def _from_all(asked: Iterable[Awaitable[Any]]) -> list[Any]:
    """What each shard answers; None for one whose part of a cluster is away.

    Raises: StoreUnavailableError where none answers.
    """
    answers = await asyncio.gather(*asked, return_exceptions=True)
    failed = [answer for answer in answers if isinstance(answer, BaseException)]
    if len(failed) == len(answers):
        raise failed[0]
    for error in failed:
        if not isinstance(error, StoreUnavailableError):
            raise error
    return [None if isinstance(answer, BaseException) else answer for answer in answers]


def _reservation(dedupe: Dedupe, task_id: str) -> str:
    return f"{dedupe.call_id} {dedupe.digest} {task_id} {Outcome.KNOWN.value} 0 0"


def _outcome(reply: list[Any]) -> Outcome:
    return Outcome(reply[0].decode())


def _placed(reply: list[bytes | int], task_id: str, dedupe: Dedupe) -> Placed:
    outcome = _outcome(reply)
    if outcome is Outcome.KNOWN:
        accepted = cast("bytes", reply[1]).decode().split(" ")
        call_id, digest, known_id, accepted_as, *numbers = accepted
        seq, epoch = (int(number) for number in numbers)
        # The answer to this very call was lost: give it again.
        outcome = Outcome(accepted_as) if call_id == dedupe.call_id else outcome
        return Placed(outcome=outcome, task_id=known_id, seq=seq, epoch=epoch, digest=digest)
    if outcome in {Outcome.CREATED, Outcome.STARTED, Outcome.QUEUED}:
        seq, epoch = cast("list[int]", reply[1:3])
        return Placed(outcome=outcome, task_id=task_id, seq=seq, epoch=epoch)
    return Placed(outcome=outcome, task_id=task_id)


def _stored(task_id: str, reply: list[Any]) -> StoredTask:
    """The task in the reply of the script `read`: what every task has, what some have (or None), and the log's tail."""
    tenant, owner, context, state, _, seq, epoch, holder, attempt, turn, queue, *some = reply
    cancel, checkpoint, told, _, head, artifacts, limit, base, *tail = some
    fold = Fold.from_bytes(head or b"", artifacts or b"")
    if tail:
        for event in entries_of(tail[0]):
            fold.apply(event.response)
    return StoredTask(
        task_id=task_id,
        scope=Scope(tenant.decode(), owner.decode()),
        context=context.decode(),
        state=states.parse(state),
        seq=int(seq),
        epoch=int(epoch),
        holder=holder.decode(),
        attempt=int(attempt),
        turn=int(turn),
        queue=tuple(int(waiting) for waiting in queue.split()) if queue else (),
        canceling=cancel is not None,
        checkpoint=checkpoint,
        told=int(told),
        limit=None if limit is None else int(limit),
        first=1 if base is None else int(base) + 1,
        fold=fold,
    )
