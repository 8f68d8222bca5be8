"""`a2a-grpc registry` in processes of its own, and what is registered there."""

import hashlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any, NamedTuple

from a2a_grpc.client import ApiKey, Registry
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from tests.support.leaks import secret
from tests.support.replica import Replica
from tests.support.servers import StoreServer, fresh_store_server

CALLERS = ("alice", "bob", "carol")


def key_of(caller: str) -> str:
    """The API key of a caller."""
    return secret(f"key of {caller}")


API_KEYS = ",".join(f"{caller}:{hashlib.sha256(key_of(caller).encode()).hexdigest()}" for caller in CALLERS)


def headers_of(caller: str) -> dict[str, str]:
    """What a caller sends to be known; a stranger ("") sends nothing."""
    return {"x-api-key": key_of(caller)} if caller else {}


class RegistryProcess(Replica):
    """A registry."""

    def __init__(self, redis_url: str | None, env: Mapping[str, str]) -> None:
        super().__init__(agent=None, redis_url=redis_url, env=env)

    def arguments(self) -> list[str]:
        return ["registry"]

    @property
    def grpc_url(self) -> str:
        return f"grpc://{self.grpc_addr}"


class Agent(Replica):
    """The demo agent, which keeps itself registered; without a URL where A2A_REGISTER_URL says."""

    def __init__(self, registry_url: str, env: Mapping[str, str]) -> None:
        super().__init__(agent=None, redis_url=None, env=env)
        self._registry_url = registry_url

    def arguments(self) -> list[str]:
        return [*super().arguments(), *(["--register", self._registry_url] if self._registry_url else [])]


class Registries(NamedTuple):
    """Two replicas over one store."""

    store: StoreServer
    replicas: tuple[RegistryProcess, RegistryProcess]

    @property
    def urls(self) -> tuple[str, str]:
        """One for each binding, and each on another replica."""
        return self.replicas[0].http_url, self.replicas[1].grpc_url


@contextmanager
def registries(**env: str) -> Iterator[Registries]:
    """Starts two registries and ends them. Callers are known by API keys unless `env` says otherwise."""
    given = {"A2A_API_KEYS": API_KEYS, **env}
    with fresh_store_server() as store, ExitStack() as stack:
        one, other = (RegistryProcess(store.url, given) for _ in range(2))
        for replica in (one, other):
            stack.callback(replica.close)
            replica.start(wait=False)
        for replica in (one, other):
            replica.wait_ready()
        yield Registries(store, (one, other))


@asynccontextmanager
async def connected(url: str, caller: str = "") -> AsyncGenerator[Registry, None]:
    """A client of the registry at `url`."""
    credentials = ApiKey(key_of(caller)) if caller else None
    async with await Registry.connect(url, credentials=credentials) as registry:
        yield registry


def card(name: str = "Screening", **fields: Any) -> a2a_pb2.AgentCard:
    """A card that may be registered; `fields` in the spelling of JSON."""
    return protojson.from_dict(
        {
            "name": name,
            "description": "Judges candidates for a post.",
            "version": "1.0",
            "supportedInterfaces": [
                {"url": "https://agent.example.com", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
            ],
            "capabilities": {},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "judge", "name": "Judge", "description": "Says who fits.", "tags": ["hr"]}],
            **fields,
        },
        a2a_pb2.AgentCard,
    )
