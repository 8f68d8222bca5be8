"""Event numbers in the metadata of the payload."""

from typing import Any

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.sequence import EVENT_SEQUENCE, get_sequence, set_sequence, take_sequence


def payloads() -> list[a2a_pb2.StreamResponse]:
    return [
        a2a_pb2.StreamResponse(task=a2a_pb2.Task(id="t-1")),
        a2a_pb2.StreamResponse(message=a2a_pb2.Message(message_id="m-1")),
        a2a_pb2.StreamResponse(status_update=a2a_pb2.TaskStatusUpdateEvent(task_id="t-1")),
        a2a_pb2.StreamResponse(artifact_update=a2a_pb2.TaskArtifactUpdateEvent(task_id="t-1")),
    ]


@pytest.mark.parametrize("arm", range(4))
def test_a_number_is_read_as_it_was_written_and_leaves_no_trace(arm: int) -> None:
    response, untouched = payloads()[arm], payloads()[arm]
    set_sequence(response, 2**40)
    assert get_sequence(response) == 2**40
    assert take_sequence(response) == 2**40
    assert response == untouched
    assert (get_sequence(response), take_sequence(response)) == (0, 0)
    assert response == untouched


def test_other_metadata_stay() -> None:
    response = payloads()[2]
    response.status_update.metadata["mine"] = "kept"
    set_sequence(response, 3)
    assert take_sequence(response) == 3
    assert dict(response.status_update.metadata) == {"mine": "kept"}


@pytest.mark.parametrize("value", ["3", True, 2.5, -1, 0, float("inf"), float("nan"), None])
def test_what_is_no_number_of_an_event_counts_as_none(value: Any) -> None:
    response = payloads()[3]
    response.artifact_update.metadata[EVENT_SEQUENCE] = value
    assert get_sequence(response) == 0


def test_a_response_without_payload_has_no_number() -> None:
    response = a2a_pb2.StreamResponse()
    set_sequence(response, 1)
    assert (response, get_sequence(response), take_sequence(response)) == (a2a_pb2.StreamResponse(), 0, 0)
