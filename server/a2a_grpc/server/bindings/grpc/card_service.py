"""The public agent card, and the keys that check it, for a gateway that runs on its own."""

# ruff: noqa: N802  # the proto names the methods

from collections.abc import Callable
from typing import Any

import grpc.aio

from a2a_grpc.card.v1.card_pb2 import (
    GetAgentCardRequest,
    GetAgentCardResponse,
    GetKeySetRequest,
    GetKeySetResponse,
)
from a2a_grpc.card.v1.card_pb2_grpc import AgentCardServiceServicer
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.cards import CardReading
from a2a_grpc.server.card.published import KeySource


class CardService(AgentCardServiceServicer):
    """Hands out cards byte for byte as they are published."""

    def __init__(
        self,
        cards: CardReading,
        keys: KeySource | None,
        make_call: Callable[[str, grpc.aio.ServicerContext[Any, Any]], Call],
    ) -> None:
        self._cards = cards
        self._keys = keys
        self._make_call = make_call

    async def GetAgentCard(
        self, request: GetAgentCardRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> GetAgentCardResponse:
        call = self._make_call("GetAgentCard", context)
        try:
            published = await self._cards.read(request.tenant, call)
        finally:
            context.set_trailing_metadata(tuple(call.response_parameters.items()))
        if published is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "The tenant has no agent card.")
        return GetAgentCardResponse(
            body=published.body,
            etag=published.etag,
            last_modified=published.last_modified,
            private=published.private,
        )

    async def GetKeySet(
        self, _request: GetKeySetRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> GetKeySetResponse:
        body = await self._keys.key_set() if self._keys is not None else None
        if body is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "This service signs nothing.")
        return GetKeySetResponse(body=body)
