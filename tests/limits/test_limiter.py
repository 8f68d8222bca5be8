"""What is counted of the limits themselves."""

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent
from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.auth.gate import Gate
from a2a_grpc.server.auth.principal import ANONYMOUS, Principal
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.current import Current
from a2a_grpc.server.calls.steps import Limits
from a2a_grpc.server.hosting.hosts import Hosted
from a2a_grpc.server.hosting.limiter import Limiter
from a2a_grpc.server.hosting.limits import HostLimits, Quota
from a2a_grpc.server.store.quotas import Quotas
from a2a_grpc.server.store.stock import Rate
from a2a_grpc.wire.errors import QuotaExceededError
from tests.support.metrics import measuring
from tests.support.servers import StoreServer
from tests.support.tasks import open_store

ALICE = Principal("alice")
LIMITS = "a2a_limit_refusals_total"


def hosted() -> Hosted:
    agent = Agent(name="Test", description="Does nothing.", version="1")
    limits = HostLimits(max_message_bytes=1024, caller=Quota(rates={"read": Rate(0.001, 1)}, streams=1))
    return Hosted(agent, Gate(), agent.card, limits, tenant="acme")


async def enter(limiter: Limiter, one: Hosted, who: Principal, peer: str, *, streaming: bool = False) -> None:
    """A call that comes, and is still there."""
    method = "SubscribeToTask" if streaming else "GetTask"
    call = Call(method=method, binding="GRPC", parameters={}, credentials=Credentials(), peer=peer)
    current = Current(call=call, request=a2a_pb2.GetTaskRequest(id="x"), streaming=streaming, tenant="acme")
    current.hosted, current.principal, current.owner = one, who, who.name
    step = Limits(limiter)
    try:
        await step.enter(current)
    except QuotaExceededError as error:
        assert await step.leave(current, error) is error
        raise


async def test_refusals_are_counted_by_tenant_and_limit(one_store_server: StoreServer) -> None:
    async with open_store(one_store_server.url) as store:
        limiter, one = Limiter(Quotas(store)), hosted()
        await enter(limiter, one, ALICE, "10.0.0.1:1")
        await enter(limiter, one, ALICE, "10.0.0.1:1", streaming=True)
        with measuring() as meters:
            for streaming in (False, False, True):
                with pytest.raises(QuotaExceededError):
                    await enter(limiter, one, ALICE, "10.0.0.2:2", streaming=streaming)
            seen = meters.read()
        assert seen.of(LIMITS, a2a_tenant="acme", a2a_limit_of="caller", a2a_limit="rate:read") == 2
        assert seen.of(LIMITS, a2a_tenant="acme", a2a_limit_of="caller", a2a_limit="streams") == 1
        assert seen.of(LIMITS) == 3


async def test_the_anonymous_are_their_addresses_and_never_a_caller_of_that_name(one_store_server: StoreServer) -> None:
    async with open_store(one_store_server.url) as store:
        limiter, one = Limiter(Quotas(store)), hosted()
        await enter(limiter, one, ANONYMOUS, "10.0.0.1:1")
        with pytest.raises(QuotaExceededError):
            await enter(limiter, one, ANONYMOUS, "10.0.0.1:2")
        await enter(limiter, one, ANONYMOUS, "[2001:db8::1]:1")
        with pytest.raises(QuotaExceededError):  # over HTTP, from its neighbour
            await enter(limiter, one, ANONYMOUS, "2001:db8::2:1")
        await enter(limiter, one, Principal("10.0.0.1"), "10.0.0.1:1")


async def test_calls_that_nobody_counted_are_counted(one_store_server: StoreServer) -> None:
    async with open_store(one_store_server.url, timeout=0.3) as store:
        limiter, one = Limiter(Quotas(store)), hosted()
        await enter(limiter, one, ALICE, "")
        one_store_server.kill()
        with measuring() as meters:
            try:
                for _ in range(3):
                    await enter(limiter, one, ALICE, "")
            finally:
                one_store_server.revive()
            assert meters.read().of("a2a_limit_unchecked_total") == 3
