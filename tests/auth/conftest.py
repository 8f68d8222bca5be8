"""Issuers, services that trust them, and callers over every binding."""

import contextlib
import functools
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.auth.issuer import AUDIENCE, Issuer, issuing
from tests.conformance.callers import BINDINGS, CALLERS, KEYS, VERSION, Caller, CallError
from tests.conformance.expected import Row
from tests.support.replica import Replica

API_KEYS = ",".join(f"{name}:{hashlib.sha256(key.encode()).hexdigest()}" for name, key in KEYS.items())
AGENT = "tests.auth.agent:agent"
PERMISSION_DENIED = Row("PERMISSION_DENIED", "PERMISSION_DENIED", 403, -32011)

Connect = Callable[..., Any]
Everywhere = Callable[..., Any]


@contextlib.contextmanager
def serving(agent: str = AGENT, redis_url: str | None = None, **env: str) -> Iterator[Replica]:
    """A ready replica."""
    replica = Replica(agent=agent, redis_url=redis_url, env={"A2A_LOG_FORMAT": "json", "A2A_LOG_LEVEL": "debug", **env})
    try:
        replica.start()
        yield replica
    finally:
        replica.close()


def trusting(issuer: Issuer, **more: str) -> dict[str, str]:
    """Settings that let in who has a token of `issuer`."""
    return {
        "A2A_JWT_ISSUER": issuer.url,
        "A2A_JWT_AUDIENCE": AUDIENCE,
        "A2A_JWT_JWKS_URL": issuer.jwks_url,
        **more,
    }


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as one:
        yield one


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    """The test runs once over each binding."""
    value: str = request.param
    return value


@pytest.fixture
async def connect_over() -> AsyncIterator[Connect]:
    """Makes callers over a binding, with a token, a key, a tenant, and other headers or metadata."""
    async with contextlib.AsyncExitStack() as stack:

        async def connected(
            binding: str, service: Replica, *, token: str = "", key: str = "", tenant: str = "", **parameters: str
        ) -> Caller:
            given: dict[str, str] = {**VERSION, **{name.replace("_", "-"): value for name, value in parameters.items()}}
            if token:
                given["authorization"] = f"Bearer {token}"
            if key:
                given["x-api-key"] = key
            return await stack.enter_async_context(CALLERS[binding](service, given, tenant))

        yield connected


@pytest.fixture
def connect(binding: str, connect_over: Connect) -> Connect:
    """Makes callers over the binding of the test."""
    return functools.partial(connect_over, binding)


@pytest.fixture
def everywhere(connect_over: Connect) -> Everywhere:
    """Makes three callers, one over each binding."""

    async def connected(service: Replica, **how: str) -> list[Caller]:
        return [await connect_over(binding, service, **how) for binding in BINDINGS]

    return connected


def challenges(failure: CallError) -> str:
    """The WWW-Authenticate of a refusal."""
    parameters: Mapping[str, str] = failure.parameters
    return parameters["www-authenticate"]
