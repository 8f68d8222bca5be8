"""`a2a-grpc chat` (a2a-cli specification 0.2, 7.1 and 8.1): on a real terminal, and through pipes."""

import asyncio
import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pexpect
import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from tests.client.cli_agent import EVIL
from tests.client.peers import (
    Request,
    answer_to,
    card,
    http_peer,
    operation_of,
    response,
    sse,
    status_event,
    task,
    task_event,
)
from tests.support.commands import Outcome
from tests.support.replica import ROOT, Pair, Replica

pytestmark = [
    pytest.mark.wide,
    pytest.mark.agent("tests.client.cli_agent:agent"),
    pytest.mark.filterwarnings("ignore:.*forkpty.*:DeprecationWarning"),
]

COMMAND = [sys.executable, "-m", "a2a_grpc.command"]
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\].*?(?:\x07|\x1b\\)|[\r\x01\x02]")


@pytest.fixture
def server(two_replicas: Pair) -> Replica:
    return two_replicas.replicas[0]


class Terminal:
    """A chat on a terminal of its own."""

    def __init__(self, *argv: str) -> None:
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "50"}
        self.child = pexpect.spawn(
            COMMAND[0], [*COMMAND[1:], "chat", *argv], cwd=str(ROOT), env=env, encoding="utf-8", dimensions=(50, 200)
        )
        self.seen = ""
        """All that was shown so far."""

    def expect(self, pattern: str, timeout: float = 15) -> str:
        """Wait until this is shown; returns what was shown before it."""
        try:
            self.child.expect(pattern, timeout=timeout)
        except pexpect.ExceptionPexpect as error:
            raise AssertionError(f"{pattern!r} was not shown, but:\n{self.child.before}") from error
        before = str(self.child.before)
        self.seen += before + str(self.child.after)
        return CONTROL.sub("", before)

    def find(self, pattern: str) -> tuple[str, ...]:
        """Wait until this is shown; returns its groups."""
        self.expect(pattern)
        match = self.child.match
        assert isinstance(match, re.Match)
        return tuple(match.groups())

    def say(self, text: str) -> None:
        """Type a line."""
        self.child.sendline(text)

    def press(self, key: str) -> None:
        """Press Ctrl and a key."""
        self.child.sendcontrol(key)

    def end(self) -> int:
        """Wait for the end; returns the exit code."""
        self.expect_eof()
        self.child.close()
        assert self.child.exitstatus is not None
        return self.child.exitstatus

    def expect_eof(self) -> None:
        """Wait until nothing more will be shown."""
        self.child.expect(pexpect.EOF, timeout=15)
        self.seen += str(self.child.before)


@contextlib.contextmanager
def terminal(*argv: str) -> Iterator[Terminal]:
    """A chat that is ended at the end."""
    chat = Terminal(*argv)
    try:
        yield chat
    finally:
        chat.child.close(force=True)


def piped(text: str, *argv: str) -> Outcome:
    """A chat through pipes."""
    done = subprocess.run(
        [*COMMAND, "chat", *argv], input=text, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_a2acli_chat_001_context_and_task_are_carried_across_turns(server: Replica) -> None:
    with terminal(server.http_url) as chat:
        assert "Command test agent 1.0" in chat.expect("you> ")
        chat.say("count 3")
        shown = chat.expect("you> ")
        assert "counting" in shown
        assert "[count]\n1 2 3 \ncompleted" in shown
        chat.say("/status")
        first, context = chat.find("task ([0-9a-f-]+), context ([0-9a-f]+)")
        chat.expect("you> ")
        chat.say("ask")
        assert "input required\nWhat is your name?" in chat.expect("answer> ")
        chat.say("/status")
        second, same = chat.find("task ([0-9a-f-]+), context ([0-9a-f]+)")
        assert same == context
        assert second != first
        chat.expect("answer> ")
        chat.say("Ada")
        assert "[answer]\nAda\ncompleted" in chat.expect("you> ")
        chat.say("/status")
        chat.expect(f"task {second}, context {context}")
        chat.expect("you> ")
        chat.say("/new")
        chat.expect("you> ")
        chat.say("/status")
        chat.expect("task none, context none")
        chat.expect("you> ")
        chat.say("/quit")
        assert chat.end() == 0


def test_every_kind_of_artifact_and_answer_is_shown(server: Replica) -> None:
    with terminal("-a", server.http_url) as chat:
        chat.expect("you> ")
        chat.say("all")
        shown = chat.expect("you> ")
        assert "[words]\nfirst line\nsecond line\n" in shown
        assert '[table]\n{\n  "a": null,\n  "b": [\n    1,\n    2\n  ]\n}\n' in shown
        assert "[picture]\nfile plot.png, image/png, 8 bytes\n" in shown
        assert "file (no name), application/x-big, at https://files.example.com/big.bin" in shown
        chat.say("msg only words")
        assert "\nonly words\n" in chat.expect("you> ")
        chat.say("fail")
        assert "failed\nIt broke." in chat.expect("you> ")
        chat.say("//quit")
        assert "completed" in chat.expect("you> ")
        chat.say("/bogus")
        chat.expect("There is no /bogus. /help tells")
        chat.expect("you> ")
        chat.press("d")
        assert chat.end() == 0


def test_text_of_an_agent_does_not_drive_the_terminal(server: Replica) -> None:
    with terminal(server.http_url) as chat:
        chat.expect("you> ")
        chat.say("evil")
        chat.expect("not bold.*not bold.*not bold")
        chat.expect("you> ")
        chat.say("/quit")
        assert chat.end() == 0
    for wrong in ("\x1b[2J", "\x07", "\x9b", "\u202e", "evil\rState"):
        assert wrong in EVIL
        assert wrong not in chat.seen
    assert "[2J31mevilState: COMPLETED" in CONTROL.sub("", chat.seen)
    assert "[bold]not bold[/bold]" in chat.seen, "it is no markup either"


def test_ctrl_c_asks_and_cancels(server: Replica) -> None:
    with terminal(server.http_url) as chat:
        chat.expect("you> ")
        chat.say("hang")
        chat.expect("for ever")
        chat.press("c")
        chat.expect("Cancel the task.*> ")
        chat.say("what?")
        chat.expect("Cancel the task.*> ")
        chat.say("y")
        assert "canceled" in chat.expect("you> ")
        chat.press("c")
        assert chat.end() == 130
    assert "Traceback" not in chat.seen


def test_ctrl_c_and_no_goes_on_where_it_was(server: Replica) -> None:
    with terminal(server.http_url) as chat:
        chat.expect("you> ")
        chat.say("tick 8 250")
        chat.expect("\\[ticks\\]")
        chat.expect("1\r\n")
        chat.press("c")
        shown = chat.expect("Cancel the task.*> ")
        chat.say("n")
        shown += chat.expect("you> ")
        assert re.findall(r"^(\d)$", shown, re.MULTILINE) == ["2", "3", "4", "5", "6", "7", "8"]
        assert "completed" in shown
        chat.say("/quit")
        assert chat.end() == 0


def test_ctrl_c_twice_leaves_and_tells_how_to_come_back(server: Replica) -> None:
    with terminal(server.http_url) as chat:
        chat.expect("you> ")
        chat.say("hang")
        chat.expect("for ever")
        chat.press("c")
        chat.expect("Cancel the task.*> ")
        chat.press("c")
        (task,) = chat.find(f"The task goes on: a2a-grpc task get ([0-9a-f-]+) --wait --agent-card {server.http_url}")
        assert chat.end() == 130
    canceled = subprocess.run(
        [*COMMAND, "task", "cancel", "-a", server.http_url, task], capture_output=True, text=True, check=False
    )
    assert "State: CANCELED" in canceled.stdout


def test_a2acli_auth_011_an_authorization_is_waited_for_or_answered(server: Replica) -> None:
    with terminal(server.http_url) as chat:
        chat.expect("you> ")
        chat.say("auth")
        assert "auth required\nOpen https://idp.example.com/door first." in chat.expect("press Enter to wait")
        chat.expect("answer> ")
        chat.say("done")
        assert "[answer]\ndone\ncompleted" in chat.expect("you> ")
        chat.say("/quit")
        assert chat.end() == 0


def test_a_server_that_is_killed_and_comes_back_loses_and_repeats_nothing(server: Replica) -> None:
    with terminal(server.http_url) as chat:
        chat.expect("you> ")
        chat.say("tick 12 300")
        chat.expect("\\[ticks\\]")
        chat.expect("2\r\n")
        server.kill()
        chat.expect("The connection is lost")
        server.start()
        chat.expect("Connected again", timeout=30)
        shown = chat.expect("you> ", timeout=30)
        assert "completed" in shown
        ticks = re.findall(r"^(\d+)$", CONTROL.sub("", chat.seen), re.MULTILINE)
        # A turn that was begun anew on another replica writes its artifact anew.
        assert ticks[-12:] == [str(number) for number in range(1, 13)] or ticks == [str(n) for n in range(1, 13)]
        chat.say("echo still here")
        assert "still here" in chat.expect("you> ")
        chat.say("/quit")
        assert chat.end() == 0


@pytest.mark.slow
def test_a_message_that_was_not_sent_is_sent_when_the_server_is_there(server: Replica) -> None:
    with terminal(server.http_url) as chat:
        chat.expect("you> ")
        server.kill()
        chat.say("echo hello")
        chat.expect("The connection is lost")
        server.start()
        assert "[echo]\nhello\ncompleted" in chat.expect("you> ", timeout=40)
        chat.say("/quit")
        assert chat.end() == 0


def test_a2acli_out_005_pipes_get_text_and_no_prompt(server: Replica) -> None:
    done = piped("count 2\nask\nAda\n\n/new\necho end\n", server.http_url)

    assert (done.code, done.err) == (0, "")
    found = done.fields
    assert found["State"] == [
        *("SUBMITTED", "WORKING", "COMPLETED"),
        *("SUBMITTED", "INPUT_REQUIRED", "WORKING", "COMPLETED"),
        *("SUBMITTED", "COMPLETED"),
    ]
    assert found["Text"] == ["counting", "1 ", "2 ", "What is your name?", "Ada", "end"]
    *same, other = dict.fromkeys(found["Context"])
    assert len(same) == 1
    assert len(dict.fromkeys(found["Task"])) == 3
    assert found["Resume"] == [f'a2a-grpc send --context-id {other} --agent-card {server.http_url} "MESSAGE"']


def test_pipes_get_json_as_well(server: Replica) -> None:
    done = piped("ask\n", server.http_url, "-o", "json")
    assert done.code == 0
    assert [next(iter(event)) for event in done.json] == ["task", "statusUpdate"]
    assert done.err == "a2a-grpc: the task waits for an answer\n"

    wrong = piped("/bogus\n", server.http_url, "-o", "json")
    assert wrong.code == 2
    assert wrong.json[0]["error"]["code"] == "A2ACLI_ERR_USAGE"


def test_a_pipe_cancels_and_waits(server: Replica) -> None:
    done = piped("ask\n/cancel\n", server.http_url)
    assert done.code == 0
    assert done.fields["State"] == ["SUBMITTED", "INPUT_REQUIRED", "CANCELED"]
    assert piped("/cancel\n", server.http_url).code == 2
    assert piped("/wait\n", server.http_url).code == 2


def test_a2acli_out_005_nobody_is_asked_where_nothing_can_be_seen(server: Replica) -> None:
    command = " ".join([*COMMAND, "chat", server.http_url, "| cat; exit ${PIPESTATUS[0]}"])
    child = pexpect.spawn("bash", ["-c", command], cwd=str(ROOT), encoding="utf-8", timeout=15)
    child.expect("stdout is no terminal")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 2


async def test_a2acli_auth_011_a_task_goes_on_when_it_is_authorized() -> None:
    """Nothing is sent: the agent hears of it in its own way, and whoever waits sees how it goes on (7.6)."""
    asked: list[str] = []

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target.endswith("agent-card.json"):
            writer.write(response(body=protojson.dumps(card(("HTTP+JSON", "1.0", peer.url)))))
            return
        asked.append(operation_of(request))
        if asked[-1] == "GetTask":
            writer.write(answer_to(request, task(a2a_pb2.TASK_STATE_COMPLETED)))
            return
        waits = task_event(a2a_pb2.TASK_STATE_AUTH_REQUIRED)
        rest = [status_event(a2a_pb2.TASK_STATE_WORKING), status_event(a2a_pb2.TASK_STATE_COMPLETED)]
        events = [waits] if asked[-1] == "SendStreamingMessage" else [waits, *rest]
        writer.write(response(body=sse(*events), media_type="text/event-stream"))

    async with http_peer(respond) as peer:
        done = await asyncio.to_thread(piped, "let me in\n/wait\n", peer.url)

    assert (done.code, done.err) == (0, "")
    assert done.fields["State"] == ["AUTH_REQUIRED", "WORKING", "COMPLETED"]
    assert [operation for operation in asked if operation != "GetTask"] == ["SendStreamingMessage", "SubscribeToTask"]


async def test_a_message_that_may_have_arrived_is_not_sent_again() -> None:
    """To an agent that might do it twice: it declares no numbers for its events, so it may not know messages again."""
    asked: list[str] = []

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target.endswith("agent-card.json"):
            writer.write(response(body=protojson.dumps(card(("HTTP+JSON", "1.0", peer.url)))))
            return
        asked.append(operation_of(request))
        writer.transport.abort()

    async with http_peer(respond) as peer:
        done = await asyncio.to_thread(piped, "hello\nagain\n", peer.url)

    assert done.code == 3
    assert "Nobody knows whether the agent got the message." in done.err
    assert asked == ["SendStreamingMessage"]


async def test_an_agent_that_is_not_there_ends_the_chat(server: Replica) -> None:
    done = await asyncio.to_thread(piped, "hello\n", "http://127.0.0.1:1")
    assert done.code == 3
    assert "A2ACLI_ERR_UNREACHABLE" in done.err
