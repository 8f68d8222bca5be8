"""The commands that call an agent, against two real replicas."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from a2a_grpc.client.cli import list_tasks
from a2a_grpc.client.printing import plain
from a2a_grpc.command import COMMANDS
from tests.support.commands import Outcome, Run, running
from tests.support.replica import ROOT, Pair

pytestmark = pytest.mark.agent("tests.client.agent:agent")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return running(capsys)


@pytest.fixture
def url(two_replicas: Pair) -> str:
    return two_replicas.replicas[0].http_url


def test_send_prints_the_artifacts_and_the_state(run: Run, url: str) -> None:
    done = run("send", url, "echo hello")

    assert done.code == 0
    assert re.fullmatch(r"task \S+ of context \S+\n\[echo\]\nhello\ncompleted\n", done.out)
    assert done.err == ""


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_stream_prints_an_artifact_as_it_grows(run: Run, url: str, transport: str) -> None:
    done = run("stream", url, "chunks 3", "--transport", transport)

    assert done.code == 0
    assert done.lines[2:] == ["working: counting", "[count]", "0 1 2 ", "completed"]


def test_a_message_is_printed_as_it_is(run: Run, url: str) -> None:
    assert run("send", url, "msg hello") == Outcome(0, "hello\n", "")
    assert run("stream", url, "msg hello") == Outcome(0, "hello\n", "")


def test_a_task_that_asks_is_answered(run: Run, url: str) -> None:
    asked = run("send", url, "ask")
    assert asked.code == 0
    assert asked.lines[-1] == "input required: What is your name?"

    task_id = asked.lines[0].split()[1]
    answered = run("send", url, "Ada", "--task", task_id)
    assert answered.lines[-3:] == ["[answer]", "Ada", "completed"]


@pytest.mark.parametrize(
    ("text", "last", "warning"),
    [("fail", "failed: It broke.", "failed"), ("reject", "rejected: I do not do that.", "was rejected")],
)
def test_a_task_that_does_not_succeed_is_reported_with_a_warning(
    run: Run, url: str, text: str, last: str, warning: str
) -> None:
    """The command did its job: what the agent decided is in the state (a2a-cli specification 0.2, 6.6)."""
    for command in ("send", "stream"):
        done = run(command, url, text)
        assert done.code == 0
        assert done.lines[-1] == last
        assert done.err == f"a2a-grpc: the task {warning}\n"


def test_json_is_protojson_and_a_stream_is_one_event_a_line(run: Run, url: str) -> None:
    done = run("send", url, "echo hello", "--json")
    (answer,) = done.json
    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert answer["task"]["artifacts"][0]["parts"] == [{"text": "hello"}]

    streamed = run("stream", url, "chunks 2", "--json")
    assert [next(iter(event)) for event in streamed.json] == [
        "task",
        "statusUpdate",
        "artifactUpdate",
        "artifactUpdate",
        "statusUpdate",
    ]

    (task,) = run("get", url, answer["task"]["id"], "--json").json
    assert task == answer["task"]


def test_a_task_is_shown_listed_followed_and_canceled(run: Run, url: str) -> None:
    started = run("send", url, "hang", "--no-wait", "--json")
    assert started.code == 0
    (answer,) = started.json
    task_id, context_id = answer["task"]["id"], answer["task"]["contextId"]

    assert run("get", url, task_id).lines[0] == f"task {task_id} of context {context_id}"
    listed = run("list", url, "--context", context_id)
    assert re.fullmatch(rf"{task_id}  working  20\S+Z  {context_id}\n", listed.out)
    assert run("list", url, "--context", context_id, "--state", "completed").out == "no tasks\n"

    canceled = run("cancel", url, task_id)
    assert canceled.code == 0
    assert canceled.lines[-1] == "canceled"
    followed = run("subscribe", url, task_id)
    assert followed.code == 0
    assert followed.lines[-1] == "canceled"
    assert followed.err == "a2a-grpc: the task was canceled\n"


def test_a_list_shows_a_page_and_says_how_to_see_the_rest(run: Run, url: str) -> None:
    (first,) = run("send", url, "echo 0", "--json").json
    context_id = first["task"]["contextId"]
    for number in range(1, 51):
        run("send", url, f"echo {number}", "--context", context_id)

    page = run("list", url, "--context", context_id)
    assert len(page.lines) == 50
    assert page.err == "These are 50 of 51 tasks; --all prints the others too.\n"
    everything = run("list", url, "--context", context_id, "--all")
    assert len(everything.lines) == 51
    assert everything.err == ""


def test_the_card(run: Run, url: str, two_replicas: Pair) -> None:
    shown = run("card", url)
    assert shown.lines[:2] == ["Client test agent 1.0", "Does what the first word says."]
    assert f"  GRPC 1.0 {two_replicas.replicas[0].grpc_addr}" in shown.lines
    assert "  skill do: Does what the first word says." in shown.lines

    (card,) = run("card", f"{url}/.well-known/agent-card.json", "--json").json
    assert card["name"] == "Client test agent"


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_an_error_is_one_sentence_with_its_reason(run: Run, url: str, transport: str) -> None:
    for command in ("get", "cancel", "subscribe"):
        done = run(command, url, "nothing", "--transport", transport)
        assert done.code == 1
        assert done.out == ""
        assert re.fullmatch(r"a2a-grpc: There is no such task.*\(TASK_NOT_FOUND\)\n", done.err)


def test_headers_are_sent(run: Run, url: str) -> None:
    done = run("list", url, "--header", "A2A-Version=9.9")

    assert done.code == 1
    assert done.err.endswith("(VERSION_NOT_SUPPORTED)\n")


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:1", "grpc://127.0.0.1:1", "https://agent.invalid", "localhost:8080"]
)
def test_an_agent_that_cannot_be_reached(run: Run, target: str) -> None:
    done = run("get", target, "x")

    assert done.code == 1
    assert len(done.err.splitlines()) == 1
    assert done.err.startswith("a2a-grpc: ")


def test_giving_up(run: Run, url: str) -> None:
    done = run("stream", url, "hang", "--timeout", "0.3")

    assert done.code == 1
    assert done.lines[-1] == "working: for ever"
    assert done.err.endswith("(DEADLINE_EXCEEDED)\n")


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ([], "a command is needed"),
        (["bogus"], "there is no command 'bogus'"),
        (["send", "http://x"], "TEXT"),
        (["get", "http://x"], "ID"),
        (["list", "http://x", "--header", "novalue"], "a header is NAME=VALUE"),
        (["list", "http://x", "--timeout", "-1"], "seconds above 0"),
        (["list", "http://x", "--timeout", "nan"], "seconds above 0"),
        (["list", "http://x", "--state", "unspecified"], "invalid choice"),
        (["list", "http://x", "--transport", "jsonrpc"], "invalid choice"),
    ],
)
def test_a_wrong_command_line_exits_with_2(run: Run, argv: list[str], text: str) -> None:
    done = run(*argv)

    assert done.code == 2
    assert text in done.err
    assert done.out == ""


def test_help_lists_every_command_and_each_has_its_own(run: Run) -> None:
    shown = run("--help")
    assert shown.code == 0
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\w", shown.out, re.MULTILINE)

    for name in ("send", "stream", "get", "list", "cancel", "subscribe", "card"):
        own = run(name, "--help")
        assert own.code == 0
        assert own.out.startswith(f"usage: a2a-grpc {name} ")


@pytest.mark.parametrize(("transport", "other"), [("grpc", "HTTP+JSON"), ("http", "GRPC")])
def test_another_transport_than_the_one_asked_for_is_not_used(
    run: Run, url: str, transport: str, other: str, tmp_path: Path
) -> None:
    (card,) = run("card", url, "--json").json
    card["supportedInterfaces"] = [one for one in card["supportedInterfaces"] if one["protocolBinding"] == other]
    file = tmp_path / "card.json"
    file.write_text(json.dumps(card))

    assert run("list", str(file)).code == 0
    refused = run("list", str(file), "--transport", transport)
    assert refused.code == 1
    assert f"The agent offers {other} 1.0" in refused.err


def test_text_of_an_agent_does_not_drive_the_terminal(run: Run, url: str) -> None:
    assert run("send", url, "msg \x1b[2Jhello\x07").out == "[2Jhello\n"
    assert plain("a\x1b[2Jb\x9bc\u202ed\re\n\tf\x07") == "a[2Jbcde\n\tf"


def test_help_loads_neither_side() -> None:
    """Start-up time: the server needs Redis and an HTTP server, the client protobuf, grpc and httpx."""
    code = (
        "import sys; from a2a_grpc.command import main; code = main(['--help']);"
        "sys.exit(code or ' '.join({'grpc', 'httpx', 'redis', 'google.protobuf'} & sys.modules.keys()) or 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_the_package_loads_a_transport_only_when_it_is_used() -> None:
    code = "import sys, a2a_grpc.client; sys.exit(' '.join({'grpc', 'httpx'} & sys.modules.keys()) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True)


def command(*argv: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "a2a_grpc.command", *argv], cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True
    )


async def test_ctrl_c_ends_a_stream_without_a_traceback(url: str) -> None:
    with command("stream", url, "hang") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for _ in range(3):
            await asyncio.to_thread(process.stdout.readline)
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 10) == 130
        assert process.stderr.read() == ""


async def test_a_reader_that_leaves_ends_a_stream_without_a_traceback(url: str) -> None:
    with command("stream", url, "chunks 20000") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        await asyncio.to_thread(process.stdout.readline)
        process.stdout.close()
        assert await asyncio.to_thread(process.wait, 20) == 1
        assert process.stderr.read() == ""


def test_the_functions_take_arguments_and_return_the_exit_code() -> None:
    assert list_tasks(["--help"]) == 0
