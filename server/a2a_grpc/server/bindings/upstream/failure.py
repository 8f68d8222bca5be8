"""A failed call to the upstream as an A2AError."""

import logging
from typing import Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, status_pb2

from a2a_grpc.wire.errors import A2AError, UnavailableError, from_status

_log = logging.getLogger(__name__)

_DETAILS: Final = "grpc-status-details-bin"
_RETRY_AFTER: Final = 1.0

# An a2a-grpc always sends details. A status without them comes from the gRPC library or from a proxy; its text names
# addresses and implementations, which are no business of the caller.
_SENTENCES: Final = {
    grpc.StatusCode.DEADLINE_EXCEEDED: "The agent did not answer within the deadline of the call.",
    grpc.StatusCode.RESOURCE_EXHAUSTED: "The agent refused the call because of its size or for lack of resources.",
    grpc.StatusCode.UNIMPLEMENTED: "The agent does not offer this operation.",
    grpc.StatusCode.UNAUTHENTICATED: "The credentials were refused on the way to the agent.",
    grpc.StatusCode.PERMISSION_DENIED: "The call was refused on the way to the agent.",
}
_UNREACHABLE: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})


def failure(error: grpc.aio.AioRpcError) -> A2AError:
    """What `error` means to the caller. Its own text goes to the log unless the agent itself has written it."""
    status = details_of(error)
    if status is not None:
        return from_status(status)
    _log.warning("the upstream call failed: %s: %s", error.code().name, error.details())
    if error.code() in _UNREACHABLE:
        return unreachable()
    sentence = _SENTENCES.get(error.code(), "The agent failed and did not say why.")
    code = error.code().value[0] if error.code() in _SENTENCES else code_pb2.INTERNAL
    return from_status(status_pb2.Status(code=code, message=sentence))


def unreachable() -> UnavailableError:
    """The error for an upstream that cannot be asked at present."""
    return UnavailableError("The agent behind this gateway cannot be reached at present.", retry_after=_RETRY_AFTER)


def details_of(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    """What the service itself has said about the error; None where it has said nothing."""
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS and isinstance(value, bytes):
            try:
                status = status_pb2.Status.FromString(value)
            except DecodeError:
                return None
            return status if status.code else None
    return None
