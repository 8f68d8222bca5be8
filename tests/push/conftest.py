"""Replicas whose webhooks may go to this machine."""

from collections.abc import AsyncIterator

import pytest

from tests.conformance.callers import BINDINGS, CALLERS, VERSION, Caller
from tests.support.receiver import Receiver, receiver
from tests.support.replica import PairPool, Replica

AGENT = "tests.conformance.agent:full"
LOCAL = {"A2A_PUSH_ALLOW": "localhost", "A2A_PUSH_ALLOW_HTTP": "true"}
QUICK = {**LOCAL, "A2A_PUSH_BACKOFF": "0.05", "A2A_PUSH_BACKOFF_MAX": "0.2", "A2A_PUSH_TIMEOUT": "3"}


@pytest.fixture(scope="session")
def push_replicas(pair_pool: PairPool) -> tuple[Replica, Replica]:
    """Two replicas of the conformance agent on one store."""
    return pair_pool.get(AGENT, QUICK).replicas


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    """The test runs once over each binding."""
    value: str = request.param
    return value


@pytest.fixture
async def caller(binding: str, push_replicas: tuple[Replica, Replica]) -> AsyncIterator[Caller]:
    """Calls the first replica."""
    async with CALLERS[binding](push_replicas[0], VERSION) as connected:
        yield connected


@pytest.fixture
async def other(binding: str, push_replicas: tuple[Replica, Replica]) -> AsyncIterator[Caller]:
    """Calls the second replica."""
    async with CALLERS[binding](push_replicas[1], VERSION) as connected:
        yield connected


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    """A receiver that takes everything."""
    async with receiver() as made:
        yield made
