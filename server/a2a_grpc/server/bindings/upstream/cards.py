"""The public agent cards of the upstream, and its keys."""

from datetime import UTC
from typing import Final

import grpc
import grpc.aio

from a2a_grpc.card.v1.card_pb2 import GetAgentCardRequest, GetKeySetRequest
from a2a_grpc.card.v1.card_pb2_grpc import AgentCardServiceStub
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.bindings.upstream.failure import failure
from a2a_grpc.server.bindings.upstream.forwarding import forwarded, returned
from a2a_grpc.server.bindings.upstream.key_places import KeyPlaces
from a2a_grpc.server.card.published import PublishedCard, Request
from a2a_grpc.wire.errors import A2AError, UnavailableError
from a2a_grpc.wire.protojson import loads

_TIMEOUT: Final = 5.0


class UpstreamCards:
    """A CardSource that asks the upstream each time, so that a new card shows at once and on all gateways.

    The upstream decides who may have it. It is a KeySource as well.
    """

    def __init__(self, channel: grpc.aio.Channel, places: KeyPlaces) -> None:
        self._stub = AgentCardServiceStub(channel)
        self._places = places

    async def public_card(self, tenant: str, request: Request) -> PublishedCard | None:
        """The card of `tenant` byte for byte as the upstream publishes it. Raises A2AError when it cannot be had."""
        headers = forwarded(request.parameters)
        metadata = headers | await self._places.keys_of(tenant, request.credentials)
        try:
            answer = await self._stub.GetAgentCard(
                GetAgentCardRequest(tenant=tenant), timeout=_TIMEOUT, metadata=tuple(metadata.items())
            )
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            request.response_parameters.update(returned(error.trailing_metadata()))
            raise failure(error) from error
        try:
            card = loads(answer.body, a2a_pb2.AgentCard)
        except A2AError as error:
            raise UnavailableError("The agent behind this gateway has no card that can be read.") from error
        return PublishedCard(
            card=card,
            body=answer.body,
            etag=answer.etag,
            last_modified=answer.last_modified.ToDatetime(tzinfo=UTC),
            private=answer.private,
            varies=tuple(headers) if answer.private else (),
        )

    async def key_set(self) -> bytes | None:
        """See KeySource."""
        try:
            answer = await self._stub.GetKeySet(GetKeySetRequest(), timeout=_TIMEOUT)
        except grpc.aio.AioRpcError as error:
            # An upstream of before has no such method.
            if error.code() in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED):
                return None
            raise failure(error) from error
        body: bytes = answer.body
        return body
