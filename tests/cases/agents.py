"""The agent of the cases: the words of the conformance agent, and more to count, time and break from outside."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from google.protobuf import struct_pb2

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent, Fail, Reject, Retry, Turn
from tests.conformance.agent import BY_WORD
from tests.support.waiting import wait_until

Act = Callable[[Turn, str], Awaitable[None]]

SECRET = "secret: the caller must never read this"
FOREVER = 3600.0


def _note(path: str, line: str) -> None:
    """Append a line in one write, so that lines of several processes do not mix."""
    with Path(path).open("ab", buffering=0) as file:
        file.write(line.encode() + b"\n")


# -- work that takes a while -------------------------------------------------------------------------------------------


async def _tick(turn: Turn, rest: str) -> None:
    """`tick N MS [END]`: WORKING, N chunks `1 `, `2 `, …, each after MS milliseconds, and then the end."""
    count, pause, *end = rest.split(" ", 2)
    await turn.working()
    for number in range(1, int(count) + 1):
        await asyncio.sleep(float(pause) / 1000)
        await turn.stream("ticks", text=f"{number} ", last=number == int(count))
    if end:
        await ENDS[end[0]](turn)


async def _after(turn: Turn, rest: str) -> None:
    """`after PATH N MS`: as `tick`, once there is a file PATH."""
    path, _, ticking = rest.partition(" ")
    await wait_until(Path(path).exists, "somebody says that it may go on", 60)
    await _tick(turn, ticking)


async def _counted(turn: Turn, rest: str) -> None:
    """`counted N MS PATH`: as `tick`, and a line in PATH for each time that it is begun."""
    ticking, _, path = rest.rpartition(" ")
    _note(path, f"begin {os.getpid()}")
    await _tick(turn, ticking)


async def _stamps(turn: Turn, rest: str) -> None:
    """`stamps N MS`: N chunks, each the time (of the machine's monotonic clock) at which it was written."""
    count, pause = rest.split(" ")
    for _ in range(int(count)):
        await asyncio.sleep(float(pause) / 1000)
        await turn.stream("stamps", text=f"{time.monotonic()!r} ")


async def _step(turn: Turn, rest: str) -> None:
    """`step NAME`: an artifact of that name, and a question. `last NAME`: an artifact, and the end."""
    await turn.artifact(rest, text=f"artifact of {rest}")
    await turn.require_input(f"what after {rest}?")


async def _last(turn: Turn, rest: str) -> None:
    await turn.artifact(rest, text=f"artifact of {rest}")


async def _park(turn: Turn, rest: str) -> None:
    """`park MS`: WORKING for so long, one chunk, and then a question."""
    await turn.working()
    await asyncio.sleep(float(rest) / 1000)
    await turn.stream("before", text="before the question")
    await turn.require_input("what now?")


async def _linger(turn: Turn, rest: str) -> None:
    """`linger MS`: a question, and so long something else to do before the turn ends."""
    await turn.require_input("what now?")
    await asyncio.sleep(float(rest) / 1000)


async def _approve(turn: Turn, _: str) -> None:
    """A turn that ends with AUTH_REQUIRED: it goes on with the next message."""
    await turn.require_auth("please approve")


async def _large(turn: Turn, rest: str) -> None:
    """`large BYTES`: one artifact of that size."""
    await turn.artifact("large", text="x" * int(rest))


async def _nested(turn: Turn, rest: str) -> None:
    """`nested WHERE LEVELS`: content of its own in so many lists."""
    where, levels = rest.split(" ")
    value: Any = 1
    for _ in range(int(levels)):
        value = [value]
    match where:
        case "artifact":
            await turn.artifact("nested", data=value)
        case "stream":
            await turn.stream("nested", data=value)
        case "metadata":
            await turn.artifact("nested", text="x", metadata={"deep": value})
        case "parts":
            await turn.artifact("nested", parts=[a2a_pb2.Part(data=nested_value(int(levels)))])
        case "status":
            await turn.working(a2a_pb2.Part(data=nested_value(int(levels))))


def nested_value(levels: int) -> struct_pb2.Value:
    """1 in so many lists."""
    value = struct_pb2.Value(number_value=1)
    for _ in range(levels):
        value = struct_pb2.Value(list_value=struct_pb2.ListValue(values=[value]))
    return value


async def _number(turn: Turn, rest: str) -> None:
    """`number WHERE NUMBER`: a number as Python reads it, in data of its own."""
    where, number = rest.split(" ")
    match where:
        case "artifact":
            await turn.artifact("number", data={"number": float(number)})
        case "parts":
            await turn.artifact("number", parts=[a2a_pb2.Part(data=struct_pb2.Value(number_value=float(number)))])
        case "metadata":
            await turn.artifact("number", text="x", metadata={"number": float(number)})
        case "status":
            await turn.working(a2a_pb2.Part(data=struct_pb2.Value(number_value=float(number))))


async def _listen(turn: Turn, rest: str) -> None:
    """`listen N`: takes N messages while it runs, and gives each back."""
    await turn.working()
    for _ in range(int(rest)):
        message = await turn.inbox.get()
        await turn.artifact("heard", text=message.parts[0].text)


async def _exclusive(turn: Turn, rest: str) -> None:
    """`exclusive MS PATH`: notes when it begins and ends."""
    pause, path = rest.split(" ")
    _note(path, f"begin {os.getpid()}")
    await turn.working()
    await asyncio.sleep(float(pause) / 1000)
    _note(path, f"end {os.getpid()}")


async def _block(turn: Turn, rest: str) -> None:
    """`block MS PATH`: the first time that it is begun it keeps the whole process from doing anything else."""
    pause, path = rest.split(" ")
    _note(path, f"begin {os.getpid()}")
    await turn.working()
    await turn.flush()
    if turn.attempt == 1:
        time.sleep(float(pause) / 1000)  # noqa: ASYNC251 - which is the point
    await turn.artifact("block", text=f"attempt {turn.attempt}")


async def _again(_: Turn, rest: str) -> None:
    """`again MS`: wants another attempt after so long, each time."""
    raise Retry("not yet", after=float(rest) / 1000)


async def _effects(turn: Turn, rest: str) -> None:
    """`effects PATH`: a line with the process's id in PATH each 50 ms, for ever."""
    await turn.working()
    while True:
        _note(rest, f"effect {os.getpid()}")
        await asyncio.sleep(0.05)


# -- ends --------------------------------------------------------------------------------------------------------------


class _Unusual(BaseException):
    pass


async def _raise(error: BaseException) -> None:
    raise error


async def _cancelled_inside(_: Turn) -> None:
    """A task of the agent's own was cancelled, and it waits for that."""
    inner = asyncio.create_task(asyncio.sleep(FOREVER))
    asyncio.get_running_loop().call_soon(inner.cancel)
    await inner


async def _cancels_itself(_: Turn) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(FOREVER)


async def _recurse(turn: Turn) -> None:
    await _recurse(turn)


async def _write_nothing_utf8(turn: Turn) -> None:
    await turn.artifact("broken", text="\ud800")


async def _write_nothing(turn: Turn) -> None:
    await turn.artifact("empty")


async def _write_an_empty_part(turn: Turn) -> None:
    await turn.artifact("empty", parts=[a2a_pb2.Part()])


async def _say_an_empty_part(turn: Turn) -> None:
    await turn.working(a2a_pb2.Part(media_type="text/plain"))


async def _say_nothing(turn: Turn) -> None:
    await turn.working([])


async def _write_after_the_end(turn: Turn) -> None:
    await turn.complete("that was all")
    await turn.artifact("late", text="late")


async def _hang(_: Turn) -> None:
    await asyncio.sleep(FOREVER)


async def _block_a_thread(_: Turn) -> None:
    await asyncio.to_thread(time.sleep, FOREVER)


async def _hang_and_swallow(_: Turn) -> None:
    """Never returns by itself, and takes a cancellation for something to be handled."""
    while True:
        try:
            await asyncio.sleep(FOREVER)
        except asyncio.CancelledError:
            continue


ENDS: dict[str, Callable[[Turn], Awaitable[None]]] = {
    "raise": lambda _: _raise(RuntimeError(SECRET)),
    "exit": lambda _: _raise(SystemExit(SECRET)),
    "interrupt": lambda _: _raise(KeyboardInterrupt(SECRET)),
    "unusual": lambda _: _raise(_Unusual(SECRET)),
    "generator": lambda _: _raise(GeneratorExit(SECRET)),
    "group": lambda _: _raise(BaseExceptionGroup(SECRET, [_Unusual(SECRET)])),
    "iteration": lambda _: _raise(StopAsyncIteration(SECRET)),
    "timeout": lambda _: _raise(TimeoutError(SECRET)),
    "cancelled": lambda _: _raise(asyncio.CancelledError(SECRET)),
    "inner": _cancelled_inside,
    "itself": _cancels_itself,
    "recursion": _recurse,
    "encoding": _write_nothing_utf8,
    "nothing": _write_nothing,
    "empty part": _write_an_empty_part,
    "empty words": _say_an_empty_part,
    "no words": _say_nothing,
    "late": _write_after_the_end,
    "hang": _hang,
    "swallow": _hang_and_swallow,
    "thread": _block_a_thread,
    "fail": lambda _: _raise(Fail("it did not work out")),
    "reject": lambda _: _raise(Reject("not this one")),
    "complete": lambda turn: turn.complete("done"),
    "return": lambda turn: turn.flush(),
}


async def _end(turn: Turn, rest: str) -> None:
    """`end HOW`: one of `ENDS`, before anything was written."""
    await ENDS[rest](turn)


# -- cancellation ------------------------------------------------------------------------------------------------------


async def _hooked(turn: Turn, _: str) -> None:
    """`hooked HOW [PATH]`: runs for ever; when it is canceled, its hook does one of `HOOKS`."""
    await turn.working()
    await _hang(turn)


async def _stubborn(turn: Turn, _: str) -> None:
    """`stubborn HOW [PATH]`: as `hooked`, and the function itself swallows every cancellation."""
    await turn.working()
    await _hang_and_swallow(turn)


async def _stubborn_writer(turn: Turn, _: str) -> None:
    """`scribbler`: writes on and on, whatever happens, for as long as that is possible."""
    await turn.working()
    while True:
        try:
            await turn.stream("scribble", text="x ")
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            continue


async def _say_goodbye(turn: Turn, _: str) -> None:
    await turn.artifact("last words", text="goodbye")


async def _complete_instead(turn: Turn, _: str) -> None:
    await turn.complete("finished all the same")


async def _leave_a_note(_: Turn, path: str) -> None:
    _note(path, f"hook {os.getpid()}")


HOOKS: dict[str, Act] = {
    "empty": lambda _, __: asyncio.sleep(0),
    "slow": lambda _, __: asyncio.sleep(0.5),
    "hang": lambda turn, _: _hang(turn),
    "swallow": lambda turn, _: _hang_and_swallow(turn),
    "raise": lambda _, __: _raise(RuntimeError(SECRET)),
    "exit": lambda _, __: _raise(SystemExit(SECRET)),
    "unusual": lambda _, __: _raise(_Unusual(SECRET)),
    "cancelled": lambda _, __: _raise(asyncio.CancelledError(SECRET)),
    "goodbye": _say_goodbye,
    "complete": _complete_instead,
    "note": _leave_a_note,
}

WORDS: dict[str, Act] = {
    **BY_WORD,
    "tick": _tick,
    "after": _after,
    "counted": _counted,
    "stamps": _stamps,
    "step": _step,
    "last": _last,
    "park": _park,
    "linger": _linger,
    "approve": _approve,
    "large": _large,
    "nested": _nested,
    "number": _number,
    "listen": _listen,
    "exclusive": _exclusive,
    "block": _block,
    "again": _again,
    "effects": _effects,
    "end": _end,
    "hooked": _hooked,
    "stubborn": _stubborn,
    "scribbler": _stubborn_writer,
}

HASTY_LIMIT = 0.5
"""Seconds that a turn of the skill `hasty` may take."""

agent = Agent(
    name="Agent of the cases",
    description="Does what the first word of the text says.",
    version="1.0.0",
    input_modes=["text/plain", "application/json"],
    output_modes=["text/plain", "application/json"],
)

SKILLS = ("task", "hasty", "message", "mixed")


async def _act(turn: Turn) -> None:
    word, _, rest = _words(turn.message).partition(" ")
    if word in WORDS:
        await WORDS[word](turn, rest)


def _words(message: a2a_pb2.Message) -> str:
    """The text, without the skill that it may name first."""
    text = next((part.text for part in message.parts if part.HasField("text")), "")
    first, _, rest = text.partition(" ")
    return rest if first in SKILLS else text


@agent.on_cancel
async def _on_cancel(turn: Turn) -> None:
    word, _, rest = _words(turn.message).partition(" ")
    if word == "effects":
        await _leave_a_note(turn, rest)
    elif word in {"hooked", "stubborn"}:
        how, _, rest = rest.partition(" ")
        await HOOKS[how](turn, rest)


@agent.router
def _route(message: a2a_pb2.Message) -> str:
    text = next((part.text for part in message.parts if part.HasField("text")), "")
    first = text.partition(" ")[0]
    return first if first in SKILLS else "task"


for _id in SKILLS:
    agent.skill(
        id=_id,
        name=_id,
        description=f"Answers as its name says: {_id}.",
        tags=["cases"],
        answers=_id if _id in {"message", "mixed"} else "task",
        timeout=HASTY_LIMIT if _id == "hasty" else None,
    )(_act)

agent.card.capabilities.extended_agent_card = True
agent.extended_card = a2a_pb2.AgentCard()
agent.extended_card.CopyFrom(agent.card)
agent.extended_card.skills.add(id="secret", name="Secret", description="For those we know.", tags=["cases"])
