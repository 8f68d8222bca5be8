"""3.1.2 Send Streaming Message, 3.1.6 Subscribe to Task, 3.5.2 streaming event delivery."""

import asyncio
import contextlib

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import (
    BINDINGS,
    Caller,
    Connect,
    HttpCaller,
    Stream,
    http_failure,
    kinds,
    refused,
    say,
    server_sent,
    state,
    texts,
)
from tests.conformance.expected import TASK_NOT_FOUND, UNSUPPORTED_OPERATION
from tests.conformance.test_sending import ENDED, ended
from tests.support.replica import Replica
from tests.support.waiting import wait_until


def ids(events: list[pb.StreamResponse]) -> set[tuple[str, str]]:
    """The task and context that events belong to."""
    found = set()
    for event in events:
        arm = event.WhichOneof("payload")
        found.add((event.task.id, event.task.context_id) if arm == "task" else _ids(event, str(arm)))
    return found


def _ids(event: pb.StreamResponse, arm: str) -> tuple[str, str]:
    update = getattr(event, arm)
    return update.task_id, update.context_id


def merged(events: list[pb.StreamResponse]) -> pb.Task:
    """The task that a reader of a stream knows at its end (3.1.6, 4.2.2)."""
    task = pb.Task()
    task.CopyFrom(events[0].task)
    for event in events[1:]:
        if event.HasField("status_update"):
            if task.status.HasField("message"):
                task.history.append(task.status.message)
            task.status.CopyFrom(event.status_update.status)
            continue
        update = event.artifact_update
        known = {artifact.artifact_id: artifact for artifact in task.artifacts}
        artifact = known.get(update.artifact.artifact_id)
        if artifact is None:
            task.artifacts.append(update.artifact)
        elif update.append:
            artifact.parts.extend(update.artifact.parts)
        else:
            artifact.CopyFrom(update.artifact)
    return task


STREAMS = {
    "tck-stream-001": ["task SUBMITTED", "WORKING", "artifact", "COMPLETED"],
    "tck-stream-artifact-chunked": ["task SUBMITTED", "WORKING", "artifact", "artifact", "COMPLETED"],
    "tck-complete-task": ["task SUBMITTED", "COMPLETED"],
    "tck-reject-task": ["task SUBMITTED", "REJECTED"],
    "tck-stream-002": ["message"],
}


@pytest.mark.parametrize("prefix", STREAMS)
async def test_3_1_2_a_stream_is_a_task_with_its_updates_or_one_message(prefix: str, caller: Caller) -> None:
    """3.1.2: the Task first, then only updates, nothing after the terminal one; or exactly one Message."""
    events = await caller.events(prefix=prefix)
    assert kinds(events) == STREAMS[prefix]
    assert len(ids(events)) == 1
    if events[0].HasField("task"):
        assert await caller.get(events[0].task.id) == merged(events)


@pytest.mark.parametrize(("text", "last"), [("fail", "FAILED"), ("raise 2", "FAILED"), ("exit", "FAILED")])
async def test_3_1_2_a_failed_task_closes_its_stream_like_any_other(text: str, last: str, caller: Caller) -> None:
    """B015, B031: the terminal status is the last event, and the store says the same."""
    events = await caller.events(text)
    assert kinds(events)[-1] == last and sum(kind == last for kind in kinds(events)) == 1
    assert "secret" not in str(events)
    assert await caller.get(events[0].task.id) == merged(events)


async def test_3_1_2_a_stream_closes_when_input_is_required(caller: Caller, other: Caller) -> None:
    """11.7, DESIGN 7: then it is the caller's turn; the answer's stream begins with the task as it stands."""
    events = await caller.events("ask")
    assert kinds(events) == ["task SUBMITTED", "INPUT_REQUIRED"]
    answered = await other.events("echo more", task_id=events[0].task.id)
    assert kinds(answered) == ["task WORKING", "artifact", "COMPLETED"]
    assert [part.text for message in answered[0].task.history for part in message.parts] == [
        "ask",
        "What else?",
        "echo more",
    ]


async def test_7_6_1_a_stream_stays_open_while_authorization_is_required(caller: Caller) -> None:
    """7.6.1: the credential comes out of band, and the stream goes on by itself."""
    events = await caller.events("auth 0.1")
    assert kinds(events) == ["task SUBMITTED", "AUTH_REQUIRED", "WORKING", "COMPLETED"]
    assert events[1].status_update.status.message.parts[0].text.startswith("Please approve")


@pytest.mark.parametrize("how", ENDED)
async def test_3_1_6_an_ended_task_cannot_be_subscribed_to(how: str, caller: Caller, other: Caller) -> None:
    """3.1.6: an error with its own status, not an event in a stream; the drivers insist on that."""
    task = await ended(caller, how)
    await refused(UNSUPPORTED_OPERATION, other.call("SubscribeToTask", pb.SubscribeToTaskRequest(id=task.id)))


async def test_3_1_6_an_unknown_task_cannot_be_subscribed_to(caller: Caller) -> None:
    await refused(TASK_NOT_FOUND, caller.call("SubscribeToTask", pb.SubscribeToTaskRequest(id="no-such-task")))


@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_3_1_6_both_verbs_subscribe(verb: str, replicas: tuple[Replica, Replica]) -> None:
    """5.3 and 11.3.2 say POST, the proto says GET: both work, and both refuse alike."""
    async with HttpCaller(replicas[0]) as one, HttpCaller(replicas[1]) as other:
        task = await one.task("ask")
        path = f"/tasks/{task.id}:subscribe"
        async with other.http.stream(verb, path, headers=other.parameters) as response:
            assert response.headers["content-type"] == "text/event-stream"
            events = server_sent(response)
            assert '"TASK_STATE_INPUT_REQUIRED"' in await anext(events)
            await one.task("done", task_id=task.id)
            assert '"TASK_STATE_COMPLETED"' in [data async for data in events][-1]
        ended = await other.http.request(verb, path, headers=other.parameters)
        assert ended.status_code == 400
        assert http_failure(ended, ended.json()).is_of(UNSUPPORTED_OPERATION)


async def test_3_1_6_a_subscription_starts_with_the_task_and_loses_nothing(caller: Caller, other: Caller) -> None:
    """3.1.6, B001: on another replica, in the middle of the work; snapshot and updates make the whole."""
    async with caller.stream("SendStreamingMessage", say("slow 2")) as first:
        task_id = (await anext(first)).task.id
        async for event in first:
            if event.HasField("artifact_update"):
                break
        async with other.subscribe(task_id) as stream:
            events = await stream.all()
    assert kinds(events) == ["task WORKING", "artifact", "COMPLETED"]
    assert texts(events[0].task) == ["chunk 1 "]
    assert merged(events) == await caller.get(task_id)
    assert texts(merged(events)) == ["chunk 1 chunk 2 "]


async def test_3_1_6_a_subscription_stays_open_while_the_task_waits(caller: Caller, other: Caller) -> None:
    """3.1.6, B017: it ends with the task and not before; the next turn runs on another replica."""
    task = await caller.task("ask")
    async with other.subscribe(task.id) as stream:
        assert (await anext(stream)).task == task
        again = await caller.task("x", prefix="tck-input-required", task_id=task.id)
        assert state(again.status.state) == "INPUT_REQUIRED"
        await caller.task("echo done", task_id=task.id)
        assert kinds(await stream.all()) == ["WORKING", "INPUT_REQUIRED", "WORKING", "artifact", "COMPLETED"]


async def test_7_6_1_a_subscription_stays_open_while_authorization_is_required(caller: Caller, other: Caller) -> None:
    """7.6.1, DESIGN 7: on another replica than the one that does the work."""
    task = await caller.task("auth 1")
    async with other.subscribe(task.id) as stream:
        assert kinds(await stream.all()) == ["task AUTH_REQUIRED", "WORKING", "COMPLETED"]


async def test_3_1_6_an_idle_subscription_is_not_closed(
    connect_over: Connect, replicas: tuple[Replica, Replica]
) -> None:
    """B007: not even after longer than a read of the store may take."""
    callers = [await connect_over(replicas[1], over=over) for over in BINDINGS]
    task = await callers[0].task("ask")
    async with contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(caller.subscribe(task.id)) for caller in callers]
        reading = [asyncio.create_task(stream.all()) for stream in streams]
        done, _ = await asyncio.wait(reading, timeout=2.5)
        assert not done
        await callers[0].cancel(task.id)
        for log in await asyncio.gather(*reading):
            assert kinds(log) == ["task INPUT_REQUIRED", "CANCELED"]


async def test_3_5_2_all_streams_of_a_task_get_the_same(
    connect_over: Connect, replicas: tuple[Replica, Replica]
) -> None:
    """3.5.2, B021: six streams over three bindings and two replicas; two more that close change nothing.

    A second task of the same context runs at the same time, and nothing of it gets in.
    """
    callers = [await connect_over(replica, over=over) for over in BINDINGS for replica in replicas]
    async with contextlib.AsyncExitStack() as stack:
        task = await callers[0].task("ask")
        streams: list[Stream] = [await stack.enter_async_context(caller.subscribe(task.id)) for caller in callers]
        for caller in (callers[0], callers[3]):
            async with caller.subscribe(task.id) as leaving:
                await anext(leaving)
        reading = [asyncio.create_task(stream.all()) for stream in streams]
        await asyncio.gather(
            callers[0].task("chunks 30", task_id=task.id),
            callers[1].task("chunks 30", context_id=task.context_id),
        )
        logs = await asyncio.gather(*reading)
    assert kinds(logs[0]) == ["task INPUT_REQUIRED", "WORKING", "WORKING", *["artifact"] * 30, "COMPLETED"]
    assert ids(logs[0]) == {(task.id, task.context_id)}
    assert [part.text for event in logs[0] for part in event.artifact_update.artifact.parts] == [
        f"{number:019d} " for number in range(1, 31)
    ]
    for log in logs[1:]:
        assert log == logs[0]


async def test_3_5_2_a_task_outlives_all_its_streams(caller: Caller, other: Caller) -> None:
    """3.5.2, B013: who began it and who watches may leave; the work is done all the same."""
    async with caller.stream("SendStreamingMessage", say("slow 0.3")) as stream:
        task_id = (await anext(stream)).task.id
        async with other.subscribe(task_id) as watching:
            await anext(watching)

    async def done() -> bool:
        return state((await other.get(task_id)).status.state) == "COMPLETED"

    await wait_until(done, "the task is completed")
    assert texts(await other.get(task_id)) == ["chunk 1 "]


async def test_3_1_2_streams_of_sent_messages_on_every_binding_are_the_same(
    connect_over: Connect, replicas: tuple[Replica, Replica]
) -> None:
    """5.1: the same message to another binding gives the same kinds of events with the same content."""
    logs = []
    for over in BINDINGS:
        events = await (await connect_over(replicas[0], over=over)).events(prefix="tck-stream-artifact-chunked")
        logs.append([event.artifact_update.artifact.parts for event in events])
        assert [event.artifact_update.append for event in events] == [False, False, False, True, False]
        assert [event.artifact_update.last_chunk for event in events] == [False, False, False, True, False]
    assert logs[0] == logs[1] == logs[2]
