"""Fixtures that every test may use. What they are made of is in `tests.support`."""

import gc
import os
import signal
import sys
from collections.abc import Iterator

import pytest

from tests.support import leaks
from tests.support.replica import Pair, PairPool
from tests.support.servers import ON_EACH_KIND, ServerKind, StorePool, StoreServer


def pytest_configure(config: pytest.Config) -> None:
    """Names the marker of `two_replicas`, lets the processes hear a Ctrl-C, and has their logs read at the end."""
    # A shell starts a background job with SIGINT ignored, and whatever the job starts inherits that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A process that compiles every module anew takes seconds to start, and there are hundreds of them.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not config.pluginmanager.is_registered(leaks):
        config.pluginmanager.register(leaks)
    config.addinivalue_line(
        "markers", "agent(reference, **env): what two_replicas serve (MODULE:ATTR), with which A2A_* variables"
    )


def pytest_collection_finish() -> None:
    """Leaves what was loaded and collected out of every garbage collection: a tenth of the time of a run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


@pytest.fixture(scope="session")
def store_pool() -> Iterator[StorePool]:
    """The store servers of this session, one of each kind, started when first used."""
    pool = StorePool()
    yield pool
    pool.close()


@pytest.fixture(params=ON_EACH_KIND, ids=lambda kind: kind.name)
def store_server(request: pytest.FixtureRequest, store_pool: StorePool) -> StoreServer:
    """The test runs once on each kind of server: Valkey 9, Valkey 8, Redis 7. Empty at the start of every test."""
    kind: ServerKind = request.param
    return store_pool.get(kind)


@pytest.fixture
def one_store_server(store_pool: StorePool) -> StoreServer:
    """A single server for tests in which the kind does not matter. Empty at the start of every test."""
    return store_pool.first()


@pytest.fixture(scope="session")
def pair_pool() -> Iterator[PairPool]:
    """The pairs of replicas of this session."""
    pool = PairPool()
    yield pool
    pool.close()


@pytest.fixture
def two_replicas(request: pytest.FixtureRequest, pair_pool: PairPool) -> Pair:
    """Two ready server processes on one store: `r1, r2 = two_replicas.replicas`; the store is `two_replicas.store`.

    They serve the demo agent, or what the test (or its module's `pytestmark`) says: `@pytest.mark.agent("module:attr",
    A2A_TASK_TTL="10")`. Tests with the same agent and variables share the pair, and so its tasks; a replica or store
    that a test killed or froze is brought back before the next.
    """
    marker = request.node.get_closest_marker("agent")
    return pair_pool.get(marker.args[0] if marker and marker.args else None, marker.kwargs if marker else {})
