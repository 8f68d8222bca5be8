"""Each tenant's card, where it is and what it says (8.2, 8.3.2)."""

import asyncio

import grpc.aio
import httpx
import pytest
from a2a.types import GetTaskRequest

from a2a_grpc.card.v1.card_pb2 import GetAgentCardRequest
from a2a_grpc.card.v1.card_pb2_grpc import AgentCardServiceStub
from a2a_grpc.client import A2AClient, message
from a2a_grpc.pb import a2a_pb2
from tests.conformance.callers import Connect, refused
from tests.conformance.expected import UNSUPPORTED_OPERATION
from tests.interop.python_sdk import sdk
from tests.support.replica import Pair
from tests.tenants.conftest import ACME, GLOBEX, INITECH, TENANTS

CARD = ".well-known/agent-card.json"


async def card_of(service: Pair, tenant: str, replica: int = 0) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.get(f"{service.replicas[replica].http_url}/{tenant}/{CARD}")


async def test_each_tenant_has_its_card_with_its_interfaces(service: Pair) -> None:
    here = service.replicas[0]
    for tenant in TENANTS:
        card = (await card_of(service, tenant.name)).json()
        assert [
            (interface["protocolBinding"], interface["url"], interface["tenant"])
            for interface in card["supportedInterfaces"]
        ] == [
            ("GRPC", here.grpc_addr, tenant.name),
            ("HTTP+JSON", here.http_url, tenant.name),
            ("JSONRPC", f"{here.http_url}/{tenant.name}/", tenant.name),
        ]
        assert ("securitySchemes" in card) == bool(tenant.key)
    acme, globex, initech = [(await card_of(service, one.name)).json() for one in (ACME, GLOBEX, INITECH)]
    # The same agent; what the file says is Acme's alone.
    assert (acme["name"], acme["provider"]["organization"]) == ("Red of Acme", "Acme")
    assert (globex["name"], "provider" in globex) == ("red", False)
    assert initech["name"] == "blue"


async def test_a_card_is_there_for_a_tenant_that_is(service: Pair) -> None:
    for tenant in ("nope", "Acme", "acme%2F"):
        response = await card_of(service, tenant)
        assert response.status_code == 404
        assert response.json()["error"]["status"] == "NOT_FOUND"
    async with httpx.AsyncClient(trust_env=False) as http:
        assert (await http.get(f"{service.replicas[0].http_url}/{CARD}")).status_code == 404


async def test_the_card_service_has_them_by_tenant(service: Pair) -> None:
    async with grpc.aio.insecure_channel(service.replicas[0].grpc_addr) as channel:
        cards = AgentCardServiceStub(channel)
        for tenant in TENANTS:
            answer = await cards.GetAgentCard(GetAgentCardRequest(tenant=tenant.name))
            over_http = await card_of(service, tenant.name)
            assert (answer.body, answer.etag) == (over_http.content, over_http.headers["etag"])
        for tenant_name in ("", "nope"):
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await cards.GetAgentCard(GetAgentCardRequest(tenant=tenant_name))
            assert failure.value.code() is grpc.StatusCode.NOT_FOUND


async def test_cards_asked_for_at_once_are_never_mixed_up(service: Pair) -> None:
    """B091, B093: whatever a proxy, or who poses as one, says in the headers."""
    plain = {tenant.name: (await card_of(service, tenant.name)).json() for tenant in TENANTS}
    async with httpx.AsyncClient(trust_env=False) as http:

        async def ask(number: int) -> tuple[str, object]:
            name = TENANTS[number % 3].name
            headers = {
                "x-forwarded-prefix": f"/{TENANTS[(number + 1) % 3].name}",
                "x-forwarded-host": f"evil-{number}.example",
                "host": f"evil-{number}.example",
            }
            response = await http.get(f"{service.replicas[0].http_url}/{name}/{CARD}", headers=headers)
            return name, response.json()

        for name, card in await asyncio.gather(*(ask(number) for number in range(100))):
            assert card == plain[name]


@pytest.mark.parametrize("only", ["GRPC", "HTTP+JSON"])
async def test_our_client_finds_its_way_by_the_card(only: str, service: Pair) -> None:
    """B117, 8.3.2: the address of the card is all that it is told."""
    where = f"{service.replicas[0].http_url}/{INITECH.name}"
    async with await A2AClient.connect(where, bindings=[only], headers={"x-api-key": INITECH.key}) as client:
        answer = await client.send_message(a2a_pb2.SendMessageRequest(message=message("hi")))
        assert texts(answer.task) == ["blue for initech 1"]


@pytest.mark.parametrize("only", sdk.BINDINGS)
async def test_the_official_client_finds_its_way_by_the_card(only: str, service: Pair) -> None:
    async with await sdk.connect(f"{service.replicas[0].http_url}/{GLOBEX.name}", only, streaming=False) as client:
        task = await sdk.send(client, sdk.request("hi"))
        assert sdk.texts(task) == ["red for globex 1"]
        assert (await client.get_task(GetTaskRequest(id=task.id, tenant=GLOBEX.name))).id == task.id


def texts(task: a2a_pb2.Task) -> list[str]:
    return ["".join(part.text for part in artifact.parts) for artifact in task.artifacts]


async def test_the_extended_card_is_that_of_the_tenant(connect: Connect, service: Pair) -> None:
    replica = service.replicas[0]
    initech = await connect(replica, tenant=INITECH.name, key=INITECH.key)
    card = (await initech.answer("GetExtendedAgentCard")).message
    assert card.description == "Says that it is blue, in full."
    assert {interface.tenant for interface in card.supported_interfaces} == {INITECH.name}
    acme = await connect(replica, tenant=ACME.name, key=ACME.key)
    await refused(UNSUPPORTED_OPERATION, acme.call("GetExtendedAgentCard"))
