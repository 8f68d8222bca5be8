"""The public agent cards of the upstream."""

from datetime import UTC
from typing import Final

import grpc
import grpc.aio

from a2a_grpc.card.v1.card_pb2 import GetAgentCardRequest
from a2a_grpc.card.v1.card_pb2_grpc import AgentCardServiceStub
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.bindings.upstream.failure import failure
from a2a_grpc.server.card.published import PublishedCard
from a2a_grpc.wire.errors import A2AError, UnavailableError
from a2a_grpc.wire.protojson import loads

_TIMEOUT: Final = 5.0


class UpstreamCards:
    """A CardSource that asks the upstream each time, so that a new card shows at once and on all gateways."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = AgentCardServiceStub(channel)

    async def public_card(self, tenant: str) -> PublishedCard | None:
        """The card of `tenant` byte for byte as the upstream publishes it. Raises A2AError when it cannot be had."""
        try:
            answer = await self._stub.GetAgentCard(GetAgentCardRequest(tenant=tenant), timeout=_TIMEOUT)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            raise failure(error) from error
        try:
            card = loads(answer.body, a2a_pb2.AgentCard)
        except A2AError as error:
            raise UnavailableError("The agent behind this gateway has no card that can be read.") from error
        return PublishedCard(
            card=card, body=answer.body, etag=answer.etag, last_modified=answer.last_modified.ToDatetime(tzinfo=UTC)
        )
