"""13.1: who owns a task; for everybody else it is not there, whichever operation asks."""

import pytest
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import KEYS, OPERATIONS, Caller, CallError, Connect, refused, say, state
from tests.conformance.expected import INVALID_ARGUMENT, TASK_NOT_FOUND, UNAUTHENTICATED, VERSION_NOT_SUPPORTED
from tests.conformance.test_push_off import METHODS as PUSH_METHODS
from tests.conformance.test_push_off import request as push_request
from tests.conformance.test_versions import valid_request
from tests.support.replica import Replica


@pytest.fixture
async def alice(connect: Connect, guarded: tuple[Replica, Replica], tenant: str) -> Caller:
    return await connect(guarded[0], key=KEYS["alice"], tenant=tenant)


@pytest.fixture
async def bob(connect: Connect, guarded: tuple[Replica, Replica], tenant: str) -> Caller:
    """Calls the other replica."""
    return await connect(guarded[1], key=KEYS["bob"], tenant=tenant)


@pytest.fixture
async def anonymous(connect: Connect, unguarded: Replica, tenant: str) -> Caller:
    """Calls a replica that knows nobody, on the same store."""
    return await connect(unguarded, tenant=tenant)


def on_a_task(task_id: str) -> dict[str, Message]:
    """A request of each operation that names a task (push is off and never looks)."""
    return {
        "GetTask": pb.GetTaskRequest(id=task_id),
        "CancelTask": pb.CancelTaskRequest(id=task_id),
        "SubscribeToTask": pb.SubscribeToTaskRequest(id=task_id),
        "SendMessage": say("echo hi", task_id=task_id),
        "SendStreamingMessage": say("echo hi", task_id=task_id),
    }


def without_id(failure: CallError, task_id: str) -> tuple[object, ...]:
    """All that an error says, but for the id that was asked for."""
    said = (failure.grpc, failure.http, failure.jsonrpc, failure.reason, failure.message, str(failure.metadata))
    return tuple(str(item).replace(task_id, "ID") for item in (*said, failure.violations, failure.retry_after))


@pytest.mark.parametrize("how", ["ask", "echo done"])
async def test_13_1_a_task_of_somebody_else_is_not_there(
    how: str, alice: Caller, bob: Caller, anonymous: Caller
) -> None:
    """13.1, 3.3.2: live or ended, and nothing in the error differs from that of a task that never was."""
    task = await alice.task(how)
    unknown = task.id[:-4] + ("0000" if task.id[-4:] != "0000" else "1111")
    for stranger in (bob, anonymous):
        for method, request in on_a_task(task.id).items():
            theirs = await refused(TASK_NOT_FOUND, stranger.call(method, request))
            nobodys = await refused(TASK_NOT_FOUND, stranger.call(method, on_a_task(unknown)[method]))
            assert without_id(theirs, task.id) == without_id(nobodys, unknown), method
        for method in PUSH_METHODS:
            with pytest.raises(CallError) as theirs_push:
                await stranger.call(method, push_request(method, task.id))
            with pytest.raises(CallError) as nobodys_push:
                await stranger.call(method, push_request(method, unknown))
            assert without_id(theirs_push.value, task.id) == without_id(nobodys_push.value, unknown)
    assert await alice.get(task.id) == task


async def test_13_1_a_task_of_somebody_else_is_not_found_before_anything_else(alice: Caller, bob: Caller) -> None:
    """13.1: neither a wrong context nor a media type tells that the task is there."""
    task = await alice.task("ask")
    await refused(TASK_NOT_FOUND, bob.send(say("x", task_id=task.id, context_id="other")))
    await refused(TASK_NOT_FOUND, bob.send(say("x", task_id=task.id, context_id=task.context_id)))
    picture = pb.Part(raw=b"x", media_type="image/png")
    await refused(TASK_NOT_FOUND, bob.send(say(parts=[picture], task_id=task.id)))


async def test_13_1_listings_hold_the_callers_own(alice: Caller, bob: Caller, anonymous: Caller) -> None:
    """13.1, 3.1.4, B087: a filter never widens what is seen, and totals tell nothing."""
    for caller in (alice, bob, anonymous):
        mine = [await caller.task("ask", context_id="shared") for _ in range(2)]
        for filters in ({}, {"context_id": "shared"}, {"status": pb.TASK_STATE_INPUT_REQUIRED}):
            page = await caller.page(**filters)
            assert [task.id for task in page.tasks] == [task.id for task in reversed(mine)], filters
            assert page.total_size == 2
    token = (await alice.page(page_size=1)).next_page_token
    await refused(INVALID_ARGUMENT, bob.page(page_size=1, page_token=token))
    await refused(INVALID_ARGUMENT, anonymous.page(page_size=1, page_token=token))


async def test_13_1_the_same_message_id_of_two_callers_is_two_messages(
    alice: Caller, bob: Caller, anonymous: Caller
) -> None:
    """B089: nobody gets at a task by guessing the id of a message."""
    request = say("echo hi", context_id="shared")
    tasks = [(await caller.send(request)).task for caller in (alice, bob, anonymous)]
    assert len({task.id for task in tasks}) == 3
    for caller, task in zip((alice, bob, anonymous), tasks, strict=True):
        assert (await caller.send(request)).task == task


async def test_13_1_both_replicas_know_who_owns_a_task(
    alice: Caller, connect: Connect, guarded: tuple[Replica, Replica], tenant: str
) -> None:
    task = await alice.task("ask")
    there = await connect(guarded[1], key=KEYS["alice"], tenant=tenant)
    assert await there.get(task.id) == task
    assert state((await there.cancel(task.id)).status.state) == "CANCELED"


@pytest.mark.parametrize("method", OPERATIONS)
async def test_7_4_every_operation_asks_who_calls(
    method: str, connect: Connect, guarded: tuple[Replica, Replica]
) -> None:
    """7.4, 13.1: before it looks at the request, and after the version (3.6.2)."""
    for key in ("", "wrong"):
        stranger = await connect(guarded[0], key=key)
        for request in (valid_request(method, "unknown"), OPERATIONS[method].request()):
            if (
                stranger.binding == "HTTP+JSON"
                and request == OPERATIONS[method].request()
                and method not in ("SendMessage", "SendStreamingMessage", "ListTasks", "GetExtendedAgentCard")
            ):
                continue  # without an id there is no path
            failure = await refused(UNAUTHENTICATED, stranger.call(method, request))
            assert "x-api-key" in failure.message
            assert key == "" or key not in failure.message
        await refused(VERSION_NOT_SUPPORTED, stranger.call(method, valid_request(method, "unknown"), parameters={}))


async def test_13_1_tenants_do_not_see_each_other(
    connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """B091: a task belongs to the tenant in whose name it was made."""
    one, two = await connect(replicas[0], tenant=tenant), await connect(replicas[1], tenant=f"{tenant}-other")
    without = await connect(replicas[1])
    task = await one.task("ask")
    for stranger in (two, without):
        for method, request in on_a_task(task.id).items():
            await refused(TASK_NOT_FOUND, stranger.call(method, request))
        assert (await stranger.page(context_id=task.context_id)).total_size == 0
    assert (await two.page()).total_size == 0
    again = await connect(replicas[1], tenant=tenant)
    assert await again.get(task.id) == task
