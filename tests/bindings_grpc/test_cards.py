"""A gateway that runs on its own gets the card byte for byte."""

from datetime import UTC, datetime

import grpc
import grpc.aio
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_grpc.card.v1.card_pb2 import GetAgentCardRequest
from a2a_grpc.card.v1.card_pb2_grpc import AgentCardServiceStub
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.card.published import PublishedCard, Request
from a2a_grpc.wire.errors import UnavailableError
from tests.bindings_grpc.scripted import Scripted, serving
from tests.bindings_grpc.test_failures import error_info, failure

# Not as any encoder would print it, and with a field that nobody here knows: it must pass unchanged.
BODY = b'{ "name":"Acme",  "futureField": [1, 2], "version": "7" }'


class OneCard:
    """A CardSource with a card for the tenant acme, and none that can be had yet for the tenant later."""

    async def public_card(self, tenant: str, _request: Request) -> PublishedCard | None:
        if tenant == "later":
            raise UnavailableError("the card is not built yet", retry_after=2.0)
        if tenant != "acme":
            return None
        return PublishedCard(
            card=a2a_pb2.AgentCard(name="Acme", version="7"),
            body=BODY,
            etag='"abc"',
            last_modified=datetime(2026, 11, 30, 7, 8, 9, tzinfo=UTC),
        )


async def test_the_card_passes_byte_for_byte() -> None:
    async with serving(Scripted(), cards=OneCard()) as address, grpc.aio.insecure_channel(address) as channel:
        answer = await AgentCardServiceStub(channel).GetAgentCard(GetAgentCardRequest(tenant="acme"))
    assert (answer.body, answer.etag) == (BODY, '"abc"')
    assert answer.last_modified == Timestamp(seconds=1796022489)


async def test_a_tenant_without_a_card_and_one_whose_card_is_not_there_yet() -> None:
    async with serving(Scripted(), cards=OneCard()) as address, grpc.aio.insecure_channel(address) as channel:
        stub = AgentCardServiceStub(channel)
        missing = await failure(stub.GetAgentCard(GetAgentCardRequest(tenant="nobody")))
        later = await failure(stub.GetAgentCard(GetAgentCardRequest(tenant="later")))
    assert missing.code() is grpc.StatusCode.NOT_FOUND
    assert later.code() is grpc.StatusCode.UNAVAILABLE
    assert error_info(later).reason == "UNAVAILABLE"


async def test_a_server_without_cards_does_not_offer_the_service() -> None:
    async with serving(Scripted()) as address, grpc.aio.insecure_channel(address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await AgentCardServiceStub(channel).GetAgentCard(GetAgentCardRequest())
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
