"""The operations of the protocol, called with the official Python client over each binding."""

import pytest
from a2a.client import Client
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Role,
    SendMessageConfiguration,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError
from google.protobuf.json_format import MessageToDict

from tests.interop.python_sdk.sdk import collect, kinds, request, send, texts

pytestmark = pytest.mark.wide


async def test_send_waits_for_the_outcome(blocking: Client) -> None:
    task = await send(blocking, request("hello", prefix="tck-artifact-text"))
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert texts(task) == ["Generated text content"]
    assert task.id
    assert task.context_id
    assert task.status.HasField("timestamp")


async def test_send_with_return_immediately_does_not_wait(polling: Client) -> None:
    task = await send(polling, request("slow 20 silent"))
    assert task.status.state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING)
    await polling.cancel_task(CancelTaskRequest(id=task.id))


async def test_artifact_parts_arrive_as_they_were_made(blocking: Client) -> None:
    file = await send(blocking, request("a file", prefix="tck-artifact-file"))
    [part] = file.artifacts[0].parts
    assert part.WhichOneof("content") == "raw"
    assert (part.filename, part.media_type) == ("output.txt", "text/plain")
    url = await send(blocking, request("a file", prefix="tck-artifact-file-url"))
    [part] = url.artifacts[0].parts
    assert (part.url, part.filename, part.media_type) == ("https://example.com/output.txt", "output.txt", "text/plain")
    data = await send(blocking, request("data", prefix="tck-artifact-data"))
    [part] = data.artifacts[0].parts
    assert MessageToDict(part.data) == {"key": "value", "count": 42}


async def test_an_agent_can_answer_with_a_message(client: Client, blocking: Client) -> None:
    for caller in (client, blocking):
        [event] = await collect(caller.send_message(request("msg", prefix="tck-message-response")))
        assert event.HasField("message")
        assert event.message.role == Role.ROLE_AGENT
        assert [part.text for part in event.message.parts] == ["Direct message response"]
        assert event.message.message_id


async def test_a_stream_tells_the_life_of_a_task(client: Client) -> None:
    events = await collect(client.send_message(request("hello", prefix="tck-stream-001")))
    assert kinds(events) == ["task", "status_update", "artifact_update", "status_update"]
    assert events[1].status_update.status.state == TaskState.TASK_STATE_WORKING
    assert [part.text for part in events[2].artifact_update.artifact.parts] == ["Stream hello from TCK"]
    assert events[3].status_update.status.state == TaskState.TASK_STATE_COMPLETED
    task = events[0].task
    assert {event.status_update.task_id for event in (events[1], events[3])} == {task.id}
    stored = await client.get_task(GetTaskRequest(id=task.id))
    assert stored.status == events[3].status_update.status
    assert texts(stored) == ["Stream hello from TCK"]


async def test_chunks_of_an_artifact_are_merged_in_the_task(client: Client) -> None:
    events = await collect(client.send_message(request("hello", prefix="tck-stream-artifact-chunked")))
    updates = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert [update.artifact.parts[0].text for update in updates] == ["chunk-1 ", "chunk-2"]
    assert [update.append for update in updates] == [False, True]
    assert [update.last_chunk for update in updates] == [False, True]
    assert len({update.artifact.artifact_id for update in updates}) == 1
    stored = await client.get_task(GetTaskRequest(id=updates[0].task_id))
    assert texts(stored) == ["chunk-1 chunk-2"]


async def test_a_task_asks_and_goes_on_with_the_answer(blocking: Client) -> None:
    asked = await send(blocking, request("ask"))
    assert asked.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    done = await send(blocking, request("the answer", task_id=asked.id))
    assert (done.id, done.context_id) == (asked.id, asked.context_id)
    assert done.status.state == TaskState.TASK_STATE_COMPLETED
    stored = await blocking.get_task(GetTaskRequest(id=asked.id))
    said = [message.parts[0].text for message in stored.history if message.role == Role.ROLE_USER]
    assert said == ["ask", "the answer"]


async def test_history_length_says_how_much_of_the_history_comes(blocking: Client) -> None:
    asked = await send(blocking, request("ask"))
    sent = request("the answer", task_id=asked.id, configuration=SendMessageConfiguration(history_length=0))
    assert not (await send(blocking, sent)).history
    whole = await blocking.get_task(GetTaskRequest(id=asked.id))
    assert len(whole.history) >= 2
    assert not (await blocking.get_task(GetTaskRequest(id=asked.id, history_length=0))).history
    last = await blocking.get_task(GetTaskRequest(id=asked.id, history_length=1))
    assert list(last.history) == [whole.history[-1]]


async def test_tasks_are_listed_newest_first_in_pages(blocking: Client) -> None:
    first = await send(blocking, request("hello", prefix="tck-artifact-text"))
    ids = [first.id]
    for _ in range(2):
        task = await send(blocking, request("hello", prefix="tck-artifact-text", context_id=first.context_id))
        ids.append(task.id)
    query = ListTasksRequest(context_id=first.context_id, page_size=2)
    page = await blocking.list_tasks(query)
    assert [task.id for task in page.tasks] == [ids[2], ids[1]]
    assert (page.page_size, page.total_size) == (2, 3)
    assert not any(task.artifacts for task in page.tasks)
    query.page_token = page.next_page_token
    query.include_artifacts = True
    # A token belongs to its filters; what to include is not one of them.
    rest = await blocking.list_tasks(query)
    assert [task.id for task in rest.tasks] == [ids[0]]
    assert rest.next_page_token == ""
    assert texts(rest.tasks[0]) == ["Generated text content"]


async def test_cancel_stops_a_running_task_once(polling: Client) -> None:
    task = await send(polling, request("slow 30 silent"))
    canceled = await polling.cancel_task(CancelTaskRequest(id=task.id))
    assert (canceled.id, canceled.status.state) == (task.id, TaskState.TASK_STATE_CANCELED)
    assert (await polling.get_task(GetTaskRequest(id=task.id))).status.state == TaskState.TASK_STATE_CANCELED
    with pytest.raises(TaskNotCancelableError):
        await polling.cancel_task(CancelTaskRequest(id=task.id))


async def test_subscribe_starts_with_the_task_and_ends_with_it(client: Client, polling: Client) -> None:
    task = await send(polling, request("slow 2"))
    events = await collect(client.subscribe(SubscribeToTaskRequest(id=task.id)))
    assert events[0].task.id == task.id
    assert set(kinds(events[1:])) <= {"status_update", "artifact_update"}
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED


async def test_subscribe_stays_while_the_task_waits_for_its_caller(client: Client, blocking: Client) -> None:
    asked = await send(blocking, request("ask"))
    stream = client.subscribe(SubscribeToTaskRequest(id=asked.id))
    snapshot = await anext(stream)
    assert snapshot.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    await send(blocking, request("the answer", task_id=asked.id))
    events = await collect(stream)
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED
