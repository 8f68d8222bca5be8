"""A store whose contents are looked through after every test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from a2a_grpc.server.store.tasks import TaskStore
from tests.support.audit import audit
from tests.support.servers import StoreServer
from tests.support.tasks import open_store


@pytest.fixture
def audited_server(store_server: StoreServer) -> Iterator[StoreServer]:
    """One server of each kind. What the test leaves in it must fit together, and live no longer than it may."""
    yield store_server
    store_server.revive()
    assert audit(store_server.client) == []


@pytest.fixture
async def store(audited_server: StoreServer) -> AsyncIterator[TaskStore]:
    """The store as the replica "r1" sees it."""
    async with open_store(audited_server.url) as opened:
        yield opened


@pytest.fixture
async def other(audited_server: StoreServer) -> AsyncIterator[TaskStore]:
    """The same store as the replica "r2" sees it."""
    async with open_store(audited_server.url, "r2") as opened:
        yield opened
