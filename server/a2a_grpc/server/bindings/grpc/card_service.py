"""The public agent card for a gateway that runs on its own."""

# ruff: noqa: N802  # the proto names the methods

from typing import Any

import grpc.aio

from a2a_grpc.card.v1.card_pb2 import GetAgentCardRequest, GetAgentCardResponse
from a2a_grpc.card.v1.card_pb2_grpc import AgentCardServiceServicer
from a2a_grpc.server.card.published import CardSource


class CardService(AgentCardServiceServicer):
    """Hands out cards byte for byte as they are published."""

    def __init__(self, cards: CardSource) -> None:
        self._cards = cards

    async def GetAgentCard(
        self, request: GetAgentCardRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> GetAgentCardResponse:
        published = await self._cards.public_card(request.tenant)
        if published is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "The tenant has no agent card.")
        return GetAgentCardResponse(body=published.body, etag=published.etag, last_modified=published.last_modified)
