"""The commands of the tutorial, run as they stand there, one after the other.

Only addresses, folders and the judge's seconds are replaced, and the place of the programs.
"""

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.docs.documents import ROOT, blocks
from tests.docs.test_readme import PATH, PROGRAMS, ready, shell
from tests.support.replica import READY_TIMEOUT, WATCHER, free_ports
from tests.support.waiting import wait_until

TUTORIAL = ROOT / "docs" / "TUTORIAL.md"
BLOCKS = blocks(TUTORIAL)

# Every block has a test below; a new one is missing here until it has.
RUN = {
    "Two agents that call each other": ["bash"],
    "The judge": ["python", "bash", "bash", "bash"],
    "The recruiter": ["python", "bash"],
    "Ask": ["bash"],
    "Ask from a program": ["python", "bash"],
}
ANSWER = "Candidate 3, Chen Wei, fits the post best. Ask them to an interview."


def under(heading: str, at: int) -> str:
    return [block.text for block in BLOCKS if block.heading == heading][at]


def test_every_block_is_run_by_a_test() -> None:
    found: dict[str, list[str]] = {}
    for block in BLOCKS:
        found.setdefault(block.heading, []).append(block.language)

    assert found == RUN


def test_the_first_command_is_there() -> None:
    command = under("Two agents that call each other", 0).split()

    subprocess.run([*command, "-n"], cwd=ROOT, capture_output=True, check=True, timeout=30)


@pytest.mark.parametrize(("heading", "name"), [("The judge", "judge.py"), ("The recruiter", "recruiter.py")])
def test_the_agents_are_those_in_the_examples(heading: str, name: str) -> None:
    assert under(heading, 0) == (ROOT / "examples" / "screening" / name).read_text(encoding="utf-8")


class Terminals:
    """The two services, each as the terminal has it in which it was started, and what stands in place of the ports."""

    def __init__(self, folder: Path) -> None:
        judge, judge_grpc, recruiter, recruiter_grpc = free_ports(4)
        self.judge, self.recruiter = str(judge), str(recruiter)
        self._replaced = {
            "8081": self.judge,
            "50061": str(judge_grpc),
            "8080": self.recruiter,
            "build/judge": f"{folder}/judge",
            "JUDGE_SECONDS=2": "JUDGE_SECONDS=0.15",
        }
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("A2A_")},
            "A2A_HTTP_ADDR": f"localhost:{recruiter}",
            "A2A_GRPC_ADDR": f"localhost:{recruiter_grpc}",
            "A2A_DATA_DIR": f"{folder}/recruiter",
            "A2A_LEASE_TTL": "1",  # a judge that was ended at once is missed soon
            "JUDGE_URL": f"http://localhost:{judge}",
            "PATH": PATH,
        }

    def put(self, text: str) -> str:
        """A command with what it is to have here."""
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        return text

    @asynccontextmanager
    async def serving(self, command: str, port: str) -> AsyncIterator["subprocess.Popen[bytes]"]:
        """A service, in a process group of its own, as a terminal runs a command; ready to be asked."""
        with tempfile.TemporaryFile() as log, _process(self.put(command), self._env, log) as process:
            async with httpx.AsyncClient(trust_env=False) as client:
                await wait_until(partial(ready, client, port), f"{port} is ready", READY_TIMEOUT)
            yield process


@contextmanager
def _process(command: str, env: dict[str, str], log: object) -> Iterator["subprocess.Popen[bytes]"]:
    command = command.replace(".venv/bin/", f"{PROGRAMS}/")
    process = subprocess.Popen(
        ["/bin/bash", "-c", f"exec env {command}"],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=log,  # type: ignore[call-overload]
        stderr=log,
        start_new_session=True,
    )
    # Ends the service if these tests end without having done it.
    watcher = subprocess.Popen(
        ["/bin/sh", "-c", WATCHER, "sh", str(process.pid)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(20)
        watcher.kill()
        watcher.communicate()


async def press_ctrl_c_twice(process: "subprocess.Popen[bytes]", port: str) -> None:
    """As a terminal does it, to the whole group; the second time when the first was heard."""
    os.killpg(process.pid, signal.SIGINT)
    async with httpx.AsyncClient(trust_env=False) as client:

        async def is_leaving() -> bool:
            return not await ready(client, port)

        await wait_until(is_leaving, "the first Ctrl-C was heard")
    os.killpg(process.pid, signal.SIGINT)
    await asyncio.to_thread(process.wait, 20)


@pytest.mark.wide
@pytest.mark.timeout(120)
async def test_the_tutorial_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    terminals = Terminals(tmp_path)
    serve_judge, who, judge_one = (under("The judge", at) for at in (1, 2, 3))
    ask = under("Ask", 0)
    async with terminals.serving(under("The recruiter", 1), terminals.recruiter):
        async with terminals.serving(serve_judge, terminals.judge) as judge:
            assert "Name: Judge" in await shell(terminals.put(who))
            assert '"score": 8.5' in await shell(terminals.put(judge_one))

            printed = await shell(terminals.put(ask))
            assert [line.strip() for line in printed.splitlines() if "judge:" in line] == [
                "judge: reading about Ana Costa, 1 of 5",
                "judge: reading about Ben Okafor, 2 of 5",
                "judge: reading about Chen Wei, 3 of 5",
                "judge: reading about Dina Haddad, 4 of 5",
                "judge: reading about Emil Berg, 5 of 5",
                "judge: 5 candidates judged.",
            ]
            assert ANSWER in printed.replace("\n", " ")

            process = await asyncio.create_subprocess_exec(
                "bash", "-euc", terminals.put(ask), cwd=ROOT, env={**os.environ, "PATH": PATH}, stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            said = b""
            while b"2 of 5" not in said:
                said += await asyncio.wait_for(process.stdout.readline(), 20)
            await press_ctrl_c_twice(judge, terminals.judge)
        async with terminals.serving(serve_judge, terminals.judge):
            said += await asyncio.wait_for(process.stdout.read(), 40)
            assert await process.wait() == 0
            assert said.count(b"1 of 5") == 2, "it began anew"
            assert ANSWER in said.decode().replace("\n", " ")

            (tmp_path / "ask.py").write_text(under("Ask from a program", 0).replace("8080", terminals.recruiter))
            command = terminals.put(under("Ask from a program", 1)).replace("ask.py", f"{tmp_path}/ask.py")
            printed = await shell(command)
    assert printed.splitlines()[0] == "found 4 candidates"
    assert printed.splitlines()[-2:] == [
        "best: {'missing': [], 'name': 'Dina Haddad', 'score': 9}",
        "rejected Open posts are: backend developer, data engineer.",
    ]
