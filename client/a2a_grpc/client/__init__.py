"""Call A2A agents: `A2AClient` over gRPC or HTTP+JSON, and the errors that it raises.

Requests and answers are the messages of `a2a_grpc.pb.a2a_pb2`.
"""

from a2a_grpc.client.card import CardResolver
from a2a_grpc.client.client import A2AClient
from a2a_grpc.client.errors import CardError, CardSignatureError, NotConnectedError, StreamBrokenError
from a2a_grpc.client.messages import message
from a2a_grpc.wire.errors import (
    A2AError,
    AbortedError,
    ContentTypeNotSupportedError,
    DeadlineExceededError,
    ExtendedAgentCardNotConfiguredError,
    ExtensionSupportRequiredError,
    InternalError,
    InvalidAgentResponseError,
    InvalidArgumentError,
    MethodNotAllowedError,
    PayloadTooLargeError,
    PermissionDeniedError,
    PushNotificationNotSupportedError,
    ResourceExhaustedError,
    RouteNotFoundError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
    UnsupportedMediaTypeError,
    UnsupportedOperationError,
    VersionNotSupportedError,
    Violation,
)

__all__ = [
    "A2AClient",
    "A2AError",
    "AbortedError",
    "CardError",
    "CardResolver",
    "CardSignatureError",
    "ContentTypeNotSupportedError",
    "DeadlineExceededError",
    "ExtendedAgentCardNotConfiguredError",
    "ExtensionSupportRequiredError",
    "InternalError",
    "InvalidAgentResponseError",
    "InvalidArgumentError",
    "MethodNotAllowedError",
    "NotConnectedError",
    "PayloadTooLargeError",
    "PermissionDeniedError",
    "PushNotificationNotSupportedError",
    "ResourceExhaustedError",
    "RouteNotFoundError",
    "StreamBrokenError",
    "TaskNotCancelableError",
    "TaskNotFoundError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnsupportedMediaTypeError",
    "UnsupportedOperationError",
    "VersionNotSupportedError",
    "Violation",
    "message",
]
