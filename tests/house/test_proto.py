"""What has to be complete over the proto and is typed loosely enough for the type checker to miss it.

A failure here means that `a2a.proto` has grown: docs/SPEC_BUMP.md says where the new thing goes.
"""

from typing import Any, cast

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.service.operations import Operations

METHODS = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].methods


def test_every_operation_has_a_use_case_of_its_kind() -> None:
    nothing = cast("Any", None)
    operations = Operations(nothing, nothing, nothing, nothing, dedupe_ttl=0, cancel_grace=0)

    assert set(operations.unary) == {method.name for method in METHODS if not method.server_streaming}
    assert set(operations.streams) == {method.name for method in METHODS if method.server_streaming}


def test_the_log_knows_every_kind_of_event() -> None:
    """The table at the top of core/events; what it does not list is neither folded nor delivered."""
    kinds = {field.name for field in a2a_pb2.StreamResponse.DESCRIPTOR.oneofs_by_name["payload"].fields}

    assert kinds == {"task", "message", "status_update", "artifact_update"}
