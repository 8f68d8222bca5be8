"""Failures that only a client can see. Each refines an error of the table: `except A2AError` covers everything."""

from a2a_grpc.client.continuation import Continuation
from a2a_grpc.wire.errors import InvalidAgentResponseError, UnauthenticatedError, UnavailableError


class NotConnectedError(UnavailableError):
    """No connection came about: the request was certainly not sent, so sending it elsewhere repeats nothing."""


class StreamBrokenError(UnavailableError):
    """A stream stopped before the task reached a state that ends it.

    The task goes on at the agent. `task_id` says which one, for `subscribe_to_task` or `get_task`; it is empty when the
    stream stopped before it named a task. From a RemoteAgent or a Session it has a `continuation`, too.
    """

    def __init__(self, message: str, *, task_id: str = "", continuation: Continuation | None = None) -> None:
        super().__init__(message)
        self.task_id = task_id
        self.continuation = continuation


class InvalidArtifactError(InvalidAgentResponseError):
    """An artifact does not match the schema in the agent's card.

    The task may go on at the agent. `task_id` says which one, for `cancel_task` or `RemoteAgent.cancel`; it is empty
    where an artifact was checked by itself. From a run of a RemoteAgent or a Session it has a `continuation`, too.
    """

    def __init__(self, message: str, *, task_id: str = "", continuation: Continuation | None = None) -> None:
        super().__init__(message)
        self.task_id = task_id
        self.continuation = continuation


class CardError(InvalidAgentResponseError):
    """There is no agent card where one was looked for, or the card offers nothing that this client can use."""


class CardNotFoundError(CardError):
    """There is no agent card where one was looked for."""


class CardSignatureError(CardError):
    """The agent card is not signed by a key that is trusted."""


class CredentialsError(UnauthenticatedError):
    """There is nothing to show that the agent would take, or it may not be shown there. The agent was not called."""
