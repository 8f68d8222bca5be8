"""3.3.2, 5.7: requests that are not well formed: all that is wrong is said at once, as the binding spells fields."""

from typing import Any

import pytest
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import OPERATIONS, Caller, Connect, refused
from tests.conformance.expected import INVALID_ARGUMENT
from tests.support.replica import Replica

UNKNOWN: Any = 99
TEXT = pb.Part(text="hello")


def message(**fields: Any) -> pb.SendMessageRequest:
    """A message that is right but for what `fields` replace."""
    right: dict[str, Any] = {"message_id": "m-1", "role": pb.ROLE_USER, "parts": [TEXT]}
    return pb.SendMessageRequest(message=pb.Message(**(right | fields)))


# What is wrong -> the fields that have to be named, in the spelling of the proto.
MESSAGES: dict[str, tuple[pb.SendMessageRequest, set[str]]] = {
    "no message": (pb.SendMessageRequest(), {"message"}),
    "everything missing": (
        pb.SendMessageRequest(message=pb.Message()),
        {"message.message_id", "message.role", "message.parts"},
    ),
    "no id": (message(message_id=""), {"message.message_id"}),
    "no role": (message(role=pb.ROLE_UNSPECIFIED), {"message.role"}),
    "the role of the agent": (message(role=pb.ROLE_AGENT), {"message.role"}),
    "an unknown role": (message(role=UNKNOWN), {"message.role"}),
    "no parts": (message(parts=[]), {"message.parts"}),
    "an empty part": (message(parts=[TEXT, pb.Part()]), {"message.parts[1].content"}),
    "parts without content": (
        message(parts=[pb.Part(media_type="text/plain"), TEXT, pb.Part(filename="a")]),
        {"message.parts[0].content", "message.parts[2].content"},
    ),
    "several at once": (
        message(message_id="", role=pb.ROLE_UNSPECIFIED, parts=[pb.Part()]),
        {"message.message_id", "message.role", "message.parts[0].content"},
    ),
    "long ids": (
        message(message_id="m" * 257, task_id="t" * 257, context_id="c" * 257),
        {"message.message_id", "message.task_id", "message.context_id"},
    ),
}


def spelled(binding: str, path: str) -> str:
    """A path as the binding spells fields: camelCase in JSON (5.5)."""
    if binding == "GRPC":
        return path
    first, *rest = path.split("_")
    return first + "".join(word[0].upper() + word[1:] for word in rest)


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("wrong", MESSAGES)
async def test_5_7_every_required_field_of_a_message(
    wrong: str, method: str, connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """3.3.2, B057: nothing is stored, and no event is sent."""
    caller = await connect(replicas[0], tenant=tenant)
    request, fields = MESSAGES[wrong]
    failure = await refused(INVALID_ARGUMENT, caller.call(method, request))
    assert set(failure.violations) == {spelled(caller.binding, path) for path in fields}
    assert all(failure.violations.values()), "each says what is wrong"
    assert (await caller.page()).total_size == 0


REQUESTS: dict[str, tuple[str, Message, set[str]]] = {
    "get without id": ("GetTask", pb.GetTaskRequest(), {"id"}),
    "get with all wrong": ("GetTask", pb.GetTaskRequest(history_length=-1), {"id", "history_length"}),
    "cancel without id": ("CancelTask", pb.CancelTaskRequest(), {"id"}),
    "subscribe without id": ("SubscribeToTask", pb.SubscribeToTaskRequest(), {"id"}),
}


@pytest.mark.parametrize("binding", ["GRPC", "JSONRPC"], indirect=True)
@pytest.mark.parametrize("wrong", REQUESTS)
async def test_5_7_every_required_field_of_the_other_requests(wrong: str, binding: str, caller: Caller) -> None:
    """5.7. Over HTTP+JSON these fields are part of the path, so that they cannot be missing."""
    method, request, fields = REQUESTS[wrong]
    failure = await refused(INVALID_ARGUMENT, caller.call(method, request))
    assert set(failure.violations) == {spelled(binding, path) for path in fields}


async def test_3_3_2_all_that_is_wrong_with_a_listing(caller: Caller) -> None:
    request = pb.ListTasksRequest(page_size=0, status=UNKNOWN, history_length=-5, context_id="c" * 257)
    failure = await refused(INVALID_ARGUMENT, caller.call("ListTasks", request))
    fields = {"page_size", "status", "history_length", "context_id"}
    assert set(failure.violations) == {spelled(caller.binding, path) for path in fields}


@pytest.mark.parametrize("method", ["GetTask", "CancelTask", "SubscribeToTask"])
async def test_3_3_2_an_id_may_not_be_too_long(method: str, caller: Caller) -> None:
    """B055: and the answer is short, however long the id."""
    for length in (257, 8_000):
        request = OPERATIONS[method].request()
        request.id = "x" * length  # type: ignore[attr-defined]
        failure = await refused(INVALID_ARGUMENT, caller.call(method, request))
        assert set(failure.violations) == {"id"}
        assert len(str(failure)) < 2_000


async def test_3_3_2_hundreds_of_violations_fit_an_answer(caller: Caller) -> None:
    """B055: a status has to fit the trailers of a call; what is left out is counted."""
    failure = await refused(INVALID_ARGUMENT, caller.send(message(parts=[pb.Part()] * 500)))
    assert len(failure.violations) > 10
    assert spelled(caller.binding, "message.parts[0].content") in failure.violations
