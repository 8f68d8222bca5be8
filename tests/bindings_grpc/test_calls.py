"""What passes between a caller's gRPC library and the Handler."""

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.core.events import Event
from a2a_grpc.wire.errors import TaskNotFoundError
from tests.bindings_grpc.scripted import Scripted, calling, chunk, empty_response, serving, three_chunks

METHODS = [method.name for method in a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].methods]
STREAMS = {"SendStreamingMessage", "SubscribeToTask"}
REQUESTS: dict[str, Message] = {
    "SendMessage": a2a_pb2.SendMessageRequest(tenant="acme"),
    "SendStreamingMessage": a2a_pb2.SendMessageRequest(tenant="acme"),
    "GetTask": a2a_pb2.GetTaskRequest(tenant="acme"),
    "ListTasks": a2a_pb2.ListTasksRequest(tenant="acme"),
    "CancelTask": a2a_pb2.CancelTaskRequest(tenant="acme"),
    "SubscribeToTask": a2a_pb2.SubscribeToTaskRequest(tenant="acme"),
    "CreateTaskPushNotificationConfig": a2a_pb2.TaskPushNotificationConfig(tenant="acme"),
    "GetTaskPushNotificationConfig": a2a_pb2.GetTaskPushNotificationConfigRequest(tenant="acme"),
    "ListTaskPushNotificationConfigs": a2a_pb2.ListTaskPushNotificationConfigsRequest(tenant="acme"),
    "GetExtendedAgentCard": a2a_pb2.GetExtendedAgentCardRequest(tenant="acme"),
    "DeleteTaskPushNotificationConfig": a2a_pb2.DeleteTaskPushNotificationConfigRequest(tenant="acme"),
}


def test_there_are_eleven_operations() -> None:
    assert sorted(REQUESTS) == sorted(METHODS)
    assert len(METHODS) == 11


@pytest.mark.parametrize("method", sorted(set(METHODS) - STREAMS))
async def test_a_unary_operation_reaches_the_handler_under_its_name(method: str) -> None:
    handler = Scripted()
    async with calling(handler) as stub:
        response = await getattr(stub, method)(REQUESTS[method])
    assert handler.requests == [REQUESTS[method]]
    assert [(call.method, call.binding) for call in handler.calls] == [(method, "GRPC")]
    assert response == await empty_response(method, REQUESTS[method], handler.calls[0])


@pytest.mark.parametrize("method", sorted(STREAMS))
async def test_a_streaming_operation_sends_each_event_in_order(method: str) -> None:
    handler = Scripted()
    async with calling(handler) as stub:
        responses = [response async for response in getattr(stub, method)(REQUESTS[method])]
    assert handler.requests == [REQUESTS[method]]
    assert [(call.method, call.binding) for call in handler.calls] == [(method, "GRPC")]
    assert responses == [event.response async for event in three_chunks(method, REQUESTS[method], handler.calls[0])]


async def test_metadata_become_parameters() -> None:
    handler = Scripted()
    async with calling(handler) as stub:
        await stub.GetTask(
            a2a_pb2.GetTaskRequest(),
            metadata=(
                ("a2a-version", "1.0"),
                ("a2a-extensions", "urn:one"),
                ("authorization", "Bearer token"),
                ("a2a-extensions", "urn:two,urn:three"),
                ("trace-bin", b"\x00\xff"),
            ),
        )
    parameters = dict(handler.calls[0].parameters)
    assert parameters.pop("user-agent").startswith("grpc-python")
    assert parameters == {
        "a2a-version": "1.0",
        "a2a-extensions": "urn:one,urn:two,urn:three",
        "authorization": "Bearer token",
    }


@pytest.mark.parametrize(("address", "shown"), [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "[::1]")])
async def test_the_peer_is_a_host_and_a_port(address: str, shown: str) -> None:
    handler = Scripted()
    async with serving(handler, addr=address) as served:
        target = served.replace("127.0.0.1", shown)
        async with grpc.aio.insecure_channel(target) as channel:
            await A2AServiceStub(channel).GetTask(a2a_pb2.GetTaskRequest())
    host, _, port = handler.calls[0].peer.rpartition(":")
    assert host == shown
    assert 0 < int(port) < 65536


async def test_a_unix_socket_has_no_peer_address(tmp_path: Path) -> None:
    handler = Scripted()
    async with (
        serving(handler, addr=f"unix:{tmp_path}/s"),
        grpc.aio.insecure_channel(f"unix:{tmp_path}/s") as channel,
    ):
        await A2AServiceStub(channel).GetTask(a2a_pb2.GetTaskRequest())
    assert handler.calls[0].peer == ""


async def test_the_deadline_is_the_timeout() -> None:
    handler = Scripted()
    async with calling(handler) as stub:
        await stub.GetTask(a2a_pb2.GetTaskRequest(), timeout=20)
        await stub.GetTask(a2a_pb2.GetTaskRequest())
    with_deadline, without = handler.calls
    assert with_deadline.timeout is not None
    assert 15 < with_deadline.timeout < 21  # gRPC compares the wall clocks of both sides
    assert without.timeout is None


async def with_parameters(method: str, request: Message, call: Call) -> Message:
    call.response_parameters |= {"a2a-extensions": "urn:one", "x-request-id": "r-1"}
    return await empty_response(method, request, call)


async def test_response_parameters_of_a_unary_call() -> None:
    async with calling(Scripted(unary=with_parameters)) as stub:
        rpc = stub.GetTask(a2a_pb2.GetTaskRequest())
        await rpc
        initial, trailing = await rpc.initial_metadata(), await rpc.trailing_metadata()
    assert initial["a2a-extensions"] == "urn:one"
    assert trailing["x-request-id"] == "r-1"


async def test_response_parameters_of_a_failed_call() -> None:
    async def unary(method: str, request: Message, call: Call) -> Message:
        await with_parameters(method, request, call)
        raise TaskNotFoundError("no such task")

    async with calling(Scripted(unary=unary)) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetTask(a2a_pb2.GetTaskRequest())
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert caught.value.initial_metadata()["a2a-extensions"] == "urn:one"
    assert caught.value.trailing_metadata()["x-request-id"] == "r-1"


async def test_response_parameters_of_a_stream_come_before_its_first_message() -> None:
    async def stream(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        call.response_parameters |= {"a2a-extensions": "urn:one", "x-request-id": "r-1"}
        yield Event(1, chunk("one"))
        yield Event(2, chunk("two"))

    async with calling(Scripted(stream=stream)) as stub:
        rpc = stub.SubscribeToTask(a2a_pb2.SubscribeToTaskRequest())
        initial = await rpc.initial_metadata()
        count = len([response async for response in rpc])
    assert (initial["a2a-extensions"], initial["x-request-id"]) == ("urn:one", "r-1")
    assert count == 2


async def test_response_parameters_of_a_stream_that_fails_at_once() -> None:
    async def stream(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        call.response_parameters["x-request-id"] = "r-1"
        if method:
            raise TaskNotFoundError("no such task")
        yield Event(1, chunk("never"))

    async with calling(Scripted(stream=stream)) as stub:
        rpc = stub.SubscribeToTask(a2a_pb2.SubscribeToTaskRequest())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await rpc.read()
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert caught.value.trailing_metadata()["x-request-id"] == "r-1"


async def test_a_response_may_be_larger_than_a_request() -> None:
    async def unary(method: str, request: Message, call: Call) -> Message:
        return a2a_pb2.Task(artifacts=[a2a_pb2.Artifact(parts=[a2a_pb2.Part(raw=bytes(3_000_000))])])

    async with calling(Scripted(unary=unary), max_message_bytes=1_000_000) as stub:
        task = await stub.GetTask(a2a_pb2.GetTaskRequest())
    assert len(task.artifacts[0].parts[0].raw) == 3_000_000


async def test_a_second_server_on_the_same_port_is_refused() -> None:
    async with serving(Scripted()) as address:
        with pytest.raises(OSError, match=f"cannot listen for gRPC on {address}"):
            async with serving(Scripted(), addr=address):
                pass
