"""The official Python client recognises our errors: each arrives as its own class, with our text, over each binding."""

import contextlib
import uuid
from collections.abc import AsyncIterator

import pytest
from a2a.client import Client, ClientCallContext
from a2a.types import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Part,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    ExtendedAgentCardNotConfiguredError,
    ExtensionSupportRequiredError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)

from tests.interop.conftest import Service
from tests.interop.python_sdk.sdk import collect, connect, request, send

pytestmark = pytest.mark.wide

NOWHERE = uuid.uuid4().hex


@contextlib.asynccontextmanager
async def raises(error: type[A2AError]) -> AsyncIterator[None]:
    """The error is of exactly this class and brings the server's own text, not the client's default for the class."""
    with pytest.raises(error) as caught:
        yield
    assert type(caught.value) is error
    assert caught.value.message not in ("", error.message)


async def test_an_unknown_task_is_not_found(client: Client, blocking: Client) -> None:
    async with raises(TaskNotFoundError):
        await client.get_task(GetTaskRequest(id=NOWHERE))
    async with raises(TaskNotFoundError):
        await client.cancel_task(CancelTaskRequest(id=NOWHERE))
    async with raises(TaskNotFoundError):
        await collect(client.subscribe(SubscribeToTaskRequest(id=NOWHERE)))
    async with raises(TaskNotFoundError):
        await collect(client.send_message(request("hello", task_id=NOWHERE)))
    async with raises(TaskNotFoundError):
        await collect(blocking.send_message(request("hello", task_id=NOWHERE)))


async def test_a_task_that_ended_takes_nothing_more(client: Client, blocking: Client) -> None:
    task = await send(blocking, request("hello"))
    async with raises(UnsupportedOperationError):
        await collect(blocking.send_message(request("more", task_id=task.id)))
    async with raises(UnsupportedOperationError):
        await collect(client.send_message(request("more", task_id=task.id)))
    async with raises(UnsupportedOperationError):
        await collect(client.subscribe(SubscribeToTaskRequest(id=task.id)))
    async with raises(TaskNotCancelableError):
        await client.cancel_task(CancelTaskRequest(id=task.id))


async def test_a_part_of_a_media_type_that_the_card_does_not_list_is_refused(client: Client) -> None:
    part = Part(raw=b"\0", media_type="application/x-nobody-takes-this")
    async with raises(ContentTypeNotSupportedError):
        await collect(client.send_message(request("", parts=[part])))


async def test_a_message_without_parts_is_invalid(client: Client, blocking: Client) -> None:
    for caller in (client, blocking):
        async with raises(InvalidParamsError):
            await collect(caller.send_message(request("", parts=[])))


async def test_a_context_that_is_not_the_tasks_is_refused(blocking: Client) -> None:
    task = await send(blocking, request("ask"))
    async with raises(InvalidParamsError):
        await collect(blocking.send_message(request("hello", task_id=task.id, context_id=NOWHERE)))


async def test_a_page_token_that_nobody_gave_is_invalid(client: Client) -> None:
    async with raises(InvalidParamsError):
        await client.list_tasks(ListTasksRequest(page_token="made up"))


async def test_another_version_is_refused(client: Client) -> None:
    context = ClientCallContext(service_parameters={"A2A-Version": "99.0"})
    async with raises(VersionNotSupportedError):
        await client.get_task(GetTaskRequest(id=NOWHERE), context=context)


async def test_what_the_card_does_not_offer_is_refused(binding: str, minimal: Service) -> None:
    async with await connect(minimal.url, binding) as client:
        # The client itself falls back to SendMessage, as the card says.
        task = await send(client, request("hello", prefix="tck-artifact-text"))
        assert task.artifacts
        config = TaskPushNotificationConfig(task_id=task.id, id="one", url="https://example.com/hook")
        async with raises(PushNotificationNotSupportedError):
            await client.create_task_push_notification_config(config)
        # The client's own look at the card would stop these calls, so they go to its transport.
        transport = client._transport  # type: ignore[attr-defined]
        async with raises(UnsupportedOperationError):
            await collect(transport.subscribe(SubscribeToTaskRequest(id=task.id)))
        async with raises(UnsupportedOperationError):
            await collect(transport.send_message_streaming(request("hello")))


async def test_an_extended_card_that_is_declared_and_not_configured(binding: str, declared: Service) -> None:
    async with await connect(declared.url, binding) as client, raises(ExtendedAgentCardNotConfiguredError):
        await client.get_extended_agent_card(GetExtendedAgentCardRequest())


async def test_a_required_extension_has_to_be_named(binding: str, extended: Service) -> None:
    context = ClientCallContext(service_parameters={"A2A-Extensions": "urn:a2a:tck:required-extension"})
    async with await connect(extended.url, binding, streaming=False) as client:
        async with raises(ExtensionSupportRequiredError):
            await collect(client.send_message(request("hello")))
        [event] = await collect(client.send_message(request("hello"), context=context))
        assert event.HasField("task")
