"""Two replicas of the agent of the cases on one store, and callers of them."""

import contextlib
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from tests.conformance.callers import CALLERS, VERSION, Caller, Connect, Service
from tests.support.replica import Pair, PairPool

AGENT = "tests.cases.agents:agent"
ENV = {
    "A2A_CANCEL_GRACE": "1",
    "A2A_SSE_HEARTBEAT": "1",
    "A2A_PUBLIC_GRPC_ADDR": "agent.example.com:443",
    "A2A_PUBLIC_HTTP_URL": "https://agent.example.com/a2a",
}


@pytest.fixture(scope="session")
def pair(pair_pool: PairPool) -> Pair:
    """The two replicas that most cases share, and their store. Tests that break something have their own."""
    return pair_pool.get(AGENT, ENV)


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Makes callers of a replica, over gRPC unless told otherwise; they are closed after the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def connected(
            service: Service,
            *,
            tenant: str = "",
            key: str = "",
            over: str = "GRPC",
            parameters: Mapping[str, str] = VERSION,
        ) -> Caller:
            given = {**parameters, "x-api-key": key} if key else parameters
            return await stack.enter_async_context(CALLERS[over](service, given, tenant))

        yield connected


@pytest.fixture
async def one(pair: Pair, connect: Connect) -> Caller:
    """Calls the first replica over gRPC."""
    return await connect(pair.replicas[0])


@pytest.fixture
async def other(pair: Pair, connect: Connect) -> Caller:
    """Calls the second replica over gRPC."""
    return await connect(pair.replicas[1])


@pytest.fixture
def tenant() -> str:
    """A tenant that nobody has used: its tasks are those of the test."""
    return f"tenant-{uuid.uuid4().hex}"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A file in which agents leave notes."""
    path = tmp_path / "notes"
    path.touch()
    return path
