"""A transport that somebody watches: what is sent, what comes back, and how long it takes."""

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from google.protobuf.message import Message

from a2a_grpc.client.credentials.base import NO_ACCESS, Access
from a2a_grpc.client.transports.base import Numbered, R, Transport
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import A2AError


@dataclass(frozen=True, slots=True)
class ObservedCall:
    """A call of an operation. Of what shows who calls there are only the names: an observer may write a log."""

    interface: a2a_pb2.AgentInterface
    method: str
    request: Message
    parameters: Mapping[str, str]
    """Of this call: the cursor of a stream."""
    shown: tuple[str, ...]
    """The names of headers, query parameters and cookies that hold credentials."""
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self.began


class Observer:
    """Watches the calls of a client, each attempt for itself: a subclass does something with what it is told.

    It must not raise, and is waited for.
    """

    def called(self, call: ObservedCall) -> None:
        """A request is about to be sent."""

    def answered(self, call: ObservedCall, answer: Message) -> None:
        """An answer, or an event of a stream, has come."""

    def failed(self, call: ObservedCall, error: A2AError) -> None:
        """The call has failed."""


class ObservedTransport:
    """See `Transport`."""

    def __init__(self, inner: Transport, observer: Observer, interface: a2a_pb2.AgentInterface) -> None:
        self._inner = inner
        self._observer = observer
        self._interface = interface

    async def open(self) -> None:
        await self._inner.open()

    async def unary(
        self,
        method: str,
        request: Message,
        response_type: type[R],
        *,
        timeout: float | None,
        access: Access = NO_ACCESS,
    ) -> R:
        call = self._call(method, request, {}, access)
        try:
            answer = await self._inner.unary(method, request, response_type, timeout=timeout, access=access)
        except A2AError as error:
            self._observer.failed(call, error)
            raise
        self._observer.answered(call, answer)
        return answer

    async def stream(
        self, method: str, request: Message, parameters: Mapping[str, str], *, access: Access = NO_ACCESS
    ) -> AsyncGenerator[Numbered, None]:
        call = self._call(method, request, parameters, access)
        try:
            async with aclosing(self._inner.stream(method, request, parameters, access=access)) as events:
                async for event in events:
                    self._observer.answered(call, event.response)
                    yield event
        except A2AError as error:
            self._observer.failed(call, error)
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _call(self, method: str, request: Message, parameters: Mapping[str, str], access: Access) -> ObservedCall:
        shown = (*access.headers, *access.query, *access.cookies)
        call = ObservedCall(self._interface, method, request, dict(parameters), shown)
        self._observer.called(call)
        return call
