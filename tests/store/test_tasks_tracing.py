"""The trace of a message stays with it, wherever its turn runs and however long the log gets."""

from typing import Any

import pytest

from a2a_grpc.server.core import states
from a2a_grpc.server.store.records import Origin, Outcome
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.telemetry.tracing import Context
from tests.store.test_tasks_trimming import KEPT, Scribe
from tests.support.servers import StoreServer
from tests.support.tasks import ALICE, dedupe, new_task, open_store, origin, read, status

FIRST = Context("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1, "vendor=opaque,other=1")
SECOND = Context("a3ce929d0e0e47364bf92f3577b34da6", "b7ad6b7169203331")


def traced(text: str, trace: Context | None) -> Origin:
    said = origin(text)
    said.trace = trace
    return said


async def begin(store: TaskStore, trace: Context | None) -> Scribe:
    said = traced("hello", trace)
    entry = new_task(store, said)
    placed = await store.create(entry, ALICE, said, dedupe(said.message.message_id), claim=True, limit=3)
    return Scribe(store, await read(store, placed.task_id))


@pytest.mark.parametrize("long", [False, True])
async def test_each_message_keeps_its_own(audited_server: StoreServer, long: bool) -> None:
    """Also where the log was cut behind it."""
    async with open_store(audited_server.url, log_events=KEPT) as store, open_store(audited_server.url, "r2") as other:
        scribe = await begin(store, FIRST)
        task_id = scribe.task_id
        said = traced("more", SECOND)
        placed = await store.follow_up(
            await read(store, task_id),
            status(scribe.stored, states.WORKING),
            said,
            dedupe(said.message.message_id),
            claim=True,
        )
        assert placed.outcome is Outcome.QUEUED
        scribe.seq = placed.seq
        while long and (await read(store, task_id)).first <= placed.seq:
            await scribe.write()
        for seq, trace in ((1, FIRST), (placed.seq, SECOND)):
            found = await other.origin(task_id, seq)
            assert found is not None and found.trace == trace
        assert await other.trace(task_id) == FIRST
        await store.take(task_id, scribe.stored.epoch, 1000)
        assert await other.trace(task_id) == SECOND


async def test_without_a_trace_nothing_is_kept_of_one(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url) as store:
        scribe = await begin(store, None)
        entries: Any = audited_server.client.xrange(store.keys_of(scribe.task_id).log(scribe.task_id))
        assert set(entries[0][1]) == {b"e", b"r", b"x"}
        found = await store.origin(scribe.task_id, 1)
        assert found is not None and found.trace is None
        assert await store.trace(scribe.task_id) is None
        assert await store.trace(f"{scribe.task_id[:-1]}0") is None
