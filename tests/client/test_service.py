"""Every operation against the real service: two replicas on one store, over each binding."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from google.rpc import code_pb2

from a2a_grpc.client import (
    A2AClient,
    A2AError,
    ContentTypeNotSupportedError,
    InvalidArgumentError,
    StreamBrokenError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
    VersionNotSupportedError,
    message,
)
from a2a_grpc.pb import a2a_pb2
from tests.client.peers import Relay, relay
from tests.support.replica import Pair
from tests.support.waiting import wait_until

pytestmark = pytest.mark.agent("tests.client.agent:agent")

COMPLETED = a2a_pb2.TASK_STATE_COMPLETED
BINDINGS = {"GRPC": ("GRPC",), "HTTP+JSON": ("HTTP+JSON",), "JSONRPC": ("JSONRPC",)}


@pytest.fixture(params=BINDINGS)
def bindings(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return BINDINGS[request.param]


@pytest.fixture
async def client(two_replicas: Pair, bindings: tuple[str, ...]) -> AsyncIterator[A2AClient]:
    async with await A2AClient.connect(two_replicas.replicas[0].http_url, bindings=bindings) as client:
        assert client.interface.protocol_binding == bindings[0]
        yield client


@pytest.fixture
async def elsewhere(two_replicas: Pair, bindings: tuple[str, ...]) -> AsyncIterator[A2AClient]:
    """A client of the other replica."""
    async with await A2AClient.connect(two_replicas.replicas[1].http_url, bindings=bindings) as client:
        yield client


def say(text: str, *, task_id: str = "", now: bool = False) -> a2a_pb2.SendMessageRequest:
    configuration = a2a_pb2.SendMessageConfiguration(return_immediately=now)
    return a2a_pb2.SendMessageRequest(message=message(text, task_id=task_id), configuration=configuration)


async def running(client: A2AClient) -> a2a_pb2.Task:
    """A task that works until it is canceled."""
    return (await client.send_message(say("hang", now=True))).task


async def test_a_message_is_answered_by_a_task_or_by_a_message(client: A2AClient) -> None:
    done = (await client.send_message(say("echo hello"))).task
    assert done.status.state == COMPLETED
    assert [part.text for artifact in done.artifacts for part in artifact.parts] == ["hello"]

    said = await client.send_message(say("msg hello"))
    assert said.WhichOneof("payload") == "message"
    assert [part.text for part in said.message.parts] == ["hello"]


async def test_a_stream_tells_a_task_from_its_beginning_to_its_end(client: A2AClient) -> None:
    events = [event async for event in client.send_streaming_message(say("chunks 3"))]

    assert events[0].WhichOneof("payload") == "task"
    chunks = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert "".join(part.text for chunk in chunks for part in chunk.artifact.parts) == "0 1 2 "
    assert [chunk.append for chunk in chunks] == [False, True, True]
    assert events[-1].status_update.status.state == COMPLETED


async def test_a_stream_of_a_message_is_that_message(client: A2AClient) -> None:
    events = [event async for event in client.send_streaming_message(say("msg hello"))]

    assert [event.message.parts[0].text for event in events] == ["hello"]


async def test_a_task_that_asks_is_continued_by_its_id(client: A2AClient) -> None:
    asked = (await client.send_message(say("ask"))).task
    assert asked.status.state == a2a_pb2.TASK_STATE_INPUT_REQUIRED
    assert asked.status.message.parts[0].text == "What is your name?"

    done = (await client.send_message(say("Ada", task_id=asked.id))).task
    assert done.id == asked.id
    assert done.status.state == COMPLETED
    assert done.artifacts[-1].parts[0].text == "Ada"


async def test_get_list_and_history(client: A2AClient) -> None:
    done = (await client.send_message(say("echo kept"))).task

    assert await client.get_task(a2a_pb2.GetTaskRequest(id=done.id, history_length=0)) == without_history(done)
    page = await client.list_tasks(
        a2a_pb2.ListTasksRequest(context_id=done.context_id, status=COMPLETED, include_artifacts=True)
    )
    assert [task.id for task in page.tasks] == [done.id]
    assert page.total_size == 1
    assert page.tasks[0].artifacts == done.artifacts


def without_history(task: a2a_pb2.Task) -> a2a_pb2.Task:
    copy = a2a_pb2.Task()
    copy.CopyFrom(task)
    copy.ClearField("history")
    return copy


async def test_every_page_of_a_list(client: A2AClient) -> None:
    first = (await client.send_message(say("echo 1"))).task
    ids = [first.id]
    for text in ("echo 2", "echo 3"):
        request = say(text)
        request.message.context_id = first.context_id
        ids.append((await client.send_message(request)).task.id)

    pages = a2a_pb2.ListTasksRequest(context_id=first.context_id, page_size=1)
    assert [task.id async for task in client.list_all_tasks(pages)] == ids[::-1]
    assert pages.page_token == ""


async def test_a_canceled_task_ends_everywhere(client: A2AClient, elsewhere: A2AClient) -> None:
    task = await running(client)
    watching = elsewhere.subscribe_to_task(a2a_pb2.SubscribeToTaskRequest(id=task.id))
    assert (await anext(watching)).task.id == task.id

    canceled = await client.cancel_task(a2a_pb2.CancelTaskRequest(id=task.id))

    assert canceled.status.state == a2a_pb2.TASK_STATE_CANCELED
    rest = [event async for event in watching]
    assert rest[-1].status_update.status.state == a2a_pb2.TASK_STATE_CANCELED
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(a2a_pb2.CancelTaskRequest(id=task.id))


async def test_subscribing_to_a_task_that_has_ended_gives_its_end(client: A2AClient) -> None:
    """B113. The error that the protocol has for it is what the service answers; the client asks for the task."""
    done = (await client.send_message(say("echo hello"))).task

    events = [event async for event in client.subscribe_to_task(a2a_pb2.SubscribeToTaskRequest(id=done.id))]

    assert [event.task for event in events] == [done]


async def test_subscribing_while_the_task_ends_gives_its_end_each_time(client: A2AClient) -> None:
    """B113: whoever comes first, the service or the subscriber, the subscriber learns how it went."""
    for _ in range(50):
        task = (await client.send_message(say("echo quick", now=True))).task
        states = [
            event.task.status.state if event.HasField("task") else event.status_update.status.state
            async for event in client.subscribe_to_task(a2a_pb2.SubscribeToTaskRequest(id=task.id))
            if not event.HasField("artifact_update")
        ]
        assert states[-1] == COMPLETED


@pytest.mark.parametrize(
    ("text", "state", "reason"),
    [
        ("reject", a2a_pb2.TASK_STATE_REJECTED, "I do not do that."),
        ("fail", a2a_pb2.TASK_STATE_FAILED, "It broke."),
    ],
)
async def test_what_is_no_success_says_why(client: A2AClient, text: str, state: a2a_pb2.TaskState, reason: str) -> None:
    """B115."""
    task = (await client.send_message(say(text))).task

    assert task.status.state == state
    assert task.status.message.parts[0].text == reason


async def test_errors_are_the_same_on_both_bindings(client: A2AClient) -> None:
    with pytest.raises(TaskNotFoundError):
        await client.get_task(a2a_pb2.GetTaskRequest(id="no such task"))
    with pytest.raises(TaskNotFoundError):
        await anext(client.subscribe_to_task(a2a_pb2.SubscribeToTaskRequest(id="no/such%2Ftask")))
    with pytest.raises(TaskNotFoundError):
        await client.send_message(say("more", task_id="no such task"))
    done = (await client.send_message(say("echo hello"))).task
    with pytest.raises(UnsupportedOperationError):
        await client.send_message(say("more", task_id=done.id))
    with pytest.raises(UnsupportedOperationError):
        await client.get_extended_agent_card()
    picture = say("look")
    picture.message.parts.add(raw=b"x", media_type="image/png")
    with pytest.raises(ContentTypeNotSupportedError):
        await client.send_message(picture)


async def test_a_request_that_is_wrong_names_its_fields(client: A2AClient) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        await client.send_message(a2a_pb2.SendMessageRequest(message=a2a_pb2.Message(role=a2a_pb2.ROLE_USER)))

    assert {violation.field for violation in caught.value.violations} >= {"message.message_id", "message.parts"}


async def test_another_version_is_refused(two_replicas: Pair, bindings: tuple[str, ...]) -> None:
    url = two_replicas.replicas[0].http_url
    async with await A2AClient.connect(url, bindings=bindings, headers={"A2A-Version": "9.9"}) as client:
        with pytest.raises(VersionNotSupportedError):
            await client.list_tasks()


async def test_push_configurations_reach_the_service(client: A2AClient) -> None:
    task = await running(client)
    config = a2a_pb2.TaskPushNotificationConfig(task_id=task.id, id="c1", url="https://hooks.invalid/hook")
    one = a2a_pb2.GetTaskPushNotificationConfigRequest(task_id=task.id, id="c1")
    gone = a2a_pb2.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="c1")
    every = a2a_pb2.ListTaskPushNotificationConfigsRequest(task_id=task.id)

    assert await client.create_task_push_notification_config(config) == config
    assert await client.get_task_push_notification_config(one) == config
    assert list((await client.list_task_push_notification_configs(every)).configs) == [config]
    await client.delete_task_push_notification_config(gone)
    with pytest.raises(TaskNotFoundError):
        await client.get_task_push_notification_config(one)


async def test_a_message_of_every_kind_of_character_comes_back(client: A2AClient) -> None:
    text = 'a\u2028b\u0000c\x85d 😀 \\ " \n\n data: x\r\n\r\ne'

    events = [event async for event in client.send_streaming_message(say(f"echo {text}"))]

    chunks = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert "".join(part.text for chunk in chunks for part in chunk.artifact.parts) == text


async def test_a_stream_whose_connection_is_reset_names_its_task(two_replicas: Pair, bindings: tuple[str, ...]) -> None:
    """Where nothing is tried again. The task is still there afterwards, and the same client can follow it again."""
    replica = two_replicas.replicas[0]
    address = replica.grpc_addr if bindings == ("GRPC",) else replica.http_url.removeprefix("http://")
    async with relay(address) as between:
        interface = a2a_pb2.AgentInterface(
            url=between.address if bindings == ("GRPC",) else f"http://{between.address}",
            protocol_binding=bindings[0],
            protocol_version="1.0",
        )
        async with await A2AClient.connect(interface, patience=0) as client:
            events = client.send_streaming_message(say("hang"))
            task = (await anext(events)).task
            assert (await anext(events)).status_update.status.state == a2a_pb2.TASK_STATE_WORKING

            between.reset()
            with pytest.raises(StreamBrokenError) as caught:
                await anext(events)
            assert caught.value.task_id == task.id

            async def followed() -> a2a_pb2.Task | None:
                again = client.subscribe_to_task(a2a_pb2.SubscribeToTaskRequest(id=task.id))
                try:
                    return (await anext(again)).task
                except UnavailableError:
                    return None  # gRPC can put one more call into the connection before it sees that this is gone
                finally:
                    await again.aclose()

            found = await wait_until(followed, "the task is followed again")
            assert found is not None and found.status.state == a2a_pb2.TASK_STATE_WORKING


@contextlib.asynccontextmanager
async def hanging(
    pair: Pair, *, keepalive: float
) -> AsyncIterator[tuple[Relay, AsyncIterator[a2a_pb2.StreamResponse]]]:
    """A stream over gRPC and a relay that has told all it has to tell, and does not end."""
    async with (
        relay(pair.replicas[0].grpc_addr) as between,
        await A2AClient.connect(f"grpc://{between.address}", keepalive=keepalive, patience=0) as client,
    ):
        events = client.send_streaming_message(say("hang"))
        await anext(events)
        await anext(events)
        yield between, events


@pytest.mark.slow
async def test_a_connection_that_carries_nothing_any_more_is_noticed(two_replicas: Pair) -> None:
    """B107: a ping at the latest when nothing came for the time of `keepalive`, and 10 s for its answer."""
    async with hanging(two_replicas, keepalive=10) as (between, events):
        between.stall()
        async with asyncio.timeout(25):
            with pytest.raises(StreamBrokenError):
                await anext(events)


async def test_a_call_whose_connection_is_reset_is_unavailable(two_replicas: Pair, bindings: tuple[str, ...]) -> None:
    replica = two_replicas.replicas[0]
    address = replica.grpc_addr if bindings == ("GRPC",) else replica.http_url.removeprefix("http://")
    async with relay(address) as between:
        interface = a2a_pb2.AgentInterface(
            url=between.address if bindings == ("GRPC",) else f"http://{between.address}",
            protocol_binding=bindings[0],
            protocol_version="1.0",
        )
        async with await A2AClient.connect(interface, patience=0) as client:
            call = asyncio.create_task(client.send_message(say("hang")))
            await asyncio.wait_for(between.carried.wait(), 5)
            between.reset()
            with pytest.raises(UnavailableError):
                await call


async def test_large_messages_pass_and_too_large_ones_are_refused(client: A2AClient) -> None:
    """Up to the service's 4 MiB; the client itself receives more, since a task holds many messages."""
    text = "x" * 3_000_000
    first = (await client.send_message(say(f"echo {text}"))).task
    assert first.artifacts[0].parts[0].text == text

    assert first.ByteSize() > 5_000_000  # with its history

    with pytest.raises(A2AError) as caught:
        await client.send_message(say(f"echo {text}{text}"))
    assert caught.value.kind.code == code_pb2.RESOURCE_EXHAUSTED


async def test_a_connection_that_dies_while_a_stream_has_been_quiet_is_noticed(
    two_replicas: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the ping of `keepalive` is under way then: one comes through before the route is lost."""
    monkeypatch.setattr("a2a_grpc.client.transports.grpc._PING_TIMEOUT_MS", 1_000)
    async with hanging(two_replicas, keepalive=1) as (between, events):
        async with asyncio.timeout(30):
            # What gRPC still has to say about the events that came, and then pings.
            for _ in range(3):
                between.carried.clear()
                await between.carried.wait()
            between.stall()
            with pytest.raises(StreamBrokenError):
                await anext(events)
