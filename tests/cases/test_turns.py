"""B027, B031, B033, B035, B101: whatever callers and agents do, a turn runs once and ends in a state."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.cases.agents import ENDS, HASTY_LIMIT
from tests.cases.reading import chunks, reached
from tests.conformance.callers import (
    BINDINGS,
    VERSION,
    CallError,
    Connect,
    http_failure,
    kinds,
    refused,
    say,
    state,
    texts,
)
from tests.conformance.expected import (
    INVALID_AGENT_RESPONSE,
    INVALID_ARGUMENT,
    UNSUPPORTED_OPERATION,
    VERSION_NOT_SUPPORTED,
    Row,
)
from tests.support.replica import Pair
from tests.support.waiting import wait_until

# -- B027 --------------------------------------------------------------------------------------------------------------

SENT = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "tick 2 100"}]}


def old_requests(message: dict[str, object], **configuration: object) -> dict[str, tuple[str, dict[str, object]]]:
    """The same request to send, as each JSON binding carries it: path and body."""
    request: dict[str, object] = {"message": message, "configuration": configuration}
    return {
        "HTTP+JSON": ("/message:send", request),
        "JSONRPC": ("/", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": request}),
    }


@pytest.mark.parametrize("over", ["HTTP+JSON", "JSONRPC"])
async def test_b027_the_old_name_of_a_field_changes_nothing(over: str, pair: Pair, tenant: str) -> None:
    """`blocking: false` of 0.3 is an unknown field: the call blocks (3.2.2). With `returnImmediately` it does not."""
    async with httpx.AsyncClient(base_url=pair.replicas[0].http_url, trust_env=False) as http:
        for configuration, expected in (({"blocking": False}, "COMPLETED"), ({"returnImmediately": True}, None)):
            path, body = old_requests({**SENT, "messageId": f"{tenant}-{expected}"}, **configuration)[over]
            answer = await http.post(path, json=body, headers=VERSION)
            assert answer.status_code == httpx.codes.OK
            task = answer.json().get("result", answer.json())["task"]
            if expected is None:
                assert task["status"]["state"] in {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}
            else:
                assert task["status"]["state"] == f"TASK_STATE_{expected}"


OLD_MESSAGE = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "echo x"}]}
OLD_CALLS = {
    "HTTP+JSON with 1.0 names": ("/{tenant}/message:send", {"message": SENT, "configuration": {"blocking": False}}),
    "HTTP+JSON stream": ("/{tenant}/message:stream", {"message": SENT}),
    "JSON-RPC with 1.0 names": (
        "/",
        {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"tenant": "{tenant}", "message": SENT}},
    ),
    "JSON-RPC of 0.3": (
        "/",
        {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": OLD_MESSAGE}},
    ),
    "HTTP+JSON of 0.3": ("/v1/message:send", {"message": {**OLD_MESSAGE, "role": "ROLE_USER"}}),
}


@pytest.mark.parametrize("version", [None, "", "0.3", "0.3.0"])
@pytest.mark.parametrize("call", OLD_CALLS)
async def test_b027_a_caller_of_the_old_version_gets_no_other_meaning(
    call: str, version: str | None, pair: Pair, connect: Connect, tenant: str
) -> None:
    """It is refused, with what to send instead, and nothing has begun."""
    path, body = OLD_CALLS[call]
    headers = {} if version is None else {"a2a-version": version}
    async with httpx.AsyncClient(base_url=pair.replicas[0].http_url, trust_env=False, headers=headers) as http:
        content = json.dumps(body).replace("{tenant}", tenant)
        answer = await http.post(
            path.format(tenant=tenant), content=content, headers={"content-type": "application/json"}
        )
    assert answer.headers["content-type"].partition(";")[0] in {"application/json", "application/a2a+json"}
    error = answer.json()["error"]
    if call == "JSON-RPC of 0.3":
        assert error["code"] in {VERSION_NOT_SUPPORTED.jsonrpc, -32601}
    elif call.startswith("JSON-RPC"):
        assert error["code"] == VERSION_NOT_SUPPORTED.jsonrpc and "1.0" in error["message"]
    else:
        failure = http_failure(answer, answer.json())
        assert failure.is_of(VERSION_NOT_SUPPORTED) and "1.0" in failure.message, failure
    for place in (tenant, "v1"):
        assert (await (await connect(pair.replicas[1], tenant=place)).page()).total_size == 0


# -- B031, B101 --------------------------------------------------------------------------------------------------------

OUTCOMES = {
    **dict.fromkeys(ENDS, "FAILED"),
    "reject": "REJECTED",
    "complete": "COMPLETED",
    "return": "COMPLETED",
    "late": "COMPLETED",
}


def skill(how: str) -> str:
    """What has no end by itself is given a limit."""
    return "hasty " if how in {"hang", "swallow", "thread"} else ""


@pytest.mark.parametrize("how", OUTCOMES)
async def test_b031_every_exit_of_an_agent_ends_in_a_state(how: str, pair: Pair, connect: Connect) -> None:
    """Before its first word and after two chunks, for who waits and who reads; nothing of the program gets out."""
    one, other = await connect(pair.replicas[0]), await connect(pair.replicas[1], over="HTTP+JSON")
    answer = await one.task(f"{skill(how)}end {how}")
    assert state(answer.status.state) == OUTCOMES[how]
    assert await other.get(answer.id) == answer

    events = await other.events(f"{skill(how)}tick 2 10 {how}")
    assert kinds(events) == ["task SUBMITTED", "WORKING", "artifact", "artifact", OUTCOMES[how]]
    streamed = await one.get(events[0].task.id)
    assert streamed.status == events[-1].status_update.status
    assert texts(streamed) == ["1 2 "]
    for task in (answer, streamed):
        said = "".join(part.text for part in task.status.message.parts)
        assert said or OUTCOMES[how] == "COMPLETED"
        assert not any(word in str(task) for word in ("secret", "Traceback", "Error", ".py"))
        assert f"{HASTY_LIMIT:g} seconds" in said or not skill(how)


@pytest.mark.parametrize("over", BINDINGS)
async def test_b031_an_agent_that_ends_badly_harms_nobody_else(over: str, pair: Pair, connect: Connect) -> None:
    """All ends at once, while another task runs; the processes are the same afterwards."""
    caller = await connect(pair.replicas[0], over=over)
    before = pair.replicas[0].pid
    beside = asyncio.create_task(caller.task("tick 10 50"))
    tasks = await asyncio.gather(*(caller.task(f"{skill(how)}end {how}") for how in OUTCOMES))
    assert [state(task.status.state) for task in tasks] == list(OUTCOMES.values())
    assert state((await beside).status.state) == "COMPLETED"
    assert pair.replicas[0].alive and pair.replicas[0].pid == before


FAILED_ANSWER = Row("INTERNAL_ERROR", "INTERNAL", 500, -32603)
WITHOUT_MESSAGE: dict[str, Row] = {
    **dict.fromkeys(OUTCOMES, FAILED_ANSWER),
    "reject": UNSUPPORTED_OPERATION,
    "return": INVALID_AGENT_RESPONSE,
    "complete": INVALID_AGENT_RESPONSE,
    "late": INVALID_AGENT_RESPONSE,
    "itself": INVALID_AGENT_RESPONSE,
}


@pytest.mark.parametrize("over", BINDINGS)
async def test_b031_an_agent_that_owes_a_message_and_fails_is_an_error(
    over: str, pair: Pair, connect: Connect, tenant: str
) -> None:
    """There is no task that could tell: the caller gets the error at once, for every exit, and nothing is stored."""
    caller = await connect(pair.replicas[0], over=over, tenant=tenant)
    ends = [how for how in WITHOUT_MESSAGE if not skill(how)]

    async def fail(how: str, method: str) -> None:
        failure = await refused(WITHOUT_MESSAGE[how], caller.call(method, say(f"message end {how}")))
        assert not any(word in failure.message for word in ("secret", "Traceback", "Error", ".py")), failure

    for method in ("SendMessage", "SendStreamingMessage"):
        await asyncio.gather(*(fail(how, method) for how in ends))
    assert (await caller.page()).total_size == 0


async def test_b031_an_agent_whose_first_word_decides_may_fail_before_it(pair: Pair, connect: Connect) -> None:
    """Then there is a task, and it has failed."""
    one, other = [await connect(replica) for replica in pair.replicas]
    tasks = await asyncio.gather(*(one.task(f"mixed end {how}") for how in OUTCOMES if not skill(how)))
    for task, how in zip(tasks, (how for how in OUTCOMES if not skill(how)), strict=True):
        assert state(task.status.state) == OUTCOMES[how], how
        assert await other.get(task.id) == task


@pytest.mark.parametrize("over", BINDINGS)
async def test_b101_who_waits_for_a_task_hears_of_its_cancellation(
    over: str, pair: Pair, connect: Connect, tenant: str
) -> None:
    """A blocking call without a deadline, a queued one, and a stream: each is answered when another client cancels."""
    one, other = [await connect(replica, over=over, tenant=tenant) for replica in pair.replicas]
    task = await one.task("hang", return_immediately=True)
    blocking = [asyncio.create_task(caller.task("hang")) for caller in (one, other)]
    queued = [asyncio.create_task(caller.task("more", task_id=task.id)) for caller in (one, other)]
    streaming = asyncio.create_task(other.events("hang"))

    async def all_begun() -> bool:
        tasks = (await other.page()).tasks
        return len(tasks) == 4 and sum(len(task.history) for task in tasks) == 6

    await wait_until(all_begun, "four tasks run, and two messages wait for one of them")
    async with asyncio.timeout(5):
        await asyncio.gather(*(other.cancel(found.id) for found in (await other.page()).tasks))
        answers = await asyncio.gather(*blocking, *queued)
        assert [state(answer.status.state) for answer in answers] == ["CANCELED"] * 4
        assert kinds(await streaming) == ["task SUBMITTED", "CANCELED"]


# -- B033 --------------------------------------------------------------------------------------------------------------


def turns(notes: Path) -> list[tuple[str, str]]:
    """What the agent noted: pairs of the lines with which a turn began and ended."""
    lines = notes.read_text().splitlines()
    return list(zip(lines[::2], lines[1::2], strict=True))


async def test_b033_messages_for_a_working_task_never_run_beside_it(
    pair: Pair, connect: Connect, notes: Path, tenant: str
) -> None:
    """20 at once over both replicas and all bindings: one turn at a time, each message once and in its order."""
    callers = [await connect(replica, over=over) for over in BINDINGS for replica in pair.replicas]
    one = callers[0]
    task = await one.task(f"exclusive 1500 {notes}", return_immediately=True)

    async def send(at: int) -> str | None:
        request = say(f"exclusive 5 {notes}", task_id=task.id, return_immediately=True)
        request.message.message_id = f"{tenant}-{at}"
        try:
            assert (await callers[at % len(callers)].send(request)).task.id == task.id
        except CallError as error:
            assert error.is_of(UNSUPPORTED_OPERATION), error
            return None
        return request.message.message_id

    accepted = [sent for sent in await asyncio.gather(*map(send, range(20))) if sent is not None]
    assert accepted, "the task had ended before a message came: the test says nothing"
    done = await reached(one, task.id, "COMPLETED")
    assert await callers[1].get(task.id) == done
    said = [message.message_id for message in done.history if message.role == pb.ROLE_USER]
    assert sorted(said[1:]) == sorted(accepted)
    assert len(turns(notes)) == 1 + len(accepted)
    for began, ended in turns(notes):
        assert (began.split()[0], ended.split()[0]) == ("begin", "end")
        assert began.split()[1] == ended.split()[1]


@pytest.mark.parametrize("over", BINDINGS)
async def test_b033_who_waits_for_a_queued_message_gets_its_answer(
    over: str, pair: Pair, connect: Connect, notes: Path
) -> None:
    """Blocking callers and readers of streams come back after their own turn, not after the one before."""
    one, other = [await connect(replica, over=over) for replica in pair.replicas]
    task = await one.task(f"exclusive 400 {notes}", return_immediately=True)
    answers = await asyncio.gather(one.task("tick 1 1", task_id=task.id), other.task("tick 1 1", task_id=task.id))
    for answer in answers:
        assert state(answer.status.state) == "COMPLETED"
        assert answer == await other.get(task.id)
    again = await one.task(f"exclusive 400 {notes}", return_immediately=True)
    events = await other.events("tick 2 10", task_id=again.id)
    assert kinds(events)[-1] == "COMPLETED" and chunks(events) == "1 2 "


async def test_b033_an_agent_that_listens_gets_each_message_once(pair: Pair, connect: Connect) -> None:
    """They reach the turn that runs, wherever they were sent, and no turn of their own begins."""
    callers = [await connect(replica, over=over) for over in BINDINGS for replica in pair.replicas]
    task = await callers[0].task("listen 12", return_immediately=True)
    async with callers[1].subscribe(task.id) as stream:
        reading = asyncio.create_task(stream.all())
        await asyncio.gather(
            *(
                callers[at % len(callers)].task(f"word {at}", task_id=task.id, return_immediately=True)
                for at in range(12)
            )
        )
        events = await reading
    done = await callers[2].get(task.id)
    assert kinds(events)[-1] == "COMPLETED"
    said = [message.parts[0].text for message in done.history]
    assert sorted(said) == sorted(["listen 12", *(f"word {at}" for at in range(12))])
    assert texts(done) == said[1:]


# -- B035 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("over", BINDINGS)
async def test_b035_a_message_goes_to_its_own_context_only(
    over: str, method: str, pair: Pair, connect: Connect
) -> None:
    """A wrong context is refused and changes nothing; a missing one is that of the task; one without a task is new."""
    one, other = [await connect(replica, over=over) for replica in pair.replicas]
    task, stranger = await one.task("ask"), await one.task("ask")
    for context in (stranger.context_id, "made-up", f"{task.context_id} "):
        failure = await refused(
            INVALID_ARGUMENT, other.call(method, say("echo no", task_id=task.id, context_id=context))
        )
        assert set(failure.violations) == {"message.context_id" if over == "GRPC" else "message.contextId"}
        assert await one.get(task.id) == task and await one.get(stranger.id) == stranger

    fresh = await other.task("echo new", context_id=task.context_id)
    assert fresh.id != task.id and fresh.context_id == task.context_id
    answered = await other.task("echo yes", task_id=task.id)
    assert (answered.id, answered.context_id, texts(answered)) == (task.id, task.context_id, ["yes"])
    both = await other.task("echo both", task_id=stranger.id, context_id=stranger.context_id)
    assert texts(both) == ["both"]
    assert {message.context_id for message in answered.history} == {task.context_id}
