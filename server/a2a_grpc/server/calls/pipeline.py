"""The one way into the operations, the same for every binding."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.calls import steps
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.current import Current
from a2a_grpc.server.calls.tracing import Tracing
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.store.records import Scope
from a2a_grpc.wire.errors import A2AError, UnimplementedError
from a2a_grpc.wire.headers import LAST_EVENT_ID
from a2a_grpc.wire.sequence import EVENT_SEQUENCE, set_sequence

T = TypeVar("T")

# The order in which a call meets the steps, outermost first. Each class says what must come before it.
CHAIN: tuple[type[steps.Step], ...] = (
    steps.RequestId,
    Tracing,
    steps.AccessLog,
    steps.Audit,
    steps.Errors,
    steps.Deadline,
    steps.Version,
    steps.Tenant,
    steps.Authentication,
    steps.Limits,
    steps.Extensions,
    steps.Capabilities,
    steps.Validation,
)


class Offered(Protocol):
    """The operations of a service under their names, those that answer once and those that stream."""

    unary: Mapping[str, Callable[[Any, Caller], Awaitable[Message]]]
    streams: Mapping[str, Callable[[Any, Caller], AsyncGenerator[Event, None]]]


class Pipeline:
    """A `Handler`: the steps, and in their middle the operation."""

    def __init__(
        self, operations: Offered, chain: Sequence[steps.Step], order: tuple[type[steps.Step], ...] | None = None
    ) -> None:
        """`chain`: one instance of each class in `order`, in that order; None: `CHAIN`, the order of A2AService."""
        order = CHAIN if order is None else order
        if tuple(type(step) for step in chain) != order:
            raise ValueError("the steps are not those of CHAIN in its order")
        self._operations = operations
        self._chain = tuple(step for step in chain if not step.idle)
        last = next((at for at, step in enumerate(self._chain) if isinstance(step, steps.Authentication)), -1)
        recording = next((at for at, step in enumerate(self._chain) if isinstance(step, steps.AccessLog)), -1)
        self._outermost = self._chain[: recording + 1]
        # Most steps have something to do only on one of the ways, and on the way out only where something went wrong.
        # To ask each of them would cost more than what they do. With each its place in the chain.
        self._entering = [
            (at, step.enter) for at, step in enumerate(self._chain) if type(step).enter is not steps.Step.enter
        ]
        self._admitting = [(at, enter) for at, enter in self._entering if at <= last]
        self._leaving = [
            (at, step.leave, step.minds_success)
            for at, step in reversed(list(enumerate(self._chain)))
            if type(step).leave is not steps.Step.leave
        ]

    async def admit(self, call: Call, tenant: str | None) -> None:
        """See Handler. Raises: A2AError and nothing else."""
        current = Current(call=call, request=None, streaming=False, tenant=tenant)
        last = -1
        try:
            for last, enter in self._admitting:  # noqa: B007 - how far it came
                await enter(current)
        except BaseException as error:
            await self._leave(current, last, error)
            raise  # not reached: _leave raises what the caller is to see

    async def refused(self, call: Call, error: A2AError) -> None:
        """See Handler."""
        current = Current(call=call, request=None, streaming=False, tenant=None)
        for step in self._outermost:
            await step.enter(current)
        for step in reversed(self._outermost):
            await step.leave(current, error)

    async def unary(self, method: str, request: Message, call: Call) -> Message:
        """Answer a unary call. Raises: A2AError and nothing else."""
        current = Current(call=call, request=request, streaming=False, tenant=getattr(request, "tenant", ""))
        last = -1
        try:
            for last, enter in self._entering:  # noqa: B007 - how far it came
                await enter(current)
            last = len(self._chain)
            operation = _offered(self._operations.unary, method)
            response = current.answer = await operation(request, _caller(current))
        except BaseException as error:
            await self._leave(current, last, error)
            raise  # not reached: _leave raises what the caller is to see
        await self._leave(current, last, None)
        return response

    async def stream(self, method: str, request: Message, call: Call) -> AsyncGenerator[Event, None]:
        """Answer a streaming call. Raises: A2AError and nothing else, before the first event where it can be known."""
        current = Current(call=call, request=request, streaming=True, tenant=getattr(request, "tenant", ""))
        last = -1
        try:
            for last, enter in self._entering:  # noqa: B007 - how far it came
                await enter(current)
            last = len(self._chain)
            operation = _offered(self._operations.streams, method)
            numbered = EVENT_SEQUENCE in current.extensions
            caller = _caller(current)
            async with aclosing(operation(request, caller)) as events:
                async for event in events:
                    if current.answer is None:
                        current.answer = event.response
                    if caller.resumed:
                        call.response_parameters.setdefault(LAST_EVENT_ID, str(event.seq))
                    yield _numbered(event) if numbered and event.seq else event
        except BaseException as error:
            await self._leave(current, last, error)
            raise  # not reached: _leave raises what the caller is to see
        await self._leave(current, last, None)

    async def _leave(self, current: Current, last: int, error: BaseException | None) -> None:
        """Show the outcome to the steps up to the place `last`, innermost first, and raise what they make of it."""
        outcome = error
        for at, leave, minds_success in self._leaving:
            if at <= last and (minds_success or outcome is not None):
                outcome = await leave(current, outcome)
        if outcome is not None:
            raise outcome from (error if outcome is not error else outcome.__cause__)


def _offered(operations: Mapping[str, T], method: str) -> T:
    """The use case of an operation. An operation that is new in the proto has a route before it has one."""
    found = operations.get(method)
    if found is None:
        raise UnimplementedError(f"This service does not offer {method}.")
    return found


def _numbered(event: Event) -> Event:
    """The event with its number in its metadata. A copy: other streams share the original."""
    response = a2a_pb2.StreamResponse()
    response.CopyFrom(event.response)
    set_sequence(response, event.seq)
    return Event(event.seq, response)


def _caller(current: Current) -> Caller:
    return Caller(
        scope=Scope(tenant=current.tenant or "", owner=current.owner),
        authenticated=current.principal.authenticated,
        principal=current.principal,
        extensions=current.extensions,
        last_event_id=current.last_event_id,
    )
