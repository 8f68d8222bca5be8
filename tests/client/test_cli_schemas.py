"""Artifacts that do not match the schemas in the card, on the command line: none of them is shown as an answer."""

import io
import sys

import pytest

from a2a_grpc.client.interfaces import BINDINGS
from tests.support.commands import Run, running
from tests.support.replica import Pair

pytestmark = [pytest.mark.wide, pytest.mark.agent("tests.agents.schema_agents:liar")]

WHERE = "The artifact 'report' does not match its schema: /candidates/1/score does not keep to maximum 100."


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], two_replicas: Pair, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("A2ACLI_AGENT_CARD", two_replicas.replicas[0].http_url)
    return running(capsys)


@pytest.mark.parametrize("transport", BINDINGS)
def test_data_that_matches_is_an_answer(run: Run, transport: str) -> None:
    done = run("send", "good", "--transport", transport)
    assert (done.code, done.err, done.fields["State"]) == (0, "", ["COMPLETED"])


@pytest.mark.parametrize("transport", BINDINGS)
def test_data_that_does_not_match_is_a_failure_that_names_its_task(run: Run, transport: str) -> None:
    refused = run("send", "bad", "--transport", transport, "-o", "json")
    [answer] = refused.json
    task_id = answer["error"]["hint"].split()[1]
    assert refused.code == 1 and answer == {
        "error": {
            "code": "InvalidAgentResponseError",
            "message": WHERE,
            "hint": f"Task {task_id} may still run: a2a-grpc task cancel ends it.",
            "a2aCode": "INVALID_AGENT_RESPONSE",
        }
    }

    # The task is there, and is refused whichever way one asks for it. Without its artifacts it can be seen.
    for words in (("get", task_id), ("subscribe", task_id), ("download", task_id)):
        again = run("task", *words, "--transport", transport)
        assert (again.code, again.out) == (1, "") and f"{WHERE} (InvalidAgentResponseError)" in again.err
    assert task_id in run("task", "list", "--transport", transport).fields["Task"]


@pytest.mark.parametrize("transport", BINDINGS)
def test_a_stream_ends_before_the_data_that_does_not_match(run: Run, transport: str) -> None:
    refused = run("send", "bad", "--stream", "--transport", transport)
    assert refused.code == 1 and "180" not in "".join(refused.fields["Text"])
    assert "COMPLETED" not in refused.fields["State"] and WHERE in refused.err


def test_a_conversation_through_pipes_ends_with_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("good\nbad\ngood\n"))
    refused = run("chat")
    assert refused.code == 1 and refused.fields["State"].count("COMPLETED") == 1
    assert WHERE in refused.err and "180" not in "".join(refused.fields["Text"])
