"""Starts that cannot succeed end with 2 and a sentence that says what to change; what is only late is waited for."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.process.gateway import Gateway
from tests.support.replica import Replica
from tests.support.servers import StoreServer
from tests.support.waiting import wait_until

AGENT = "tests.process.echo_agent:agent"


class Outcome(NamedTuple):
    """What a command of the server did."""

    status: int
    told: str
    """On stderr."""
    printed: str


# Many commands in one process: most of the time of each would go into imports.
DRIVER = """
import contextlib, io, json, os, sys
from a2a_grpc.server import main

kept = dict(os.environ)
for command, arguments, env in json.load(sys.stdin):
    os.environ |= env
    with contextlib.redirect_stderr(io.StringIO()) as told, contextlib.redirect_stdout(io.StringIO()) as printed:
        status = getattr(main, command)(arguments)
    os.environ.clear()
    os.environ |= kept
    print(json.dumps([status, told.getvalue(), printed.getvalue()]))
"""


def run(cwd: Path, *commands: tuple[str, Sequence[str], Mapping[str, str]]) -> list[Outcome]:
    """What commands do that all end by themselves: name, arguments, additions to the environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("A2A_")}
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER],
        cwd=cwd,
        env={**kept, "A2A_DATA_DIR": str(cwd / "data")},
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=True,
    )
    return [Outcome(*json.loads(line)) for line in ran.stdout.splitlines()]


def sentence(outcome: Outcome) -> str:
    """The one sentence of a start that failed; warnings may come before it."""
    assert outcome.status == 2, outcome
    assert "Traceback" not in outcome.told
    *_, last = outcome.told.splitlines()
    assert last.startswith("a2a-grpc: ")
    assert outcome.told.count("a2a-grpc: ") == 1
    return last.removeprefix("a2a-grpc: ")


async def failure(replica: Replica) -> str:
    """Starts a process that has to end by itself, and what it says in the end."""
    try:
        replica.start(wait=False)
        status = await asyncio.to_thread(replica.wait, 20)
        return sentence(Outcome(status, replica.log(), ""))
    finally:
        await asyncio.to_thread(replica.close)


# -- the agent ---------------------------------------------------------------------------------------------------------

HEAD = "from a2a_grpc.server.agents import Agent\n"
SKILL = '@agent.skill(id="echo", name="Echo", description="Says it.", tags=["x"])\nasync def echo(turn): ...\n'


def test_an_agent_that_is_not_there_is_told_with_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "my_agents.py").write_text(f'{HEAD}agent = Agent(name="A", description="A.", version="1")\n{SKILL}')
    expected = {
        "my_agents": "name the agent as MODULE:ATTR",
        "my_agents:": "name the agent as MODULE:ATTR",
        ":agent": "name the agent as MODULE:ATTR",
        "nowhere:agent": "there is no module 'nowhere' here or on the Python path",
        "nowhere.deeper:agent": "there is no module 'nowhere' here or on the Python path",
        "my_agents.deeper:agent": "there is no module 'my_agents.deeper' here or on the Python path",
        "my_agents.py:agent": "such as my_agents:agent, not a file",
        "./my_agents.py:agent": "such as my_agents:agent, not a file",
        ".my_agents:agent": "not a file or a folder",
        "my agents:agent": "not a file or a folder",
        "my_agents:echo": "'echo' is a function, not an Agent; the module has my_agents:agent",
        "my_agents:Agent": "'Agent' is a type, not an Agent",
        "my_agents:other": "'other' is nothing, not an Agent; the module has my_agents:agent",
        "my_agents:agent:more": "is nothing, not an Agent",
    }
    outcomes = run(tmp_path, *(("serve", [reference], {}) for reference in expected))
    for (reference, advice), outcome in zip(expected.items(), outcomes, strict=True):
        said = sentence(outcome)
        assert said.startswith(f"{reference!r}: ")
        assert advice in said
        assert len(outcome.told.splitlines()) == 1


def test_an_agent_that_cannot_be_published_is_told_what_it_lacks(tmp_path: Path) -> None:
    agents = {
        "nameless": f'agent = Agent(name="", description="", version="1")\n{SKILL}',
        "idle": 'agent = Agent(name="A", description="A.", version="1")\n',
        "cardless": 'agent = Agent.from_card("card.yaml")\n',
        "careless": f'agent = Agent(name="A", description="A.", version="1", input_modes=[])\n{SKILL}',
        "blocking": 'agent = Agent(name="A", description="A.", version="1")\n' + SKILL.replace("async ", ""),
    }
    for name, text in agents.items():
        (tmp_path / f"{name}.py").write_text(HEAD + text)
    said = [sentence(outcome) for outcome in run(tmp_path, *(("serve", [f"{name}:agent"], {}) for name in agents))]
    for got, expected in zip(
        said,
        [
            "the agent's card cannot be published: name: is required; description: is required",
            "'idle:agent': the agent has no skill; decorate a function with @agent.skill(…)",
            "card.yaml: cannot be read: No such file or directory",
            "the agent's card cannot be published: default_input_modes: needs at least one entry",
            "skill 'echo': write `async def`; call blocking code with `await asyncio.to_thread(…)`",
        ],
        strict=True,
    ):
        assert expected in got


# -- settings ----------------------------------------------------------------------------------------------------------


def test_a_store_that_is_named_wrongly_is_told_and_its_password_is_not(tmp_path: Path) -> None:
    expected = {
        "nonsense": "it must begin with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://",
        "redis://": "it names no host; write for example redis://localhost:6379/0",
        "redis://host:many": "it is not a URL",
        "redis://u:pa55@host/path": "only the number of a database may follow",
        "redis://u:pa55/word@host:1": "must be written as %2F",
        "unix://": "needs the path of the socket",
        "redis+sentinel://u:pa55@host": "after the last sentinel must follow the name that they give the master",
        "redis://u:pa55@host?socket_timeout=1": "has the option socket_timeout, which this service does not take",
        "redis://u:pa55@host?db=first": "A2A_REDIS_URL cannot be used: Invalid value for 'db'",
        "redis://u:pa55@host?ssl_ca_certs=/ca.pem": "ssl_… belongs to rediss://",
    }
    outcomes = run(tmp_path, *(("serve", [], {"A2A_REDIS_URL": url}) for url in expected))
    for advice, outcome in zip(expected.values(), outcomes, strict=True):
        said = sentence(outcome)
        assert said.startswith("A2A_REDIS_URL ")
        assert advice in said
        assert "pa55" not in outcome.told


def test_a_port_that_the_system_picks_is_nothing_to_tell_callers(tmp_path: Path) -> None:
    outcomes = run(tmp_path, *(("serve", [], {f"A2A_{kind}_ADDR": "127.0.0.1:0"}) for kind in ("GRPC", "HTTP")))
    assert [sentence(outcome).partition(". ")[2] for outcome in outcomes] == [
        "Set A2A_PUBLIC_GRPC_ADDR, or give A2A_GRPC_ADDR a port.",
        "Set A2A_PUBLIC_HTTP_URL, or give A2A_HTTP_ADDR a port.",
    ]


def test_config_prints_every_setting_and_no_secret(tmp_path: Path) -> None:
    given = {
        "A2A_REDIS_URL": "rediss://me:pa55@host:1/2?ssl_password=pa55",
        "A2A_API_KEYS": f"alice:{'ab' * 32},bob:{'cd' * 32}",
        "A2A_TASK_TTL": "60",
        "A2A_LOG_LEVEL": "",
    }
    right, wrong = run(tmp_path, ("config", [], given), ("config", [], {"A2A_TASK_TTL": "soon"}))
    assert (right.status, right.told) == (0, "")
    rows = {name: (source, value) for name, source, value in (row.split(None, 2) for row in right.printed.splitlines())}
    assert rows["A2A_REDIS_URL"] == ("environment", "rediss://me:***@host:1/2?ssl_password=***")
    assert rows["A2A_API_KEYS"] == ("environment", "alice:***,bob:***")
    assert rows["A2A_TASK_TTL"] == ("environment", "60")
    assert rows["A2A_LOG_LEVEL"] == ("default", "info")
    assert rows["A2A_HTTP_ADDR"] == ("default", "0.0.0.0:8080")
    for secret in ("pa55", "ab" * 32, "cd" * 32):
        assert secret not in right.printed
    assert (
        sentence(wrong) == "A2A_TASK_TTL is 'soon', but it must be a number of seconds above 0 and at most 315360000."
    )


# -- what others have taken --------------------------------------------------------------------------------------------


@pytest.fixture
def taken() -> Iterator[str]:
    """An address on which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("variable", ["A2A_GRPC_ADDR", "A2A_HTTP_ADDR", "A2A_METRICS_ADDR"])
async def test_a_port_that_is_taken(variable: str, taken: str) -> None:
    replica = Replica(agent=AGENT, redis_url=None, env={variable: taken})
    said = await failure(replica)
    assert f"{taken}: Address already in use. Set {variable} to an address" in said
    assert said.startswith("cannot listen")


async def test_a_port_that_is_taken_from_a_gateway(taken: str) -> None:
    said = await failure(Gateway("localhost:50051", {"A2A_HTTP_ADDR": taken}))
    assert f"{taken}: Address already in use. Set A2A_HTTP_ADDR to an address" in said


async def test_an_address_of_another_machine() -> None:
    said = await failure(Replica(agent=AGENT, redis_url=None, env={"A2A_GRPC_ADDR": "192.0.2.1:50051"}))
    assert "192.0.2.1:50051: Cannot assign requested address. Set A2A_GRPC_ADDR to an address of this machine" in said


async def test_a_data_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = await failure(Replica(agent=AGENT, redis_url=None, env={"A2A_DATA_DIR": str(tmp_path / "file" / "data")}))
    assert said == (
        f"The data directory {tmp_path}/file/data cannot be used: Not a directory. "
        "Make it writable for this user, or name another one with A2A_DATA_DIR."
    )


# -- the store ---------------------------------------------------------------------------------------------------------


async def test_a_store_of_other_shards(one_store_server: StoreServer) -> None:
    one_store_server.client.set("a2a:shards", 4)
    said = await failure(Replica(agent=AGENT, redis_url=one_store_server.url, env={"A2A_SHARDS": "2"}))
    assert "set A2A_SHARDS=4 or use an empty store" in said
    assert one_store_server.client.keys() == [b"a2a:shards"]


async def test_a_store_that_is_not_there_is_waited_for_and_named(one_store_server: StoreServer) -> None:
    """Calls are answered meanwhile, within 2 s, and a signal ends the process as ever."""
    one_store_server.kill()
    replica = Replica(agent=AGENT, redis_url=one_store_server.url, env={})
    try:
        replica.start(wait=False)
        async with httpx.AsyncClient(base_url=replica.http_url, trust_env=False) as http:

            async def serves() -> bool:
                try:
                    return (await http.get("/healthz")).status_code == 200
                except httpx.TransportError:
                    return False

            await wait_until(serves, "the process answers", timeout=20)
            begun = time.monotonic()
            answer = await http.get("/tasks", headers={"a2a-version": "1.0"})
            assert time.monotonic() - begun < 2
            assert (answer.status_code, answer.json()["error"]["status"]) == (503, "UNAVAILABLE")
            assert (await http.get("/readyz")).status_code == 503
            assert "cannot connect to the store" in replica.log()
            await asyncio.to_thread(one_store_server.start)
            await asyncio.to_thread(replica.wait_ready)
            one_store_server.kill()
            assert (await http.get("/tasks", headers={"a2a-version": "1.0"})).status_code == 503
        begun = time.monotonic()
        replica.terminate()
        assert await asyncio.to_thread(replica.wait) == 0
        assert time.monotonic() - begun < 5
    finally:
        await asyncio.to_thread(replica.close)
        one_store_server.revive()
