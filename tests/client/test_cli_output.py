"""Forms of output, errors, exit codes (a2a-cli specification 0.2, 11 and its appendices)."""

import asyncio
import io
import json
import os
import re
import subprocess
import sys

import pytest

from a2a_grpc.client import A2AClient
from a2a_grpc.client.cli.failures import EXITS, CommandError, failure_of
from a2a_grpc.client.cli.output import write_json
from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.client.printing import plain
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import errors, protojson
from tests.client.cli_agent import EVIL
from tests.client.peers import Request, card, data, http_peer, operation_of, response, task_event
from tests.support.commands import Outcome, Run, running
from tests.support.replica import ROOT, Pair

pytestmark = [pytest.mark.wide, pytest.mark.agent("tests.client.cli_agent:agent")]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return running(capsys)


@pytest.fixture
def url(two_replicas: Pair, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("A2ACLI_AGENT_CARD", two_replicas.replicas[0].http_url)
    return two_replicas.replicas[0].http_url


def test_a2acli_out_001_every_answer_names_its_task(run: Run, url: str) -> None:
    (sent,) = run("send", "echo 1", "-o", "json").json
    task_id, context_id = sent["task"]["id"], sent["task"]["contextId"]
    for argv in (
        ("task", "get", task_id),
        ("task", "get", task_id, "--wait"),
        ("task", "subscribe", task_id),
        ("task", "subscribe", task_id, "--stream"),
        ("task", "download", task_id, "--directory", "/nonexistent", "--artifact", "none"),
    ):
        done = run(*argv)
        if done.code == 0:
            assert done.fields["Task"][-1] == task_id
            assert done.fields["Context"][-1] == context_id
            assert done.fields["State"][-1] == "COMPLETED"
            assert done.err == ""


@pytest.mark.parametrize("transport", BINDINGS)
def test_a2acli_out_002_one_document_which_is_the_end(run: Run, url: str, transport: str) -> None:
    done = run("send", "count 3", "-o", "json", "--transport", transport)
    assert (done.code, done.err) == (0, "")
    answer = json.loads(done.out)
    assert list(answer) == ["task"]
    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    protojson.from_dict(answer, a2a_pb2.SendMessageResponse)
    assert json.loads(run("task", "get", answer["task"]["id"], "-o", "json").out) == answer["task"]


def test_a2acli_out_002_nothing_but_the_flag_makes_it_a_stream(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2ACLI_STREAM", "true")
    monkeypatch.setenv("A2ACLI_OUTPUT", "json")
    assert list(json.loads(run("send", "count 2").out)) == ["task"]
    assert len(run("send", "count 2", "--stream").json) == 5


@pytest.mark.parametrize("transport", BINDINGS)
def test_a2acli_out_003_a_stream_is_an_object_on_each_line(run: Run, url: str, transport: str) -> None:
    done = run("send", "count 2", "--stream", "-o", "json", "--transport", transport)
    assert [next(iter(event)) for event in done.json] == [
        *("task", "statusUpdate", "artifactUpdate", "artifactUpdate", "statusUpdate")
    ]
    for event in done.json:
        protojson.from_dict(event, a2a_pb2.StreamResponse)
    last = done.json[-1]["statusUpdate"]
    assert last["taskId"] and last["contextId"]
    assert last["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a2acli_out_003_lines_come_as_events_happen(url: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "a2a_grpc.command", "send", "-a", url, "hang", "--stream", "-o", "json"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(20):
        lines = [json.loads(await process.stdout.readline()) for _ in range(2)]
    assert lines[1]["statusUpdate"]["status"]["state"] == "TASK_STATE_WORKING"
    process.terminate()
    await process.wait()


async def test_a2acli_out_003_a_stream_that_fails_ends_with_an_error(run: Run) -> None:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target.endswith("agent-card.json"):
            writer.write(response(body=protojson.dumps(card(("HTTP+JSON", "1.0", peer.url)))))
            return
        assert operation_of(request) == "SendStreamingMessage"
        begun = data(request, task_event(a2a_pb2.TASK_STATE_WORKING))
        failed = data(request, errors.InternalError("It broke.\x1b[2J"))
        body = b"data: " + begun + b"\n\nevent: error\ndata: " + failed + b"\n\n"
        writer.write(response(body=body, media_type="text/event-stream"))

    async with http_peer(respond) as peer:
        done = await asyncio.to_thread(run, "send", "-a", peer.url, "hi", "--stream", "-o", "json")

    assert done.code == 1
    first, last = done.json
    assert first["task"]["id"] == "t1"
    assert last["error"]["code"] == "InternalError"
    assert "\x1b" not in done.out


@pytest.mark.parametrize("transport", BINDINGS)
def test_a2acli_out_004_errors_are_the_same_on_every_binding(run: Run, url: str, transport: str) -> None:
    for argv in (("task", "get", "no"), ("task", "cancel", "no"), ("task", "subscribe", "no", "--stream")):
        done = run(*argv, "-o", "json", "--transport", transport)
        assert done.code == 1
        (envelope,) = done.json
        assert set(envelope["error"]) == {"code", "message", "hint", "a2aCode"}
        assert envelope["error"]["code"] == "TaskNotFoundError"
        assert envelope["error"]["a2aCode"] == "TASK_NOT_FOUND"
        assert envelope["error"]["message"].startswith("There is no such task")
        assert done.err == ""
        text = run(*argv, "--transport", transport)
        assert text.out == ""
        assert text.err.splitlines()[0].endswith(" (TaskNotFoundError)")


def test_a2acli_out_004_codes_of_the_command_itself(run: Run, url: str) -> None:
    def error(*argv: str) -> tuple[int, str]:
        done = run(*argv, "-o", "json")
        return done.code, done.json[0]["error"]["code"]

    assert error("task", "get") == (2, "A2ACLI_ERR_USAGE")
    assert error("task", "get", "x", "--bogus") == (2, "A2ACLI_ERR_USAGE")
    assert error("send", "-a", "./none.json", "hi") == (3, "A2ACLI_ERR_CARD_NOT_FOUND")
    assert error("send", "-a", "http://127.0.0.1:1", "hi") == (3, "A2ACLI_ERR_UNREACHABLE")
    assert error("send", "-a", "https://agent.invalid", "hi") == (3, "A2ACLI_ERR_UNREACHABLE")
    assert error("send", "-a", "grpc://127.0.0.1:1", "hi") == (3, "A2ACLI_ERR_UNREACHABLE")
    assert error("send", "hang", "--timeout", "0.2") == (5, "A2ACLI_ERR_TIMEOUT")


def test_a2acli_out_004_what_nobody_expected_is_told_as_well(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("s3cret-token in it")

    monkeypatch.setattr(A2AClient, "get_task", broken)
    argv = ("task", "get", "x", "--bearer", "s3cret-token")
    for more in ((), ("--debug",)):
        done = run(*argv, "-o", "json", *more)
        assert done.code == 1
        assert done.json[0]["error"]["code"] == "A2ACLI_ERR_INTERNAL"
        assert done.json[0]["error"]["message"] == "ZeroDivisionError: [hidden] in it"
        assert ("Traceback" in done.err) == bool(more)
        assert "s3cret" not in done.err


def test_a2acli_exit_001_codes_agree_with_exit_codes() -> None:
    """Appendix D, all of it."""
    assert EXITS == {
        "A2ACLI_ERR_USAGE": 2,
        "A2ACLI_ERR_CARD_NOT_FOUND": 3,
        "A2ACLI_ERR_CARD_INVALID": 1,
        "A2ACLI_ERR_UNREACHABLE": 3,
        "A2ACLI_ERR_CREDENTIALS_MISSING": 4,
        "A2ACLI_ERR_AUTH_FAILED": 4,
        "A2ACLI_ERR_TIMEOUT": 5,
        "A2ACLI_ERR_INTERNAL": 1,
    }
    for code, exit_code in EXITS.items():
        assert failure_of(CommandError(code, "x")).exit == exit_code


def test_a2acli_out_004_protocol_errors_keep_their_names() -> None:
    own = {
        errors.UnauthenticatedError: "A2ACLI_ERR_CREDENTIALS_MISSING",
        errors.DeadlineExceededError: "A2ACLI_ERR_TIMEOUT",
        errors.UnavailableError: "A2ACLI_ERR_UNREACHABLE",
        errors.InvalidArgumentError: "InvalidParamsError",
        errors.JsonParseError: "JSONParseError",
    }
    for kind in errors.ERRORS:
        failure = failure_of(kind("x"))
        assert failure.code == own.get(kind, kind.__name__)
        assert failure.exit == EXITS.get(failure.code, 1)
        assert failure.a2a_code == kind.kind.reason
    assert failure_of(errors.UnauthenticatedError("x"), credentials=True).code == "A2ACLI_ERR_AUTH_FAILED"


def test_a2acli_out_005_text_is_fields_and_blocks(run: Run, url: str) -> None:
    """`fields` takes the output apart, and fails on a line that is neither."""
    for argv in (("send", "all"), ("send", "count 3", "--stream"), ("task", "list"), ("card", "get")):
        for more in ((), ("--verbose",)):
            done = run(*argv, *more)
            assert done.code == 0
            assert done.fields
            assert not re.search(r"[^\n\t\x20-\x7e]", done.out)


def test_a2acli_out_005_an_agent_can_say_nothing_that_is_taken_for_output(run: Run, url: str) -> None:
    for more in ([], ["--stream"], ["--verbose"]):
        done = run("send", "evil", *more)
        assert done.code == 0
        assert set(done.fields["State"]) <= {"SUBMITTED", "WORKING", "FAILED"}
        assert done.fields["State"][-1] == "FAILED"
        assert plain(EVIL) in done.fields["Text"]
        assert "[bold]not bold[/bold]" in done.out
        for wrong in "\x1b\x07\x9b\u202e\r":
            assert wrong not in done.out + done.err


def test_json_holds_nothing_that_a_terminal_obeys(run: Run, url: str) -> None:
    done = run("send", "evil", "-o", "json")
    assert json.loads(done.out)["task"]["artifacts"][0]["parts"] == [{"text": EVIL}]
    for wrong in "\x1b\x07\x9b\u202e\r":
        assert wrong not in done.out
    out = io.StringIO()
    write_json({"é": "日\u202e\x7f"}, out)
    assert out.getvalue() == '{"é": "日\\u202e\\u007f"}\n'


def test_a_letter_that_the_terminal_lacks_ends_nothing(url: str) -> None:
    def printed(*argv: str) -> str:
        env = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        command = [sys.executable, "-m", "a2a_grpc.command", "send", "msg \u00e9\u65e5", *argv]
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=True)
        return done.stdout.decode("ascii")

    assert "  \\xe9\\u65e5\n" in printed()
    assert json.loads(printed("-o", "json"))["message"]["parts"] == [{"text": "\u00e9\u65e5"}]


def test_a2acli_out_007_debug_shows_the_messages(run: Run, url: str) -> None:
    for transport in BINDINGS:
        done = run("send", "count 1", "--debug", "-o", "json", "--transport", transport)
        assert list(json.loads(done.out)) == ["task"]
        sent, *answers = [line for line in done.err.splitlines() if " SendStreamingMessage " in line]
        assert sent.startswith(f"a2a-grpc: > SendStreamingMessage {transport} ")
        assert " a2a-version=1.0 " in sent
        assert json.loads(sent[sent.index("{") :])["message"]["parts"] == [{"text": "count 1"}]
        assert [next(iter(json.loads(line[line.index("{") :]))) for line in answers] == [
            *("task", "statusUpdate", "artifactUpdate", "statusUpdate")
        ]
        assert all(re.search(r" [0-9]+ ms \{", line) for line in answers)


def test_verbose_shows_what_was_exchanged(run: Run, url: str) -> None:
    done = run("send", "all", "--verbose")
    assert [value.split()[0] for value in done.fields["History"]] == ["user"]
    assert re.fullmatch(r"words [0-9a-f]+", done.fields["Artifact"][0])


def test_plain_is_without_what_a_terminal_obeys() -> None:
    assert plain("a\x1b[2Jb\x9bc\u202ed\re\n\tf\x07") == "a[2Jbcde\n\tf"


def test_nothing_else_is_an_outcome() -> None:
    with pytest.raises(AssertionError, match="is no field"):
        _ = Outcome(0, "what is this\n", "").fields


def shell(line: str, url: str) -> tuple[int, str, str]:
    """What a line of a shell does, in a locale in which bytes that are no text pass as text."""
    command = f"{sys.executable} -m a2a_grpc.command"
    done = subprocess.run(
        ["/bin/sh", "-c", line.replace("a2a-grpc", command).replace("URL", url)],
        cwd=ROOT,
        env=os.environ | {"LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("printf 'echo \\377' | a2a-grpc send -a URL -", 2, "What is on stdin is no text"),
        ("printf 'echo \\377' | a2a-grpc chat URL", 2, "What is on stdin is no text"),
        ("a2a-grpc send -a URL - <&-", 2, "There is nothing on stdin"),
        ("a2a-grpc send -a URL 'echo x' >&-", 0, ""),
        ("a2a-grpc send -a URL -o json --nope 2>&1 >/dev/full", 2, ""),
    ],
)
def test_whatever_stdin_and_stdout_are_the_outcome_is_told_in_a_sentence(
    url: str, line: str, code: int, said: str
) -> None:
    found, _, err = shell(line, url)
    assert (found, "Traceback" in err, "INTERNAL" in err) == (code, False, False)
    assert said in err


def test_without_stderr_the_outcome_is_the_same(url: str) -> None:
    code, out, _ = shell("a2a-grpc send -a URL fail 2>&-", url)
    assert code == 0
    assert "State: FAILED" in out
