"""5.1 functional equivalence: what is made over one binding is read over the others, and is equal."""

import contextlib

import pytest
from google.protobuf.struct_pb2 import NullValue, Struct, Value

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import BINDINGS, Caller, Connect, kinds, say
from tests.support.replica import Replica


def rich_message() -> pb.SendMessageRequest:
    """A message that uses every field there is, and values that are easily spoilt on the way."""
    data = Value()
    data.struct_value.update(
        {
            "int": 3,
            "zero": 0,
            "half": 3.5,
            "big": 2**53 - 1,
            "huge": 1e21,
            "negative": -0.25,
            "yes": True,
            "none": None,
            "snake_case": {"Deep-Key": [[], {}, ["ä", "\u2028", "\U0001f600", '"\\']]},
        }
    )
    parts = [
        pb.Part(text="echo \u2029 line\r\nend\t\x7f ü \U0001f600"),
        pb.Part(text=""),
        pb.Part(raw=bytes(range(256)), filename="bytes é.txt", media_type="text/plain"),
        pb.Part(raw=b"", media_type="text/plain"),
        pb.Part(url="https://example.com/a?b=c&d=%20", media_type="text/plain; charset=utf-8"),
        pb.Part(data=data, media_type="application/json"),
        pb.Part(data=Value(null_value=NullValue.NULL_VALUE)),
        pb.Part(data=Value(number_value=2)),
    ]
    parts[0].metadata.update({"part_key": 1})
    request = say(parts=parts, metadata={"user_key": {"a": 1.5}, "camelKey": "x"}, context_id=f"context {len(parts)}")
    request.message.extensions.append("urn:example:ext")
    request.message.reference_task_ids.append("some-task")
    request.metadata.CopyFrom(Struct())
    request.metadata.update({"request_key": [1, 2]})
    request.configuration.accepted_output_modes.append("text/plain")
    return request


@pytest.fixture
async def readers(connect_over: Connect, replicas: tuple[Replica, Replica], tenant: str) -> list[Caller]:
    """A caller for each binding and replica, in the tenant of the test."""
    return [await connect_over(replica, over=over, tenant=tenant) for over in BINDINGS for replica in replicas]


async def test_5_1_made_on_one_binding_and_read_on_the_others(
    connect: Connect, replicas: tuple[Replica, Replica], tenant: str, readers: list[Caller]
) -> None:
    """5.1: nothing is lost and nothing changes, in the message, in what an agent makes of it, in lists and streams."""
    caller = await connect(replicas[0], tenant=tenant)
    request = rich_message()
    task = (await caller.send(request)).task
    expected = pb.Message()
    expected.CopyFrom(request.message)
    expected.task_id, expected.context_id = task.id, task.context_id
    assert list(task.history) == [expected]
    echoed = [pb.Part.FromString(part.SerializeToString()) for part in request.message.parts]
    echoed[0].text = echoed[0].text.removeprefix("echo ")
    [artifact] = task.artifacts
    assert list(artifact.parts) == echoed
    for reader in readers:
        assert await reader.get(task.id) == task
        assert list((await reader.page(include_artifacts=True)).tasks) == [task]


async def test_5_1_a_stream_is_the_same_on_all_bindings(
    connect: Connect, replicas: tuple[Replica, Replica], tenant: str, readers: list[Caller]
) -> None:
    """5.1: subscribers over each binding get what was made over any."""
    caller = await connect(replicas[0], tenant=tenant)
    task = await caller.task("ask")
    request = rich_message()
    request.message.task_id = task.id
    request.message.ClearField("context_id")
    async with contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(reader.subscribe(task.id)) for reader in readers]
        await caller.send(request)
        logs = [await stream.all() for stream in streams]
    assert kinds(logs[0]) == ["task INPUT_REQUIRED", "WORKING", "artifact", "COMPLETED"]
    assert all(log == logs[0] for log in logs)


async def test_5_1_one_conversation_over_all_bindings(readers: list[Caller]) -> None:
    """5.1, 5.2: each turn over another binding; every reader sees the same at every step."""
    task = await readers[0].task("ask")
    for at, reader in enumerate(readers[1:]):
        task = await reader.task(f"ask {at}", task_id=task.id)
        for other in readers:
            assert await other.get(task.id) == task
    canceled = await readers[-1].cancel(task.id)
    for other in readers:
        assert await other.get(task.id) == canceled
