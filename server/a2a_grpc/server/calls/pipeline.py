"""The one way into the operations, the same for every binding."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing

from google.protobuf.message import Message

from a2a_grpc.server.calls import steps
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.current import Current
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.service.operations import Operations
from a2a_grpc.server.store.records import Scope

# The order in which a call meets the steps, outermost first. Each class says what must come before it.
CHAIN: tuple[type[steps.Step], ...] = (
    steps.RequestId,
    steps.AccessLog,
    steps.Errors,
    steps.Deadline,
    steps.Version,
    steps.Authentication,
    steps.Extensions,
    steps.Capabilities,
    steps.Validation,
)


class Pipeline:
    """A `Handler`: the steps, and in their middle the operation."""

    def __init__(self, operations: Operations, chain: Sequence[steps.Step]) -> None:
        """`chain`: one instance of each class in `CHAIN`, in that order."""
        if tuple(type(step) for step in chain) != CHAIN:
            raise ValueError("the steps are not those of CHAIN in its order")
        self._operations = operations
        self._chain = tuple(chain)

    async def unary(self, method: str, request: Message, call: Call) -> Message:
        """Answer a unary call. Raises: A2AError and nothing else."""
        current = Current(call=call, request=request, streaming=False)
        async with AsyncExitStack() as stack:
            for step in self._chain:
                await stack.enter_async_context(step(current))
            return await self._operations.unary[method](request, _caller(current))

    async def stream(self, method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        """Answer a streaming call. Raises: A2AError and nothing else, before the first event where it can be known."""
        current = Current(call=call, request=request, streaming=True)
        async with AsyncExitStack() as stack:
            for step in self._chain:
                await stack.enter_async_context(step(current))
            events = self._operations.streams[method](request, _caller(current))
            async with aclosing(events):
                async for event in events:
                    yield event


def _caller(current: Current) -> Caller:
    return Caller(
        scope=Scope(tenant=current.request.tenant, owner=current.principal.name),  # type: ignore[attr-defined]
        authenticated=current.principal.authenticated,
        extensions=current.extensions,
    )
