"""The seam between the bindings and what they carry: the pipeline of this process, or a remote server."""

from collections.abc import AsyncIterator
from typing import Protocol

from google.protobuf.message import Message

from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.core.events import Event
from a2a_grpc.wire.errors import A2AError


class Handler(Protocol):
    """Serves the eleven operations. Errors are A2AErrors and nothing else."""

    async def admit(self, call: Call, tenant: str | None) -> None:
        """Refuse a call of another version or without the right credentials, before its request is read.

        `tenant`: what the path says; None where only the request would tell. A call that passes is checked again, with
        its request.
        """

    async def refused(self, call: Call, error: A2AError) -> None:
        """Hear of a call that its binding has refused with `error`, and that was not answered here."""

    async def unary(self, method: str, request: Message, call: Call) -> Message:
        """Answer a call of an operation that has one response."""

    def stream(self, method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        """Answer a call of an operation that streams.

        What is wrong with the call is raised by the first `__anext__`, before any event; a later failure is raised by
        the `__anext__` that meets it. The binding calls `aclose()` when the peer goes away.
        """
