"""Call A2A agents: `RemoteAgent` and `Session` as one calls something local, `A2AClient` operation by operation.

Messages, tasks and artifacts are those of `a2a_grpc.pb.a2a_pb2`. Every failure is an A2AError. `webhooks` is a module
of its own, for receivers of push notifications.
"""

import importlib
import typing

from a2a_grpc.client.card import CardResolver
from a2a_grpc.client.client import A2AClient
from a2a_grpc.client.configuration import Configuration
from a2a_grpc.client.continuation import Continuation
from a2a_grpc.client.credentials import (
    ApiKey,
    BearerToken,
    ClientCertificate,
    ClientCredentials,
    Credentials,
    DeviceCode,
    DeviceFlow,
)
from a2a_grpc.client.errors import (
    CardError,
    CardNotFoundError,
    CardSignatureError,
    CredentialsError,
    InvalidArtifactError,
    NotConnectedError,
    StreamBrokenError,
)
from a2a_grpc.client.messages import message
from a2a_grpc.client.registry import RegisteredAgent, Registry
from a2a_grpc.client.remote_agent import RemoteAgent
from a2a_grpc.client.results import (
    ArtifactChunk,
    AuthRequired,
    Canceled,
    Completed,
    Failed,
    FinishReason,
    InputRequired,
    OutcomeError,
    Rejected,
    Reply,
    Result,
    StatusUpdate,
    StillRunningError,
    TaskUpdate,
    Update,
)
from a2a_grpc.client.schemas import ArtifactSchemas
from a2a_grpc.client.session import Session
from a2a_grpc.client.transports.observed import ObservedCall, Observer
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
    InvalidRequestError,
    JsonParseError,
    MethodNotAllowedError,
    MethodNotFoundError,
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

if typing.TYPE_CHECKING:
    from a2a_grpc.client import webhooks
    from a2a_grpc.client.verifying import CardVerifier, Signer, verify_card

__all__ = [
    "A2AClient",
    "A2AError",
    "AbortedError",
    "ApiKey",
    "ArtifactChunk",
    "ArtifactSchemas",
    "AuthRequired",
    "BearerToken",
    "Canceled",
    "CardError",
    "CardNotFoundError",
    "CardResolver",
    "CardSignatureError",
    "CardVerifier",
    "ClientCertificate",
    "ClientCredentials",
    "Completed",
    "Configuration",
    "ContentTypeNotSupportedError",
    "Continuation",
    "Credentials",
    "CredentialsError",
    "DeadlineExceededError",
    "DeviceCode",
    "DeviceFlow",
    "ExtendedAgentCardNotConfiguredError",
    "ExtensionSupportRequiredError",
    "Failed",
    "FinishReason",
    "InputRequired",
    "InternalError",
    "InvalidAgentResponseError",
    "InvalidArgumentError",
    "InvalidArtifactError",
    "InvalidRequestError",
    "JsonParseError",
    "MethodNotAllowedError",
    "MethodNotFoundError",
    "NotConnectedError",
    "ObservedCall",
    "Observer",
    "OutcomeError",
    "PayloadTooLargeError",
    "PermissionDeniedError",
    "PushNotificationNotSupportedError",
    "RegisteredAgent",
    "Registry",
    "Rejected",
    "RemoteAgent",
    "Reply",
    "ResourceExhaustedError",
    "Result",
    "RouteNotFoundError",
    "Session",
    "Signer",
    "StatusUpdate",
    "StillRunningError",
    "StreamBrokenError",
    "TaskNotCancelableError",
    "TaskNotFoundError",
    "TaskUpdate",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnsupportedMediaTypeError",
    "UnsupportedOperationError",
    "Update",
    "VersionNotSupportedError",
    "Violation",
    "message",
    "verify_card",
    "webhooks",
]

# What needs the libraries of signatures, which take long to import: loaded for those who use it.
_LATER: typing.Final = {
    "CardVerifier": "verifying",
    "Signer": "verifying",
    "verify_card": "verifying",
    "webhooks": "webhooks",
}

if not typing.TYPE_CHECKING:  # to a type checker, every name would be there

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = importlib.import_module(f"{__name__}.{_LATER[name]}")
        return module if name == _LATER[name] else getattr(module, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LATER})
