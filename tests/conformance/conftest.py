"""The services under test, and callers over every binding."""

import contextlib
import functools
import hashlib
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping

import httpx
import pytest

from tests.conformance.callers import BINDINGS, CALLERS, KEYS, VERSION, Caller, Connect, HttpCaller, Service
from tests.push.config import QUICK
from tests.support.receiver import Receiver, receiver
from tests.support.replica import PairPool, Replica
from tests.support.servers import StoreServer, fresh_store_server

AGENT = "tests.conformance.agent:"
API_KEYS = ",".join(f"{name}:{hashlib.sha256(key.encode()).hexdigest()}" for name, key in KEYS.items())


@pytest.fixture(scope="session")
def replicas(pair_pool: PairPool) -> tuple[Replica, Replica]:
    """Two replicas of the profile `full` on one store: anybody may call, and webhooks may be on this machine."""
    return pair_pool.get(AGENT + "full", QUICK).replicas


@pytest.fixture(scope="session")
def guarded(guarded_store: StoreServer) -> Iterator[tuple[Replica, Replica]]:
    """Two replicas of the profile `full` that know the callers of `KEYS` only, and share a public address."""
    env = {
        "A2A_API_KEYS": API_KEYS,
        "A2A_PUBLIC_GRPC_ADDR": "agent.example.com:443",
        "A2A_PUBLIC_HTTP_URL": "https://agent.example.com/a2a",
    }
    with serving("full", guarded_store.url, env) as one, serving("full", guarded_store.url, env) as two:
        yield one, two


@pytest.fixture(scope="session")
def unguarded(guarded_store: StoreServer) -> Iterator[Replica]:
    """A replica on the store of `guarded` that anybody may call."""
    with serving("full", guarded_store.url) as replica:
        yield replica


@pytest.fixture(scope="session")
def guarded_store() -> Iterator[StoreServer]:
    with fresh_store_server() as store:
        yield store


@pytest.fixture(scope="session")
def minimal() -> Iterator[Replica]:
    """The profile `min`: streaming, push notifications and the extended card are off."""
    with serving("min") as replica:
        yield replica


@pytest.fixture(scope="session")
def declaring() -> Iterator[Replica]:
    """The profile `extdecl`: an extended card is declared and not configured."""
    with serving("extdecl") as replica:
        yield replica


@pytest.fixture(scope="session")
def requiring() -> Iterator[Replica]:
    """The profile `reqext`: every caller has to know an extension."""
    with serving("reqext") as replica:
        yield replica


@contextlib.contextmanager
def serving(profile: str, redis_url: str | None = None, env: Mapping[str, str] | None = None) -> Iterator[Replica]:
    """A ready replica of a profile of the conformance agent."""
    replica = Replica(agent=AGENT + profile, redis_url=redis_url, env=env or {})
    try:
        replica.start()
        yield replica
    finally:
        replica.close()


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    """The test runs once over each binding."""
    value: str = request.param
    return value


@pytest.fixture
async def connect_over() -> AsyncIterator[Connect]:
    """Makes callers over the binding that `over` names; they are closed after the test."""
    async with contextlib.AsyncExitStack() as stack:

        async def connected(
            service: Service,
            *,
            tenant: str = "",
            key: str = "",
            over: str = "",
            parameters: Mapping[str, str] = VERSION,
        ) -> Caller:
            given = {**parameters, "x-api-key": key} if key else parameters
            return await stack.enter_async_context(CALLERS[over](service, given, tenant))

        yield connected


@pytest.fixture
def connect(binding: str, connect_over: Connect) -> Connect:
    """Makes callers over the binding of the test."""
    return functools.partial(connect_over, over=binding)


@pytest.fixture
async def caller(connect: Connect, replicas: tuple[Replica, Replica]) -> Caller:
    """Calls the first replica."""
    return await connect(replicas[0])


@pytest.fixture
async def other(connect: Connect, replicas: tuple[Replica, Replica]) -> Caller:
    """Calls the second replica."""
    return await connect(replicas[1])


@pytest.fixture
async def http(replicas: tuple[Replica, Replica]) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the first replica that knows nothing but the version: for requests as they stand on the wire."""
    async with HttpCaller(replicas[0]) as caller:
        caller.http.headers.update(VERSION)
        yield caller.http


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    """A receiver of webhooks that takes everything."""
    async with receiver() as made:
        yield made


@pytest.fixture
def tenant() -> str:
    """A tenant that nobody has used: its tasks are those of the test."""
    return f"tenant-{uuid.uuid4().hex}"
