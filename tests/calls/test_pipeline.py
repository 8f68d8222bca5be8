"""How a call goes in and comes out: which steps see it, and what they make of its outcome."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.calls import pipeline, steps
from a2a_grpc.server.calls.current import Current
from a2a_grpc.server.calls.pipeline import Pipeline
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.wire.errors import UnimplementedError
from tests.calls.pipelines import REQUEST, answering, call, operations, raising

TASK = a2a_pb2.Task(id="task")


class Record(steps.Step):
    """Notes what it sees; refuses or replaces where it is told to."""

    seen: list[str]
    refuses = False
    makes: BaseException | None = None

    async def enter(self, _: Current) -> None:
        self.seen.append(f"{self.name} in")
        if self.refuses:
            raise ValueError(self.name)

    async def leave(self, _: Current, error: BaseException | None) -> BaseException | None:
        self.seen.append(f"{self.name} out {type(error).__name__ if error else 'well'}")
        return self.makes or error


class Blind(steps.Step):
    """A step that has nothing to do on the way out."""

    name = "blind"


class Silent(steps.Step):
    """A step that has nothing to do on the way in."""

    name = "silent"
    seen: list[str]

    async def leave(self, _: Current, error: BaseException | None) -> BaseException | None:
        self.seen.append("silent out")
        return error


class Made:
    """A pipeline of records, and what they noted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[str] = []
        kinds = [type(name, (Record,), {"name": name, "seen": self.seen}) for name in ("a", "b", "c")]
        self.a, self.b, self.c = (kind() for kind in kinds)
        self.chain: tuple[steps.Step, ...] = (self.a, Blind(), self.b, self.c)
        monkeypatch.setattr(pipeline, "CHAIN", tuple(type(step) for step in self.chain))

    def around(self, **given: Any) -> Pipeline:
        return Pipeline(operations(**given), self.chain)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    return Made(monkeypatch)


async def test_a_call_goes_in_from_outside_and_out_from_inside(made: Made) -> None:
    async def operation(request: Any, _: object) -> a2a_pb2.Task:
        made.seen.append(f"operation {request.id}")
        return TASK

    assert await made.around(unary=operation).unary("GetTask", REQUEST, call()) is TASK
    assert made.seen == ["a in", "b in", "c in", "operation task", "c out well", "b out well", "a out well"]


async def test_the_last_step_is_asked_on_the_way_out_though_it_has_no_way_in(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = Silent()
    silent.seen = made.seen
    made.chain = (*made.chain, silent)
    monkeypatch.setattr(pipeline, "CHAIN", tuple(type(step) for step in made.chain))
    await made.around(unary=answering(TASK)).unary("GetTask", REQUEST, call())
    assert made.seen[3:] == ["silent out", "c out well", "b out well", "a out well"]


async def test_an_error_is_shown_to_every_step_and_comes_out_as_it_is(made: Made) -> None:
    error = KeyError("x")
    with pytest.raises(KeyError) as caught:
        await made.around(unary=raising(error)).unary("GetTask", REQUEST, call())
    assert caught.value is error
    assert made.seen[3:] == ["c out KeyError", "b out KeyError", "a out KeyError"]


async def test_a_refusal_keeps_the_call_from_everything_behind_it(made: Made) -> None:
    made.b.refuses = True
    with pytest.raises(ValueError, match=r"^b$"):
        await made.around(unary=answering(TASK)).unary("GetTask", REQUEST, call())
    assert [note for note in made.seen if note.endswith("in") or note.startswith("c")] == ["a in", "b in"]
    assert made.seen[-1] == "a out ValueError"


async def test_what_a_step_makes_of_an_outcome_is_what_those_outside_see(made: Made) -> None:
    made.b.makes = RuntimeError("made")
    cause = KeyError("x")
    with pytest.raises(RuntimeError) as caught:
        await made.around(unary=raising(cause)).unary("GetTask", REQUEST, call())
    assert caught.value.__cause__ is cause
    assert made.seen[3:] == ["c out KeyError", "b out KeyError", "a out RuntimeError"]


async def test_a_step_may_make_an_error_of_a_success(made: Made) -> None:
    made.b.makes = RuntimeError("made")
    with pytest.raises(RuntimeError):
        await made.around(unary=answering(TASK)).unary("GetTask", REQUEST, call())
    assert made.seen[3:] == ["c out well", "b out well", "a out RuntimeError"]


async def test_a_cancellation_passes_through_and_reaches_the_operation(made: Made) -> None:
    reached = asyncio.Event()

    async def operation(_: object, __: object) -> a2a_pb2.Task:
        try:
            await asyncio.Event().wait()
        finally:
            reached.set()
        return TASK

    running = asyncio.create_task(made.around(unary=operation).unary("GetTask", REQUEST, call()))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert reached.is_set()
    assert made.seen[3:] == ["c out CancelledError", "b out CancelledError", "a out CancelledError"]


async def test_an_operation_that_has_no_use_case_is_not_offered(made: Made) -> None:
    """A new method of the proto has a route by itself; who calls it learns that nobody is at home, not of a defect."""
    with pytest.raises(UnimplementedError, match="GetTask"):
        await made.around().unary("GetTask", REQUEST, call())
    with pytest.raises(UnimplementedError, match="New"):
        await made.around(unary=answering(TASK)).unary("New", REQUEST, call("New"))
    with pytest.raises(UnimplementedError, match="NewStream"):
        await anext(made.around(stream=Streaming()).stream("NewStream", REQUEST, call("NewStream")))
    assert made.seen[:6] == ["a in", "b in", "c in", *(f"{step} out UnimplementedError" for step in "cba")]


# -- streams ---------------------------------------------------------------------------------------------------------

EVENTS = [Event(seq, a2a_pb2.StreamResponse(task=TASK)) for seq in (1, 2, 3)]


class Streaming:
    """An operation that streams EVENTS, and fails after them if told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.closed = False

    async def __call__(self, _: object, __: object) -> AsyncGenerator[Event, None]:
        try:
            for event in EVENTS:
                yield event
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


async def test_a_stream_leaves_when_its_last_event_is_taken(made: Made) -> None:
    operation = Streaming()
    stream = made.around(stream=operation).stream("SubscribeToTask", REQUEST, call())
    taken = []
    async for event in stream:
        taken.append(event)
        assert not any("out" in note for note in made.seen)
    assert taken == EVENTS
    assert made.seen == ["a in", "b in", "c in", "c out well", "b out well", "a out well"]
    assert operation.closed


async def test_nothing_happens_before_somebody_asks_for_the_first_event(made: Made) -> None:
    stream = made.around(stream=Streaming()).stream("SubscribeToTask", REQUEST, call())
    assert made.seen == []
    await stream.aclose()
    assert made.seen == []


async def test_a_stream_that_is_refused_fails_before_its_first_event(made: Made) -> None:
    made.b.refuses = True
    operation = Streaming()
    stream = made.around(stream=operation).stream("SubscribeToTask", REQUEST, call())
    with pytest.raises(ValueError, match=r"^b$"):
        await anext(stream)
    assert not operation.closed
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_an_error_in_the_middle_of_a_stream_is_shown_to_every_step(made: Made) -> None:
    made.b.makes = RuntimeError("made")
    stream = made.around(stream=Streaming(KeyError("x"))).stream("SubscribeToTask", REQUEST, call())
    assert [await anext(stream) for _ in EVENTS] == EVENTS
    with pytest.raises(RuntimeError):
        await anext(stream)
    assert made.seen[3:] == ["c out KeyError", "b out KeyError", "a out RuntimeError"]


async def test_a_stream_that_is_left_closes_the_operation_and_leaves_the_steps(made: Made) -> None:
    operation = Streaming()
    stream = made.around(stream=operation).stream("SubscribeToTask", REQUEST, call())
    await anext(stream)
    await stream.aclose()
    assert operation.closed
    assert made.seen[3:] == ["c out GeneratorExit", "b out GeneratorExit", "a out GeneratorExit"]


@pytest.mark.parametrize("resumed", [True, False])
async def test_a_stream_that_goes_on_says_from_which_event(made: Made, resumed: bool) -> None:
    async def operation(_: object, caller: Caller) -> AsyncGenerator[Event, None]:
        caller.resumed = resumed
        for event in EVENTS[1:]:
            yield event

    given = call()
    stream = made.around(stream=operation).stream("SubscribeToTask", REQUEST, given)
    assert [await anext(stream), given.response_parameters] == [EVENTS[1], {"last-event-id": "2"} if resumed else {}]
    assert [event async for event in stream] == EVENTS[2:]
    assert given.response_parameters == ({"last-event-id": "2"} if resumed else {})


async def test_a_stream_whose_task_is_cancelled_closes_the_operation(made: Made) -> None:
    closed = asyncio.Event()

    async def operation(_: object, __: object) -> AsyncGenerator[Event, None]:
        try:
            yield EVENTS[0]
            await asyncio.Event().wait()
        finally:
            closed.set()

    stream = made.around(stream=operation).stream("SubscribeToTask", REQUEST, call())

    async def read() -> None:
        async for _ in stream:
            pass

    reading = asyncio.create_task(read())
    for _ in range(3):
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert closed.is_set()
    assert made.seen[3:] == ["c out CancelledError", "b out CancelledError", "a out CancelledError"]
