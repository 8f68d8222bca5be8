"""How calls end when the server stops."""

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from a2a_grpc.server.bindings.grpc.server import A2A_SERVICE, create_server
from a2a_grpc.server.calls.call import Call
from tests.bindings_grpc.scripted import Scripted, ready
from tests.support.waiting import wait_until

GET = a2a_pb2.GetTaskRequest(id="t-1")


async def test_a_running_call_ends_within_the_grace_and_new_ones_are_refused() -> None:
    go_on = asyncio.Event()

    async def unary(method: str, request: Message, call: Call) -> Message:
        await go_on.wait()
        return a2a_pb2.Task(id="t-1")

    handler = Scripted(unary=unary)
    server = create_server(handler, None, ready(), addr="127.0.0.1:0")
    address = f"127.0.0.1:{await server.start()}"
    own = (("grpc.use_local_subchannel_pool", 1),)  # a connection of its own, not the one that is there
    async with grpc.aio.insecure_channel(address) as channel, grpc.aio.insecure_channel(address, options=own) as late:
        rpc = A2AServiceStub(channel).GetTask(GET)
        await wait_until(lambda: handler.calls, "the call arrives")
        stopping = asyncio.create_task(server.stop(30))
        await asyncio.sleep(0)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await A2AServiceStub(late).GetTask(GET, timeout=5)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        go_on.set()
        assert (await rpc).id == "t-1"
        async with asyncio.timeout(3):
            await stopping


async def test_a_call_that_outlasts_the_grace_is_ended() -> None:
    async def unary(method: str, request: Message, call: Call) -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    handler = Scripted(unary=unary)
    server = create_server(handler, None, ready(), addr="127.0.0.1:0")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{await server.start()}") as channel:
        rpc = A2AServiceStub(channel).GetTask(GET)
        await wait_until(lambda: handler.calls, "the call arrives")
        async with asyncio.timeout(3):
            await server.stop(0.1)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rpc
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert caught.value.details() == (
        "The server shut down before this call was answered; what it has started goes on."
    )


async def test_who_watches_is_told_before_the_server_leaves() -> None:
    """A balancer has to know before calls can get lost: one that is on its way then is still answered."""
    handler = Scripted()
    server = create_server(handler, None, ready(), addr="127.0.0.1:0")
    async with grpc.aio.insecure_channel(f"127.0.0.1:{await server.start()}") as channel, asyncio.timeout(5):
        stub: Any = HealthStub(channel)
        watching = stub.Watch(HealthCheckRequest(service=A2A_SERVICE))
        assert (await watching.read()).status == HealthCheckResponse.SERVING
        leaving = asyncio.create_task(server.leave())
        assert (await watching.read()).status == HealthCheckResponse.NOT_SERVING
        assert await A2AServiceStub(channel).GetTask(GET) == a2a_pb2.Task()
        assert not leaving.done()
        await leaving
        await server.end()


async def test_callers_who_wait_for_an_answer_before_the_next_call_lose_none() -> None:
    """What is sent before its peer knows that the library stops is CANCELLED: so nobody gets an answer just then."""
    server = create_server(Scripted(), None, ready(), addr="127.0.0.1:0")
    address = f"127.0.0.1:{await server.start()}"
    answers = 0
    failures: list[grpc.StatusCode] = []

    async def keep_calling(stub: A2AServiceStub) -> None:
        nonlocal answers
        while True:
            try:
                await stub.GetTask(GET, timeout=5)
            except grpc.aio.AioRpcError as error:
                failures.append(error.code())
                return
            answers += 1

    async with grpc.aio.insecure_channel(address) as channel, asyncio.timeout(10):
        callers = [asyncio.create_task(keep_calling(A2AServiceStub(channel))) for _ in range(32)]
        await wait_until(lambda: answers > 200, "calls pass")
        await server.leave()
        await asyncio.gather(*callers)
        await server.end()
    assert set(failures) == {grpc.StatusCode.UNAVAILABLE}, "there is no connection any more"
