"""What engines promise each other, between processes."""

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids, states
from a2a_grpc.wire import protojson
from tests.engine.nodes import artifacts, words
from tests.support.replica import Pair, Replica
from tests.support.waiting import wait_until

pytestmark = pytest.mark.agent("tests.engine.process_agent:agent", A2A_CANCEL_GRACE="1")


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=10, headers={"a2a-version": "1.0"}) as client:
        yield client


async def begin(http: httpx.AsyncClient, at: Replica, text: str) -> a2a_pb2.Task:
    message = {"messageId": ids.new_id(), "role": "ROLE_USER", "parts": [{"text": text}]}
    request = {"message": message, "configuration": {"returnImmediately": True}}
    answer = await http.post(f"{at.http_url}/message:send", json=request)
    return protojson.loads(answer.content, a2a_pb2.SendMessageResponse).task


async def get(http: httpx.AsyncClient, at: Replica, task_id: str) -> a2a_pb2.Task:
    answer = await http.get(f"{at.http_url}/tasks/{task_id}")
    return protojson.loads(answer.content, a2a_pb2.Task)


async def until(http: httpx.AsyncClient, at: Replica, task_id: str, state: a2a_pb2.TaskState) -> a2a_pb2.Task:
    async def reached() -> a2a_pb2.Task | None:
        task = await get(http, at, task_id)
        return task if task.status.state == state else None

    found = await wait_until(reached, "the task is in the state", 15)
    assert found is not None
    return found


async def test_a_cancel_stops_the_work_of_another_process_within_a_second(
    two_replicas: Pair, http: httpx.AsyncClient
) -> None:
    one, other = two_replicas.replicas
    task_id = (await begin(http, one, "hang")).id
    working = await until(http, other, task_id, states.WORKING)
    assert words(working) == str(one.pid)
    began = time.monotonic()
    answer = await http.post(f"{other.http_url}/tasks/{task_id}:cancel")
    assert time.monotonic() - began < 1
    assert protojson.loads(answer.content, a2a_pb2.Task).status.state == states.CANCELED


async def test_a_process_that_is_told_to_stop_hands_its_turns_to_the_other_one(
    two_replicas: Pair, http: httpx.AsyncClient
) -> None:
    one, other = two_replicas.replicas
    ids_ = [(await begin(http, one, "steps 150")).id for _ in range(3)]
    for task_id in ids_:
        await until(http, other, task_id, states.WORKING)
    await wait_until(lambda: written(http, other, ids_[0]), "it has written something")
    one.terminate()
    assert await asyncio.to_thread(one.wait) == 0
    for task_id in ids_:
        task = await until(http, other, task_id, states.COMPLETED)
        assert artifacts(task) == {"out": [str(number) for number in range(150)]}
        assert str(other.pid) in [message.parts[0].text for message in task.history]


async def written(http: httpx.AsyncClient, at: Replica, task_id: str) -> bool:
    return bool(artifacts(await get(http, at, task_id)))
