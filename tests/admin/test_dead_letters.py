"""`a2a-grpc dead-letters` against two real replicas, with letters that an agent's turns became."""

import asyncio
import io
import re
import sys
from typing import Any

import pytest

from a2a_grpc.admin.v1 import admin_pb2
from a2a_grpc.client.transports.admin import AdminTransport
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.store.records import Scope
from a2a_grpc.server.store.tasks import TaskStore
from tests.admin.conftest import admin_addr, letters_of, until, with_store
from tests.support.commands import Run
from tests.support.replica import Pair
from tests.support.tasks import create, origin

pytestmark = pytest.mark.agent("tests.admin.agent:agent", A2A_ADMIN_ADDR="127.0.0.1:0")

TIME = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@pytest.fixture(autouse=True)
def no_letters(two_replicas: Pair) -> None:
    async def clear(store: TaskStore) -> None:
        await letters_of(store).discard_before(None)

    with_store(two_replicas, clear)


def bury(pair: Pair, text: str, *, died_ms: int | None = None, owner: str = "alice", message: bool = True) -> str:
    """A letter of a turn of a task that nobody runs."""

    async def work(store: TaskStore) -> str:
        stored = await create(store, text, scope=Scope("", owner))
        said = origin(text) if message else None
        await letters_of(store).bury(stored, said, f"gave up on {text}", now_ms() if died_ms is None else died_ms)
        await store.put_back(stored.task_id, stored.epoch)
        return f"{stored.task_id}.1"

    return with_store(pair, work)


def dies(command: Run, pair: Pair, text: str) -> str:
    """The id of the letter that a message to the agent ends as."""
    (answer,) = command("send", "-a", pair.replicas[0].http_url, text, "-o", "json").json
    assert answer["task"]["status"]["state"] == "TASK_STATE_FAILED"
    return f"{answer['task']['id']}.1"


def test_a_turn_that_was_given_up_is_listed_and_shown(command: Run, admin: Run, two_replicas: Pair) -> None:
    letter_id = dies(command, two_replicas, "sick leave")
    task_id = letter_id.removesuffix(".1")

    listed = admin("dead-letters", "list")
    assert listed.code == 0
    head, row = listed.lines
    assert head.split() == ["ID", "DIED", "OWNER", "ATTEMPTS", "REDRIVEN", "AS", "REASON"]
    assert re.fullmatch(rf"{letter_id}  {TIME}  \(anonymous\)  2 +-  +The patient is not well\.", row)

    shown = admin("dead-letters", "show", letter_id, at=two_replicas.replicas[1])
    assert shown.code == 0
    facts = dict(re.split(r"  +", line, maxsplit=1) for line in shown.lines[:11])
    assert facts["dead letter"] == letter_id
    assert facts["reason"] == "The patient is not well."
    assert facts["attempts"] == "2"
    assert facts["task"] == task_id
    assert facts["message"] == "number 1 of the task"
    assert facts["owner"] == "(anonymous)"
    assert '"text": "sick leave"' in shown.out


def test_json_has_every_field(command: Run, admin: Run, two_replicas: Pair) -> None:
    letter_id = dies(command, two_replicas, "sick note")

    (listed,) = admin("dead-letters", "list", "--json").json
    assert listed | {"contextId": "c", "createTime": "t", "deathTime": "t"} == {
        "id": letter_id,
        "tenant": "",
        "owner": "",
        "contextId": "c",
        "taskId": letter_id.removesuffix(".1"),
        "turn": 1,
        "reason": "The patient is not well.",
        "attempts": 2,
        "createTime": "t",
        "deathTime": "t",
        "redrivenTaskId": "",
    }
    assert listed["createTime"] < listed["deathTime"]
    (shown,) = admin("dead-letters", "show", letter_id, "--json").json
    assert shown["letter"] == listed
    assert shown["message"]["parts"] == [{"text": "sick note"}]
    assert shown["message"]["role"] == "ROLE_USER"
    assert shown["request"] == {"configuration": {}}


def test_what_came_along_with_the_message_is_shown(admin: Run, two_replicas: Pair) -> None:
    (shown,) = admin("dead-letters", "show", bury(two_replicas, "hello"), "--json").json
    assert shown["request"] == {"metadata": {"said": "hello"}}
    assert shown["extensions"] == ["urn:one", "urn:two"]
    told = admin("dead-letters", "show", bury(two_replicas, "hello"))
    assert "extensions    urn:one, urn:two" in told.lines


def test_the_latest_come_first_page_by_page(admin: Run, two_replicas: Pair) -> None:
    ids = [bury(two_replicas, f"echo {at}", died_ms=now_ms() - at * 1000) for at in range(60)]

    first = admin("dead-letters", "list", "--json")
    assert [letter["id"] for letter in first.json] == ids[:50]
    assert first.err == "There are more; --all prints the others too.\n"
    whole = admin("dead-letters", "list", "--json", "--all")
    assert [letter["id"] for letter in whole.json] == ids
    assert whole.err == ""


def test_those_of_one_caller(admin: Run, two_replicas: Pair) -> None:
    of_alice, of_bob = bury(two_replicas, "echo 1"), bury(two_replicas, "echo 2", owner="bob")

    def listed(*argv: str) -> list[str]:
        return [letter["id"] for letter in admin("dead-letters", "list", "--json", *argv).json]

    assert listed("--owner", "alice") == [of_alice]
    assert listed("--owner", "bob", "--tenant", "") == [of_bob]
    assert listed("--tenant", "acme") == []
    assert admin("dead-letters", "list", "--owner", "").out == "no dead letters\n"


def test_a_letter_is_sent_again_once(command: Run, admin: Run, two_replicas: Pair) -> None:
    """Nothing leaves a terminal state: it is a new task of the same caller, which knows the old one."""
    letter_id = dies(command, two_replicas, "sick patient")
    old = letter_id.removesuffix(".1")

    done = admin("dead-letters", "redrive", letter_id)
    assert done.code == 0
    found = re.fullmatch(r"task (\S+)\n", done.out)
    assert found is not None
    new = found[1]
    assert new != old
    for at in two_replicas.replicas:
        again = admin("dead-letters", "redrive", letter_id, at=at)
        assert again.out == f"task {new} (it was sent again before)\n"
    (letter,) = admin("dead-letters", "list", "--json").json
    assert letter["redrivenTaskId"] == new

    def ended() -> Any:
        (task,) = command("task", "get", "-a", two_replicas.replicas[1].http_url, new, "-o", "json").json
        return task if task["status"]["state"] == "TASK_STATE_COMPLETED" else None

    task = until(ended, "the new task is done")
    assert task["artifacts"][0]["parts"] == [{"text": f"sick patient of {old}"}]
    (was,) = command("task", "get", "-a", two_replicas.replicas[1].http_url, old, "-o", "json").json
    assert was["status"]["state"] == "TASK_STATE_FAILED"
    assert task["contextId"] == was["contextId"]
    first = task["history"][0]
    assert (first["parts"], first["referenceTaskIds"]) == ([{"text": "sick patient"}], [old])


def test_a_process_that_ends_before_it_notes_the_new_task_makes_no_second_one(admin: Run, two_replicas: Pair) -> None:
    letter_id = bury(two_replicas, "echo hello")
    (first,) = admin("dead-letters", "redrive", letter_id, "--json").json
    two_replicas.store.client.hdel(f"a2a:{{0}}:letter:{letter_id}", "redriven")

    assert admin("dead-letters", "redrive", letter_id, "--json").json == [first | {"created": False}]
    assert admin("dead-letters", "show", letter_id, "--json").json[0]["letter"]["redrivenTaskId"] == first["taskId"]


def test_many_operators_at_once_make_one_task(two_replicas: Pair) -> None:
    letter_id = bury(two_replicas, "echo hello")

    async def work() -> list[admin_pb2.RedriveDeadLetterResponse]:
        services = [AdminTransport(admin_addr(one), connect_timeout=5) for one in two_replicas.replicas * 8]
        request = admin_pb2.RedriveDeadLetterRequest(id=letter_id)
        try:
            return await asyncio.gather(
                *(
                    service.unary("RedriveDeadLetter", request, admin_pb2.RedriveDeadLetterResponse, timeout=10)
                    for service in services
                )
            )
        finally:
            await asyncio.gather(*(service.aclose() for service in services))

    answers = asyncio.run(work())
    assert len({answer.task_id for answer in answers}) == 1
    assert [answer.created for answer in answers].count(True) == 1


def test_the_new_task_is_its_callers_and_nobody_elses(command: Run, admin: Run, two_replicas: Pair) -> None:
    letter_id = bury(two_replicas, "echo hello", owner="carol")
    (done,) = admin("dead-letters", "redrive", letter_id, "--json").json
    assert done["created"] is True

    (shown,) = admin("tasks", "show", done["taskId"], "--json").json
    assert (shown["summary"]["owner"], shown["summary"]["contextId"]) == ("carol", "context")
    assert command("task", "get", "-a", two_replicas.replicas[0].http_url, done["taskId"]).code == 1


def test_a_letter_whose_message_is_not_known_cannot_be_sent_again(admin: Run, two_replicas: Pair) -> None:
    letter_id = bury(two_replicas, "echo hello", message=False)

    shown = admin("dead-letters", "show", letter_id, "--json")
    assert "message" not in {name for name, value in shown.json[0].items() if value}
    refused = admin("dead-letters", "redrive", letter_id)
    assert refused.code == 1
    assert refused.err == (
        "a2a-grpc: The message of this dead letter was not known any more when it was written: it cannot be sent "
        "again. (UNSUPPORTED_OPERATION)\n"
    )


@pytest.mark.parametrize("action", ["show", "redrive", "purge"])
@pytest.mark.parametrize("letter_id", ["nothing", "0" * 32 + "-0.1"])
def test_what_is_no_letter_is_said_to_be_none(admin: Run, action: str, letter_id: str) -> None:
    refused = admin("dead-letters", action, letter_id)
    assert refused.code == 1
    assert refused.err == (
        "a2a-grpc: There is no dead letter of this id. Letters are kept for a limited time. (NOT_FOUND)\n"
    )


def test_letters_are_purged_one_by_one_and_by_age(admin: Run, two_replicas: Pair) -> None:
    old, middle, new = [bury(two_replicas, f"echo {age}", died_ms=now_ms() - age * 1000) for age in (7200, 3600, 60)]

    assert admin("dead-letters", "purge", middle).out == "1 purged\n"
    assert admin("dead-letters", "purge", "--older-than", "3600", "--yes", "--json").json == [{"purged": 1}]
    assert [letter["id"] for letter in admin("dead-letters", "list", "--json").json] == [new]
    assert admin("dead-letters", "show", old).code == 1


class Terminal(io.StringIO):
    """A person at the keyboard."""

    def isatty(self) -> bool:
        return True


def test_all_are_purged_only_if_somebody_says_so(
    admin: Run, two_replicas: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(two_replicas, "echo 1")
    bury(two_replicas, "echo 2")

    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    for which in (["--all"], ["--older-than", "0.001"]):
        refused = admin("dead-letters", "purge", *which)
        assert refused.code == 2
        assert refused.err == "a2a-grpc: this cannot be undone, and there is nobody to ask: say --yes\n"
    monkeypatch.setattr(sys, "stdin", Terminal("\n"))
    kept = admin("dead-letters", "purge", "--all")
    assert (kept.code, kept.out) == (2, "")
    assert kept.err == "Remove all dead letters? This cannot be undone. [y/N] "
    assert len(admin("dead-letters", "list", "--json").json) == 2

    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert admin("dead-letters", "purge", "--all").out == "2 purged\n"
    assert admin("dead-letters", "list").out == "no dead letters\n"
    assert admin("dead-letters", "purge", "--all", "--yes").out == "0 purged\n"


def test_a_purged_letter_leaves_its_task(command: Run, admin: Run, two_replicas: Pair) -> None:
    letter_id = dies(command, two_replicas, "sick rose")
    assert admin("dead-letters", "purge", letter_id).code == 0
    assert command("task", "get", "-a", two_replicas.replicas[0].http_url, letter_id.removesuffix(".1")).code == 0


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["purge"], "one of the arguments ID --older-than --all is required"),
        (["purge", "x", "--all"], "not allowed with argument"),
        (["purge", "--older-than", "-1"], "a time is a number of seconds above 0"),
        (["show"], "the following arguments are required: ID"),
        ([], "the following arguments are required: ACTION"),
        (["bury"], "invalid choice: 'bury'"),
    ],
)
def test_a_wrong_command_line_is_refused(command: Run, argv: list[str], problem: str) -> None:
    refused = command("dead-letters", *argv)
    assert refused.code == 2
    assert problem in refused.err
    assert refused.err.startswith("usage: a2a-grpc dead-letters")
