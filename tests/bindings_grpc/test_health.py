"""grpc.health.v1 tells the readiness of the process, and apart from it that the process lives (B103)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from a2a_grpc.server.bindings.grpc.server import create_server
from a2a_grpc.server.core.readiness import Readiness
from tests.bindings_grpc.scripted import Scripted, serving
from tests.bindings_grpc.test_failures import failure

A2A = "lf.a2a.v1.A2AService"
SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING
UNKNOWN = HealthCheckResponse.SERVICE_UNKNOWN


@contextlib.asynccontextmanager
async def health(readiness: Readiness) -> AsyncIterator[Any]:
    async with serving(Scripted(), readiness=readiness) as address, grpc.aio.insecure_channel(address) as channel:
        yield HealthStub(channel)


async def check(stub: Any, service: str) -> int:
    response: HealthCheckResponse = await stub.Check(HealthCheckRequest(service=service), timeout=2)
    return response.status


async def next_status(watch: Any) -> int:
    async with asyncio.timeout(2):
        response: HealthCheckResponse = await watch.read()
    return response.status


@pytest.mark.parametrize("service", ["", A2A])
async def test_check_follows_the_readiness(service: str) -> None:
    readiness = Readiness()
    async with health(readiness) as stub:
        assert await check(stub, service) == NOT_SERVING
        readiness.set("store", ready=True)
        assert await check(stub, service) == SERVING
        readiness.set("store", ready=False, reason="gone")
        assert await check(stub, service) == NOT_SERVING


async def test_a_process_without_its_store_lives() -> None:
    readiness = Readiness()
    readiness.set("store", ready=False, reason="gone")
    async with health(readiness) as stub:
        assert await check(stub, "liveness") == SERVING
        assert await check(stub, "") == NOT_SERVING


async def test_an_unknown_service_is_not_found() -> None:
    async with health(Readiness()) as stub:
        error = await failure(stub.Check(HealthCheckRequest(service="no.such.Service")))
    assert error.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("service", ["", A2A])
async def test_watch_tells_each_change_to_every_watcher(service: str) -> None:
    readiness = Readiness()
    async with health(readiness) as stub:
        first, second, leaver = (stub.Watch(HealthCheckRequest(service=service)) for _ in range(3))
        for watch in (first, second, leaver):
            assert await next_status(watch) == NOT_SERVING
        leaver.cancel()
        for ready, status in ((True, SERVING), (False, NOT_SERVING), (True, SERVING)):
            readiness.set("store", ready=ready)
            assert [await next_status(first), await next_status(second)] == [status, status]


async def test_watch_of_an_unknown_service_stays_open() -> None:
    readiness = Readiness()
    async with health(readiness) as stub:
        watch = stub.Watch(HealthCheckRequest(service="no.such.Service"))
        assert await next_status(watch) == UNKNOWN
        readiness.set("store", ready=True)
        assert await check(stub, "") == SERVING
        assert not watch.done()


async def test_watchers_do_not_hold_up_the_stop() -> None:
    readiness = Readiness()
    readiness.set("store", ready=True)
    server = create_server(Scripted(), None, readiness, addr="127.0.0.1:0")
    port = await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = HealthStub(channel)
        watches = [stub.Watch(HealthCheckRequest(service=service)) for service in ("", "liveness")]
        for watch in watches:
            assert await next_status(watch) == SERVING
        async with asyncio.timeout(3):
            await server.stop(30)
        assert await next_status(watches[0]) == NOT_SERVING
        for watch in watches:
            error = await failure(watch.read())
            assert error.code() is grpc.StatusCode.UNAVAILABLE
