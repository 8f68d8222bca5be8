"""3.4 multi-turn interactions: contexts and ids."""

import uuid

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import Caller, Connect, refused, say, state, texts
from tests.conformance.expected import INVALID_ARGUMENT, TASK_NOT_FOUND
from tests.conformance.test_reading import said
from tests.support.replica import Replica


async def test_3_4_1_a_context_is_made_for_tasks_and_messages(caller: Caller) -> None:
    """3.4.1: and it is in the answer, another one each time."""
    tasks = [await caller.task("echo hi") for _ in range(2)]
    messages = [(await caller.send(say("msg"))).message for _ in range(2)]
    contexts = [task.context_id for task in tasks] + [message.context_id for message in messages]
    assert all(contexts) and len(set(contexts)) == 4
    assert [message.context_id for message in tasks[0].history] == [tasks[0].context_id]


async def test_3_4_1_a_context_of_the_caller_is_taken(caller: Caller, other: Caller) -> None:
    """3.4.1, DESIGN 7: kept as it is, on tasks, messages and streams."""
    context = f"tck-client-context {uuid.uuid4()} é/%2F"
    task = await caller.task("echo hi", context_id=context)
    assert task.context_id == context
    assert (await other.send(say("msg", context_id=context))).message.context_id == context
    for event in await other.events("echo hi", context_id=context):
        arm = getattr(event, str(event.WhichOneof("payload")))
        assert arm.context_id == context
    assert (await other.page(context_id=context)).total_size == 2


async def test_3_4_3_a_context_alone_starts_a_new_task_in_it(caller: Caller, other: Caller) -> None:
    """3.4.3, B035."""
    first = await caller.task("ask")
    second = await other.task("echo hi", context_id=first.context_id)
    assert second.context_id == first.context_id and second.id != first.id
    assert said(second) == ["echo hi"], "each task has a history of its own"
    assert await caller.get(first.id) == first


async def test_3_4_3_the_context_is_inferred_from_the_task(caller: Caller, other: Caller) -> None:
    """3.4.3: over many turns, on changing replicas; naming it changes nothing."""
    task = await caller.task("ask")
    for turn in range(6):
        context = task.context_id if turn % 2 else ""
        again = await (other, caller)[turn % 2].task(f"ask {turn}", task_id=task.id, context_id=context)
        assert (again.id, again.context_id) == (task.id, task.context_id)
        assert state(again.status.state) == "INPUT_REQUIRED"
    final = await other.task("echo done", task_id=task.id)
    assert (final.context_id, texts(final)) == (task.context_id, ["done"])
    assert [text for text in said(final) if text != "What else?"] == [
        "ask",
        *(f"ask {turn}" for turn in range(6)),
        "echo done",
    ]
    assert {message.context_id for message in final.history} == {task.context_id}


async def test_3_4_3_another_context_than_the_tasks_is_refused(caller: Caller, other: Caller) -> None:
    """3.4.3, B035: on both ways to send, and the task stays as it was."""
    task, stranger = await caller.task("ask"), await caller.task("ask")
    field = "message.context_id" if caller.binding == "GRPC" else "message.contextId"
    for context in (stranger.context_id, "made-up"):
        for method in ("SendMessage", "SendStreamingMessage"):
            message = say("echo hi", task_id=task.id, context_id=context)
            failure = await refused(INVALID_ARGUMENT, other.call(method, message))
            assert set(failure.violations) == {field}
    assert await caller.get(task.id) == task
    assert await caller.get(stranger.id) == stranger


async def test_3_4_2_task_ids_come_from_the_server(
    connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """3.4.2: unique, and safe in paths; a caller's own is not found, and makes no task."""
    caller = await connect(replicas[0], tenant=tenant)
    made = [await caller.task("x") for _ in range(5)]
    assert len({task.id for task in made}) == 5
    unreserved = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
    assert all(set(task.id) <= unreserved for task in made)
    await refused(TASK_NOT_FOUND, caller.send(say("x", task_id=str(uuid.uuid4()))))
    assert (await caller.page()).total_size == 5


async def test_3_4_3_references_to_other_tasks_are_kept(caller: Caller) -> None:
    """3.4.3: in the message, as it was sent; they are not looked up for the caller."""
    first = await caller.task("echo one")
    request = say("echo two", context_id=first.context_id)
    request.message.reference_task_ids.extend([first.id, "unknown"])
    [message] = (await caller.send(request)).task.history
    assert list(message.reference_task_ids) == [first.id, "unknown"]


async def test_3_3_1_the_same_message_again_is_the_same_task(
    connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """3.3.1, DESIGN 7: on another replica too; other words under its id are refused."""
    caller, other = await connect(replicas[0], tenant=tenant), await connect(replicas[1], tenant=tenant)
    request = say("echo once")
    task = (await caller.send(request)).task
    assert (await other.send(request)).task == task
    changed = pb.SendMessageRequest()
    changed.CopyFrom(request)
    changed.message.parts[0].text = "echo twice"
    failure = await refused(INVALID_ARGUMENT, other.send(changed))
    assert set(failure.violations) == {"message.message_id" if caller.binding == "GRPC" else "message.messageId"}
    assert (await caller.page()).total_size == 1
