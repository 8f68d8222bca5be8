"""`a2a-grpc send` (a2a-cli specification 0.2, 8, 9 and 10.2), against two real replicas."""

import asyncio
import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from tests.client.peers import (
    Request,
    answer_to,
    card,
    http_peer,
    operation_of,
    params_of,
    response,
    task,
    task_event,
)
from tests.support.commands import Outcome, Run, running
from tests.support.replica import ROOT, Pair

pytestmark = [pytest.mark.wide, pytest.mark.agent("tests.client.cli_agent:agent")]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return running(capsys)


@pytest.fixture
def url(two_replicas: Pair) -> str:
    return two_replicas.replicas[0].http_url


@pytest.mark.parametrize("transport", BINDINGS)
def test_a2acli_send_001_starts_an_interaction(run: Run, url: str, transport: str) -> None:
    done = run("send", "-a", url, "echo hello", "--transport", transport)

    assert (done.code, done.err) == (0, "")
    found = done.fields
    assert list(found) == ["Task", "Context", "State", "Updated", "Artifact", "Text", "Resume"]
    assert found["State"] == ["COMPLETED"]
    assert (found["Artifact"], found["Text"]) == (["echo"], ["hello"])


def test_a2acli_send_002_waits_unless_told_not_to(run: Run, url: str) -> None:
    assert run("send", "-a", url, "tick 3 50").fields["State"] == ["COMPLETED"]

    started = run("send", "-a", url, "tick 3 50", "--async")
    assert (started.code, started.err) == (0, "")
    assert started.fields["State"][0] in ("SUBMITTED", "WORKING")
    (task_id,) = started.fields["Task"]
    assert started.fields["Resume"] == [f"a2a-grpc task get {task_id} --wait --agent-card {url}"]


def test_a2acli_default_001_a_configured_async_gives_way_to_the_flag(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2ACLI_ASYNC", "true")
    assert run("send", "-a", url, "tick 3 50").fields["State"][0] in ("SUBMITTED", "WORKING")
    assert run("send", "-a", url, "tick 3 50", "--wait").fields["State"] == ["COMPLETED"]


@pytest.mark.parametrize("transport", BINDINGS)
def test_a2acli_send_003_streams(run: Run, url: str, transport: str) -> None:
    done = run("send", "-a", url, "count 3", "--stream", "--transport", transport)

    assert (done.code, done.err) == (0, "")
    found = done.fields
    assert found["State"] == ["SUBMITTED", "WORKING", "COMPLETED"]
    assert found["Artifact"] == ["count", "count (continued)", "count (continued)"]
    assert found["Text"] == ["counting", "1 ", "2 ", "3 "]
    last = done.lines[-5:]
    assert [line.partition(":")[0] for line in last] == ["Task", "Context", "State", "Updated", "Resume"]


def test_a2acli_send_003_a_message_is_all_that_comes(run: Run, url: str) -> None:
    for more in ([], ["--stream"]):
        done = run("send", "-a", url, "msg hello", *more)
        assert (done.code, done.err) == (0, "")
        assert done.fields["Message"] == ["agent"]
        assert done.fields["Text"] == ["hello"]
        (answer,) = run("send", "-a", url, "msg hello", *more, "-o", "json").json
        assert list(answer) == ["message"]


async def test_a2acli_send_003_never_hangs_on_an_agent_that_does_not_stream(run: Run) -> None:
    looks = [a2a_pb2.TASK_STATE_WORKING, a2a_pb2.TASK_STATE_COMPLETED]
    at: list[float] = []

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target.endswith("agent-card.json"):
            found = card(("HTTP+JSON", "1.0", peer.url), streaming=False)
            writer.write(response(body=protojson.dumps(found)))
        elif operation_of(request) == "SendMessage":
            sent.append(params_of(request, a2a_pb2.SendMessageRequest))
            answer = a2a_pb2.SendMessageResponse(task=task(a2a_pb2.TASK_STATE_SUBMITTED))
            writer.write(answer_to(request, answer))
        else:
            assert operation_of(request) == "GetTask"
            at.append(time.monotonic())
            writer.write(answer_to(request, task(looks.pop(0))))

    sent: list[a2a_pb2.SendMessageRequest] = []
    async with http_peer(respond) as peer:
        argv = ("send", "-a", peer.url, "hi", "--stream", "-o", "json", "--poll-interval", "200ms")
        done = await asyncio.to_thread(run, *argv)

    assert done.code == 0
    assert at[1] - at[0] >= 0.3, "the second pause is half as long again as the first"
    assert [next(iter(event)) for event in done.json] == ["task", "statusUpdate", "statusUpdate"]
    assert "does not stream" in done.err
    assert sent[0].configuration.return_immediately


def test_a2acli_send_004_renders_every_kind_of_part(run: Run, url: str) -> None:
    done = run("send", "-a", url, "all")

    assert done.code == 0
    found = done.fields
    assert found["Artifact"] == ["words", "table", "picture", "link"]
    assert found["Text"] == ["first line\nsecond line"]
    assert json.loads(found["Data"][0]) == {"a": None, "b": [1, 2]}
    assert found["File"] == [
        "plot.png, image/png, 8 bytes",
        "(no name), application/x-big, at https://files.example.com/big.bin",
    ]


def test_a2acli_send_005_and_006_parts_keep_their_order_and_their_media_types(
    run: Run, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "note.md"
    note.write_text("# note")
    nameless = tmp_path / "nameless"
    nameless.write_text("?")
    numbers = tmp_path / "numbers.json"
    numbers.write_text("[1, 2]")
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"from": "stdin"}'))

    done = run(
        *("send", "-a", url, "parts", "--data", "-", "--file", str(note), "--text", "first", "--data", str(numbers)),
        *("--media-type", "application/x-numbers", "--file", str(nameless), "--media-type", "text/x-odd"),
        *("--file", "https://x.example/y.pdf", "--text", "second", "--media-type", "text/html"),
    )

    assert done.code == 0, done.err
    assert json.loads(done.fields["Text"][0]) == [
        ["text", "parts", "", ""],
        ["data", "data", "", ""],
        ["raw", "# note", "text/markdown", "note.md"],
        ["text", "first", "", ""],
        ["data", "data", "application/x-numbers", ""],
        ["raw", "?", "text/x-odd", "nameless"],
        ["url", "https://x.example/y.pdf", "application/pdf", ""],
        ["text", "second", "text/html", ""],
    ]


def test_text_comes_from_stdin(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("echo from a pipe\n"))
    assert run("send", "-a", url, "-").fields["Text"] == ["from a pipe"]


def test_metadata_travels_in_the_request(run: Run, url: str) -> None:
    done = run("send", "-a", url, "metadata", "--metadata", '{"k": {"n": 1}}')
    assert json.loads(done.fields["Data"][0]) == {"k": {"n": 1}}


def test_a2acli_interact_001_a_context_goes_on(run: Run, url: str) -> None:
    (first,) = run("send", "-a", url, "echo 1", "-o", "json").json
    context_id = first["task"]["contextId"]

    second = run("send", "-a", url, "echo 2", "--context-id", context_id)
    assert second.fields["Context"] == [context_id]
    assert second.fields["Task"] != [first["task"]["id"]]


def test_a2acli_interact_002_a_task_that_asks_is_answered(run: Run, url: str) -> None:
    asked = run("send", "-a", url, "ask")
    assert asked.code == 0
    assert asked.err == "a2a-grpc: the task waits for an answer\n"
    ((task_id,), (context_id,)) = asked.fields["Task"], asked.fields["Context"]
    assert asked.fields["State"] == ["INPUT_REQUIRED"]
    assert asked.fields["Text"] == ["What is your name?"]
    assert asked.fields["Resume"] == [f'a2a-grpc send --task-id {task_id} --agent-card {url} "REPLY"']

    wrong = run("send", "-a", url, "Ada", "--task-id", task_id, "--context-id", "another")
    assert wrong.code == 1
    assert "(InvalidParamsError)" in wrong.err
    assert "--debug" in wrong.err

    answered = run("send", "-a", url, "Ada", "--task-id", task_id, "--context-id", context_id)
    assert answered.fields["Task"] == [task_id]
    assert answered.fields["Text"] == ["Ada"]


def test_a2acli_interact_002_a_task_that_is_refused_makes_no_other(run: Run, url: str) -> None:
    (done,) = run("send", "-a", url, "echo 1", "-o", "json").json
    context_id = done["task"]["contextId"]
    for task_id, code in (("nothing", "TaskNotFoundError"), (done["task"]["id"], "UnsupportedOperationError")):
        for more in ([], ["--stream"], ["--async"]):
            refused = run("send", "-a", url, "again", "--task-id", task_id, *more)
            assert refused.code == 1
            assert refused.out == ""
            assert f"({code})" in refused.err
            assert "--debug shows" in refused.err
    (page,) = run("task", "list", "-a", url, "--context-id", context_id, "-o", "json").json
    assert page["totalSize"] == 1


async def test_a2acli_interact_003_ids_of_the_server_are_never_invented(run: Run) -> None:
    sent: list[a2a_pb2.SendMessageRequest] = []

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target.endswith("agent-card.json"):
            found = card(("HTTP+JSON", "1.0", peer.url), streaming=False)
            writer.write(response(body=protojson.dumps(found)))
        else:
            sent.append(params_of(request, a2a_pb2.SendMessageRequest))
            answer = a2a_pb2.SendMessageResponse(task=task(a2a_pb2.TASK_STATE_COMPLETED))
            writer.write(answer_to(request, answer))

    async with http_peer(respond) as peer:
        for _ in range(2):
            await asyncio.to_thread(run, "send", "-a", peer.url, "hi", "--async")
        await asyncio.to_thread(run, "send", "-a", peer.url, "hi", "--async", "--task-id", "t9")

    fresh, again, named = (request.message for request in sent)
    assert (fresh.task_id, fresh.context_id, again.task_id, again.context_id) == ("", "", "", "")
    assert (named.task_id, named.context_id) == ("t9", "")
    assert len({fresh.message_id, again.message_id, named.message_id}) == 3


def test_a2acli_interact_004_says_how_to_go_on_after_the_end(run: Run, url: str) -> None:
    done = run("send", "-a", url, "echo 1")
    (context_id,) = done.fields["Context"]
    assert done.fields["Resume"] == [f'a2a-grpc send --context-id {context_id} --agent-card {url} "MESSAGE"']


def test_a2acli_interact_004_an_agent_of_the_settings_is_not_repeated(
    run: Run, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2ACLI_AGENT_CARD", url)
    done = run("send", "ask")
    assert done.fields["Resume"] == [f'a2a-grpc send --task-id {done.fields["Task"][0]} "REPLY"']


def test_a2acli_interact_005_nothing_is_remembered(
    run: Run, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    first, second = run("send", "-a", url, "ask"), run("send", "-a", url, "ask")

    assert first.fields["Task"] != second.fields["Task"]
    assert first.fields["Context"] != second.fields["Context"]
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    ("text", "state", "warning"),
    [
        ("fail", "FAILED", "the task failed"),
        ("reject", "REJECTED", "the task was rejected"),
        ("ask", "INPUT_REQUIRED", "the task waits for an answer"),
        ("auth", "AUTH_REQUIRED", "the task waits for an authorization"),
    ],
)
def test_a2acli_exit_002_what_the_agent_decided_is_no_exit_code(
    run: Run, url: str, text: str, state: str, warning: str
) -> None:
    """B115: nor is it success; it is named."""
    for more in ([], ["--stream"]):
        done = run("send", "-a", url, text, *more)
        assert done.code == 0
        assert done.fields["State"][-1] == state
        assert done.err == f"a2a-grpc: {warning}\n"
        assert run("send", "-a", url, text, *more, "-o", "json").err == f"a2a-grpc: {warning}\n"


def test_a2acli_out_006_async_gives_the_identifiers(run: Run, url: str) -> None:
    done = run("send", "-a", url, "hang", "--async", "-o", "json")
    (answer,) = done.json
    assert answer["task"]["id"]
    assert answer["task"]["contextId"]
    assert run("task", "cancel", "-a", url, answer["task"]["id"]).code == 0


def command(*argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "a2a_grpc.command", *argv],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def test_a2acli_task_poll_002_ctrl_c_leaves_the_identifiers(url: str) -> None:
    """Both where events are shown and where somebody only waits."""
    with command("send", "-a", url, "hang", "--stream") as process:
        assert process.stdout is not None
        for _ in range(5):
            await asyncio.to_thread(process.stdout.readline)
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.to_thread(process.communicate, None, 10)
    assert process.returncode == 130
    assert "a2a-grpc: the task goes on: a2a-grpc task get " in err
    assert "Traceback" not in err

    with command("send", "-a", url, "hang") as process:
        assert process.stderr is not None
        told = await asyncio.to_thread(process.stderr.readline)
        assert told.startswith("a2a-grpc: waiting for task ")
        process.send_signal(signal.SIGINT)
        out, err = await asyncio.to_thread(process.communicate, None, 10)
    assert process.returncode == 130
    assert out == ""
    assert f"task get {told.split()[4]} --wait" in err


async def test_a_reader_that_leaves_ends_a_stream_without_a_traceback(url: str) -> None:
    with command("send", "-a", url, "count 20000", "--stream") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        await asyncio.to_thread(process.stdout.readline)
        process.stdout.close()
        assert await asyncio.to_thread(process.wait, 20) == 1
        assert process.stderr.read() == ""


def test_a2acli_out_001_a_script_need_not_know_the_binding(run: Run, url: str) -> None:
    """6.4: nor the language that the agent is written in."""

    def told(transport: str) -> Outcome:
        done = run("send", "-a", url, "all", "--transport", transport)
        lines = [line for line in done.lines if not line.startswith(("Task:", "Context:", "Updated:", "Resume:"))]
        return Outcome(done.code, "\n".join(lines), done.err)

    first, *others = (told(transport) for transport in BINDINGS)
    assert others == [first, first]


async def test_a2acli_task_poll_004_a_wait_whose_stream_breaks_looks_at_the_task(run: Run) -> None:
    looks = [task(a2a_pb2.TASK_STATE_WORKING), task(a2a_pb2.TASK_STATE_COMPLETED)]
    asked: list[str] = []

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target.endswith("agent-card.json"):
            writer.write(response(body=protojson.dumps(card(("HTTP+JSON", "1.0", peer.url)))))
            return
        asked.append(operation_of(request))
        if asked[-1] == "SendStreamingMessage":
            body = b"data: " + protojson.dumps(task_event(a2a_pb2.TASK_STATE_WORKING)) + b"\n\n"
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9999\r\n\r\n"
            writer.write(head + body)
            await writer.drain()
            writer.transport.abort()
        else:
            writer.write(answer_to(request, looks.pop(0) if len(looks) > 1 else looks[0]))

    async with http_peer(respond) as peer:
        done = await asyncio.to_thread(
            run, "send", "-a", peer.url, "hi", "-o", "json", "--poll-interval", "50ms", "--debug"
        )

    assert done.code == 0
    (answer,) = done.json
    assert answer["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert asked[0] == "SendStreamingMessage"
    assert set(asked[1:]) == {"GetTask"}


def test_what_stands_behind_two_dashes_is_said_as_it_is(run: Run, url: str) -> None:
    done = run("send", "-a", url, "parts", "--", "-o", "--", "--nope")
    assert done.code == 0
    (said,) = done.fields["Text"]
    assert [text for _, text, _, _ in json.loads(said)] == ["parts", "-o", "--", "--nope"]


@pytest.mark.parametrize(
    "argv",
    [
        ("echo \udcff",),
        ("--task-id", "\udcff", "hi"),
        ("--text", "\udcff"),
        ("--svc-param", "a:\udcff", "hi"),
        ("--metadata", '{"a": NaN}', "hi"),
        ("--metadata", '{"a": [1e400]}', "hi"),
    ],
)
def test_arguments_that_no_message_can_carry_are_wrong_arguments(run: Run, argv: tuple[str, ...]) -> None:
    done = run("send", "-a", "grpc://127.0.0.1:1", "-o", "json", *argv)
    assert (done.code, done.err) == (2, "")
    assert done.json[0]["error"]["code"] == "A2ACLI_ERR_USAGE"


@pytest.mark.parametrize("where", ["http://[::1", "http://localhost:99999", "grpc://", "https:///card.json", "a:99999"])
def test_a_url_without_a_host_is_no_agent(run: Run, where: str) -> None:
    done = run("send", "-a", where, "hi")
    assert (done.code, done.out) == (3, "")
    assert "is no agent" in done.err
