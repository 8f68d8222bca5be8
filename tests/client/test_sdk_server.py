"""The client against a server of the official Python SDK, over each binding."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import a2a.types.a2a_pb2_grpc as sdk_grpc
import grpc
import pytest
import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as sdk
from starlette.applications import Starlette

from a2a_grpc.client import (
    A2AClient,
    ArtifactChunk,
    CardResolver,
    Completed,
    Continuation,
    Failed,
    InputRequired,
    PushNotificationNotSupportedError,
    RemoteAgent,
    Reply,
    TaskNotCancelableError,
    TaskNotFoundError,
    VersionNotSupportedError,
    message,
)
from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.pb import a2a_pb2
from tests.client.peers import card, relay
from tests.support.waiting import wait_until

COMPLETED = a2a_pb2.TASK_STATE_COMPLETED


class Executor(AgentExecutor):
    """Does what the first word of a message says."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message, task_id, context_id = context.message, context.task_id, context.context_id
        assert message is not None
        assert task_id is not None
        assert context_id is not None
        word, _, rest = context.get_user_input().partition(" ")
        if word == "msg":
            parts = [sdk.Part(text=rest)]
            await event_queue.enqueue_event(
                sdk.Message(message_id="m1", role=sdk.ROLE_AGENT, context_id=context_id, parts=parts)
            )
            return
        if context.current_task is None:
            status = sdk.TaskStatus(state=sdk.TASK_STATE_SUBMITTED)
            await event_queue.enqueue_event(
                sdk.Task(id=task_id, context_id=context_id, status=status, history=[message])
            )
        updater = TaskUpdater(event_queue, task_id, context_id)
        await updater.start_work()
        match word:
            case "ask":
                await updater.requires_input(updater.new_agent_message([sdk.Part(text="Who?")]))
            case "hang":
                await asyncio.Event().wait()
            case "slow":
                for number in range(1, int(rest) + 1):
                    await asyncio.sleep(0.05)
                    await updater.add_artifact([sdk.Part(text=f"{number} ")], artifact_id="a1", append=number > 1)
                await updater.complete()
            case "fail":
                await updater.failed(updater.new_agent_message([sdk.Part(text=rest)]))
            case _:
                for number, text in enumerate(rest.split()):
                    await updater.add_artifact([sdk.Part(text=text)], artifact_id="a1", append=number > 0)
                await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


@asynccontextmanager
async def sdk_server() -> AsyncIterator[str]:
    """The base URL of an SDK server that offers gRPC, then HTTP+JSON, then JSON-RPC."""
    grpc_server = grpc.aio.server()
    port = grpc_server.add_insecure_port("127.0.0.1:0")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        offered = card(
            ("GRPC", "1.0", f"127.0.0.1:{port}"), ("HTTP+JSON", "1.0", url), ("JSONRPC", "1.0", f"{url}/rpc")
        )
        agent = sdk.AgentCard.FromString(offered.SerializeToString())
        handler = DefaultRequestHandler(Executor(), InMemoryTaskStore(), agent)
        sdk_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc_server)  # type: ignore[no-untyped-call]
        await grpc_server.start()
        routes = [
            *create_agent_card_routes(agent),
            *create_jsonrpc_routes(handler, "/rpc"),
            *create_rest_routes(handler),
        ]
        app = Starlette(routes=routes)
        http_server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        serving = asyncio.create_task(http_server.serve([listener]))
        try:
            await wait_until(lambda: http_server.started, "uvicorn is up")
            yield url
        finally:
            http_server.should_exit = True
            await serving
            await grpc_server.stop(None)


@pytest.fixture(params=BINDINGS)
async def client(request: pytest.FixtureRequest) -> AsyncIterator[A2AClient]:
    async with sdk_server() as url, await A2AClient.connect(url, bindings=[request.param]) as client:
        assert client.interface.protocol_binding == request.param
        yield client


def say(text: str, task_id: str = "", *, now: bool = False) -> a2a_pb2.SendMessageRequest:
    configuration = a2a_pb2.SendMessageConfiguration(return_immediately=now)
    return a2a_pb2.SendMessageRequest(message=message(text, task_id=task_id), configuration=configuration)


async def test_send_get_list(client: A2AClient) -> None:
    done = (await client.send_message(say("echo hello"))).task
    assert done.status.state == COMPLETED
    assert done.artifacts[0].parts[0].text == "hello"
    assert (await client.get_task(a2a_pb2.GetTaskRequest(id=done.id))).artifacts == done.artifacts
    assert [task.id async for task in client.list_all_tasks()] == [done.id]

    said = await client.send_message(say("msg hello"))
    assert said.message.parts[0].text == "hello"


async def test_stream(client: A2AClient) -> None:
    events = [event async for event in client.send_streaming_message(say("echo one two"))]

    chunks = [event.artifact_update.artifact.parts[0].text for event in events if event.HasField("artifact_update")]
    assert events[0].HasField("task")
    assert chunks == ["one", "two"]
    assert events[-1].status_update.status.state == COMPLETED


async def test_a_stream_that_stops_for_the_callers_answer_is_no_cut(client: A2AClient) -> None:
    events = [event async for event in client.send_streaming_message(say("ask"))]
    assert events[-1].status_update.status.state == a2a_pb2.TASK_STATE_INPUT_REQUIRED

    done = (await client.send_message(say("echo Ada", events[0].task.id))).task
    assert done.artifacts[0].parts[0].text == "Ada"


async def test_cancel_and_subscribe(client: A2AClient) -> None:
    task = (await client.send_message(say("hang", now=True))).task
    watching = client.subscribe_to_task(a2a_pb2.SubscribeToTaskRequest(id=task.id))
    assert (await anext(watching)).task.id == task.id

    assert (await client.cancel_task(a2a_pb2.CancelTaskRequest(id=task.id))).status.state == (
        a2a_pb2.TASK_STATE_CANCELED
    )
    assert [event async for event in watching][-1].status_update.status.state == a2a_pb2.TASK_STATE_CANCELED
    ended = [event async for event in client.subscribe_to_task(a2a_pb2.SubscribeToTaskRequest(id=task.id))]
    assert [event.task.status.state for event in ended] == [a2a_pb2.TASK_STATE_CANCELED]


async def test_errors(client: A2AClient) -> None:
    with pytest.raises(TaskNotFoundError):
        await client.get_task(a2a_pb2.GetTaskRequest(id="none"))
    with pytest.raises(TaskNotFoundError):
        await anext(client.subscribe_to_task(a2a_pb2.SubscribeToTaskRequest(id="none")))
    done = (await client.send_message(say("echo hello"))).task
    with pytest.raises(TaskNotCancelableError):
        await client.cancel_task(a2a_pb2.CancelTaskRequest(id=done.id))
    with pytest.raises(PushNotificationNotSupportedError):
        await client.list_task_push_notification_configs(
            a2a_pb2.ListTaskPushNotificationConfigsRequest(task_id=done.id)
        )


async def test_a_session_with_an_agent_of_the_sdk(client: A2AClient) -> None:
    """Typed results, a question that is answered in its task, and references to the tasks before."""
    session = RemoteAgent(client).session()
    reply, asked = await session.run("msg hello"), await session.run("ask")
    assert isinstance(reply, Reply) and reply.text == "hello"
    assert isinstance(asked, InputRequired) and asked.text == "Who?"
    answered = await session.run("echo Ada")
    assert isinstance(answered, Completed) and answered.task_id == asked.task_id and answered.text == "Ada"
    failed = await session.run("fail No.")
    assert isinstance(failed, Failed) and failed.text == "No." and failed.task_id != asked.task_id
    sent = (await client.get_task(a2a_pb2.GetTaskRequest(id=failed.task_id))).history[0]
    assert list(sent.reference_task_ids) == [asked.task_id]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_run_of_an_agent_of_the_sdk_survives_cuts(binding: str) -> None:
    """B111: it numbers no events, so it is never sent a message twice; its task is looked for again."""
    async with sdk_server() as base, CardResolver() as resolver:
        known = await resolver.resolve(base)
        url = next(one.url for one in known.supported_interfaces if one.protocol_binding == binding)
        address = url.removeprefix("http://").removesuffix("/rpc")
        async with (
            relay(address) as between,
            await RemoteAgent.connect(card((binding, "1.0", url.replace(address, between.address)))) as agent,
        ):
            cuts = 0
            async for update in agent.run_stream("slow 24"):
                if isinstance(update, ArtifactChunk) and cuts < 5:
                    cuts += 1
                    between.reset()
            assert isinstance(update, Completed) and cuts == 5
            assert update.text == "".join(f"{number} " for number in range(1, 25))
            assert (await agent.client.list_tasks()).total_size == 1
            begun = await agent.start("slow 6")
            assert isinstance(begun, Continuation)
            result = await agent.result(begun.to_token())
            assert isinstance(result, Completed) and result.text == "1 2 3 4 5 6 "
            assert await agent.result(begun) == result, "it has ended meanwhile"


async def test_another_version_is_refused() -> None:
    """By HTTP: the SDK's gRPC handler does not look at the version."""
    async with (
        sdk_server() as url,
        await A2AClient.connect(url, bindings=["HTTP+JSON"], headers={"a2a-version": "9.9"}) as client,
    ):
        with pytest.raises(VersionNotSupportedError):
            await client.list_tasks()
