"""The seam between the client and the bindings."""

from collections.abc import AsyncGenerator, Mapping
from typing import NamedTuple, Protocol, TypeVar

from google.protobuf.message import Message

from a2a_grpc.client.credentials.base import NO_ACCESS, Access
from a2a_grpc.pb import a2a_pb2

R = TypeVar("R", bound=Message)


class Numbered(NamedTuple):
    """An event of a stream, and its number within its task; 0 where the agent gives none."""

    seq: int
    response: a2a_pb2.StreamResponse


class Transport(Protocol):
    """One interface of an agent, with the connections to it. Belongs to the event loop that it was made in.

    Every failure is raised as an A2AError: the one that the agent sent; NotConnectedError when no connection came
    about; UnavailableError when one broke; InvalidAgentResponseError for an answer that is not of the protocol. A call
    may be cancelled at any time.
    """

    async def open(self) -> None:
        """Establish the connection if that can be done ahead of a call."""

    async def unary(
        self,
        method: str,
        request: Message,
        response_type: type[R],
        *,
        timeout: float | None,
        access: Access = NO_ACCESS,
    ) -> R:
        """Call an operation by its name in the proto, with `access` to show who calls.

        The caller stops waiting after `timeout` seconds; the agent is told where the binding has words for it.
        """

    def stream(
        self, method: str, request: Message, parameters: Mapping[str, str], *, access: Access = NO_ACCESS
    ) -> AsyncGenerator[Numbered, None]:
        """Call a streaming operation, with `parameters` of this call. Ends when the agent ends the stream.

        Closing the generator gives up the stream at once.
        """

    async def aclose(self) -> None:
        """Close the connections. Calls and streams that still run fail with UnavailableError."""
