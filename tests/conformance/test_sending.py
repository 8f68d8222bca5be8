"""3.1.1 Send Message and 3.1.2 Send Streaming Message: what they answer, and what they refuse."""

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import Caller, Connect, kinds, refused, say, state, texts
from tests.conformance.expected import (
    CONTENT_TYPE_NOT_SUPPORTED,
    TASK_NOT_FOUND,
    UNSUPPORTED_OPERATION,
)
from tests.support.replica import Replica

SENDING = ("SendMessage", "SendStreamingMessage")
ENDED = {"COMPLETED": "echo done", "FAILED": "fail", "REJECTED": "reject", "CANCELED": "ask"}


async def ended(caller: Caller, how: str) -> pb.Task:
    """A task in the terminal state `how`."""
    task = await caller.task(ENDED[how])
    if how == "CANCELED":
        task = await caller.cancel(task.id)
    assert state(task.status.state) == how
    return task


@pytest.mark.parametrize("method", SENDING)
@pytest.mark.parametrize("how", ENDED)
async def test_3_1_1_an_ended_task_takes_no_message(how: str, method: str, caller: Caller, other: Caller) -> None:
    """3.1.1: in each of the four terminal states, on any replica, and the task stays as it was."""
    task = await ended(caller, how)
    await refused(UNSUPPORTED_OPERATION, other.call(method, say("more", task_id=task.id)))
    assert await caller.get(task.id) == task


@pytest.mark.parametrize("method", SENDING)
async def test_3_1_1_an_unknown_task_is_not_found(method: str, caller: Caller) -> None:
    await refused(TASK_NOT_FOUND, caller.call(method, say("more", task_id="tck-nonexistent")))


UNSUPPORTED = {
    "raw": pb.Part(raw=b"\x89PNG", media_type="image/png"),
    "url": pb.Part(url="https://example.com/a.png", media_type="image/png"),
    "text": pb.Part(text="<a/>", media_type="text/xml"),
    "data": pb.Part(text="{}", media_type="application/x-unknown; charset=utf-8"),
}


@pytest.mark.parametrize("method", SENDING)
@pytest.mark.parametrize("part", UNSUPPORTED)
async def test_3_1_1_a_media_type_that_the_card_does_not_list_is_refused(
    part: str, method: str, connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """3.1.1, 3.3.2: and nothing is stored, whichever part it is."""
    caller = await connect(replicas[0], tenant=tenant)
    parts = [pb.Part(text="look at this"), UNSUPPORTED[part]]
    await refused(CONTENT_TYPE_NOT_SUPPORTED, caller.call(method, say(parts=parts)))
    assert (await caller.page()).total_size == 0


async def test_3_1_1_a_media_type_is_checked_on_follow_ups_too(caller: Caller, other: Caller) -> None:
    task = await caller.task("ask")
    refusal = other.call("SendMessage", say(parts=[UNSUPPORTED["raw"]], task_id=task.id))
    await refused(CONTENT_TYPE_NOT_SUPPORTED, refusal)
    assert await caller.get(task.id) == task


@pytest.mark.parametrize("media_type", ["", "text/plain", "TEXT/PLAIN; charset=utf-8"])
async def test_3_1_1_a_media_type_is_compared_without_case_and_parameters(media_type: str, caller: Caller) -> None:
    task = await caller.task(parts=[pb.Part(text="echo hi", media_type=media_type)])
    assert texts(task) == ["hi"]


async def test_3_1_1_an_answer_may_be_a_message(
    connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """3.1.1, 3.4.1: a bare Message of the agent, in a context; no task comes of it."""
    caller = await connect(replicas[0], tenant=tenant)
    response = await caller.send(say("msg"))
    message = response.message
    assert (message.role, [part.text for part in message.parts]) == (pb.ROLE_AGENT, ["Direct message response"])
    assert message.message_id and message.context_id and not message.task_id
    assert (await caller.page()).total_size == 0


async def test_3_1_1_an_answer_may_be_a_task(caller: Caller) -> None:
    """3.1.1, 3.4.2: with ids, a time, the result, and the message that began it."""
    sent = say("echo hello")
    task = (await caller.send(sent)).task
    assert state(task.status.state) == "COMPLETED"
    assert task.id and task.context_id and task.status.timestamp.seconds
    assert texts(task) == ["hello"]
    assert list(task.history) == [
        pb.Message(
            message_id=sent.message.message_id,
            role=pb.ROLE_USER,
            parts=sent.message.parts,
            task_id=task.id,
            context_id=task.context_id,
        )
    ]


@pytest.mark.parametrize(
    ("text", "outcome", "words"),
    [
        ("fail", "FAILED", "It did not work out."),
        ("raise 2", "FAILED", None),
        ("exit", "FAILED", None),
        ("reject", "REJECTED", "This agent refuses such messages."),
    ],
)
async def test_3_1_1_a_failed_task_is_an_answer_and_not_an_error(
    text: str, outcome: str, words: str | None, caller: Caller
) -> None:
    """B031: every end of an agent is a state with a sentence; what it raised stays inside."""
    task = await caller.task(text)
    assert state(task.status.state) == outcome
    said = [part.text for part in task.status.message.parts]
    assert len(said) == 1 and said[0]
    assert words in (None, said[0])
    assert "secret" not in str(task) and "Error" not in str(task) and "Traceback" not in str(task)


FILE = pb.Part(raw=b"file content", filename="output.txt", media_type="text/plain")
LINK = pb.Part(url="https://example.com/output.txt", filename="output.txt", media_type="text/plain")
DATA = pb.Part()
DATA.data.struct_value.update({"key": "value", "count": 42})

# messageId prefix -> state, parts of the one artifact.
AGENT = {
    "tck-complete-task": ("COMPLETED", None),
    "tck-input-required": ("INPUT_REQUIRED", None),
    "tck-artifact-text": ("COMPLETED", [pb.Part(text="Generated text content")]),
    "tck-artifact-file": ("COMPLETED", [FILE]),
    "tck-artifact-file-url": ("COMPLETED", [LINK]),
    "tck-artifact-data": ("COMPLETED", [DATA]),
    "tck-stream-001": ("COMPLETED", [pb.Part(text="Stream hello from TCK")]),
    "tck-stream-003": ("COMPLETED", [pb.Part(text="Stream task lifecycle")]),
    "tck-stream-ordering-001": ("COMPLETED", [pb.Part(text="Ordered output")]),
    "tck-reject-task": ("REJECTED", None),
    "tck-stream-artifact-text": ("COMPLETED", [pb.Part(text="Streamed text content")]),
    "tck-stream-artifact-file": ("COMPLETED", [FILE]),
    "tck-stream-artifact-chunked": ("COMPLETED", [pb.Part(text="chunk-1 "), pb.Part(text="chunk-2")]),
    "anything-else": ("COMPLETED", None),
}


@pytest.mark.parametrize("method", SENDING)
async def test_the_agent_does_what_the_message_id_says(method: str, caller: Caller) -> None:
    """The agent that the public kit and these tests rely on."""
    for prefix, (outcome, parts) in AGENT.items():
        if method == "SendMessage":
            task = await caller.task("x", prefix=prefix)
        else:
            task = await caller.get((await caller.events("x", prefix=prefix))[0].task.id)
        assert state(task.status.state) == outcome, prefix
        assert [list(artifact.parts) for artifact in task.artifacts] == ([parts] if parts else []), prefix
    assert [part.text for part in (await caller.task("x", prefix="tck-complete-task")).status.message.parts] == [
        "Hello from TCK"
    ]
    for prefix in ("tck-message-response", "tck-stream-002"):
        assert kinds(await caller.events("x", prefix=prefix)) == ["message"]
