"""Every test that uses a client runs once for each binding; the clients of one test speak the same one."""

from collections.abc import AsyncIterator

import pytest
from a2a.client import Client

from tests.interop.conftest import Service
from tests.interop.python_sdk.sdk import BINDINGS, connect


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture
async def client(binding: str, service: Service) -> AsyncIterator[Client]:
    """Sends with SendStreamingMessage."""
    async with await connect(service.url, binding) as client:
        yield client


@pytest.fixture
async def blocking(binding: str, service: Service) -> AsyncIterator[Client]:
    """Sends with SendMessage and waits for the outcome."""
    async with await connect(service.url, binding, streaming=False) as client:
        yield client


@pytest.fixture
async def polling(binding: str, service: Service) -> AsyncIterator[Client]:
    """Sends with SendMessage and return_immediately."""
    async with await connect(service.url, binding, streaming=False, polling=True) as client:
        yield client
