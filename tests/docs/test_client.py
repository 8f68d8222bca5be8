"""The examples of CLIENT.md, run as they stand there against a service; those of sessions are run with the sessions."""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from a2a_grpc.client import A2AClient, BearerToken, ClientCredentials, Configuration, DeviceCode
from a2a_grpc.client.configuration import VARIABLES
from tests.auth.authorization import Authorization, authorizing
from tests.auth.issuer import AUDIENCE
from tests.docs.documents import ROOT, blocks, table
from tests.support.replica import Replica

CLIENT = ROOT / "docs" / "CLIENT.md"
KEY = "k3y-of-alice"


def code(heading: str, url: str, language: str = "python") -> str:
    """The one block under a heading, with the address of a service that is there."""
    [found] = [block.text for block in blocks(CLIENT) if (block.heading, block.language) == (heading, language)]
    return found.replace("https://agent.example.com", url)


def names_in(text: str) -> dict[str, Any]:
    """What a block defines."""
    space: dict[str, Any] = {}
    exec(text, space)  # noqa: S102
    return space


@pytest.fixture(scope="module")
def demo() -> Iterator[Replica]:
    with closing(Replica(agent=None, redis_url=None, env={})) as service:
        service.start()
        yield service


@pytest.fixture(scope="module")
def auth() -> Iterator[Authorization]:
    with authorizing() as one:
        yield one


@pytest.fixture(scope="module")
def guarded(auth: Authorization) -> Iterator[Replica]:
    """The same agent, for callers with a key or a token."""
    env = {
        "A2A_API_KEYS": f"alice:{hashlib.sha256(KEY.encode()).hexdigest()}",
        "A2A_OIDC_ISSUER": auth.issuer.url,
        "A2A_JWT_AUDIENCE": AUDIENCE,
    }
    with closing(Replica(agent=None, redis_url=None, env=env)) as service:
        service.start()
        yield service


async def test_find(demo: Replica, capsys: pytest.CaptureFixture[str]) -> None:
    await names_in(code("Discovery", demo.http_url))["find"]()

    assert capsys.readouterr().out.splitlines()[1] == f"GRPC {demo.grpc_addr}"


async def test_a_configuration(
    demo: Replica, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file holds what it seems to; a card of its own has no scheme that would need the secret."""
    monkeypatch.setenv("BILLING_SECRET", "s3cret")
    monkeypatch.chdir(tmp_path)
    text = code("A file, or the environment", demo.http_url, "yaml")
    Path("billing.yaml").write_text(text)
    found = Configuration.from_file("billing.yaml")
    [machine] = found.credentials
    assert isinstance(machine, ClientCredentials) and list(found.allow_origins) == ["grpc.example.com"]
    Path("billing.yaml").write_text(text.replace("https://agents.example.com/billing", demo.http_url))

    await names_in(code("A file, or the environment", demo.http_url))["configured"]()

    assert capsys.readouterr().out == f"{demo.grpc_addr}\n"


def test_the_variables_are_those_that_are_read() -> None:
    rows = "".join(table(CLIENT, "variable"))

    assert {name for name in VARIABLES if not name.endswith("_FILE") or f"`{name}`" in rows} == {
        name.strip("`") for name in rows.replace(",", " ").replace("|", " ").split() if name.startswith("`A2A_")
    }


async def test_calls(demo: Replica, capsys: pytest.CaptureFixture[str]) -> None:
    await names_in(code("Calls", demo.http_url))["call"]()

    answered, *kinds, one, other = capsys.readouterr().out.splitlines()
    assert answered in (one, other) and kinds[0] == "task" and kinds[-1] == "status_update"


async def test_credentials(guarded: Replica, auth: Authorization, capsys: pytest.CaptureFixture[str]) -> None:
    """Whose secret goes where its issuer says: that is on this machine, as the agent is."""
    space = names_in(code("Credentials", guarded.http_url))
    shown = space["show"]

    def sign_in(told: DeviceCode) -> None:
        shown(told)
        auth.users[told.user_code] = ("alice", True)

    space["show"] = sign_in
    await space["known"](KEY, "s3cret%")

    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if line.isdigit()] == ["3"] * 3  # TASK_STATE_COMPLETED
    assert next(line for line in printed if not line.isdigit()).startswith("Open https://auth.example.com/device and")


def test_every_kind_of_credentials_is_in_the_table() -> None:
    import a2a_grpc.client.credentials as offered  # noqa: PLC0415

    kinds = {
        name
        for name in offered.__all__
        if issubclass(getattr(offered, name), offered.Credentials) and name != "Credentials"
    }
    assert {row.split("`")[1].partition("(")[0] for row in table(CLIENT, "credentials")} == kinds
    assert issubclass(BearerToken, offered.Credentials)


async def test_in_time(demo: Replica, capsys: pytest.CaptureFixture[str]) -> None:
    await names_in(code("Timeouts and trouble", demo.http_url))["in_time"]()

    assert capsys.readouterr().out.strip()


def test_the_defaults_are_those_of_the_table() -> None:
    import inspect  # noqa: PLC0415

    defaults = inspect.signature(A2AClient.connect).parameters
    said = {row.split("`")[1]: row.split("|")[2].strip() for row in table(CLIENT, "time")}
    for name in ("connect_timeout", "keepalive", "patience"):
        assert said[name] == f"{defaults[name].default:g} s"
    assert said["idle_timeout"].startswith("40 s") and defaults["idle_timeout"].default is None
