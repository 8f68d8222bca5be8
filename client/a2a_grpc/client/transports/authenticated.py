"""A transport whose calls say who calls."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from google.protobuf.message import Message

from a2a_grpc.client.credentials.base import NO_ACCESS, Access
from a2a_grpc.client.credentials.choosing import Authenticator
from a2a_grpc.client.transports.base import Numbered, R, Transport
from a2a_grpc.wire.errors import UnauthenticatedError


class AuthenticatedTransport:
    """See `Transport`. A call that is refused as unauthenticated is made once more where something else can be shown.

    It was not carried out, so that nothing is done twice.
    """

    def __init__(self, inner: Transport, authenticator: Authenticator) -> None:
        self._inner = inner
        self._authenticator = authenticator

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
        shown = access | await self._authenticator.access()
        try:
            return await self._inner.unary(method, request, response_type, timeout=timeout, access=shown)
        except UnauthenticatedError as error:
            again = await self._again(shown, error)
        return await self._inner.unary(method, request, response_type, timeout=timeout, access=access | again)

    async def stream(
        self, method: str, request: Message, parameters: Mapping[str, str], *, access: Access = NO_ACCESS
    ) -> AsyncGenerator[Numbered, None]:
        shown, begun = access | await self._authenticator.access(), False
        try:
            async with aclosing(self._inner.stream(method, request, parameters, access=shown)) as events:
                async for event in events:
                    begun = True
                    yield event
        except UnauthenticatedError as error:
            if begun:
                raise
            again = await self._again(shown, error)
        else:
            return
        async with aclosing(self._inner.stream(method, request, parameters, access=access | again)) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _again(self, shown: Access, error: UnauthenticatedError) -> Access:
        """What to try once more. Raises the refusal where there is nothing."""
        again = await self._authenticator.renewed(shown)
        if again is None:
            raise self._authenticator.explained(error) from error
        return again
