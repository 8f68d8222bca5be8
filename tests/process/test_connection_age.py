"""B105: gRPC connections that grow old, and a stream that is longer than any of them."""

from typing import Any

import grpc
import grpc.aio
import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from a2a_grpc.wire.sequence import EVENT_SEQUENCE, take_sequence
from tests.conformance.callers import VERSION, say
from tests.support.replica import Pair

AGENT = "tests.process.busy_agent:agent"
METADATA = (*VERSION.items(), ("a2a-extensions", EVENT_SEQUENCE))


@pytest.mark.agent(AGENT, A2A_GRPC_MAX_CONNECTION_AGE="1", A2A_GRPC_MAX_CONNECTION_AGE_GRACE="1.5")
async def test_a_reader_that_comes_back_sees_one_stream(two_replicas: Pair) -> None:
    """A client with nothing but stubs and a cursor, which knows both replicas.

    Each of its streams ends with UNAVAILABLE and details, none with anything else.
    """
    target = "ipv4:" + ",".join(one.grpc_addr for one in two_replicas.replicas)
    options = (("grpc.lb_policy_name", "round_robin"),)
    events: list[tuple[int, pb.StreamResponse]] = []
    ends = 0
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        stub: Any = A2AServiceStub(channel)
        message = say("count 60", return_immediately=True)
        task_id = (await stub.SendMessage(message, metadata=tuple(VERSION.items()))).task.id
        cursor: tuple[tuple[str, str], ...] = ()
        while True:
            call = stub.SubscribeToTask(
                pb.SubscribeToTaskRequest(id=task_id), metadata=(*METADATA, *cursor), wait_for_ready=True
            )
            try:
                first = True
                async for response in call:
                    seq = take_sequence(response)
                    if first and events:
                        assert response.HasField("task") and seq == events[-1][0], "nothing is missing"
                    else:
                        events.append((seq, response))
                    first = False
                    cursor = (("last-event-id", str(seq)),)
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE, error
                assert "over a new one" in (error.details() or "")
                assert any(name == "grpc-status-details-bin" for name, _ in error.trailing_metadata() or ())
                ends += 1
            else:
                break
    assert ends >= 3, "a stream lasts 1.2 s and the task takes 6, of which coming back takes some"
    numbers = [seq for seq, _ in events]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    chunks = [part.text for _, event in events for part in event.artifact_update.artifact.parts]
    assert chunks[-50:] == [f"{number} " for number in range(11, 61)]
    assert events[-1][1].status_update.status.state == pb.TASK_STATE_COMPLETED
