"""Retention: an ended task is erased whole when its time is over, and nothing before that."""

import asyncio
from typing import cast

from a2a_grpc.server.core import states
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.audit import audit
from tests.support.servers import StoreServer
from tests.support.tasks import ALICE, chunk, create, open_store, status, step
from tests.support.waiting import wait_until


async def ended(store: TaskStore, state: int = states.COMPLETED) -> str:
    stored = await create(store)
    end = status(stored, states.parse(str(state)), "done")
    await store.append(step(stored, 1, status(stored, states.WORKING), chunk(stored, "x"), end))
    return stored.task_id


def names(server: StoreServer) -> set[str]:
    return {key.decode() for key in cast("list[bytes]", server.client.keys("*"))}


async def test_nothing_of_an_erased_task_is_left(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, task_ttl=0.2, shards=4) as store:
        for end in (states.COMPLETED, states.FAILED, states.CANCELED, states.REJECTED) * 3:
            await ended(store, end)
        parked = await create(store)
        await store.append(step(parked, 1, status(parked, states.INPUT_REQUIRED, "q"), release=True))
        running, waiting = await create(store), await create(store, claim=False)
        erased = 0

        async def all_erased() -> bool:
            nonlocal erased
            erased += await store.purge()
            return erased == 12

        await wait_until(all_erased, "the ended tasks are erased")
        left = {parked.task_id, running.task_id, waiting.task_id}
        assert {task_id for task_id, _ in (await store.page(ALICE, "", 0, None, None, 50)).rows} == left
        assert audit(audited_server.client) == []
        # Of the erased ones only the memory of their messages stays for its time.
        others = {key for key in names(audited_server) if not any(task_id in key for task_id in left)}
        kinds = {key.split(":")[2] for key in others if key != "a2a:shards"}
        assert kinds == {"owner", "ctx", "held", "ready", "fair", "since", "dedupe", "tally"}
        assert await store.purge() == 0


async def test_a_task_is_kept_until_its_time_is_over(store: TaskStore) -> None:
    task_id = await ended(store)
    assert await store.purge() == 0
    assert await store.read(task_id) is not None


async def test_a_sweep_that_comes_when_the_task_has_expired_still_removes_its_rows(
    audited_server: StoreServer,
) -> None:
    """No replica ran for longer than the net under the sweep: the task went by itself, its rows did not."""
    async with open_store(audited_server.url, task_ttl=0.05) as store:
        task_id = await ended(store)
        keys = store.keys_of(task_id)
        audited_server.client.delete(keys.task(task_id), keys.log(task_id))
        await asyncio.sleep(0.06)
        assert await store.purge() == 1
        assert (await store.page(ALICE, "", 0, None, None, 10)).total == 0
        assert {key.split(":")[2] for key in names(audited_server) if key != "a2a:shards"} == {"dedupe", "tally"}


async def test_many_replicas_may_sweep_at_once(audited_server: StoreServer) -> None:
    async with (
        open_store(audited_server.url, "r1", task_ttl=0.01) as one,
        open_store(audited_server.url, "r2", task_ttl=0.01) as two,
    ):
        for _ in range(30):
            await ended(one)
        await asyncio.sleep(0.02)
        await asyncio.gather(*(sweep(store) for store in (one, two) * 3))
        assert (await one.page(ALICE, "", 0, None, None, 10)).total == 0
        assert audit(audited_server.client) == []


async def sweep(store: TaskStore) -> None:
    while await store.purge(10):
        pass
