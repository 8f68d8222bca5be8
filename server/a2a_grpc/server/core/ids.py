"""Identifiers the server makes: tasks, contexts, messages, artifacts.

A task id carries the shard that holds the task, so that any replica finds it from the id alone:
`<32 hexadecimal digits>-<shard in hexadecimal>`.
"""

import os
import re
from hashlib import blake2b

_TASK_ID = re.compile(r"[0-9a-f]{32}-(0|[1-9a-f][0-9a-f]{0,3})")


def new_id() -> str:
    """A new unique id for a context, a message, an artifact or a call: 32 hexadecimal digits, not to be guessed."""
    return os.urandom(16).hex()


def new_task_id(shard: int) -> str:
    """A new unique task id in `shard` (3.4.2: task ids come only from the server)."""
    return f"{os.urandom(16).hex()}-{shard:x}"


def shard_of(task_id: str, shards: int) -> int | None:
    """The shard of `task_id`, or None where no task of this store can have that id."""
    found = _TASK_ID.fullmatch(task_id)
    if found is None:
        return None
    shard = int(found[1], 16)
    return shard if shard < shards else None


def made_in(task_id: str) -> int:
    """The shard of a task id that this service made; faster than `shard_of`, and blind to anything else."""
    return int(task_id[33:], 16)


def shard_for(key: str, shards: int) -> int:
    """The shard that new work under `key` belongs to: the same for the same key, even over many keys."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) % shards


def scope(*parts: str) -> str:
    """A short key for a tuple of strings, such as tenant and owner: 22 characters that don't collide.

    Each part is preceded by its length, so that ("ab", "c") and ("a", "bc") differ.
    """
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(joined.encode(), digest_size=11).hexdigest()
