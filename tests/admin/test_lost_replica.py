"""From a killed replica to the answer that its caller gets after all."""

from typing import Any

import pytest

from tests.admin.conftest import admin_addr, until
from tests.support.commands import Run
from tests.support.replica import Pair

pytestmark = pytest.mark.agent("tests.admin.agent:agent", A2A_ADMIN_ADDR="127.0.0.1:0", A2A_LEASE_TTL="1.5")


def test_what_may_not_run_twice_becomes_a_letter_and_is_done_when_an_operator_says_so(
    command: Run, two_replicas: Pair
) -> None:
    one, two = two_replicas.replicas
    admin = ("--admin", admin_addr(two), "--json")
    (answer,) = command("send", "-a", one.http_url, "once more", "--async", "-o", "json").json
    task_id = answer["task"]["id"]
    until(lambda: command("tasks", "show", task_id, *admin).json[0]["seq"] == 2, "the turn has begun")
    (mine,) = until(lambda: [row for row in command("replicas", *admin).json if row["turns"]], "its replica says so")

    one.kill()

    (letter,) = until(lambda: command("dead-letters", "list", *admin).json, "the turn is given up", 10)
    assert (letter["taskId"], letter["turn"], letter["attempts"]) == (task_id, 1, 1)
    assert letter["reason"] == "The process that ran this was lost, and it may not be run twice."
    (shown,) = command("dead-letters", "show", letter["id"], *admin).json
    assert shown["message"]["parts"] == [{"text": "once more"}]

    def ended(wanted: str, name: str) -> Any:
        (task,) = command("task", "get", "-a", two.http_url, wanted, "-o", "json").json
        return task if task["status"]["state"] == name else None

    until(lambda: ended(task_id, "TASK_STATE_FAILED"), "the task has failed")
    there = {row["name"]: row["lost"] for row in command("replicas", *admin).json}
    assert there.get(mine["name"]) in {None, True}
    assert False in there.values()

    (done,) = command("dead-letters", "redrive", letter["id"], *admin).json
    task = until(lambda: ended(done["taskId"], "TASK_STATE_COMPLETED"), "the new task is done")
    assert task["artifacts"][0]["parts"] == [{"text": "done after all"}]
    assert ended(task_id, "TASK_STATE_FAILED")
