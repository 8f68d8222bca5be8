"""Two replicas on one store are one service to the official Python client, whichever binding it speaks to which."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import cast

import pytest
from a2a.client import Client
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskState,
)

from tests.interop.conftest import Service
from tests.interop.python_sdk.sdk import BINDINGS, collect, connect, request, send, texts

pytestmark = pytest.mark.wide


@pytest.fixture
async def elsewhere(other: Service) -> AsyncIterator[dict[str, Client]]:
    """A client of the second replica for each binding."""
    async with contextlib.AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(await connect(other.url, name)) for name in BINDINGS}


async def test_a_task_looks_the_same_from_everywhere(blocking: Client, elsewhere: dict[str, Client]) -> None:
    made = await send(blocking, request("hello", prefix="tck-artifact-data"))
    here = await blocking.get_task(GetTaskRequest(id=made.id))
    assert here.status.state == TaskState.TASK_STATE_COMPLETED
    for client in elsewhere.values():
        assert await client.get_task(GetTaskRequest(id=made.id)) == here
        listed = await client.list_tasks(ListTasksRequest(context_id=made.context_id, include_artifacts=True))
        assert [task.id for task in listed.tasks] == [made.id]
        assert listed.tasks[0].artifacts == here.artifacts


async def test_a_task_is_followed_and_ended_from_elsewhere(polling: Client, elsewhere: dict[str, Client]) -> None:
    for client in elsewhere.values():
        task = await send(polling, request("slow 30"))
        stream = client.subscribe(SubscribeToTaskRequest(id=task.id))
        assert (await anext(stream)).task.id == task.id
        canceled = await client.cancel_task(CancelTaskRequest(id=task.id))
        assert canceled.status.state == TaskState.TASK_STATE_CANCELED
        events = await collect(stream)
        assert events[-1].status_update.status.state == TaskState.TASK_STATE_CANCELED
        assert await polling.get_task(GetTaskRequest(id=task.id)) == await client.get_task(GetTaskRequest(id=task.id))


async def test_a_conversation_goes_on_elsewhere(blocking: Client, elsewhere: dict[str, Client]) -> None:
    for client in elsewhere.values():
        asked = await send(blocking, request("ask"))
        assert asked.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
        events = await collect(client.send_message(request("the answer", task_id=asked.id)))
        assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
        done = await blocking.get_task(GetTaskRequest(id=asked.id))
        assert done.status == events[-1].status_update.status


async def test_a_stream_that_broke_is_taken_up_elsewhere(client: Client, elsewhere: dict[str, Client]) -> None:
    await asyncio.gather(*(break_and_take_up(client, again) for again in elsewhere.values()))


async def break_and_take_up(client: Client, again: Client) -> None:
    """What the second client sees, from its snapshot on, is all of the artifact: nothing lost, nothing twice."""
    async with contextlib.aclosing(
        cast("AsyncGenerator[StreamResponse]", client.send_message(request("slow 3")))
    ) as stream:
        task_id = (await anext(stream)).task.id
        while not (event := await anext(stream)).HasField("artifact_update"):
            pass
    events = await collect(again.subscribe(SubscribeToTaskRequest(id=task_id)))
    [seen] = texts(events[0].task)
    assert seen.startswith(event.artifact_update.artifact.parts[0].text)
    rest = "".join(e.artifact_update.artifact.parts[0].text for e in events if e.HasField("artifact_update"))
    [whole] = texts(await again.get_task(GetTaskRequest(id=task_id)))
    assert seen + rest == whole
