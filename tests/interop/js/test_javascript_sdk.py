"""The official JavaScript client (@a2a-js/sdk), unchanged, over each binding that it speaks.

scenarios.mjs makes the calls, in one process for each binding; the tests here judge what it printed.
"""

import json
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from a2a_grpc.pb import a2a_pb2
from tests.interop.conftest import Service
from tests.interop.js.installation import INSTALL_TIMEOUT, installed

BINDINGS = ("GRPC", "HTTP+JSON", "JSONRPC")
NODE_TIMEOUT = 50
"""Seconds for all scenarios of a process."""

pytestmark = [
    pytest.mark.wide,
    pytest.mark.timeout(INSTALL_TIMEOUT + NODE_TIMEOUT),  # the first test installs the client
]


class Outcomes(dict[str, Any]):
    """Scenario -> what scenarios.mjs says about it. One that threw fails the tests that ask for it, not the others."""

    def __getitem__(self, scenario: str) -> Any:
        outcome = super().__getitem__(scenario)
        assert "threw" not in outcome, outcome["threw"]
        return outcome


def play(service: Service, binding: str, *scenarios: str) -> Outcomes:
    """Runs scenarios against a service."""
    home = installed()
    command = ["node", str(home / "scenarios.mjs"), service.url, binding, *scenarios]
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=NODE_TIMEOUT, check=False)
    assert done.returncode == 0, done.stderr
    return Outcomes(json.loads(done.stdout))


@pytest.fixture(scope="module", params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture(scope="module")
def outcomes(binding: str, service: Service) -> Outcomes:
    return play(
        service,
        binding,
        *("send", "message", "file", "data", "stream", "chunks", "conversation", "list", "cancel", "subscribe"),
        *("parked", "unknown", "ended", "invalid"),
    )


def task(value: Any) -> a2a_pb2.Task:
    return ParseDict(value, a2a_pb2.Task())


def events(values: Iterable[Any]) -> list[a2a_pb2.StreamResponse]:
    return [ParseDict(value, a2a_pb2.StreamResponse()) for value in values]


def texts(of: a2a_pb2.Task) -> list[str]:
    return ["".join(part.text for part in artifact.parts) for artifact in of.artifacts]


def kinds(stream: list[a2a_pb2.StreamResponse]) -> list[str]:
    return [str(event.WhichOneof("payload")) for event in stream]


def test_send_waits_for_the_outcome(outcomes: Outcomes) -> None:
    done = task(outcomes["send"]["task"])
    assert done.status.state == a2a_pb2.TASK_STATE_COMPLETED
    assert done.status.HasField("timestamp")
    assert done.id
    assert done.context_id
    assert texts(done) == ["Generated text content"]


def test_an_agent_can_answer_with_a_message(outcomes: Outcomes) -> None:
    message = ParseDict(outcomes["message"]["message"], a2a_pb2.Message())
    assert message.role == a2a_pb2.ROLE_AGENT
    assert [part.text for part in message.parts] == ["Direct message response"]


def test_artifact_parts_arrive_as_they_were_made(outcomes: Outcomes) -> None:
    [file] = task(outcomes["file"]["task"]).artifacts[0].parts
    assert file.WhichOneof("content") == "raw"
    assert (file.filename, file.media_type) == ("output.txt", "text/plain")
    [data] = task(outcomes["data"]["task"]).artifacts[0].parts
    assert MessageToDict(data.data) == {"key": "value", "count": 42}


def test_a_stream_tells_the_life_of_a_task(outcomes: Outcomes) -> None:
    stream = events(outcomes["stream"]["events"])
    assert kinds(stream) == ["task", "status_update", "artifact_update", "status_update"]
    assert stream[1].status_update.status.state == a2a_pb2.TASK_STATE_WORKING
    assert [part.text for part in stream[2].artifact_update.artifact.parts] == ["Stream hello from TCK"]
    assert stream[3].status_update.status.state == a2a_pb2.TASK_STATE_COMPLETED
    stored = task(outcomes["stream"]["task"])
    assert stored.status == stream[3].status_update.status
    assert texts(stored) == ["Stream hello from TCK"]


def test_chunks_of_an_artifact_are_merged_in_the_task(outcomes: Outcomes) -> None:
    stream = events(outcomes["chunks"]["events"])
    updates = [event.artifact_update for event in stream if event.HasField("artifact_update")]
    assert [(u.artifact.parts[0].text, u.append, u.last_chunk) for u in updates] == [
        ("chunk-1 ", False, False),
        ("chunk-2", True, True),
    ]
    assert texts(task(outcomes["chunks"]["task"])) == ["chunk-1 chunk-2"]


def test_a_task_asks_and_goes_on_with_the_answer(outcomes: Outcomes) -> None:
    asked, answered, whole, none = (
        task(outcomes["conversation"][name]) for name in ("asked", "answered", "whole", "none")
    )
    assert asked.status.state == a2a_pb2.TASK_STATE_INPUT_REQUIRED
    assert answered.status.state == a2a_pb2.TASK_STATE_COMPLETED
    assert (answered.id, answered.context_id) == (asked.id, asked.context_id)
    said = [message.parts[0].text for message in whole.history if message.role == a2a_pb2.ROLE_USER]
    assert said == ["ask", "the answer"]
    assert not none.history


def test_tasks_are_listed_newest_first_in_pages(outcomes: Outcomes) -> None:
    made = outcomes["list"]["made"]
    page, rest = (ParseDict(outcomes["list"][name], a2a_pb2.ListTasksResponse()) for name in ("page", "rest"))
    assert [listed.id for listed in page.tasks] == [made[2], made[1]]
    assert (page.page_size, page.total_size) == (2, 3)
    assert not any(listed.artifacts for listed in page.tasks)
    assert [listed.id for listed in rest.tasks] == [made[0]]
    assert rest.next_page_token == ""
    assert texts(rest.tasks[0]) == ["Generated text content"]


def test_cancel_stops_a_running_task_once(outcomes: Outcomes) -> None:
    canceled = task(outcomes["cancel"]["canceled"])
    assert (canceled.id, canceled.status.state) == (outcomes["cancel"]["id"], a2a_pb2.TASK_STATE_CANCELED)
    assert outcomes["cancel"]["again"]["name"] == "TaskNotCancelableError"


def test_subscribe_starts_with_the_task_and_ends_with_it(outcomes: Outcomes) -> None:
    stream = events(outcomes["subscribe"]["events"])
    assert stream[0].task.id == outcomes["subscribe"]["id"]
    assert set(kinds(stream[1:])) <= {"status_update", "artifact_update"}
    assert stream[-1].status_update.status.state == a2a_pb2.TASK_STATE_COMPLETED


def test_subscribe_stays_while_the_task_waits_for_its_caller(outcomes: Outcomes) -> None:
    [snapshot] = events([outcomes["parked"]["snapshot"]])
    assert snapshot.task.status.state == a2a_pb2.TASK_STATE_INPUT_REQUIRED
    last = events(outcomes["parked"]["events"])[-1]
    assert last.status_update.status.state == a2a_pb2.TASK_STATE_COMPLETED


@pytest.mark.parametrize(
    ("scenario", "call", "name"),
    [
        ("unknown", "get", "TaskNotFoundError"),
        ("unknown", "cancel", "TaskNotFoundError"),
        ("unknown", "subscribe", "TaskNotFoundError"),
        ("unknown", "send", "TaskNotFoundError"),
        ("unknown", "stream", "TaskNotFoundError"),
        ("ended", "send", "UnsupportedOperationError"),
        ("ended", "stream", "UnsupportedOperationError"),
        ("ended", "subscribe", "UnsupportedOperationError"),
        ("invalid", "parts", "RequestMalformedError"),
        ("invalid", "mediaType", "ContentTypeNotSupportedError"),
        ("invalid", "pageToken", "RequestMalformedError"),
    ],
)
def test_an_error_arrives_as_its_own_class(outcomes: Outcomes, scenario: str, call: str, name: str) -> None:
    failure = outcomes[scenario][call]
    assert failure.get("name") == name, failure
    assert failure["message"]


def test_a_card_without_streaming_makes_the_client_fall_back(binding: str, minimal: Service) -> None:
    [only] = events(play(minimal, binding, "fallback")["fallback"])
    assert texts(only.task) == ["Generated text content"]


def test_an_extended_card_that_is_declared_and_not_configured(binding: str, declared: Service) -> None:
    failure = play(declared, binding, "extendedCard")["extendedCard"]
    assert failure["name"] == "ExtendedAgentCardNotConfiguredError", failure


def test_a_required_extension_has_to_be_named(binding: str, extended: Service) -> None:
    outcome = play(extended, binding, "extension")["extension"]
    assert outcome["without"]["name"] == "ExtensionSupportRequiredError", outcome
    assert task(outcome["with"]).status.state == a2a_pb2.TASK_STATE_COMPLETED
