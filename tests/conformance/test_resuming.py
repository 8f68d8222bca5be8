"""Streams that are taken up again: `last-event-id`, on every binding and replica (3.5.2, and docs/PROTOCOL.md)."""

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import (
    BINDINGS,
    VERSION,
    Caller,
    CallError,
    Connect,
    HttpCaller,
    JsonRpcCaller,
    kinds,
    refused,
    say,
    state,
    texts,
)
from tests.conformance.expected import INVALID_ARGUMENT, TASK_NOT_FOUND, UNSUPPORTED_OPERATION
from tests.conformance.test_streaming import merged
from tests.support.replica import PairPool, Replica
from tests.support.waiting import wait_until

NUMBERS = "urn:a2a-grpc:extension:event-sequence:v1"
CURSOR = "last-event-id"


class Log:
    """The events of a stream with their numbers."""

    def __init__(self, events: list[pb.StreamResponse], parameters: Mapping[str, str]) -> None:
        self.seqs = [_take_number(event) for event in events]
        self.events = events
        self.begins_at = parameters.get(CURSOR)
        """What the response says about its first event; None where the stream was not taken up."""

    @property
    def kinds(self) -> list[str]:
        return kinds(self.events)


def _take_number(event: pb.StreamResponse) -> int:
    payload: Any = getattr(event, str(event.WhichOneof("payload")))
    number = payload.metadata.fields[NUMBERS].number_value
    assert number >= 1 and number.is_integer(), f"an event without a number: {event}"
    del payload.metadata.fields[NUMBERS]
    if not payload.metadata.fields:
        payload.ClearField("metadata")
    return int(number)


def numbered(after: int | str | None = None) -> dict[str, str]:
    """The parameters of a call that wants numbers, and to go on after an event."""
    return {**VERSION, "a2a-extensions": NUMBERS, **({} if after is None else {CURSOR: str(after)})}


def subscribed(
    caller: Caller, task_id: str, after: int | str | None = None
) -> contextlib.AbstractAsyncContextManager[Any]:
    return caller.stream("SubscribeToTask", pb.SubscribeToTaskRequest(id=task_id), parameters=numbered(after))


async def subscription(caller: Caller, task_id: str, after: int | str | None = None) -> Log:
    """SubscribeToTask to its end."""
    async with subscribed(caller, task_id, after) as stream:
        return Log(await stream.all(), stream.parameters)


async def sending(caller: Caller, request: pb.SendMessageRequest, after: int | str | None = None) -> Log:
    """SendStreamingMessage to its end."""
    async with caller.stream("SendStreamingMessage", request, parameters=numbered(after)) as stream:
        return Log(await stream.all(), stream.parameters)


def task_of(log: Log) -> str:
    task_id: str = log.events[0].task.id
    return task_id


# -- SubscribeToTask ---------------------------------------------------------------------------------------------------


async def test_every_event_has_its_number_and_the_first_task_too(caller: Caller, other: Caller) -> None:
    """4.6: for callers that ask for them; the numbers are the same on each stream of the task."""
    told = await sending(caller, say("chunks 3"))
    assert told.kinds == ["task SUBMITTED", "WORKING", "artifact", "artifact", "artifact", "COMPLETED"]
    assert told.seqs == sorted(set(told.seqs)) and told.begins_at is None
    assert (await sending(other, say("ask"))).seqs == [1, 2]
    async with caller.stream("SendStreamingMessage", say("chunks 3")) as stream:
        assert NUMBERS not in str(await stream.all()), "nobody has asked for numbers"


async def test_a_stream_goes_on_after_any_event(caller: Caller, other: Caller) -> None:
    """B001, B113: the task as it stood at that event, then exactly the others, although it has ended meanwhile."""
    told = await sending(caller, say("chunks 5"))
    for at, seq in enumerate(told.seqs[:-1]):
        again = await subscription(other, task_of(told), seq)
        assert again.events[0].task == merged(told.events[: at + 1])
        assert again.events[1:] == told.events[at + 1 :]
        assert again.seqs == told.seqs[at:]
        assert again.begins_at == str(seq), "nothing is missing"
        assert merged(again.events) == await caller.get(task_of(told))


async def test_who_has_the_end_is_told_that_the_task_has_ended(caller: Caller, other: Caller) -> None:
    """3.1.6: as without a cursor."""
    told = await sending(caller, say("echo hi"))
    for after in (told.seqs[-1], told.seqs[-1] + 1, None):
        await refused(UNSUPPORTED_OPERATION, subscription(other, task_of(told), after))


async def test_a_live_stream_goes_on_after_any_event(caller: Caller, other: Caller) -> None:
    """3.5.2, B001: on another replica, while the work goes on."""
    async with caller.stream("SendStreamingMessage", say("slow 2"), parameters=numbered()) as stream:
        before = Log([await anext(stream) for _ in range(3)], stream.parameters)
    assert before.kinds == ["task SUBMITTED", "WORKING", "artifact"]
    again = await subscription(other, task_of(before), before.seqs[1])
    assert again.kinds == ["task WORKING", "artifact", "artifact", "COMPLETED"]
    assert texts(again.events[0].task) == [] and again.events[1] == before.events[2]
    assert again.seqs[:2] == before.seqs[1:] and again.begins_at == str(before.seqs[1])
    assert texts(merged(again.events)) == ["chunk 1 chunk 2 "]


async def test_the_number_0_is_the_beginning(caller: Caller, other: Caller) -> None:
    """Everything from the first event on, which has the number 1."""
    told = await sending(caller, say("chunks 3"))
    again = await subscription(other, task_of(told), 0)
    assert (again.events, again.seqs, again.begins_at) == (told.events, told.seqs, "1")


async def test_an_empty_number_is_none(caller: Caller) -> None:
    told = await sending(caller, say("echo hi"), "")
    assert told.begins_at is None
    await refused(UNSUPPORTED_OPERATION, subscription(caller, task_of(told), ""))


async def test_a_number_that_is_not_there_gives_the_task_as_it_stands(caller: Caller, other: Caller) -> None:
    """The sign of a gap: the first event has another number than was asked for, in the response as well."""
    asked = await sending(caller, say("ask"))
    async with subscribed(other, task_of(asked), 999) as stream:
        assert stream.parameters[CURSOR] == "2"
        assert (await anext(stream)).task.status.state == pb.TASK_STATE_INPUT_REQUIRED
        await caller.task("echo done", task_id=task_of(asked))
        rest = Log(await stream.all(), stream.parameters)
    assert rest.kinds == ["WORKING", "WORKING", "artifact", "COMPLETED"][-len(rest.kinds) :]
    assert rest.seqs[0] == 3


async def test_a_parked_task_is_followed_on(caller: Caller, other: Caller) -> None:
    """3.1.6: who has everything up to the question waits for what comes next."""
    asked = await sending(caller, say("ask"))
    async with subscribed(other, task_of(asked), asked.seqs[-1]) as stream:
        first = Log([await anext(stream)], stream.parameters)
        assert (first.kinds, first.seqs, first.begins_at) == (["task INPUT_REQUIRED"], asked.seqs[-1:], "2")
        await caller.task("echo done", task_id=task_of(asked))
        assert kinds(await stream.all())[-2:] == ["artifact", "COMPLETED"]


BAD = ("-1", "+1", "1.5", "1e3", "abc", "0x1", "1,2", "1 2", "9" * 19)


@pytest.mark.parametrize("value", BAD)
async def test_what_is_no_number_of_an_event_is_refused(value: str, caller: Caller) -> None:
    """3.3.2: by the name of the header; on calls that stream nothing it means nothing."""
    task = await caller.task("ask")
    for stream in (subscription(caller, task.id, value), sending(caller, say("echo hi"), value)):
        failure = await refused(INVALID_ARGUMENT, stream)
        assert set(failure.violations) == {CURSOR} and CURSOR in failure.message
    answer = await caller.answer("GetTask", pb.GetTaskRequest(id=task.id), parameters=numbered(value))
    assert answer.message == task


async def test_a_number_opens_no_task_of_somebody_else(connect: Connect, replicas: tuple[Replica, Replica]) -> None:
    """13.1: and an unknown task is not found, whatever is asked of it."""
    one, stranger = await connect(replicas[0], tenant="one"), await connect(replicas[1], tenant="another")
    task = await one.task("echo hi")
    await refused(TASK_NOT_FOUND, subscription(stranger, task.id, 0))
    await refused(TASK_NOT_FOUND, subscription(stranger, "no-such-task", 0))


async def test_a_number_is_good_on_every_binding(connect_over: Connect, replicas: tuple[Replica, Replica]) -> None:
    """Begun over one binding, taken up over the others, on the other replica."""
    here = {over: await connect_over(replicas[0], over=over) for over in BINDINGS}
    there = {over: await connect_over(replicas[1], over=over) for over in BINDINGS}
    for over, caller in here.items():
        async with caller.stream("SendStreamingMessage", say("chunks 20"), parameters=numbered()) as stream:
            begun = Log([await anext(stream) for _ in range(5)], stream.parameters)
        for elsewhere, again in there.items():
            rest = await subscription(again, task_of(begun), begun.seqs[-1])
            assert rest.begins_at == str(begun.seqs[-1]), (over, elsewhere)
            assert rest.events[0].task == merged(begun.events)
            whole = merged([*begun.events, *rest.events[1:]])
            assert whole == await caller.get(task_of(begun)) and len(whole.artifacts[0].parts) == 20


@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_a_browser_goes_on_by_itself(verb: str, replicas: tuple[Replica, Replica]) -> None:
    """The id of a server-sent event is what the header takes, and pages of other origins may read the answer."""
    async with HttpCaller(replicas[0]) as one, HttpCaller(replicas[1]) as other:
        told = await sending(one, say("chunks 3"))
        path = f"/tasks/{task_of(told)}:subscribe"
        headers = {**VERSION, "Last-Event-ID": str(told.seqs[2]), "origin": "https://example.com"}
        response = await other.http.request(verb, path, headers=headers)
        ids = [int(line.removeprefix("id: ")) for line in response.text.splitlines() if line.startswith("id: ")]
        assert ids == told.seqs[2:]
        assert response.headers["last-event-id"] == str(told.seqs[2])
        assert "last-event-id" in response.headers["access-control-expose-headers"].split(", ")


async def test_json_rpc_takes_the_header_too(replicas: tuple[Replica, Replica]) -> None:
    async with JsonRpcCaller(replicas[0]) as one:
        told = await sending(one, say("chunks 3"))
        built = one._request(
            "SubscribeToTask", pb.SubscribeToTaskRequest(id=task_of(told)), {**VERSION, "Last-Event-ID": "3"}
        )
        response = await one.http.send(built)
        ids = [int(line.removeprefix("id: ")) for line in response.text.splitlines() if line.startswith("id: ")]
        assert ids == told.seqs[2:] and response.headers["last-event-id"] == "3"


# -- what is no longer kept --------------------------------------------------------------------------------------------

KEPT = 100


@pytest.fixture
async def short(connect: Connect, pair_pool: PairPool) -> tuple[Caller, Caller]:
    """Callers of two replicas that keep little of a task's log (A2A_LOG_EVENTS)."""
    env = {"A2A_LOG_EVENTS": str(KEPT), "A2A_SNAPSHOT_EVENTS": "10"}
    one, other = pair_pool.get("tests.cases.agents:agent", env).replicas
    return await connect(one), await connect(other)


@pytest.mark.parametrize("after", [0, 2, 900])
async def test_a_gap_in_what_has_ended_leaves_the_end(after: int, short: tuple[Caller, Caller]) -> None:
    """B009: the task as it stood before its end, whose number tells that something is missing, and then the end."""
    one, other = short
    request = say("chunks 2000")
    done = (await one.send(request)).task
    last = (await sending(other, request)).seqs[-1]
    assert last == 2003
    for stream in (subscription(other, done.id, after), sending(other, request, after)):
        log = await stream
        assert log.kinds == ["task WORKING", "COMPLETED"]
        assert log.seqs == [last - 1, last] and log.begins_at == str(last - 1) != str(after)
        assert merged(log.events) == done
    assert (await sending(other, request)).seqs == [last - 1, last], "its beginning is gone for everybody"


async def test_what_is_kept_is_told_without_a_gap(short: tuple[Caller, Caller]) -> None:
    one, other = short
    request = say("chunks 2000")
    done = (await one.send(request)).task
    for after in (2003 - KEPT, 2002):
        for stream in (subscription(other, done.id, after), sending(other, request, after)):
            log = await stream
            assert log.seqs == list(range(after, 2004)) and log.begins_at == str(after)
            assert merged(log.events) == done


async def test_a_gap_in_what_goes_on_begins_with_the_task_as_it_stands(short: tuple[Caller, Caller]) -> None:
    """And then every event, each once."""
    one, other = short
    task = await one.task("tick 1500 1", return_immediately=True)

    async def far() -> bool:
        return len("".join(texts(await other.get(task.id))).split()) > 4 * KEPT

    await wait_until(far, "the task has written much", 20)
    log = await subscription(other, task.id, 3)
    assert log.begins_at == str(log.seqs[0]) != "3"
    assert log.seqs == list(range(log.seqs[0], log.seqs[0] + len(log.seqs)))
    assert log.kinds[-1] == "COMPLETED" and len(log.seqs) > 10
    assert merged(log.events) == await one.get(task.id)


# -- SendStreamingMessage ----------------------------------------------------------------------------------------------


async def test_a_new_message_has_nothing_to_go_on_from(caller: Caller) -> None:
    """The number is of another task, or of none: the message begins its own, and the response says nothing of it."""
    for after in (0, 1, 7):
        told = await sending(caller, say("echo hi"), after)
        assert told.kinds[0] in {"task SUBMITTED", "task WORKING"} and told.kinds[-2:] == ["artifact", "COMPLETED"]
        assert told.begins_at is None and told.seqs[0] == 1


async def test_a_message_that_is_sent_again_goes_on_after_any_event(caller: Caller, other: Caller) -> None:
    """3.3.1, B089: attached to the same task, whether it runs or has ended; who has the end gets the task, no error."""
    request = say("slow 1")
    async with caller.stream("SendStreamingMessage", request, parameters=numbered()) as stream:
        before = Log([await anext(stream) for _ in range(2)], stream.parameters)
    told = await sending(other, request, before.seqs[-1])
    assert told.kinds == ["task WORKING", "artifact", "COMPLETED"]
    assert told.begins_at == str(before.seqs[-1]) and task_of(told) == task_of(before)
    for at, seq in enumerate(told.seqs):
        again = await sending(caller, request, seq)
        assert again.seqs == told.seqs[at:] and again.events[1:] == told.events[at + 1 :]
        assert again.begins_at == str(seq)
    assert (await sending(caller, request, 0)).seqs == [*before.seqs, *told.seqs[1:]]
    last = await sending(caller, request, told.seqs[-1])
    assert last.events == [pb.StreamResponse(task=await other.get(task_of(told)))]


async def test_a_message_that_is_sent_again_closes_where_its_turn_did(caller: Caller, other: Caller) -> None:
    """Also when the question came before the event that the caller names, and other turns came after it."""
    first, second = say("ask"), say("x", prefix="tck-input-required")
    asked = await sending(caller, first)
    second.message.task_id = task_of(asked)

    async def alone(request: pb.SendMessageRequest, seq: int, begins: str) -> None:
        again = await sending(other, request, seq)
        assert (again.kinds, again.seqs, again.begins_at) == ([begins], [seq], str(seq))

    await alone(first, asked.seqs[-1], "task INPUT_REQUIRED")
    answered = await sending(caller, second)
    assert answered.kinds == ["task WORKING", "INPUT_REQUIRED"]
    await alone(first, asked.seqs[-1], "task INPUT_REQUIRED")
    await alone(second, answered.seqs[-1], "task INPUT_REQUIRED")
    assert (await sending(other, first, asked.seqs[0])).kinds == ["task SUBMITTED", "INPUT_REQUIRED"]
    # From before the message: all that came, up to its own end.
    whole = await sending(other, second, 0)
    assert whole.seqs == [*asked.seqs, *(seq for seq in range(asked.seqs[-1] + 1, answered.seqs[-1] + 1) if seq != 4)]
    assert whole.kinds == ["task SUBMITTED", "INPUT_REQUIRED", "WORKING", "INPUT_REQUIRED"]
    await caller.task("echo done", task_id=task_of(asked))
    await alone(first, asked.seqs[-1], "task INPUT_REQUIRED")
    await alone(second, answered.seqs[-1], "task INPUT_REQUIRED")


async def test_a_message_that_is_sent_again_after_a_gap_still_has_its_end(caller: Caller, other: Caller) -> None:
    """The end is an update, as on every other stream; the number of the task before it tells of the gap."""
    for text, end in (("echo hi", "COMPLETED"), ("ask", "INPUT_REQUIRED"), ("fail", "FAILED")):
        request = say(text)
        told = await sending(caller, request)
        again = await sending(other, request, 999)
        assert again.kinds[1:] == [end] and again.seqs[-1] == told.seqs[-1]
        assert again.begins_at == str(again.seqs[0]) == str(told.seqs[-1] - 1)
        assert again.events[-1] == told.events[-1]


async def test_history_length_is_that_of_the_first_task(caller: Caller, other: Caller) -> None:
    """3.2.4."""
    request = say("echo hi", history_length=0)
    told = await sending(caller, request)
    again = await sending(other, request, told.seqs[0])
    assert not again.events[0].task.history and again.events[1:] == told.events[1:]


async def test_a_bare_message_has_no_number(caller: Caller) -> None:
    async with caller.stream("SendStreamingMessage", say("msg"), parameters=numbered(3)) as stream:
        [event] = await stream.all()
    assert event.HasField("message") and not event.message.HasField("metadata") and CURSOR not in stream.parameters


async def test_a_call_that_is_refused_does_not_say_that_it_went_on(caller: Caller) -> None:
    with pytest.raises(CallError) as caught:
        await subscription(caller, "no-such-task", 3)
    assert CURSOR not in caught.value.parameters


async def test_states_of_one_task_are_told_alike_by_both_operations(caller: Caller, other: Caller) -> None:
    """A subscription and the message itself go on from the same number with the same events."""
    request = say("chunks 4")
    told = await sending(caller, request)
    for seq in told.seqs[:-1]:
        one, two = await sending(other, request, seq), await subscription(caller, task_of(told), seq)
        assert (one.seqs, one.events) == (two.seqs, two.events)
    assert state(told.events[-1].status_update.status.state) == "COMPLETED"
