"""The extension that numbers events: `urn:a2a-grpc:extension:event-sequence:v1`.

When a caller activates it (A2A-Extensions), the metadata of each streamed payload holds the event's number within its task
under the extension's URI. It is the number that `Last-Event-ID` takes, for bindings whose streams have no id of their own.
"""

from typing import Final

from google.protobuf.struct_pb2 import Struct

from a2a_grpc.pb import a2a_pb2

EVENT_SEQUENCE: Final = "urn:a2a-grpc:extension:event-sequence:v1"


def set_sequence(response: a2a_pb2.StreamResponse, seq: int) -> None:
    """Write `seq` into the metadata of the payload."""
    metadata = _metadata(response)
    if metadata is not None:
        metadata.fields[EVENT_SEQUENCE].number_value = seq


def get_sequence(response: a2a_pb2.StreamResponse) -> int:
    """The number in the metadata of the payload; 0 when there is none."""
    metadata = _metadata(response)
    if metadata is None or EVENT_SEQUENCE not in metadata.fields:
        return 0
    number = metadata.fields[EVENT_SEQUENCE].number_value
    return int(number) if number >= 1 and number.is_integer() else 0


def take_sequence(response: a2a_pb2.StreamResponse) -> int:
    """As `get_sequence`, and remove it, so that the payload is as it would be without the extension."""
    seq = get_sequence(response)
    metadata = _metadata(response)
    if metadata is not None and EVENT_SEQUENCE in metadata.fields:
        del metadata.fields[EVENT_SEQUENCE]
        if not metadata.fields:
            getattr(response, response.WhichOneof("payload") or "").ClearField("metadata")
    return seq


def _metadata(response: a2a_pb2.StreamResponse) -> Struct | None:
    match response.WhichOneof("payload"):
        case "task":
            return response.task.metadata
        case "message":
            return response.message.metadata
        case "status_update":
            return response.status_update.metadata
        case "artifact_update":
            return response.artifact_update.metadata
    return None
