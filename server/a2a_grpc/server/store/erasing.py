"""Erasing one task completely, before its time and whatever its state."""

import asyncio

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids, states
from a2a_grpc.server.store import scripts
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.records import StoredTask
from a2a_grpc.server.store.tasks import TaskStore

# A task that is claimed or written to meanwhile is looked at again.
_MAX_RACES = 20
# Keys of one call: as many arguments as any server takes at once.
_BATCH = 1000


class Eraser:
    """Erases tasks. Without de-duplication, what keeps a call from being stored twice stays for its minute."""

    def __init__(self, store: TaskStore, letters: DeadLetters) -> None:
        self._store = store
        self._letters = letters

    async def erase(self, task_id: str) -> int | None:
        """Erase the task and all that belongs to it; how many dead letters it had, or None where there was nothing.

        Whoever runs it is refused from now on, and its followers find no task. It is safe to repeat, and a call that
        fails is to be: what was not erased is still found by the task's id. Raises: StoreUnavailableError.
        """
        if ids.shard_of(task_id, self._store.shards) is None:
            return None
        found = False
        for _ in range(_MAX_RACES):
            stored = await self._store.read(task_id, artifacts=False)
            if stored is None:
                break
            found = True
            # First what is found through the task, then the task.
            await self._forget_messages(stored)
            if await self._erase(stored):
                break
        else:
            raise StoreUnavailableError(f"the task {task_id} changes too fast to be erased")
        letters = await self._letters.discard_of(task_id)
        return letters if found or letters else None

    async def _forget_messages(self, stored: StoredTask) -> None:
        """Remove what remembers the messages of the task."""
        head, scope = stored.fold.head, stored.scope
        messages = {message.message_id for message in head.history if message.role == a2a_pb2.ROLE_USER}
        own = self._store.keys_of(stored.task_id)
        # A message that would begin a task is known in the shard where that would be.
        places = {
            (keys, keys.dedupe(scope.tenant, scope.owner, message_id))
            for message_id in messages
            for keys in (own, self._store.home_of(scope, message_id))
        }
        calls = []
        for shard in {keys for keys, _ in places}:
            names = sorted(name for keys, name in places if keys is shard)
            calls += [
                self._store.pipeline.script(scripts.FORGET, names[at : at + _BATCH], [stored.task_id])
                for at in range(0, len(names), _BATCH)
            ]
        await asyncio.gather(*calls)

    async def _erase(self, stored: StoredTask) -> bool:
        """Whether nothing stood against it."""
        task_id, scope, context = stored.task_id, stored.scope, stored.context
        keys = self._store.keys_of(task_id)
        reply = await self._store.pipeline.script(
            scripts.DELETE,
            [
                keys.task(task_id),
                keys.log(task_id),
                keys.held(stored.holder or self._store.replica),
                keys.ready,
                keys.fair,
                keys.later,
                keys.purge,
                *(
                    keys.index(scope.tenant, scope.owner, place, state)
                    for place in ("", context)
                    for state in (0, *sorted(states.TRANSITIONS))
                ),
                keys.push(task_id),
                keys.push_due,
                keys.since,
                keys.tally,
            ],
            [
                task_id,
                stored.holder,
                stored.seq,
                keys.events(task_id),
                keys.wake_prefix,
                *(keys.purge_row(task_id, scope.tenant, scope.owner, context, end) for end in sorted(states.TERMINAL)),
            ],
        )
        return bool(reply[0] != b"CHANGED")
