"""The surface of the commands: what there is, what they say of themselves, what they are without being told.

Names such as a2acli_cli_001 are the requirement identifiers of the a2a-cli specification 0.2.
"""

import importlib.metadata
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from a2a_grpc.client.cli.task import task
from a2a_grpc.command import COMMANDS
from tests.support.commands import Run, running
from tests.support.replica import Pair

pytestmark = pytest.mark.agent("tests.client.cli_agent:agent")

OURS = (
    ("card", "get"),
    ("send",),
    ("task", "get"),
    ("task", "list"),
    ("task", "cancel"),
    ("task", "subscribe"),
    ("task", "download"),
    ("task", "push-config", "create"),
    ("auth", "login"),
    ("chat",),
    ("discover",),
    ("config", "show"),
    ("completion",),
)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return running(capsys)


@pytest.fixture
def url(two_replicas: Pair) -> str:
    return two_replicas.replicas[0].http_url


def test_a2acli_cli_001_help_and_version(run: Run) -> None:
    shown = run("--help")
    assert shown.code == 0
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\w", shown.out, re.MULTILINE)
    assert run("help") == run("-h") == shown

    version = importlib.metadata.version("a2a-grpc")
    for flag in ("-v", "--version"):
        assert run(flag) == (0, f"a2a-grpc {version}\n", "")
    for words in OURS:
        own = run(*words, "--help")
        assert own.code == 0
        assert own.out.startswith(f"usage: a2a-grpc {' '.join(words)} ")
        assert run("help", *words) == own


def test_a2acli_default_001_help_shows_what_is_in_effect(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown = " ".join(run("send", "--help").out.split())
    for text in (
        "the first of several that the agent has; repeatable (default: as the card prefers)",
        "--async print the task as it is now instead of waiting (default: off: wait)",
        "the form of the output (default: text)",
        "--verbose show everything that was exchanged (default: off)",
        "(default: 1.0)",
        "for development only (default: off: TLS certificates are verified)",
        "(default: 2s)",
        "(default: never)",
    ):
        assert text in shown

    monkeypatch.setenv("A2ACLI_OUTPUT", "json")
    monkeypatch.setenv("A2ACLI_TIMEOUT", "100%")
    monkeypatch.setenv("A2ACLI_BEARER", "tell-nobody")
    shown = " ".join(run("task", "get", "--help").out.split())
    assert "the form of the output (default: json, from environment)" in shown
    assert "(default: 100%, from environment)" in shown
    assert "(default: (hidden), from environment)" in shown
    assert "tell-nobody" not in shown


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "a command is needed"),
        (["bogus"], "there is no command 'bogus'"),
        (["get", "x"], "there is no command 'get'"),
        (["send", "-a", "http://x"], "nothing to send"),
        (["send", "hello"], "An agent is needed"),
        (["card"], "ACTION"),
        (["task", "get", "-a", "http://x"], "TASK_ID"),
        (["task", "list", "-a", "http://x", "--svc-param", "novalue"], "KEY:VALUE"),
        (["task", "list", "-a", "http://x", "--timeout", "-1"], "seconds above 0"),
        (["task", "list", "-a", "http://x", "--timeout", "nan"], "seconds above 0"),
        (["task", "list", "-a", "http://x", "--timeout", "5 weeks"], "seconds above 0"),
        (["task", "list", "-a", "http://x", "--status", "unspecified"], "none of SUBMITTED"),
        (["task", "list", "-a", "http://x", "--transport", "carrier-pigeon"], "none of GRPC"),
        (["task", "list", "-a", "http://x", "-o", "xml"], "none of text, json"),
        (["task", "list", "-a", "http://x", "--a2a-version", "one"], "MAJOR.MINOR"),
        (["task", "get", "-a", "http://x", "t", "--history", "-1"], "whole number"),
        (["send", "-a", "http://x", "hi", "--metadata", "[]"], "JSON object"),
        (["send", "-a", "http://x", "hi", "--async", "--stream"], "exclude each other"),
        (["send", "-a", "http://x", "--media-type", "text/plain", "hi"], "--media-type follows"),
        (["send", "-a", "http://x", "--file", "/no/such/file"], "cannot be read"),
        (["send", "-a", "http://x", "hi", "--client-key", "/no/key"], "needs --client-cert"),
        (["send", "-a", "http://x", "hi", "--config", "/no/such/file"], "no configuration file"),
        (["card", "get", "-a", "http://x", "--signed"], "needs --keys"),
    ],
)
def test_a2acli_exit_001_a_wrong_command_line_exits_with_2(run: Run, argv: list[str], text: str) -> None:
    done = run(*argv)

    assert done.code == 2
    assert text in done.err
    assert done.out == ""


@pytest.mark.parametrize("value", ["", "  ", "a b", "a:b:c"])
def test_a_service_parameter_that_no_binding_carries_is_refused_without_its_value(run: Run, value: str) -> None:
    done = run("task", "list", "-a", "http://x", "--svc-param", f"grpc-x{value}:s3cret")
    assert done.code == 2
    assert "s3cret" not in done.err


def test_a2acli_cli_002_completion(run: Run, tmp_path: Path) -> None:
    def completed(*words: str) -> list[str]:
        """What bash offers for the last word."""
        line = " ".join(f"'{word}'" for word in ("a2a-grpc", *words))
        asked = f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _a2a_grpc"
        shown = "printf '%s\\n' \"${COMPREPLY[@]}\""
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [bash, "-euc", f"{asked}; {shown}"], capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    bash = shutil.which("bash") or "/bin/bash"
    script = tmp_path / "script"
    script.write_text(run("completion", "bash").out)
    assert set(completed("")) == {*COMMANDS, "help"}
    assert completed("ta") == ["task", "tasks"]
    assert set(completed("task", "")) == {"cancel", "download", "get", "list", "push-config", "subscribe", "--help"}
    assert completed("task", "get", "--hist") == ["--history"]
    assert completed("task", "--debug", "push-config", "cr") == ["create"]
    assert completed("config", "") == ["show"]
    assert "--async" in completed("send", "hello", "--a")
    assert completed("completion", "") == ["bash", "zsh"]
    assert run("completion", "zsh").out.endswith(script.read_text())
    assert "compinit" in run("completion", "zsh").out
    assert run("completion", "tcsh").code == 2


def test_help_loads_neither_side() -> None:
    """Start-up time: the server needs Redis and an HTTP server, the client protobuf, grpc and httpx."""
    code = (
        "import sys; from a2a_grpc.command import main; code = main(['--help']);"
        "sys.exit(code or ' '.join({'grpc', 'httpx', 'redis', 'google.protobuf'} & sys.modules.keys()) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_the_package_loads_a_transport_only_when_it_is_used() -> None:
    code = "import sys, a2a_grpc.client; sys.exit(' '.join({'grpc', 'httpx', 'rich'} & sys.modules.keys()) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_functions_take_arguments_and_return_the_exit_code() -> None:
    assert task(["list", "--help"]) == 0
