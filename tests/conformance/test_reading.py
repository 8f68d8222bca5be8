"""3.1.3 Get Task, 3.2.4 history length, 4.2.2 artifacts in chunks."""

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import Caller, Connect, refused, say, state, texts
from tests.conformance.expected import INVALID_ARGUMENT, TASK_NOT_FOUND
from tests.support.replica import Replica


def said(task: pb.Task) -> list[str]:
    """The texts of the history, in its order."""
    return [part.text for message in task.history for part in message.parts]


HISTORY = ["ask", "What else?", "ask again", "What else?", "echo done"]


async def conversation(caller: Caller, other: Caller) -> pb.Task:
    """A task of three turns, spread over two replicas, whose history is `HISTORY`."""
    task = await caller.task("ask")
    await other.task("ask again", task_id=task.id)
    return await caller.task("echo done", task_id=task.id)


async def test_3_1_3_status_artifacts_and_history_are_true(caller: Caller, other: Caller) -> None:
    """3.1.3, B003, B085: the same on both replicas; each message once, in order, with task and context."""
    task = await conversation(caller, other)
    assert said(task) == HISTORY
    assert [message.role for message in task.history] == [pb.ROLE_USER, pb.ROLE_AGENT] * 2 + [pb.ROLE_USER]
    assert {(message.task_id, message.context_id) for message in task.history} == {(task.id, task.context_id)}
    assert len({message.message_id for message in task.history}) == 5
    assert state(task.status.state) == "COMPLETED" and texts(task) == ["done"]
    assert await caller.get(task.id) == await other.get(task.id) == task


async def test_3_1_3_an_unknown_task_is_not_found(caller: Caller) -> None:
    """B055: also one whose id is long, or holds what has a meaning in paths, headers and logs."""
    for task_id in ("unknown", "tck-nonexistent-multi-004", "../../etc", "a\nb", "é%2F", "x" * 256, "{0}.x"):
        failure = await refused(TASK_NOT_FOUND, caller.get(task_id))
        assert len(failure.message) < 300


LENGTHS: list[tuple[int | None, list[str]]] = [
    (None, HISTORY),
    (0, []),
    (1, HISTORY[-1:]),
    (3, HISTORY[-3:]),
    (5, HISTORY),
    (2**31 - 1, HISTORY),
]


@pytest.mark.parametrize(("length", "history"), LENGTHS)
async def test_3_2_4_history_length_on_get_and_list(
    length: int | None, history: list[str], connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """3.2.4: unset means all, 0 none, n the n most recent."""
    caller, other = await connect(replicas[0], tenant=tenant), await connect(replicas[1], tenant=tenant)
    task = await conversation(caller, other)
    assert said(await other.get(task.id, length)) == history
    [listed] = (await other.page(history_length=length)).tasks
    assert said(listed) == history
    assert listed.status == task.status


@pytest.mark.parametrize(("length", "history"), LENGTHS)
async def test_3_2_4_history_length_on_send(
    length: int | None, history: list[str], caller: Caller, other: Caller
) -> None:
    """3.2.4: also when the answer is only what began, and in the Task that a stream begins with."""
    task = await caller.task("ask")
    await other.task("ask again", task_id=task.id)
    assert said(await caller.task("echo done", task_id=task.id, history_length=length)) == history
    started = await caller.task("hang", history_length=length, return_immediately=True)
    assert said(started) == ([] if length == 0 else ["hang"])
    await caller.cancel(started.id)
    parked = await caller.task("ask")
    events = await caller.events("echo done", task_id=parked.id, history_length=length)
    three = ["ask", "What else?", "echo done"]
    assert said(events[0].task) == (three if length is None else three[max(0, 3 - length) :])


async def test_3_2_4_no_history_means_no_field(
    connect_over: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """3.2.4: with 0 the field is omitted; B065: and so it is where there is nothing."""
    for over in ("HTTP+JSON", "JSONRPC"):
        caller = await connect_over(replicas[0], tenant=tenant, over=over)
        sent = await caller.answer("SendMessage", say("echo hi", history_length=0))
        got = await caller.answer("GetTask", pb.GetTaskRequest(id=sent.message.task.id, history_length=0))
        page = await caller.answer("ListTasks", pb.ListTasksRequest(history_length=0))
        for task in (sent.json["task"], got.json, page.json["tasks"][0]):
            assert "history" not in task


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage", "GetTask", "ListTasks"])
async def test_3_2_4_a_negative_history_length_is_refused(
    method: str, connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    caller = await connect(replicas[0], tenant=tenant)
    requests = {
        "GetTask": pb.GetTaskRequest(id="any", history_length=-1),
        "ListTasks": pb.ListTasksRequest(history_length=-1),
    }
    failure = await refused(INVALID_ARGUMENT, caller.call(method, requests.get(method, say("x", history_length=-1))))
    field = "history_length" if caller.binding == "GRPC" else "historyLength"
    assert set(failure.violations) == {field if method in requests else f"configuration.{field}"}
    assert (await caller.page()).total_size == 0


async def test_4_2_2_chunks_are_merged(caller: Caller, other: Caller) -> None:
    """4.2.2: append adds parts to the artifact of the same id; the last chunk says so."""
    events = await caller.events(prefix="tck-stream-artifact-chunked")
    updates = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert [(update.append, update.last_chunk) for update in updates] == [(False, False), (True, True)]
    assert len({update.artifact.artifact_id for update in updates}) == 1
    [artifact] = (await other.get(events[0].task.id)).artifacts
    assert artifact.artifact_id == updates[0].artifact.artifact_id
    assert [part.text for part in artifact.parts] == ["chunk-1 ", "chunk-2"]


async def test_4_2_2_an_artifact_that_is_not_appended_replaces(caller: Caller, other: Caller) -> None:
    """4.2.2: the same id without append is a new content, in the place of the old one."""
    events = await caller.events("replace old new")
    updates = [event.artifact_update for event in events if event.HasField("artifact_update")]
    assert [update.append for update in updates] == [False, False, False]
    assert updates[0].artifact.artifact_id == updates[2].artifact.artifact_id
    assert texts(await other.get(events[0].task.id)) == ["new", "between"]


async def test_4_2_2_many_chunks_make_the_text(caller: Caller, other: Caller) -> None:
    """B083: more of them than a snapshot waits for."""
    task = await caller.task("chunks 600")
    assert texts(task) == ["".join(f"{number:019d} " for number in range(1, 601))]
    assert await other.get(task.id) == task
