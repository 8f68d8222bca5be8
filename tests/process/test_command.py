"""The command as it is installed: `a2a-grpc serve` in one terminal, the other commands in another."""

import asyncio
import importlib.metadata
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from a2a_grpc import command
from a2a_grpc.command import COMMANDS
from tests.support.replica import ROOT, Replica

A2A_GRPC = str(Path(sys.executable).with_name("a2a-grpc"))
AGENT = "tests.process.busy_agent:agent"


class Served(Replica):
    """`a2a-grpc serve`, as a person starts it."""

    def spawn(self, log: int) -> subprocess.Popen[bytes]:
        return self.execute([A2A_GRPC, "serve", AGENT], log)


@pytest.fixture(scope="module")
def server() -> Iterator[Replica]:
    served = Served(agent=AGENT, redis_url=None, env={})
    try:
        served.start()
        yield served
    finally:
        served.close()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command to its end."""
    return subprocess.run([A2A_GRPC, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)


def printed(*arguments: str) -> str:
    """What a command prints that does what it should, and nothing else."""
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.wide
def test_a_day_with_an_agent(server: Replica) -> None:
    url = server.http_url
    card = printed("card", "get", "-a", url)
    assert card.splitlines()[:2] == ["Name: Busy", "Version: 1.0"]
    assert f"Interface: GRPC 1.0 {server.grpc_addr}" in card.splitlines()

    shown = printed("send", "-a", url, "echo hello").splitlines()
    assert "Artifact: echo" in shown and "  hello" in shown and "State: COMPLETED" in shown
    task_id, context_id = (line.split()[1] for line in shown[:2])
    assert printed("task", "get", "-a", url, task_id).splitlines() == shown
    as_json = printed("task", "get", "-a", f"grpc://{server.grpc_addr}", task_id, "-o", "json")
    assert json.loads(as_json)["id"] == task_id

    started = printed("send", "-a", url, "hang", "--async", "--context-id", context_id, "-o", "json")
    hanging = json.loads(started)["task"]["id"]
    page = json.loads(printed("task", "list", "-a", url, "--context-id", context_id, "-o", "json"))
    assert {task["id"] for task in page["tasks"]} == {task_id, hanging}
    canceled = run("task", "cancel", "-a", url, hanging)
    assert (canceled.returncode, canceled.stderr) == (0, "a2a-grpc: the task was canceled\n")
    assert "State: CANCELED" in canceled.stdout.splitlines()

    again = run("task", "cancel", "-a", url, hanging)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.splitlines()[0].startswith("a2a-grpc: ")
    assert again.stderr.splitlines()[0].endswith("(TaskNotCancelableError)")


async def test_a_stream_is_printed_while_it_goes_on(server: Replica) -> None:
    """Also into a pipe: who reads along sees each piece when it comes."""
    process = await asyncio.create_subprocess_exec(
        *(A2A_GRPC, "send", "--stream", "-a", server.http_url, "count 20"), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(20):
        early = await process.stdout.readuntil(b"  3 \n")
        assert process.returncode is None
        late = await process.stdout.read()
        assert await process.wait() == 0
    lines = (early + late).decode().splitlines()
    assert [line.strip() for line in lines if line.startswith("  ")][-20:] == [str(number) for number in range(1, 21)]
    assert "State: COMPLETED" in lines


def test_every_command_explains_itself() -> None:
    program = (
        "import contextlib, io, json, sys\n"
        "from a2a_grpc.command import COMMANDS, main\n"
        "for name in COMMANDS:\n"
        "    with contextlib.redirect_stdout(io.StringIO()) as printed:\n"
        "        try: status = main([name, '--help'])\n"
        "        except SystemExit as leaving: status = leaving.code\n"
        "    print(json.dumps([name, status, printed.getvalue()]))\n"
    )
    env = os.environ | {"COLUMNS": "80"}
    told = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True).stdout
    explained = [json.loads(line) for line in told.splitlines()]
    assert [name for name, _, _ in explained] == list(COMMANDS)
    for name, status, text in explained:
        assert status == 0
        usage, _, rest = text.partition("\n\n")
        assert usage.startswith(f"usage: a2a-grpc {name} ")
        sentence = rest.partition("\n\n")[0]
        assert sentence[0].isupper() and sentence.endswith("."), "says in a sentence what it does"
        assert max(map(len, text.splitlines())) <= 80


def test_serving_does_not_wait_for_what_few_agents_need() -> None:
    """Start-up time: YAML is for cards in files."""
    code = "import sys, a2a_grpc.server.main; sys.exit('yaml' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_help_and_version_come_at_once() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    shown = printed("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 0.4, "seconds of processor time; the server alone takes more to be loaded"
    assert all(f"\n  {name} " in shown for name in COMMANDS)
    assert printed("--version") == f"a2a-grpc {importlib.metadata.version('a2a-grpc')}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "a2a-grpc: a command is needed"),
        (["sned"], "a2a-grpc: there is no command 'sned'"),
        (["send"], "There is nothing to send"),
        (["serve", "a:b", "c:d"], "unrecognized arguments: c:d"),
    ],
)
def test_a_command_line_that_is_wrong_ends_with_2(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "usage: a2a-grpc" in done.stderr or "--help" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_ctrl_c_while_a_command_is_being_loaded_ends_it_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: str) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_load", interrupted)
    assert command.main(["send", "hello"]) == 130
