"""The official Python client reads from our card how to identify itself, and then sees what is the caller's own."""

from collections.abc import AsyncIterator, Iterator
from hashlib import sha256

import pytest
from a2a.client import AuthInterceptor, Client, ClientCallContext, CredentialService
from a2a.client.errors import A2AClientError
from a2a.types import GetExtendedAgentCardRequest, GetTaskRequest, ListTasksRequest
from a2a.utils.errors import TaskNotFoundError

from tests.interop.conftest import Service, serve
from tests.interop.python_sdk.sdk import connect, request, send

pytestmark = pytest.mark.wide

KEYS = {"first": "the key of the first caller", "second": "the key of the second caller"}


class Key(CredentialService):
    """A caller that has one key, for whatever scheme takes it."""

    def __init__(self, key: str) -> None:
        self.key = key

    async def get_credentials(
        self,
        security_scheme_name: str,  # noqa: ARG002 - the interface names its parameters
        context: ClientCallContext | None,  # noqa: ARG002
    ) -> str:
        return self.key


@pytest.fixture(scope="module")
def guarded() -> Iterator[Service]:
    """The conformance agent with everything on, for two callers that have a key."""
    digests = ",".join(f"{name}:{sha256(key.encode()).hexdigest()}" for name, key in KEYS.items())
    yield from serve("full", A2A_API_KEYS=digests)


@pytest.fixture
async def stranger(binding: str, guarded: Service) -> AsyncIterator[Client]:
    async with await connect(guarded.url, binding, streaming=False) as client:
        yield client


@pytest.fixture
async def first(stranger: Client) -> Client:
    await stranger.add_interceptor(AuthInterceptor(Key(KEYS["first"])))
    return stranger


@pytest.fixture
async def second(binding: str, guarded: Service) -> AsyncIterator[Client]:
    async with await connect(guarded.url, binding, streaming=False) as client:
        await client.add_interceptor(AuthInterceptor(Key(KEYS["second"])))
        yield client


async def test_a_caller_without_credentials_is_refused(binding: str, stranger: Client) -> None:
    code = "UNAUTHENTICATED" if binding == "GRPC" else "401"
    with pytest.raises(A2AClientError, match=code):
        await stranger.get_task(GetTaskRequest(id="any"))
    with pytest.raises(A2AClientError, match=code):
        await send(stranger, request("hello"))
    with pytest.raises(A2AClientError, match=code):
        await stranger.get_extended_agent_card(GetExtendedAgentCardRequest())


async def test_a_caller_that_is_known_gets_the_extended_card(first: Client) -> None:
    card = await first.get_extended_agent_card(GetExtendedAgentCardRequest())
    assert [skill.id for skill in card.skills] == ["task", "message", "secret"]
    assert card.capabilities.extended_agent_card
    # The client goes on with what this card says, so it has to say the same about interfaces and security.
    assert [interface.protocol_binding for interface in card.supported_interfaces] == ["GRPC", "HTTP+JSON", "JSONRPC"]
    assert (await send(first, request("hello"))).id


async def test_a_task_is_its_callers_own(first: Client, second: Client) -> None:
    task = await send(first, request("hello", prefix="tck-artifact-text"))
    assert (await first.get_task(GetTaskRequest(id=task.id))).artifacts
    with pytest.raises(TaskNotFoundError):
        await second.get_task(GetTaskRequest(id=task.id))
    listed = await second.list_tasks(ListTasksRequest(context_id=task.context_id))
    assert (list(listed.tasks), listed.total_size) == ([], 0)
