"""`a2a-grpc task` (a2a-cli specification 0.2, 9, 10.3 and 10.4), against two real replicas."""

import asyncio
import itertools
import json
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import UnavailableError
from tests.client.peers import Request, answer_to, card, http_peer, operation_of, response, task
from tests.support.commands import Run, running
from tests.support.replica import ROOT, Pair

pytestmark = [
    pytest.mark.wide,
    pytest.mark.agent("tests.client.cli_agent:agent", A2A_PUSH_ALLOW="localhost", A2A_PUSH_ALLOW_HTTP="true"),
]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return running(capsys)


@pytest.fixture
def url(two_replicas: Pair, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("A2ACLI_AGENT_CARD", two_replicas.replicas[0].http_url)
    return two_replicas.replicas[0].http_url


def started(run: Run, text: str) -> str:
    (answer,) = run("send", text, "--async", "-o", "json").json
    return str(answer["task"]["id"])


@pytest.mark.parametrize("transport", BINDINGS)
def test_a2acli_task_get_001_state_artifacts_and_history(run: Run, url: str, transport: str) -> None:
    (answer,) = run("send", "all", "-o", "json").json
    task_id = answer["task"]["id"]

    done = run("task", "get", task_id, "--transport", transport)
    assert (done.code, done.err) == (0, "")
    assert done.fields["Task"] == [task_id]
    assert done.fields["Context"] == [answer["task"]["contextId"]]
    assert done.fields["State"] == ["COMPLETED"]
    assert done.fields["Artifact"] == ["words", "table", "picture", "link"]
    assert "History" not in done.fields

    with_history = run("task", "get", task_id, "--history", "5", "--transport", transport)
    assert with_history.fields["History"] == ["user"]
    assert "all" in with_history.fields["Text"]
    assert run("task", "get", task_id, "-o", "json", "--transport", transport).json == [answer["task"]]


def test_a2acli_task_cancel_001_reports_the_state(run: Run, url: str) -> None:
    task_id = started(run, "hang")

    done = run("task", "cancel", task_id)
    assert done.code == 0
    assert done.fields["Task"] == [task_id]
    assert done.fields["State"] == ["CANCELED"]
    assert done.err == "a2a-grpc: the task was canceled\n"

    again = run("task", "cancel", task_id, "-o", "json")
    assert again.code == 1
    assert again.json[0]["error"]["code"] == "TaskNotCancelableError"
    assert run("task", "get", task_id).fields["State"] == ["CANCELED"]


def test_a2acli_task_poll_001_a_look_and_a_wait(run: Run, url: str, tmp_path: Path) -> None:
    go = tmp_path / "go"
    task_id = started(run, f"after {go} 4 100")
    assert run("task", "get", task_id).fields["State"][0] in ("SUBMITTED", "WORKING")

    go.touch()
    waited = run("task", "get", task_id, "--wait", "--poll-interval", "100ms")
    assert (waited.code, waited.err) == (0, "")
    assert waited.fields["State"] == ["COMPLETED"]
    assert waited.fields["Text"] == ["1\n2\n3\n4"]


def test_a2acli_task_poll_002_the_timeout_is_kept_and_says_how_to_go_on(run: Run, url: str) -> None:
    task_id = started(run, "hang")
    begun = time.monotonic()
    for argv in (("task", "get", task_id, "--wait"), ("task", "subscribe", task_id), ("send", "hang")):
        done = run(*argv, "--timeout", "300ms", "--poll-interval", "50ms")
        assert done.code == 5
        assert "A2ACLI_ERR_TIMEOUT" in done.err
        assert " --wait" in done.err.splitlines()[-1]
    assert time.monotonic() - begun < 20
    assert run("task", "get", task_id, "--wait", "--timeout", "0.1").code == 5
    run("task", "cancel", task_id)


async def test_a2acli_task_poll_002_and_003_pauses_grow_and_an_unknown_state_is_waited_through(run: Run) -> None:
    looks: list[float] = []

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target.endswith("agent-card.json"):
            writer.write(response(body=protojson.dumps(card(("HTTP+JSON", "1.0", peer.url), streaming=False))))
            return
        assert operation_of(request) == "GetTask"
        looks.append(time.monotonic())
        if len(looks) == 2:
            writer.write(answer_to(request, UnavailableError("Not now.")))
        else:
            state = a2a_pb2.TASK_STATE_UNSPECIFIED if len(looks) < 5 else a2a_pb2.TASK_STATE_INPUT_REQUIRED
            writer.write(answer_to(request, task(state)))

    async with http_peer(respond) as peer:
        argv = ("task", "get", "-a", peer.url, "t1", "--wait", "--poll-interval", "100ms")
        done = await asyncio.to_thread(run, *argv)
        assert done.code == 0
        assert done.fields["State"] == ["INPUT_REQUIRED"]
        assert done.err == "a2a-grpc: the task waits for an answer\n"
        pauses = [after - before for before, after in itertools.pairwise(looks)]
        assert len(pauses) == 4
        for pause, least in zip(pauses, (0.1, 0.15, 0.225, 0.337), strict=True):
            assert least <= pause < least + 2

        looks[:] = [0.0, 0.0]
        unknown = await asyncio.to_thread(run, "task", "get", "-a", peer.url, "t1")
        assert unknown.fields["State"] == ["UNSPECIFIED"]
        looks[:] = [0.0, 0.0]
        assert (await asyncio.to_thread(run, *argv, "--timeout", "150ms")).code == 5


def test_a2acli_task_poll_003_a_wait_stops_where_the_caller_is_asked(run: Run, url: str) -> None:
    for text, state in (("ask", "INPUT_REQUIRED"), ("auth", "AUTH_REQUIRED")):
        task_id = started(run, text)
        for argv in (("get", "--wait", "--poll-interval", "50ms"), ("subscribe",), ("subscribe", "--stream")):
            done = run("task", *argv, task_id)
            assert done.code == 0
            assert done.fields["State"][-1] == state
            assert done.fields["Resume"][0] == f'a2a-grpc send --task-id {task_id} "REPLY"'


@pytest.mark.parametrize("transport", BINDINGS)
def test_a2acli_task_subscribe_001_follows_a_task(run: Run, url: str, tmp_path: Path, transport: str) -> None:
    go = tmp_path / "go"
    task_id = started(run, f"after {go} 3 10")
    with subscribing(task_id, "--transport", transport) as (process, events):
        first = next(events)
        go.touch()
        *others, last = events
        assert process.wait(30) == 0

    assert first["task"]["id"] == task_id
    assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "".join(text for event in (first, *others) for text in texts(event)) == "1\n2\n3\n"

    (whole,) = run("task", "subscribe", task_id, "-o", "json", "--transport", transport).json
    assert whole["id"] == task_id
    assert whole["status"]["state"] == "TASK_STATE_COMPLETED"


@contextmanager
def subscribing(*argv: str) -> Iterator[tuple[subprocess.Popen[str], Iterator[Any]]]:
    """A process that follows a task, and the events that it prints. It has subscribed when the first one is there."""
    command = [sys.executable, "-m", "a2a_grpc.command", "task", "subscribe", *argv, "--stream", "-o", "json"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, map(json.loads, process.stdout)


def texts(event: dict[str, dict[str, dict[str, list[dict[str, str]]]]]) -> list[str]:
    artifacts = [event["artifactUpdate"]["artifact"]] if "artifactUpdate" in event else []
    artifacts += event.get("task", {}).get("artifacts", [])  # type: ignore[arg-type]
    return [part["text"] for artifact in artifacts for part in artifact["parts"]]


def test_a2acli_task_subscribe_001_a_task_that_has_ended_gives_its_end(run: Run, url: str) -> None:
    """B113."""
    (answer,) = run("send", "echo hello", "-o", "json").json
    done = run("task", "subscribe", answer["task"]["id"], "--stream")
    assert done.code == 0
    assert done.fields["State"] == ["COMPLETED"]
    assert done.fields["Text"] == ["hello"]


def test_a2acli_task_subscribe_002_goes_on_after_a_cut(run: Run, two_replicas: Pair, tmp_path: Path) -> None:
    """B105: the replica that is subscribed to is killed; each event comes once."""
    one, other = two_replicas.replicas
    (both,) = run("card", "get", "-a", one.http_url, "-o", "json").json
    both["supportedInterfaces"] += run("card", "get", "-a", other.http_url, "-o", "json").json[0]["supportedInterfaces"]
    file = tmp_path / "card.json"
    file.write_text(json.dumps(both))
    go = tmp_path / "go"
    (answer,) = run("send", "-a", other.http_url, f"after {go} 16 200", "--async", "-o", "json").json
    with subscribing("-a", str(file), answer["task"]["id"]) as (process, coming):
        events = [next(coming)]
        go.touch()
        events += islice(coming, 2)
        one.kill()
        events += coming
        assert process.wait(30) == 0

    assert "".join(text for event in events for text in texts(event)) == "".join(f"{n}\n" for n in range(1, 17))
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_a2acli_task_list_001_pages_and_filters(run: Run, url: str) -> None:
    (first,) = run("send", "echo 0", "-o", "json").json
    context = first["task"]["contextId"]
    for number in range(1, 4):
        run("send", f"echo {number}", "--context-id", context)
    run("send", "ask", "--context-id", context)

    page = run("task", "list", "--context-id", context, "--page-size", "2")
    assert page.code == 0
    assert page.fields["Tasks"] == ["2 of 5"]
    assert page.err == "a2a-grpc: these are 2 of 5 tasks; --all prints the others too\n"
    assert len(page.fields["Task"]) == len(page.fields["State"]) == len(page.fields["Context"]) == 2
    (token,) = page.fields["Next page"]
    following = run("task", "list", "--context-id", context, "--page-size", "2", "--page-token", token)
    assert not set(following.fields["Task"]) & set(page.fields["Task"])

    whole = run("task", "list", "--context-id", context, "--page-size", "2", "--all")
    assert whole.fields["Tasks"] == ["5 of 5"]
    assert whole.err == ""
    for name in ("input-required", "INPUT_REQUIRED", "TASK_STATE_INPUT_REQUIRED"):
        assert len(run("task", "list", "--context-id", context, "--status", name).fields["Task"]) == 1
    assert run("task", "list", "--context-id", context, "--status", "failed").fields == {"Tasks": ["0 of 0"]}

    (document,) = run("task", "list", "--context-id", context, "--page-size", "2", "--all", "-o", "json").json
    assert len(document["tasks"]) == document["totalSize"] == 5
    assert document["nextPageToken"] == ""
    lines = run("task", "list", "--context-id", context, "-o", "json", "--stream").json
    assert [line["id"] for line in lines] == [one["id"] for one in document["tasks"]]


def test_a2acli_push_001_create_get_list_delete(run: Run, url: str) -> None:
    task_id = started(run, "ask")
    argv = ("--url", "http://localhost:9/hook", "--id", "mine", "--token", "s3cret-token")
    made = run("task", "push-config", "create", task_id, *argv)
    assert (made.code, made.err) == (0, "")
    assert made.fields["Configuration"] == ["mine"]
    assert made.fields["Task"] == [task_id]
    assert "s3cret-token" not in made.out

    (got,) = run("task", "push-config", "get", task_id, "mine", "-o", "json").json
    assert (got["taskId"], got["id"], got["url"]) == (task_id, "mine", "http://localhost:9/hook")
    assert run("task", "push-config", "list", task_id).fields["Configurations"] == ["1"]
    for _ in range(2):
        assert run("task", "push-config", "delete", task_id, "mine").code == 0
    assert run("task", "push-config", "list", task_id).fields == {"Configurations": ["0"]}


def test_a2acli_download_001_saves_artifacts(run: Run, url: str, tmp_path: Path) -> None:
    (answer,) = run("send", "all", "-o", "json").json
    task_id, to = answer["task"]["id"], tmp_path / "new"
    done = run("task", "download", task_id, "--directory", str(to))

    assert (done.code, done.err) == (0, "")
    assert done.fields["State"] == ["COMPLETED"]
    assert done.fields["Saved"] == [str(to / name) for name in ("words.txt", "table.json", "plot.png")]
    assert done.fields["Not fetched"] == ["https://files.example.com/big.bin"]
    assert (to / "words.txt").read_text() == "first line\nsecond line"
    assert json.loads((to / "table.json").read_text()) == {"b": [1, 2], "a": None}
    assert (to / "plot.png").read_bytes() == b"\x89PNG...."

    again = run("task", "download", task_id, "--directory", str(to), "--artifact", "picture", "-o", "json")
    assert again.json[0]["files"] == [{"artifact": "picture", "file": str(to / "plot-2.png")}]
    assert run("task", "download", task_id, "--artifact", "nothing").code == 1


def test_a_name_of_an_agent_leads_nowhere_else(run: Run, url: str, tmp_path: Path) -> None:
    (answer,) = run("send", "names", "-o", "json").json
    to = tmp_path / "in" / "here"
    done = run("task", "download", answer["task"]["id"], "--directory", str(to))

    assert done.code == 0
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()) == [
        "in/here/artifact.json",
        "in/here/hidden.txt",
        "in/here/passwd",
        f"in/here/{'長' * 33}.txt",
    ]
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o111 == 0 for path in to.iterdir())


@pytest.mark.parametrize("transport", BINDINGS)
def test_a_task_that_is_not_there(run: Run, url: str, transport: str) -> None:
    for words in (["get"], ["get", "--wait"], ["cancel"], ["subscribe"], ["subscribe", "--stream"], ["download"]):
        done = run("task", *words, "nothing", "--transport", transport)
        assert done.code == 1
        assert done.out == ""
        assert done.err.splitlines()[0].endswith("(TaskNotFoundError)")
