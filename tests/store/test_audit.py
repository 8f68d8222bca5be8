"""The audit that other tests end with finds what is wrong, and nothing where all is well."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from a2a_grpc.server.core import states
from a2a_grpc.server.store.keys import Keys
from tests.support.audit import audit, key_table
from tests.support.servers import StoreServer
from tests.support.tasks import ALICE, chunk, create, open_store, read, status, step


def test_the_table_of_keys_is_read_whole() -> None:
    rows = {row.pattern.pattern: row.type for row in key_table()}
    assert {
        r"a2a:\{[0-9a-f]+\}:task:[0-9a-f]{32}-[0-9a-f]{1,4}": "hash",
        r"a2a:\{[0-9a-f]+\}:log:[0-9a-f]{32}-[0-9a-f]{1,4}": "stream",
        r"a2a:\{[0-9a-f]+\}:owner:[0-9a-f]{22}": "zset",
        r"a2a:\{[0-9a-f]+\}:ctx:[0-9a-f]{22}:[1-8]": "zset",
        r"a2a:\{[0-9a-f]+\}:held:.+": "set",
        "a2a:shards": "string",
    }.items() <= rows.items()


class Victim(NamedTuple):
    """The task that is damaged."""

    id: str
    keys: Keys
    dedupe: str


NOBODY = "0" * 32 + "-0"
DAMAGES: dict[str, Callable[[Victim], tuple[str | int, ...]]] = {
    "no key of this name": lambda _: ("SET", "a2a:{0}:forgotten", 1),
    "a string, where the table says zset": lambda task: ("SET", task.keys.ready, 1),
    "stays for ever": lambda task: ("PERSIST", task.dedupe),
    "has not ended and lives for": lambda task: ("PEXPIRE", task.keys.task(task.id), 10_000),
    "the log has entries": lambda task: ("XDEL", task.keys.log(task.id), "2-0"),
    "the log ends in": lambda task: ("HSET", task.keys.task(task.id), "state", int(states.INPUT_REQUIRED)),
    "the status is of": lambda task: ("HSET", task.keys.task(task.id), "stamp", 1),
    "are not the whole log": lambda task: ("HSET", task.keys.task(task.id), "at", 2),
    "nobody runs it": lambda task: ("HSET", task.keys.task(task.id), "holder", ""),
    "which does not know it": lambda task: ("SREM", task.keys.held("r1"), task.id),
    "which it does not hold": lambda task: ("SADD", task.keys.held("r3"), task.id),
    "ready to be claimed": lambda task: ("ZADD", task.keys.ready, 1, task.id),
    "which is no task": lambda task: ("ZADD", task.keys.ready, 1, NOBODY),
    "to be erased": lambda task: ("ZADD", task.keys.purge, 1, task.id),
    "which is no letter": lambda task: ("ZADD", task.keys.dead, 1, f"{task.id}.1"),
    "a letter that dead does not name": lambda task: ("HSET", task.keys.letter(f"{task.id}.1"), "task", task.id),
    "should hold": lambda task: ("ZADD", task.keys.index("", "alice", state=states.WORKING), 1, task.id),
    "counts {": lambda task: ("HINCRBY", task.keys.tally, f"0:{states.WORKING}", 1),
    "counted as": lambda task: ("HSET", task.keys.task(task.id), "tally", f"0:{states.FAILED}"),
    "since and ready differ": lambda task: ("ZADD", task.keys.since, 1, task.id),
    "there is no task": lambda task: ("DEL", task.keys.task(task.id)),
}


@pytest.mark.parametrize("problem", DAMAGES)
async def test_damage_is_found(problem: str, one_store_server: StoreServer) -> None:
    async with open_store(one_store_server.url) as store:
        stored = await create(store)
        await store.append(step(stored, 1, status(stored, states.WORKING), chunk(stored, "x")))
        stored = await read(store, stored.task_id)
        assert stored.scope == ALICE
        assert audit(one_store_server.client) == []
        keys = store.keys_of(stored.task_id)
        victim = Victim(stored.task_id, keys, keys.dedupe("", "alice", stored.fold.head.history[0].message_id))
        one_store_server.client.execute_command(*DAMAGES[problem](victim))  # type: ignore[no-untyped-call]
    assert any(problem in found for found in audit(one_store_server.client)), audit(one_store_server.client)
