"""B037, B039, B041, B043: a canceled task is canceled, wherever it runs and whatever its agent does about it."""

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.cases.agents import HOOKS
from tests.cases.conftest import AGENT, ENV
from tests.cases.reading import reached
from tests.conformance.callers import (
    BINDINGS,
    VERSION,
    CallError,
    Connect,
    http_failure,
    kinds,
    refused,
    state,
    texts,
)
from tests.conformance.expected import INVALID_ARGUMENT, TASK_NOT_CANCELABLE, TASK_NOT_FOUND
from tests.support.replica import Pair, replica
from tests.support.waiting import wait_until

GRACE = float(ENV["A2A_CANCEL_GRACE"])

# -- B037 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["hooked", "stubborn"])
@pytest.mark.parametrize("how", HOOKS)
async def test_b037_a_cancel_ends_the_task_whatever_the_hook_does(
    how: str, function: str, pair: Pair, connect: Connect, notes: Path
) -> None:
    """Also where the function itself swallows its cancellation. Answer, streams and store all say CANCELED."""
    one, other = [await connect(replica) for replica in pair.replicas]
    task = await one.task(f"{function} {how} {notes}", return_immediately=True)
    async with other.subscribe(task.id) as stream:
        await anext(stream)
        begun = time.monotonic()
        answer = await other.cancel(task.id)
        took = time.monotonic() - begun
        events = await stream.all()
    assert state(answer.status.state) == "CANCELED"
    assert took < GRACE + 2
    assert await one.get(task.id) == await other.get(task.id) == answer
    assert kinds(events)[-1] == "CANCELED" and kinds(events).count("CANCELED") == 1
    if function == "hooked":
        assert texts(answer) == (["goodbye"] if how == "goodbye" else [])
        if how == "note":
            assert notes.read_text() == f"hook {pair.replicas[0].pid}\n"
        if how == "complete":
            assert [part.text for part in answer.status.message.parts] == ["finished all the same"]
    assert "secret" not in str(answer)


async def test_b037_an_agent_that_goes_on_writing_is_not_heard(pair: Pair, connect: Connect) -> None:
    """Nothing follows CANCELED, in no stream and in no store, however long the function goes on."""
    one, other = [await connect(replica) for replica in pair.replicas]
    task = await one.task("scribbler", return_immediately=True)
    async with other.subscribe(task.id) as stream:
        reading = asyncio.create_task(stream.all())
        await asyncio.wait([reading], timeout=0.2)
        answer = await other.cancel(task.id)
        assert kinds(await reading)[-1] == "CANCELED"
    entries = pair.store.client.xlen(f"a2a:{{0}}:log:{task.id}")
    await asyncio.wait([reading], timeout=0.2)
    await asyncio.sleep(0.3)  # fifteen times the pause between two of its writes
    assert pair.store.client.xlen(f"a2a:{{0}}:log:{task.id}") == entries
    assert await one.get(task.id) == answer


@pytest.mark.parametrize("over", BINDINGS)
@pytest.mark.parametrize("text", ["ask", "approve", "step a"])
async def test_b037_a_parked_task_is_canceled_at_once(text: str, over: str, pair: Pair, connect: Connect) -> None:
    """Nobody runs it, so nobody is asked; who follows it hears of it, and it takes no more messages."""
    one, other = [await connect(replica, over=over) for replica in pair.replicas]
    task = await one.task(text)
    async with one.subscribe(task.id) as here, other.subscribe(task.id) as there:
        answer = await other.cancel(task.id)
        assert state(answer.status.state) == "CANCELED"
        for stream in (here, there):
            assert kinds(await stream.all())[1:] == ["CANCELED"]
    assert answer.artifacts == task.artifacts
    with pytest.raises(CallError):
        await one.task("more", task_id=task.id)


async def test_b037_one_of_many_cancels_wins(pair: Pair, connect: Connect) -> None:
    """Twelve callers at once: each gets the canceled task, or hears that it has ended; there is one CANCELED."""
    callers = [await connect(replica, over=over) for over in BINDINGS for replica in pair.replicas] * 2
    for text in ("hang", "ask", "hooked slow"):
        task = await callers[0].task(text, return_immediately=True)
        async with callers[0].subscribe(task.id) as stream:
            outcomes = await asyncio.gather(*(caller.cancel(task.id) for caller in callers), return_exceptions=True)
            assert kinds(await stream.all()).count("CANCELED") == 1
        won = [outcome for outcome in outcomes if isinstance(outcome, pb.Task)]
        assert won and all(state(answer.status.state) == "CANCELED" for answer in won)
        for lost in outcomes:
            assert isinstance(lost, pb.Task) or (isinstance(lost, CallError) and lost.is_of(TASK_NOT_CANCELABLE)), lost


async def test_b037_a_cancel_that_races_with_the_end_tells_who_won(pair: Pair, connect: Connect) -> None:
    """The answer, the streams and the store never disagree: CANCELED, or an error and COMPLETED."""
    callers = [await connect(replica) for replica in pair.replicas]

    async def race(number: int) -> str:
        here, there = callers[number % 2], callers[number // 2 % 2]
        task = await here.task(f"tick 1 {number % 10}", return_immediately=True)
        try:
            answer = await there.cancel(task.id)
        except CallError as error:
            assert error.is_of(TASK_NOT_CANCELABLE), error
            answer = await reached(here, task.id, "COMPLETED")
        assert await here.get(task.id) == answer
        return state(answer.status.state)

    assert set(await asyncio.gather(*map(race, range(100)))) <= {"CANCELED", "COMPLETED"}


async def test_b037_a_task_that_waits_for_its_turn_is_canceled_and_never_runs(connect: Connect, notes: Path) -> None:
    """Nothing of it has begun: CANCELED at once, and when there is room later it is not taken up."""
    async with replica(agent=AGENT, env={**ENV, "A2A_MAX_TURNS": "1"}) as server:
        caller = await connect(server)
        busy = await caller.task("hang", return_immediately=True)
        waiting = [await caller.task(f"exclusive 0 {notes}", return_immediately=True) for _ in range(3)]
        blocking = asyncio.create_task(caller.task(f"exclusive 0 {notes}"))
        async with caller.subscribe(waiting[0].id) as stream:
            assert state((await caller.cancel(waiting[0].id)).status.state) == "CANCELED"
            assert kinds(await stream.all()) == ["task SUBMITTED", "CANCELED"]
        await refused(TASK_NOT_CANCELABLE, caller.cancel(waiting[0].id))
        assert notes.read_text() == ""
        await caller.cancel(busy.id)
        assert state((await blocking).status.state) == "COMPLETED"
        for task in waiting[1:]:
            await reached(caller, task.id, "COMPLETED")
        assert state((await caller.get(waiting[0].id)).status.state) == "CANCELED"
        assert len(notes.read_text().splitlines()) == 2 * 3


# -- B039 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", BINDINGS)
async def test_b039_a_cancel_stops_the_work_on_the_other_replica(
    over: str, pair: Pair, connect: Connect, notes: Path
) -> None:
    """Effects stop within a second, the hook has run where the work was done, and no event follows."""
    one, other = [await connect(replica, over=over) for replica in pair.replicas]
    task = await one.task(f"effects {notes}", return_immediately=True)
    await wait_until(lambda: len(notes.read_text().splitlines()) >= 3, "the agent is at work")
    async with one.subscribe(task.id) as stream:
        begun = time.monotonic()
        answer = await other.cancel(task.id)
        assert state(answer.status.state) == "CANCELED"
        effects = notes.read_text().splitlines()
        assert time.monotonic() - begun < 1
        assert kinds(await stream.all()) == ["task WORKING", "CANCELED"]
    pid = pair.replicas[0].pid
    assert effects[-1] == f"hook {pid}" and set(effects[:-1]) == {f"effect {pid}"}
    await asyncio.sleep(0.2)  # four times the pause between two effects
    assert notes.read_text().splitlines() == effects
    assert await one.get(task.id) == answer


# -- B041 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", BINDINGS)
async def test_b041_what_has_ended_stays_as_it_ended(over: str, pair: Pair, connect: Connect) -> None:
    """In each terminal state; and what does not exist, or has no id, is said to."""
    one, other = [await connect(replica, over=over) for replica in pair.replicas]
    ended = [await one.task(text) for text in ("echo x", "fail", "reject", "raise", "hasty end hang")]
    parked = await one.task("ask")
    ended.append(await other.cancel(parked.id))
    for task in ended:
        await refused(TASK_NOT_CANCELABLE, other.cancel(task.id))
        assert await one.get(task.id) == task
    await refused(TASK_NOT_FOUND, other.cancel("no-such-task"))
    if over != "HTTP+JSON":  # where a path without an id is no route
        await refused(INVALID_ARGUMENT, other.cancel(""))


async def test_b041_a_path_without_an_id_is_answered_cleanly(pair: Pair) -> None:
    async with httpx.AsyncClient(base_url=pair.replicas[0].http_url, headers=VERSION, trust_env=False) as http:
        for path in ("/tasks/:cancel", "/tasks//:cancel", "/tasks:cancel"):
            answer = await http.post(path)
            assert answer.status_code in {400, 404, 405}, path
            assert answer.json()["error"]["code"] == answer.status_code


# -- B043 --------------------------------------------------------------------------------------------------------------

JSON = {"content-type": "application/json"}
BODIES: dict[str, tuple[bytes | None, dict[str, str]]] = {
    "none": (None, {}),
    "none, said to be JSON": (None, JSON),
    "empty": (b"", JSON),
    "an object": (b"{}", JSON),
    "null": (b"null", JSON),
    "metadata": (b'{"metadata": {"why": "x"}}', {"content-type": "application/a2a+json"}),
    "its own id": (b'{"id": "{id}"}', JSON),
    "another id": (b'{"id": "{other}"}', JSON),
    "an unknown field": (b'{"reason": "x"}', JSON),
}
MAY_BE_REFUSED = {"null", "another id"}


@pytest.mark.parametrize("body", BODIES)
async def test_b043_a_cancel_over_http_takes_every_body_that_callers_send(
    body: str, pair: Pair, connect: Connect
) -> None:
    """The id in the path counts; what cannot be meant is a clean 400; nothing else is ever canceled."""
    one = await connect(pair.replicas[0])
    task, bystander = await one.task("ask"), await one.task("ask")
    content, headers = BODIES[body]
    if content is not None:
        content = content.replace(b"{id}", task.id.encode()).replace(b"{other}", bystander.id.encode())
    async with httpx.AsyncClient(base_url=pair.replicas[1].http_url, headers=VERSION, trust_env=False) as http:
        answer = await http.post(f"/tasks/{task.id}:cancel", content=content, headers=headers)
    if answer.status_code == httpx.codes.OK:
        assert answer.json()["status"]["state"] == "TASK_STATE_CANCELED"
        assert answer.json()["id"] == task.id
    else:
        assert body in MAY_BE_REFUSED
        assert http_failure(answer, answer.json()).is_of(INVALID_ARGUMENT)
        assert await one.get(task.id) == task
    assert await one.get(bystander.id) == bystander


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"{", b"1", b'{"id": 5}', b'{"metadata": []}'])
async def test_b043_a_body_that_is_no_request_cancels_nothing(body: bytes, pair: Pair, connect: Connect) -> None:
    one = await connect(pair.replicas[0])
    task = await one.task("ask")
    async with httpx.AsyncClient(base_url=pair.replicas[1].http_url, headers=VERSION, trust_env=False) as http:
        answer = await http.post(f"/tasks/{task.id}:cancel", content=body, headers=JSON)
    failure = http_failure(answer, answer.json())
    assert (failure.http, failure.grpc) == (INVALID_ARGUMENT.http, INVALID_ARGUMENT.grpc)
    assert await one.get(task.id) == task
