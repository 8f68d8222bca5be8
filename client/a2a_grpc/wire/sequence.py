"""The extension that numbers events: `urn:a2a-grpc:extension:event-sequence:v1`.

When a caller activates it (A2A-Extensions), the metadata of each streamed payload holds the event's number within its
task under the extension's URI. It is the number that Last-Event-ID takes, for bindings whose streams have no ids.
"""

from typing import Final

from a2a_grpc.pb import a2a_pb2

EVENT_SEQUENCE: Final = "urn:a2a-grpc:extension:event-sequence:v1"


_Payload = a2a_pb2.Task | a2a_pb2.Message | a2a_pb2.TaskStatusUpdateEvent | a2a_pb2.TaskArtifactUpdateEvent


def set_sequence(response: a2a_pb2.StreamResponse, seq: int) -> None:
    """Write `seq` into the metadata of the payload."""
    payload = _payload(response)
    if payload is not None:
        payload.metadata.fields[EVENT_SEQUENCE].number_value = seq


def get_sequence(response: a2a_pb2.StreamResponse) -> int:
    """The number in the metadata of the payload; 0 when there is none."""
    payload = _payload(response)
    if payload is None or EVENT_SEQUENCE not in payload.metadata.fields:
        return 0
    number = payload.metadata.fields[EVENT_SEQUENCE].number_value
    return int(number) if number >= 1 and number.is_integer() else 0


def take_sequence(response: a2a_pb2.StreamResponse) -> int:
    """As `get_sequence`, and remove it, so that the payload is as it would be without the extension."""
    seq = get_sequence(response)
    payload = _payload(response)
    if payload is not None and EVENT_SEQUENCE in payload.metadata.fields:
        del payload.metadata.fields[EVENT_SEQUENCE]
        if not payload.metadata.fields:
            payload.ClearField("metadata")
    return seq


def _payload(response: a2a_pb2.StreamResponse) -> _Payload | None:
    match response.WhichOneof("payload"):
        case "task":
            return response.task
        case "message":
            return response.message
        case "status_update":
            return response.status_update
        case "artifact_update":
            return response.artifact_update
    return None
