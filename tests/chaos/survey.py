"""After the last fault: wait until everything has ended, and write down what is left of it."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import redis

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import states
from tests.chaos.fleet import KEYS, Fleet
from tests.chaos.history import OK, Call, Event, History, Left, packed
from tests.chaos.lines import GrpcLine
from tests.chaos.load import ask, list_all
from tests.support.audit import audit
from tests.support.waiting import wait_until

SETTLE = 90.0
"""Seconds after the last fault within which every task has to end, or to ask."""
_ANSWER = 30.0
_AT_ONCE = 16


async def survey(fleet: Fleet, history: History, recount: Callable[[], Awaitable[None]] | None = None) -> None:
    """Every replica has to answer again, and every task to settle; one that does not is left to the checker.

    `recount` comes before the audit, where an older version has left tasks that nobody has counted.
    """
    for one in fleet.replicas:
        await asyncio.to_thread(one.wait_ready)
    client = fleet.client()

    async def settled() -> bool:
        return await asyncio.to_thread(_settled, client)

    began = time.monotonic()
    with contextlib.suppress(AssertionError):  # the checker says which did not
        await wait_until(settled, "every task has ended or asks", SETTLE)
    history.settling = time.monotonic() - began
    logs, owners = await asyncio.to_thread(_tasks, client)
    history.letters = await asyncio.to_thread(_letters, client)
    if recount is not None:
        await recount()
    history.audit = await asyncio.to_thread(audit, client)
    lines = {name: [GrpcLine(one, key) for one in fleet.replicas] for name, key in KEYS.items()}
    limit = asyncio.Semaphore(_AT_ONCE)

    async def look(task: str) -> Left:
        async with limit:
            owner = owners[task]
            answers = [await _get(line, number, owner, task, history) for number, line in enumerate(lines[owner])]
        return Left(task=task, log=logs[task], answers=answers)

    history.left = await asyncio.gather(*(look(task) for task in logs))
    for name in KEYS:
        for number, line in enumerate(lines[name]):
            call = Call(caller=name, operation="ListTasks", binding="grpc", replica=number, began=time.monotonic())
            await list_all(line, call, _ANSWER, history)
            assert call.outcome == OK, f"ListTasks at the end: {call.outcome} {call.detail}"
            await line.close()


async def _get(line: GrpcLine, number: int, owner: str, task: str, history: History) -> str:
    call = Call(caller=owner, operation="GetTask", binding="grpc", replica=number, began=time.monotonic(), task=task)
    found = await ask(line, call, a2a_pb2.GetTaskRequest(id=task), a2a_pb2.Task, _ANSWER, history)
    return packed(found) if found is not None else call.outcome


# -- the store, read key by key ----------------------------------------------------------------------------------------


def _keys(client: redis.Redis, pattern: str) -> list[bytes]:
    return cast("list[bytes]", client.keys(pattern))


def _name(key: bytes) -> str:
    return key.decode().rpartition(":")[2]


def _settled(client: redis.Redis) -> bool:
    with client.pipeline(transaction=False) as asked:
        for key in _keys(client, "*:task:*"):
            asked.hmget(key, "state", "holder")
        rows = asked.execute()
    return all(states.parse(state) in states.SETTLED and not holder for state, holder in rows)


def _tasks(client: redis.Redis) -> tuple[dict[str, list[Event]], dict[str, str]]:
    """The log and the owner of every task."""
    logs, owners = {}, {}
    for key in _keys(client, "*:task:*"):
        entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", client.xrange(key.replace(b":task:", b":log:")))
        logs[_name(key)] = [_event(entry_id, fields) for entry_id, fields in entries]
        owners[_name(key)] = cast("bytes", client.hget(key, "owner")).decode()
    return logs, owners


def _event(entry_id: bytes, fields: dict[bytes, Any]) -> Event:
    return Event(int(entry_id.partition(b"-")[0]), 0.0, packed(a2a_pb2.StreamResponse.FromString(fields[b"e"])))


def _letters(client: redis.Redis) -> list[str]:
    return [_name(key).partition(".")[0] for key in _keys(client, "*:letter:*")]
