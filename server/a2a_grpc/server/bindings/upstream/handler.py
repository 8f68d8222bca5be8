"""The Handler whose pipeline runs somewhere else."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final, cast

import grpc.aio
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from a2a_grpc.server.bindings.upstream.failure import failure, unreachable
from a2a_grpc.server.bindings.upstream.forwarding import forwarded, returned
from a2a_grpc.server.bindings.upstream.key_places import KeyPlaces
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.core.events import Event
from a2a_grpc.wire.errors import A2AError
from a2a_grpc.wire.headers import A2A_EXTENSIONS, format_extensions, parse_extensions
from a2a_grpc.wire.sequence import EVENT_SEQUENCE, get_sequence, take_sequence

_METHODS: Final = tuple(method.name for method in a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].methods)


class UpstreamHandler:
    """Passes calls on to a remote a2a-grpc with their parameters and what is left of their time."""

    def __init__(self, channel: grpc.aio.Channel, places: KeyPlaces) -> None:
        stub = A2AServiceStub(channel)
        self._places = places
        self._methods: dict[str, Any] = {name: getattr(stub, name) for name in _METHODS}

    async def admit(self, call: Call, tenant: str | None) -> None:
        """See Handler. Versions and credentials are checked by the upstream, which is asked with the request."""

    async def refused(self, call: Call, error: A2AError) -> None:
        """See Handler."""

    async def unary(self, method: str, request: Message, call: Call) -> Message:
        """See Handler. Raises UnavailableError when no replica of the upstream can be reached."""
        parameters = await self._parameters(request, call)
        rpc = self._methods[method](request, timeout=call.timeout, metadata=tuple(parameters.items()))
        try:
            response = await rpc
            call.response_parameters |= returned(await rpc.initial_metadata()) | returned(await rpc.trailing_metadata())
        except grpc.aio.AioRpcError as error:
            call.response_parameters |= returned(error.initial_metadata()) | returned(error.trailing_metadata())
            raise failure(error) from error
        except asyncio.CancelledError:
            if _cancelled():
                raise
            raise unreachable() from None  # the channel was closed
        return cast("Message", response)

    async def stream(self, method: str, request: Message, call: Call) -> AsyncGenerator[Event, None]:
        """See Handler. Events of an upstream that does not number them have the number 0.

        gRPC streams have no event ids, so the numbers come by the event-sequence extension. A caller who has not asked
        for it gets payloads without it.
        """
        parameters = await self._parameters(request, call)
        extensions = parse_extensions(parameters.get(A2A_EXTENSIONS, ""))
        asked = EVENT_SEQUENCE in extensions
        parameters[A2A_EXTENSIONS] = format_extensions((*extensions, EVENT_SEQUENCE))
        rpc = self._methods[method](request, timeout=call.timeout, metadata=tuple(parameters.items()))
        try:
            call.response_parameters |= _without_ours(returned(await rpc.initial_metadata()), asked)
            async for response in rpc:
                yield Event(get_sequence(response) if asked else take_sequence(response), response)
        except grpc.aio.AioRpcError as error:
            left = returned(error.initial_metadata()) | returned(error.trailing_metadata())
            call.response_parameters |= _without_ours(left, asked)
            raise failure(error) from error
        except asyncio.CancelledError:
            if _cancelled():
                raise
            raise unreachable() from None
        finally:
            rpc.cancel()

    async def _parameters(self, request: Message, call: Call) -> dict[str, str]:
        tenant: str = request.tenant  # type: ignore[attr-defined]
        return forwarded(call.parameters) | await self._places.keys_of(tenant, call.credentials)


def _without_ours(parameters: dict[str, str], asked: bool) -> dict[str, str]:
    if not asked and A2A_EXTENSIONS in parameters:
        left = [uri for uri in parse_extensions(parameters.pop(A2A_EXTENSIONS)) if uri != EVENT_SEQUENCE]
        if left:
            parameters[A2A_EXTENSIONS] = format_extensions(left)
    return parameters


def _cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
