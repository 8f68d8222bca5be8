"""Every key and channel name of the store, with its life time.

All keys of a shard share one hash tag, `{n}`, so each script runs on one slot of a cluster.

| key                        | type   | life time |
|----------------------------|--------|-----------|
| `task:ID`                  | hash   | none while the task lives; from its terminal state A2A_TASK_TTL, plus a margin |
| `log:ID`                   | stream | as its task |
| `owner:H`, `owner:H:STATE` | zset   | none: rows leave with their task (`purge`), an empty zset is no key |
| `ctx:H`, `ctx:H:STATE`     | zset   | none: as above |
| `ready`                    | zset   | none: rows leave when a replica claims the turn or the task ends |
| `fair`                     | hash   | none: it goes with the last row of `ready` |
| `since`                    | zset   | none: rows leave with those of `ready` |
| `later`                    | zset   | none: rows leave when they are due, to `ready`, or the task ends |
| `held:REPLICA`             | set    | none: members leave when the turn ends |
| `dedupe:H`                 | string | A2A_DEDUPE_TTL |
| `purge`                    | zset   | none: rows leave when the task is erased at its due time |
| `push:ID`                  | hash   | as its task |
| `pushdue`                  | zset   | none: rows leave when a webhook knows all, is given up, or goes with its task |
| `dead`                     | zset   | none: rows leave with their letter |
| `letter:LETTER`            | hash   | A2A_DEAD_LETTER_TTL, plus a margin |
| `replicas`                 | hash   | none: rows leave when the replica goes or is lost; only in shard 0 |
| `condemned`                | hash   | none: rows leave when all is recovered that the replica held; only in shard 0 |
| `rate:H`                   | string | until its bucket is full again, plus a margin |
| `places:H`                 | zset   | the lease of a place from the last renewal on, plus a margin |
| `tally`                    | hash   | none: a few numbers, how many tasks there are in each state |
| `mark`                     | string | a minute: written to see whether writes are taken, and replicas have them |
| `a2a:shards`               | string | none: the number of shards, fixed at the first start |
| `a2a:card:ETAG`            | string | 400 days from its last use: when this card was first published |
"""

from functools import lru_cache

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids

SHARDS = "a2a:shards"
MARK_KEPT_MS = 60_000


def card(etag: str) -> str:
    """String: milliseconds since 1970 at which the card with `etag` was first published."""
    return f"a2a:card:{etag}"


def mark(shard: int) -> str:
    """String, empty: written to see whether a write is taken, and behind writes that wait for replicas."""
    return f"a2a:{{{shard:x}}}:mark"


class Keys:
    """The key names of one shard."""

    def __init__(self, shard: int) -> None:
        self._prefix = f"a2a:{{{shard:x}}}:"
        self.ready = f"{self._prefix}ready"
        self.fair = f"{self._prefix}fair"
        self.since = f"{self._prefix}since"
        self.later = f"{self._prefix}later"
        self.tally = f"{self._prefix}tally"
        self.replicas = f"{self._prefix}replicas"
        self.condemned = f"{self._prefix}condemned"
        self.purge = f"{self._prefix}purge"
        self.push_due = f"{self._prefix}pushdue"
        self.dead = f"{self._prefix}dead"
        self.wake_prefix = f"{self._prefix}wake:"
        self.ready_channel = f"{self._prefix}readied"

    def task(self, task_id: str) -> str:
        """Hash: one task."""
        return f"{self._prefix}task:{task_id}"

    def log(self, task_id: str) -> str:
        """Stream: the entries of one task, `SEQ-0` each."""
        return f"{self._prefix}log:{task_id}"

    def events(self, task_id: str) -> str:
        """Sharded channel: the entries of one task as they are appended."""
        return f"{self._prefix}events:{task_id}"

    def push(self, task_id: str) -> str:
        """Hash: the webhooks of one task, and how much each has been told."""
        return f"{self._prefix}push:{task_id}"

    def letter(self, letter_id: str) -> str:
        """Hash: one dead letter."""
        return f"{self._prefix}letter:{letter_id}"

    def held(self, replica: str) -> str:
        """Set: the tasks that `replica` runs."""
        return f"{self._prefix}held:{replica}"

    def wake(self, replica: str) -> str:
        """Sharded channel: ids of tasks that `replica` should look at (a cancellation, a message)."""
        return f"{self.wake_prefix}{replica}"

    def dedupe(self, tenant: str, owner: str, message_id: str) -> str:
        """String: the digest and the task of a message that was accepted."""
        return f"{self._prefix}dedupe:{ids.scope(tenant, owner, message_id)}"

    def rate(self, *what: str) -> str:
        """String: the tokens that a rate had left, and when."""
        return f"{self._prefix}rate:{ids.scope(*what)}"

    def places(self, *what: str) -> str:
        """Sorted set: who holds a place, by the time (ms of the store's clock) at which it falls free by itself."""
        return f"{self._prefix}places:{ids.scope(*what)}"

    def index(self, tenant: str, owner: str, context: str = "", state: int = 0) -> str:
        """Sorted set: task ids by status timestamp, of an owner, of one of its contexts, each also by state."""
        place = f"ctx:{_of_context(tenant, owner, context)}" if context else f"owner:{_of_owner(tenant, owner)}"
        return f"{self._prefix}{place}:{state}" if state else f"{self._prefix}{place}"

    def indexes(
        self, tenant: str, owner: str, context: str, old: a2a_pb2.TaskState, new: a2a_pb2.TaskState
    ) -> list[str]:
        """The six indexes that a move from `old` to `new` touches, in the order the scripts expect."""
        by_owner = f"{self._prefix}owner:{_of_owner(tenant, owner)}"
        by_context = f"{self._prefix}ctx:{_of_context(tenant, owner, context)}"
        return [
            by_owner,
            by_context,
            f"{by_owner}:{old}",
            f"{by_context}:{old}",
            f"{by_owner}:{new}",
            f"{by_context}:{new}",
        ]

    def purge_row(self, task_id: str, tenant: str, owner: str, context: str, state: a2a_pb2.TaskState) -> str:
        """The row of `purge` for a task that ended in `state`: it says which index rows go with the task."""
        return f"{task_id} {_of_owner(tenant, owner)} {_of_context(tenant, owner, context)} {state}"

    def purged(self, row: str) -> tuple[str, list[str]]:
        """The task that `row` of `purge` names, and the four indexes it stands in."""
        task_id, of_owner, of_context, state = row.split(" ")
        by_owner, by_context = f"{self._prefix}owner:{of_owner}", f"{self._prefix}ctx:{of_context}"
        return task_id, [by_owner, by_context, f"{by_owner}:{state}", f"{by_context}:{state}"]


# Owners come back in every call, contexts in every step of their tasks.
_of_owner = lru_cache(maxsize=4096)(ids.scope)
_of_context = lru_cache(maxsize=4096)(ids.scope)
