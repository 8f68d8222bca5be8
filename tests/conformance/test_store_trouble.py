"""3.3.2 system errors: a store that is down at the start, goes away, or stands still.

Every call is answered UNAVAILABLE with a hint when to come back, within two seconds; nothing that was acknowledged is
lost, and the service is back by itself (B103). More kinds of trouble, and what runs meanwhile, are the subject of
`tests/cases/test_store_trouble.py`.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import grpc.aio
import httpx
import pytest
from google.protobuf.message import Message
from grpc_health.v1 import health_pb2, health_pb2_grpc

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import (
    BINDINGS,
    Caller,
    Connect,
    HttpCaller,
    Service,
    refused,
    say,
    state,
    texts,
)
from tests.conformance.expected import INVALID_ARGUMENT, UNAVAILABLE, VERSION_NOT_SUPPORTED
from tests.support.replica import Replica
from tests.support.servers import StoreServer, fresh_store_server
from tests.support.troubles import gone
from tests.support.waiting import wait_until

WITHIN = 3.0
"""Seconds to an answer: a call to the store may take 1.5 of them, the rest is a busy machine's."""
AGENT = "tests.conformance.agent:full"


TROUBLES: dict[str, Callable[[StoreServer], AbstractContextManager[None]]] = {
    "gone": gone,
    "standing still": StoreServer.frozen,
}


@pytest.fixture(scope="module")
def store() -> Iterator[StoreServer]:
    with fresh_store_server() as store:
        yield store


@pytest.fixture(scope="module")
def pair(store: StoreServer) -> Iterator[tuple[Replica, Replica]]:
    """Two replicas on a store that the tests may harm."""
    with contextlib.ExitStack() as stack:
        replicas = (
            Replica(agent=AGENT, redis_url=store.url, env={}),
            Replica(agent=AGENT, redis_url=store.url, env={}),
        )
        for one in replicas:
            stack.callback(one.close)
            one.start()
        yield replicas


@pytest.fixture
async def callers(connect_over: Connect, pair: tuple[Replica, Replica], tenant: str) -> AsyncIterator[list[Caller]]:
    """One over each binding, to the first replica; both replicas are ready again afterwards."""
    yield [await connect_over(pair[0], over=over, tenant=tenant) for over in BINDINGS]
    await ready(*pair)


@pytest.fixture
async def other(connect_over: Connect, pair: tuple[Replica, Replica], tenant: str) -> Caller:
    """Calls the second replica."""
    return await connect_over(pair[1], over="HTTP+JSON", tenant=tenant)


async def ready(*replicas: Service) -> None:
    for one in replicas:
        async with HttpCaller(one) as http:

            async def is_ready(http: HttpCaller = http) -> bool:
                return (await http.http.get("/readyz")).status_code == 200

            await wait_until(is_ready, "the replica is ready again", timeout=10)


def calls(task_id: str) -> list[tuple[str, Message]]:
    """One of each operation that needs the store."""
    return [
        ("SendMessage", say("echo hi")),
        ("SendMessage", say("echo hi", return_immediately=True)),
        ("SendMessage", say("echo hi", task_id=task_id)),
        ("SendStreamingMessage", say("echo hi")),
        ("GetTask", pb.GetTaskRequest(id=task_id)),
        ("ListTasks", pb.ListTasksRequest()),
        ("CancelTask", pb.CancelTaskRequest(id=task_id)),
        ("SubscribeToTask", pb.SubscribeToTaskRequest(id=task_id)),
    ]


async def unavailable(caller: Caller, method: str, request: Message) -> None:
    begun = time.monotonic()
    failure = await refused(UNAVAILABLE, caller.call(method, request))
    assert time.monotonic() - begun < WITHIN, (caller.binding, method)
    assert failure.retry_after is not None and 0 < failure.retry_after <= 30
    if failure.binding == "HTTP+JSON":
        assert int(failure.parameters["retry-after"]) >= 1
    for inside in ("redis", "Redis", "valkey", "unix", "socket", "Connection", "Errno"):
        assert inside not in failure.message


async def healths(replica: Service) -> tuple[int, int, str]:
    """What /healthz, /readyz and the gRPC health service say."""
    async with HttpCaller(replica) as http, grpc.aio.insecure_channel(replica.grpc_addr) as channel:
        request = health_pb2.HealthCheckRequest(service="lf.a2a.v1.A2AService")
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(request, timeout=5)
        live, is_ready = await http.http.get("/healthz"), await http.http.get("/readyz")
    return live.status_code, is_ready.status_code, health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_3_3_2_a_store_that_goes_away_makes_calls_unavailable(
    trouble: str, store: StoreServer, callers: list[Caller]
) -> None:
    """3.3.2: each operation over each binding; what needs no store goes on; afterwards all is as it was."""
    task = await callers[0].task("ask")
    with TROUBLES[trouble](store):
        await asyncio.gather(
            *(unavailable(caller, method, request) for caller in callers for method, request in calls(task.id))
        )
        for caller in callers:
            await refused(INVALID_ARGUMENT, caller.page(page_size=0))
            await refused(VERSION_NOT_SUPPORTED, caller.call("ListTasks", parameters={}))
        async with HttpCaller(callers[0].service) as http:
            assert (await http.http.get("/.well-known/agent-card.json")).status_code == 200

        async def noticed() -> bool:
            return await healths(callers[0].service) == (200, 503, "NOT_SERVING")

        await wait_until(noticed, "probes tell that the store is away, and that the process lives", timeout=10)
    await ready(callers[0].service)
    assert (await healths(callers[0].service))[2] == "SERVING"
    for caller in callers:
        assert await caller.get(task.id) == task
    assert texts(await callers[1].task("echo back", task_id=task.id)) == ["back"]


@pytest.mark.parametrize("trouble", TROUBLES)
async def test_3_3_1_a_call_that_failed_for_the_store_can_be_sent_again(
    trouble: str, store: StoreServer, callers: list[Caller], other: Caller
) -> None:
    """3.3.1: the answer says so; what of the first call got through is found, done once, and nothing is left undone."""
    parked = await callers[0].task("ask")
    fresh = [say("echo fresh") for _ in callers]
    follow_up = say("echo more", task_id=parked.id)
    with TROUBLES[trouble](store):
        await asyncio.gather(
            *(unavailable(caller, "SendMessage", request) for caller, request in zip(callers, fresh, strict=True)),
            unavailable(callers[0], "SendMessage", follow_up),
        )
    await ready(*(caller.service for caller in (callers[0], other)))
    for caller, request in zip(callers, fresh, strict=True):
        task = (await caller.send(request)).task
        assert (state(task.status.state), texts(task)) == ("COMPLETED", ["fresh"])
    task = (await other.send(follow_up)).task
    assert (task.id, state(task.status.state), texts(task)) == (parked.id, "COMPLETED", ["more"])
    assert [state(task.status.state) for task in (await other.page()).tasks] == ["COMPLETED"] * 4


async def test_3_3_2_a_store_that_is_down_at_the_start(connect_over: Connect) -> None:
    """B103: the service starts, says what is missing, is not ready, and is as soon as the store is there."""
    with fresh_store_server() as store, contextlib.ExitStack() as stack:
        replica = Replica(agent=AGENT, redis_url=store.url, env={})
        stack.callback(replica.close)
        replica.start()
        callers = [await connect_over(replica, over=over) for over in BINDINGS]
        task = await callers[0].task("ask")
        replica.kill()
        with gone(store):
            replica.start(wait=False)
            await wait_until(lambda: listening(replica), "the process answers", timeout=20)
            assert await healths(replica) == (200, 503, "NOT_SERVING")
            async with HttpCaller(replica) as http:
                assert (await http.http.get("/.well-known/agent-card.json")).status_code == 200
            callers = [await connect_over(replica, over=over) for over in BINDINGS]
            await asyncio.gather(
                *(unavailable(caller, method, request) for caller in callers for method, request in calls(task.id))
            )
        await ready(replica)
        for caller in callers:
            assert await caller.get(task.id) == task
            assert texts(await caller.task("echo started")) == ["started"]
        assert "Traceback" not in replica.log()


async def listening(replica: Replica) -> bool:
    async with HttpCaller(replica) as http:
        with contextlib.suppress(httpx.TransportError):
            return (await http.http.get("/healthz")).status_code == 200
    return False
