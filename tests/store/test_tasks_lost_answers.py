"""A step whose answer is lost on the way is sent again by itself: one effect, and the answer of the first time.

The first answer is thrown away together with the connection, by a link between service and server.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from a2a_grpc.server.core import states
from a2a_grpc.server.store.records import Outcome
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.lossy import LossyLink, lossy
from tests.support.servers import StoreServer
from tests.support.tasks import (
    ALICE,
    chunk,
    create,
    dedupe,
    facts,
    new_task,
    open_store,
    origin,
    read,
    status,
    step,
)


@pytest.fixture
async def link(audited_server: StoreServer) -> AsyncIterator[LossyLink]:
    async with lossy(audited_server) as made:
        yield made


async def warm(store: TaskStore) -> None:
    """Let the server know all scripts, so that the first answer of a step is the step's own."""
    for claim in (True, False):
        stored = await create(store, claim=claim)
        await store.claim(stored.task_id)
        stored = await read(store, stored.task_id)
        await store.take(stored.task_id, stored.epoch, 1)
        await store.checkpoint(stored.task_id, stored.epoch, b"")
        await store.append(step(stored, 2, status(stored, states.INPUT_REQUIRED, "?"), release=True))
        stored = await read(store, stored.task_id)
        await store.follow_up(stored, status(stored, states.WORKING), origin("x"), dedupe(f"{claim}"), claim=True)
        stored = await read(store, stored.task_id)
        await store.put_back(stored.task_id, stored.epoch)
        await store.cancel(await read(store, stored.task_id), status(stored, states.CANCELED))


Step = Callable[[TaskStore], Awaitable[str]]


async def creating(store: TaskStore) -> str:
    first = origin("hello")
    entry = new_task(store, first)
    placed = await store.create(entry, ALICE, first, dedupe("m1"), claim=True, limit=3)
    assert (placed.outcome, placed.task_id, placed.seq, placed.epoch) == (Outcome.CREATED, entry.task.id, 1, 1)
    return entry.task.id


async def asking_back(store: TaskStore) -> str:
    stored = await create(store)
    appended = await store.append(step(stored, 1, status(stored, states.INPUT_REQUIRED, "?"), release=True))
    assert (appended.outcome, appended.first) == (Outcome.OK, 2)
    return stored.task_id


async def answering(store: TaskStore) -> str:
    task_id = await asking_back(store)
    stored = await read(store, task_id)
    placed = await store.follow_up(stored, status(stored, states.WORKING), origin("a"), dedupe("m2"), claim=True)
    assert (placed.outcome, placed.seq, placed.epoch) == (Outcome.STARTED, 4, 2)
    return task_id


async def queueing_and_taking(store: TaskStore) -> str:
    stored = await create(store)
    for at, text in enumerate(("m2", "m3"), 2):
        placed = await store.follow_up(stored, status(stored, states.WORKING), origin(text), dedupe(text), claim=True)
        assert (placed.outcome, placed.seq) == (Outcome.QUEUED, at)
    assert await store.take(stored.task_id, 1, 1) == (Outcome.TOOK, 2)
    return stored.task_id


async def claiming(store: TaskStore) -> str:
    stored = await create(store, claim=False)
    assert await store.claim(stored.task_id) == 1
    return stored.task_id


async def giving_back(store: TaskStore) -> str:
    stored = await create(store)
    await store.put_back(stored.task_id, 1)
    return stored.task_id


async def keeping(store: TaskStore) -> str:
    stored = await create(store)
    assert await store.checkpoint(stored.task_id, 1, b"state") is Outcome.OK
    return stored.task_id


async def cancelling(store: TaskStore) -> str:
    stored = await create(store, claim=False)
    assert await store.cancel(stored, status(stored, states.CANCELED)) is Outcome.CANCELED
    return stored.task_id


async def working_to_the_end(store: TaskStore) -> str:
    stored = await create(store)
    writes = [
        [status(stored, states.WORKING)],
        [chunk(stored, "1"), chunk(stored, "2")],
        [status(stored, states.COMPLETED)],
    ]
    first = 2
    for operation, entries in enumerate(writes, 1):
        appended = await store.append(step(await read(store, stored.task_id), operation, *entries))
        assert (appended.outcome, appended.first) == (Outcome.OK, first)
        first += len(entries)
    return stored.task_id


STEPS = [
    creating,
    asking_back,
    answering,
    queueing_and_taking,
    claiming,
    giving_back,
    keeping,
    cancelling,
    working_to_the_end,
]


@pytest.mark.parametrize("taking", STEPS, ids=lambda taking: taking.__name__)
async def test_every_step_survives_the_loss_of_each_of_its_answers(
    audited_server: StoreServer, link: LossyLink, taking: Step
) -> None:
    """Once without any loss, to know what is right; then with the first, the second, … answer lost."""
    async with open_store(audited_server.url) as store:
        await warm(store)
        task_id = await taking(store)
        right = comparable(facts(await read(store, task_id)))
        audited_server.client.flushall()
    async with open_store(link.url) as store:
        for lost in range(12):
            task_id = await losing(link, lost, taking, store)
            assert comparable(facts(await read(store, task_id))) == right
            if link.lost <= lost:
                break
            audited_server.client.flushall()
            await store.ping()
        assert link.lost >= 2


async def losing(link: LossyLink, number: int, taking: Step, store: TaskStore) -> str:
    """Take a step while the answer `number` of those that come gets lost."""
    link.lose_after(number)
    return await taking(store)


def comparable(found: dict[str, Any]) -> dict[str, Any]:
    """What two runs of one step must agree on: everything but ids and times."""
    task = found["fold"]
    texts = [message.parts[0].text for message in task.history]
    artifacts = [[part.text for part in artifact.parts] for artifact in task.artifacts]
    return {name: value for name, value in found.items() if name not in {"task_id", "fold"}} | {
        "texts": texts,
        "artifacts": artifacts,
        "words": task.status.message.parts[0].text if task.status.HasField("message") else "",
    }


async def test_many_steps_at_once_survive_the_loss_of_their_answers(
    audited_server: StoreServer, link: LossyLink
) -> None:
    async with open_store(link.url) as store:
        for _ in range(10):
            tasks = [create(store, f"task {number}") for number in range(30)]
            running = asyncio.gather(*tasks)
            link.lose_after(0)
            stored = await running
            written = asyncio.gather(
                *(store.append(step(one, 1, status(one, states.WORKING), chunk(one, "x"))) for one in stored)
            )
            link.lose_after(0)
            assert [(one.outcome, one.first) for one in await written] == [(Outcome.OK, 2)] * 30
        page = await store.page(ALICE, "", states.WORKING, None, None, 100)
        assert page.total == 300
    assert link.lost == 20
