"""Two replicas that host three tenants, and callers of them over every binding."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from tests.conformance.callers import JsonRpcCaller
from tests.conformance.conftest import binding, connect, connect_over  # noqa: F401 - fixtures
from tests.support.leaks import secret
from tests.support.replica import Pair, pair

KEYS = {tenant: secret(f"at-{tenant}") for tenant in ("acme", "initech")}
"""The tenants whose callers need a key. In both of them there is an Alice."""


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


AGENTS = f"""
agents:
  acme:
    agent: tests.tenants.agents:red
    card:
      name: Red of Acme
      provider: {{organization: Acme, url: https://acme.example}}
    auth:
      api_keys: {{keys: {{alice: {digest(KEYS["acme"])}}}}}
    limits:
      max_message_bytes: 2048
  initech:
    agent: tests.tenants.agents:blue
    auth:
      api_keys: {{keys: {{alice: {digest(KEYS["initech"])}}}}}
  globex: {{agent: tests.tenants.agents:red, auth: anonymous}}
"""
"""No default tenant: who names none is not served."""


class Tenant(NamedTuple):
    """A tenant, the key of its Alice ("": none needed), and its agent."""

    name: str
    key: str
    agent: str


ACME = Tenant("acme", KEYS["acme"], "red")
INITECH = Tenant("initech", KEYS["initech"], "blue")
GLOBEX = Tenant("globex", "", "red")
TENANTS = (ACME, INITECH, GLOBEX)


@pytest.fixture(scope="session")
def agents_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agents") / "agents.yaml"
    path.write_text(AGENTS)
    return path


@pytest.fixture(scope="session")
def service(agents_file: Path) -> Iterator[Pair]:
    with pair(str(agents_file), {"A2A_PUSH_ALLOW": "127.0.0.0/8"}) as two:
        yield two


class JsonRpcByPath(JsonRpcCaller):
    """JSON-RPC at the address of a tenant, whatever the params say of it."""

    address = "/acme/"

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.http.base_url = self.http.base_url.join(self.address)
        return self
