"""The services that the official clients call: two replicas with everything on, and one of each other profile."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.support.replica import PairPool, Replica


class Service(NamedTuple):
    """What a user is told of a service: where its card is."""

    url: str


@pytest.fixture(scope="session")
def replicas(pair_pool: PairPool) -> tuple[Replica, Replica]:
    return pair_pool.get("tests.conformance.agent:full", {}).replicas


@pytest.fixture(scope="session")
def service(replicas: tuple[Replica, Replica]) -> Service:
    """The conformance agent with everything on."""
    return Service(replicas[0].http_url)


@pytest.fixture(scope="session")
def other(replicas: tuple[Replica, Replica]) -> Service:
    """The other replica of `service`."""
    return Service(replicas[1].http_url)


@pytest.fixture(scope="session")
def minimal() -> Iterator[Service]:
    """Without streaming, push notifications and an extended card."""
    yield from serve("min")


@pytest.fixture(scope="session")
def declared() -> Iterator[Service]:
    """With an extended card that is declared and not configured."""
    yield from serve("extdecl")


@pytest.fixture(scope="session")
def extended() -> Iterator[Service]:
    """With an extension that every caller has to name."""
    yield from serve("reqext")


def serve(profile: str, **env: str) -> Iterator[Service]:
    """The body of a fixture: one replica of a profile, with more A2A_* variables."""
    replica = Replica(agent=f"tests.conformance.agent:{profile}", redis_url=None, env=env)
    try:
        replica.start()
        yield Service(replica.http_url)
    finally:
        replica.close()
