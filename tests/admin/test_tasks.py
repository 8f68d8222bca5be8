"""`a2a-grpc tasks` against two real replicas: whosever the tasks are, wherever they run."""

import asyncio
import io
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import grpc.aio
import pytest

from a2a_grpc.admin.v1 import admin_pb2, admin_pb2_grpc
from a2a_grpc.server.core import states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.store.erasing import Eraser
from a2a_grpc.server.store.inspection import Inspection, Wanted
from a2a_grpc.server.store.records import Scope
from a2a_grpc.server.store.tasks import TaskStore
from tests.admin.conftest import admin_addr, letters_of, until, with_store
from tests.support.audit import audit
from tests.support.commands import Run
from tests.support.replica import ROOT, Pair
from tests.support.tasks import chunk, create, read, status, step

pytestmark = [pytest.mark.wide, pytest.mark.agent("tests.admin.agent:agent", A2A_ADMIN_ADDR="127.0.0.1:0")]


TIME = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@pytest.fixture(autouse=True)
def no_tasks(two_replicas: Pair) -> Iterator[None]:
    """Every test begins and ends without a task of any caller."""
    erase_all(two_replicas)
    yield
    erase_all(two_replicas)
    assert audit(two_replicas.store.client) == []


def erase_all(pair: Pair) -> None:
    async def work(store: TaskStore) -> None:
        eraser = Eraser(store, letters_of(store))
        found, position = await Inspection(store).find(Wanted(), "", 1000)
        assert not position
        await asyncio.gather(*(eraser.erase(task.task_id) for task in found))

    with_store(pair, work)


def sent(command: Run, pair: Pair, text: str, *argv: str) -> str:
    """The id of the task of a message that the first replica takes."""
    (answer,) = command("send", "-a", pair.replicas[0].http_url, text, "-o", "json", "--async", *argv).json
    task_id: str = answer["task"]["id"]
    return task_id


def shown(admin: Run, task_id: str) -> Any:
    (found,) = admin("tasks", "show", task_id, "--json").json
    return found


def running(command: Run, admin: Run, pair: Pair) -> str:
    """A task that hangs at its third event, with a checkpoint."""
    task_id = sent(command, pair, "hang")
    until(lambda: "checkpointBytes" in shown(admin, task_id), "the task hangs")
    return task_id


def listed(admin: Run, *argv: str) -> set[str]:
    return {task["id"] for task in admin("tasks", "list", "--json", "--all", *argv).json}


def test_a_running_task_is_listed_and_shown(command: Run, admin: Run, two_replicas: Pair) -> None:
    task_id = running(command, admin, two_replicas)

    found = admin("tasks", "list")
    assert found.code == 0
    head, row = found.lines
    assert head.split() == ["ID", "STATE", "SINCE", "OWNER", "PLACE", "ATTEMPT", "HOLDER"]
    assert re.fullmatch(rf"{task_id}  working  {TIME}  \(anonymous\)  running  1/3 +\S+", row)
    told = admin("tasks", "show", task_id, at=two_replicas.replicas[1])
    facts = dict(re.split(r"  +", line, maxsplit=1) for line in told.lines[:11])
    assert facts["holder"] == row.split()[-1]
    assert facts["attempt"] == "1 of 3 of the turn for message 1"
    assert facts["events"] == "2"
    assert facts["checkpoint"] == "7 bytes"
    assert told.lines[11] == f"Task: {task_id}"
    assert told.lines[13] == "State: WORKING"
    assert told.lines[-4:] == ["Message: agent", "Text:", "  for ever", ""]


def test_json_has_the_task_and_how_it_is_run(command: Run, admin: Run, two_replicas: Pair) -> None:
    task_id = running(command, admin, two_replicas)

    found = shown(admin, task_id)
    (task,) = command("task", "get", "-a", two_replicas.replicas[1].http_url, task_id, "-o", "json").json
    assert found.pop("task") == task
    summary = found.pop("summary")
    assert found == {
        "seq": 2, "firstSeq": 1, "epoch": 1, "turn": 1, "queue": [], "canceling": False, "checkpointBytes": 7
    }  # fmt: skip
    assert (summary["state"], summary["place"], summary["tenant"]) == ("TASK_STATE_WORKING", "PLACE_RUNNING", "")
    assert (summary["attempt"], summary["attemptLimit"]) == (1, 3)
    assert admin("tasks", "list", "--json").json == [summary]


def test_messages_that_wait_are_shown(command: Run, admin: Run, two_replicas: Pair) -> None:
    task_id = running(command, admin, two_replicas)
    for text in ("one", "two"):
        sent(command, two_replicas, text, "--task-id", task_id)

    assert shown(admin, task_id)["queue"] == [3, 4]
    assert "waiting messages  3, 4" in admin("tasks", "show", task_id).lines


def test_tasks_are_filtered(command: Run, admin: Run, two_replicas: Pair) -> None:
    ended = sent(command, two_replicas, "echo hello")
    parked = sent(command, two_replicas, "ask")
    hanging = running(command, admin, two_replicas)

    async def work(store: TaskStore) -> tuple[str, str]:
        of_alice, later = [await create(store, scope=Scope("acme", "alice")) for _ in range(2)]
        await store.append(step(of_alice, 1, status(of_alice, states.COMPLETED)))
        await store.put_back(later.task_id, later.epoch, counted=True, due_ms=now_ms() + 600_000)
        return of_alice.task_id, later.task_id

    of_alice, later = with_store(two_replicas, work)
    everything = {ended, parked, hanging, of_alice, later}
    until(lambda: listed(admin, "--state", "completed") == {ended, of_alice}, "the first has ended")

    assert listed(admin) == everything
    assert listed(admin, "--state", "input-required") == {parked}
    assert listed(admin, "--place", "running") == {hanging}
    assert listed(admin, "--place", "later") == {later}
    assert listed(admin, "--place", "ready") == set()
    assert listed(admin, "--owner", "alice") == {of_alice, later}
    assert listed(admin, "--owner", "", "--tenant", "") == {ended, parked, hanging}
    assert listed(admin, "--owner", "alice", "--tenant", "acme", "--state", "completed") == {of_alice}
    assert admin("tasks", "list", "--tenant", "nobody").out == "no tasks\n"


def test_there_may_be_more_than_a_page(admin: Run, two_replicas: Pair) -> None:
    async def work(store: TaskStore) -> list[str]:
        made = [await create(store, scope=Scope("", "alice"), stamp_ms=1000 + at) for at in range(60)]
        for at, stored in enumerate(made):
            await store.append(step(stored, 1, status(stored, states.COMPLETED, stamp_ms=2000 + at)))
        return [stored.task_id for stored in made]

    made = with_store(two_replicas, work)
    for argv in ([], ["--owner", "alice", "--tenant", ""]):
        first = admin("tasks", "list", "--json", *argv)
        assert len({task["id"] for task in first.json}) == 50
        assert first.err == "There are more; --all prints the others too.\n"
        assert listed(admin, *argv) == set(made)
    table = admin("tasks", "list", "--all")
    assert [line.split()[0] for line in table.lines].count("ID") == 1
    assert len(table.lines) == 61


def test_what_happened_to_a_task(command: Run, admin: Run, two_replicas: Pair) -> None:
    task_id = sent(command, two_replicas, "ask")
    until(lambda: shown(admin, task_id)["summary"]["state"] == "TASK_STATE_INPUT_REQUIRED", "the task asks")
    command("send", "-a", two_replicas.replicas[1].http_url, "Ada", "--task-id", task_id)

    events = admin("tasks", "events", task_id, "--json").json
    assert [event["seq"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert [next(iter(event["event"])) for event in events] == [
        "task", "statusUpdate", "statusUpdate", "message", "artifactUpdate", "statusUpdate"
    ]  # fmt: skip
    assert events[3]["event"]["message"]["parts"] == [{"text": "Ada"}]
    told = admin("tasks", "events", task_id)
    assert [re.sub(TIME, "TIME", line) for line in told.lines] == [
        "1  created  ask",
        "2  TIME  input required  What is your name?",
        "3  TIME  working",
        "4  message  Ada",
        "5  wrote artifact answer: 1 parts",
        "6  TIME  completed",
    ]
    assert admin("tasks", "events", task_id, "--after", "4").lines == told.lines[4:]
    assert admin("tasks", "events", task_id, "--after", "4", "--follow").lines == told.lines[4:]
    for argv in (["--after", "6"], ["--after", "6", "--follow"], ["--after", "99"]):
        assert admin("tasks", "events", task_id, *argv) == (0, "", "")


def test_only_what_the_log_still_has(admin: Run, two_replicas: Pair) -> None:
    """The log of a task may be cut (A2A_LOG_EVENTS): what is left is shown, and where it begins."""

    async def work(store: TaskStore) -> str:
        stored = await create(store)
        for at in range(1, 30):
            stored = await read(store, stored.task_id)
            entry = chunk(stored, str(at))
            stored.fold.apply(entry)
            head, artifacts = stored.fold.to_bytes()
            await store.append(step(stored, at, entry, snapshot_at=stored.seq, head=head, artifacts=artifacts))
        await store.append(step(stored, 30, status(stored, states.COMPLETED)))
        return stored.task_id

    async def cut(store: TaskStore) -> str:
        store.log_events = 10
        return await work(store)

    task_id = with_store(two_replicas, cut)
    first = shown(admin, task_id)["firstSeq"]
    assert first > 1
    for argv in ([], ["--follow"], ["--after", "1"]):
        events = admin("tasks", "events", task_id, "--json", *argv).json
        assert [event["seq"] for event in events] == list(range(first, 32))
    assert f"events            31, the oldest kept is {first}" in admin("tasks", "show", task_id).lines


def follow(pair: Pair, task_id: str, *argv: str, at: int = 0) -> subprocess.Popen[str]:
    """A command in a process of its own that goes on until the task ends."""
    options = ["--follow", "--json", "--admin", admin_addr(pair.replicas[at]), *argv]
    return subprocess.Popen(
        [sys.executable, "-m", "a2a_grpc.command", "tasks", "events", task_id, *options],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("at", [0, 1], ids=["where it runs", "elsewhere"])
def test_a_running_task_is_followed_to_its_end(command: Run, admin: Run, two_replicas: Pair, at: int) -> None:
    task_id = running(command, admin, two_replicas)
    with follow(two_replicas, task_id, at=at) as process:
        assert process.stdout is not None
        assert '"seq": 2' in [process.stdout.readline() for _ in range(2)][1]
        command("task", "cancel", "-a", two_replicas.replicas[0].http_url, task_id)
        out, err = process.communicate(timeout=10)
    assert '"TASK_STATE_CANCELED"' in out
    assert (process.returncode, err) == (0, "")


def test_following_ends_when_its_time_is_up(command: Run, admin: Run, two_replicas: Pair) -> None:
    task_id = running(command, admin, two_replicas)
    late = admin("tasks", "events", task_id, "--follow", "--after", "2", "--timeout", "0.2")
    assert late.code == 1
    assert late.err == "a2a-grpc: The task has not ended within 0.2 seconds. (DEADLINE_EXCEEDED)\n"


def test_ctrl_c_ends_following_without_a_traceback(command: Run, admin: Run, two_replicas: Pair) -> None:
    task_id = running(command, admin, two_replicas)
    with follow(two_replicas, task_id) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (130, "")


def keys_of(pair: Pair, task_id: str) -> list[str]:
    """The keys and the values of the store in which a task's id stands."""
    found = []
    for raw in cast("list[bytes]", pair.store.client.keys("*")):
        dumped = cast("bytes", pair.store.client.dump(raw))
        if task_id.encode() in raw or task_id.encode() in dumped:
            found.append(raw.decode())
    return found


@pytest.mark.parametrize("at", [0, 1], ids=["where it runs", "elsewhere"])
def test_a_running_task_is_erased_under_everybody(command: Run, admin: Run, two_replicas: Pair, at: int) -> None:
    """Its agent is stopped, whoever waits for it hears that there is no such task, and nothing of it is left."""
    one, two = two_replicas.replicas
    task_id = running(command, admin, two_replicas)
    assert keys_of(two_replicas, task_id) != []

    def waiting(*argv: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "a2a_grpc.command", *argv],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    waiters = [
        waiting("task", "subscribe", "--stream", "-a", one.http_url, task_id),
        waiting("task", "subscribe", "--stream", "-a", two.http_url, task_id, "--transport", "HTTP+JSON"),
        follow(two_replicas, task_id, at=1),
    ]
    for process in waiters:
        assert process.stdout is not None
        process.stdout.readline()

    done = admin("tasks", "delete", task_id, "--yes", at=two_replicas.replicas[at])
    assert done == (0, f"task {task_id} erased\n", "")

    for process in waiters:
        with process:
            _, err = process.communicate(timeout=10)
        assert process.returncode == 1
        assert "(TASK_NOT_FOUND)" in err or "(TaskNotFoundError)" in err
    assert keys_of(two_replicas, task_id) == []
    until(lambda: all(row["turns"] == 0 for row in admin("replicas", "--json").json), "nobody runs it")
    assert command("task", "get", "-a", one.http_url, task_id).code == 1
    assert "gave up" not in one.log()


def test_a_caller_that_waits_for_the_answer_hears_of_it(command: Run, admin: Run, two_replicas: Pair) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "a2a_grpc.command", "send", "-a", two_replicas.replicas[0].http_url, "hang"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    (task_id,) = until(lambda: listed(admin, "--place", "running"), "the task runs")
    assert admin("tasks", "delete", task_id, "--yes").code == 0
    with process:
        _, err = process.communicate(timeout=10)
    assert process.returncode == 1
    assert "(TaskNotFoundError)" in err


def test_a_task_is_erased_with_its_letters(command: Run, admin: Run, two_replicas: Pair) -> None:
    (answer,) = command("send", "-a", two_replicas.replicas[0].http_url, "sick", "-o", "json").json
    task_id = answer["task"]["id"]
    assert admin("dead-letters", "show", f"{task_id}.1").code == 0

    assert admin("tasks", "delete", task_id, "--yes").out == f"task {task_id} erased, with 1 dead letters\n"
    assert admin("dead-letters", "show", f"{task_id}.1").code == 1
    assert keys_of(two_replicas, task_id) == []
    again = admin("tasks", "delete", task_id, "--yes")
    assert again.code == 1
    assert again.err == (
        "a2a-grpc: There is no task of this id. A finished task is kept for a limited time. (TASK_NOT_FOUND)\n"
    )


def test_nothing_is_erased_unless_somebody_says_so(
    command: Run, admin: Run, two_replicas: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = sent(command, two_replicas, "echo hello")
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    refused = admin("tasks", "delete", task_id)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "a2a-grpc: this cannot be undone, and there is nobody to ask: say --yes\n"
    assert shown(admin, task_id)["seq"] >= 1
    assert admin("tasks", "delete", task_id, "--yes", "--json").json == [{"taskId": task_id, "deadLetters": 0}]


@pytest.mark.parametrize("action", [["show"], ["events"], ["events", "--follow"], ["delete", "--yes"]])
@pytest.mark.parametrize("task_id", ["nothing", "0" * 32 + "-0", "0" * 32 + "-7"])
def test_what_is_no_task_is_said_to_be_none(admin: Run, action: list[str], task_id: str) -> None:
    refused = admin("tasks", action[0], task_id, *action[1:])
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.endswith(
        "There is no task of this id. A finished task is kept for a limited time. (TASK_NOT_FOUND)\n"
    )


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["list", "--state", "dead"], "argument --state: invalid choice: 'dead'"),
        (["list", "--place", "here"], "argument --place: invalid choice: 'here'"),
        (["events", "x", "--after", "y"], "argument --after: a number of an event is a whole one from 0 to 2147483647"),
        (["events", "x", "--after", "-1"], "argument --after: "),
        (["events", "x", "--after", "2147483648"], "argument --after: "),
        (["delete"], "the following arguments are required: ID"),
        ([], "the following arguments are required: ACTION"),
    ],
)
def test_a_wrong_command_line_is_refused(command: Run, argv: list[str], problem: str) -> None:
    refused = command("tasks", *argv)
    assert refused.code == 2
    assert problem in refused.err


def test_a_number_below_zero_is_refused_by_the_service(command: Run, two_replicas: Pair) -> None:
    task_id = sent(command, two_replicas, "echo hello")
    # The command refuses it itself; other programs may not.
    request = admin_pb2.ListTaskEventsRequest(id=task_id, after_seq=-1)

    async def ask() -> None:
        async with grpc.aio.insecure_channel(admin_addr(two_replicas.replicas[0])) as channel:
            async for _ in admin_pb2_grpc.AdminServiceStub(channel).ListTaskEvents(request):
                pass

    with pytest.raises(grpc.aio.AioRpcError) as refused:
        asyncio.run(ask())
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.value.details() == "Invalid after_seq: must be 0 or more"
