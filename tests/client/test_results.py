"""A type for each way in which an agent can stop, and what each of them offers."""

import dataclasses
import re
from typing import Any, get_args

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value

from a2a_grpc.client import (
    ArtifactChunk,
    AuthRequired,
    Canceled,
    Completed,
    Continuation,
    Failed,
    FinishReason,
    InputRequired,
    InvalidAgentResponseError,
    OutcomeError,
    Rejected,
    Reply,
    Result,
    StatusUpdate,
    TaskUpdate,
    Update,
    message,
)
from a2a_grpc.client.results import result_of
from a2a_grpc.client.states import INTERRUPTED, TERMINAL
from a2a_grpc.pb import a2a_pb2 as pb
from tests.docs.documents import ROOT, table

PLACE = Continuation(target="http://localhost", task_id="t1")
OF_STATE = {
    pb.TASK_STATE_COMPLETED: Completed,
    pb.TASK_STATE_FAILED: Failed,
    pb.TASK_STATE_CANCELED: Canceled,
    pb.TASK_STATE_REJECTED: Rejected,
    pb.TASK_STATE_INPUT_REQUIRED: InputRequired,
    pb.TASK_STATE_AUTH_REQUIRED: AuthRequired,
}


def text(words: str) -> pb.Part:
    return pb.Part(text=words)


def data(value: Any) -> pb.Part:
    return pb.Part(data=ParseDict(value, Value()))


def task(state: pb.TaskState, *artifacts: pb.Artifact, said: str = "") -> pb.Task:
    made = pb.Task(id="t1", context_id="c1", status=pb.TaskStatus(state=state), artifacts=artifacts)
    if said:
        made.status.message.parts.append(text(said))
    return made


def test_every_state_that_ends_or_waits_has_its_type_and_reason() -> None:
    assert set(OF_STATE) == TERMINAL | INTERRUPTED
    assert {*OF_STATE.values(), Reply} == set(get_args(Result))
    assert {kind.finish_reason for kind in get_args(Result)} == set(FinishReason)
    for state, kind in OF_STATE.items():
        result = result_of(task(state), PLACE)
        assert type(result) is kind
        assert result.finish_reason == pb.TaskState.Name(state).removeprefix("TASK_STATE_").lower()


@pytest.mark.parametrize("state", [pb.TASK_STATE_UNSPECIFIED, pb.TASK_STATE_SUBMITTED, pb.TASK_STATE_WORKING, 99])
def test_no_other_state_is_a_result(state: pb.TaskState) -> None:
    """99: a state of a later release."""
    with pytest.raises(InvalidAgentResponseError, match=f"in state {state}"):
        result_of(task(state), PLACE)


def test_the_words_of_what_is_done_are_its_artifacts() -> None:
    made = [
        pb.Artifact(artifact_id="a", name="one", parts=[text("1 "), text("2"), data({"x": [1, None]})]),
        pb.Artifact(artifact_id="b", parts=[data(2.5)]),
        pb.Artifact(artifact_id="c", parts=[text("3")]),
    ]
    result = Completed(task(pb.TASK_STATE_COMPLETED, *made, said="Done."))

    assert result.text == "1 2\n3" and result.said == "Done."
    assert result.data == [{"x": [1, None]}, 2.5]
    assert result.artifact("one") == made[0] and result.artifact("b") == made[1] and result.artifact("two") is None
    assert (result.task_id, result.context_id, list(result.artifacts)) == ("t1", "c1", made)
    assert Completed(task(pb.TASK_STATE_COMPLETED, made[1], said="Done.")).text == "Done."


@pytest.mark.parametrize("state", [state for state in OF_STATE if state != pb.TASK_STATE_COMPLETED])
def test_the_words_of_all_else_are_what_the_agent_says_about_it(state: pb.TaskState) -> None:
    """B115: an artifact that is half made is no answer, and an empty reason leaves the sentence whole."""
    half = pb.Artifact(artifact_id="a", parts=[text("half")])
    result, silent = result_of(task(state, half, said="Because."), PLACE), result_of(task(state, half), PLACE)
    words = result.finish_reason.replace("_", " ")

    assert result.text == "Because." and silent.text == ""
    for one, sentence in ((result, f"({words}): Because."), (silent, f"({words}).")):
        with pytest.raises(OutcomeError) as caught:
            one.raise_for_outcome()
        assert str(caught.value) == f"Task t1 gave no answer {sentence}" and caught.value.result is one


def test_a_reply_is_its_message() -> None:
    reply = Reply(message("hello", data={"a": 1}, context_id="c1"))

    assert (reply.text, reply.data, reply.context_id) == ("hello", [{"a": 1}], "c1")
    assert reply.raise_for_outcome() is reply


def test_updates_are_their_events() -> None:
    event = pb.TaskArtifactUpdateEvent(append=True, last_chunk=True)
    event.artifact.CopyFrom(pb.Artifact(artifact_id="a", name="n", parts=[text("x"), data(1), text("y")]))
    chunk = ArtifactChunk(event)
    assert (chunk.artifact_id, chunk.name, chunk.text, chunk.data) == ("a", "n", "xy", [1])
    assert chunk.append and chunk.last

    status = StatusUpdate(pb.TaskStatusUpdateEvent(status=task(pb.TASK_STATE_WORKING, said="on it").status))
    assert (status.state, status.text) == (pb.TASK_STATE_WORKING, "on it")


def test_results_and_updates_cannot_be_changed() -> None:
    for kind in (*get_args(Result), *get_args(Update)):
        one = kind(*(pb.Task() for _ in dataclasses.fields(kind)))
        field = dataclasses.fields(kind)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, field, None)
        assert not hasattr(one, "__dict__"), "no room for anything else"


def test_a_message_may_be_given_its_id_and_data() -> None:
    made = message("x", message_id="m1", data=[1])

    assert made.message_id == "m1" and [part.WhichOneof("content") for part in made.parts] == ["text", "data"]
    assert message("x").message_id != message("x").message_id


def test_the_page_names_every_result_and_every_update() -> None:
    page = ROOT / "docs" / "CLIENT.md"

    def cell(row: str, column: int) -> str:
        found = re.search(r"`(\w+)`", row.split("|")[column])
        assert found, row
        return found[1]

    assert {cell(row, 1): cell(row, 3) for row in table(page, "result")} == {
        kind.__name__: kind.finish_reason.value for kind in get_args(Result)
    }
    assert {cell(row, 1) for row in table(page, "update")} == {
        kind.__name__ for kind in (TaskUpdate, StatusUpdate, ArtifactChunk)
    }
