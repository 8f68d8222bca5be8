"""Fixtures that every test may use. What they are made of is in `tests.support`."""

from collections.abc import Iterator

import pytest

from tests.support.servers import KINDS, ServerKind, StorePool, StoreServer


@pytest.fixture(scope="session")
def store_pool() -> Iterator[StorePool]:
    """The store servers of this session, one of each kind, started when first used."""
    pool = StorePool()
    yield pool
    pool.close()


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def store_server(request: pytest.FixtureRequest, store_pool: StorePool) -> StoreServer:
    """The test runs once on each kind of server: Valkey 9, Valkey 8, Redis 7. Empty at the start of every test."""
    kind: ServerKind = request.param
    return store_pool.get(kind)


@pytest.fixture
def one_store_server(store_pool: StorePool) -> StoreServer:
    """A single server for tests in which the kind does not matter. Empty at the start of every test."""
    return store_pool.first()
