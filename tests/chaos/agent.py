"""The agent of the suite. It says of every run when it begins and ends, in its notes and in everything it writes.

A message is `SKILL CHUNKS MILLISECONDS`: how many chunks to write, and how long to wait before each. Every chunk and
every last word begins with the name of the run that wrote it, so that the log alone tells which runs had an effect.
"""

import asyncio
import inspect
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any, Self

from a2a_grpc.server.agents import Agent, Turn
from tests.chaos.notes import Notebook

STALL = 0.25
"""Seconds that the event loop may be late without a note of it."""

agent = Agent(name="Chaos", description="Writes down what it does.", version="1")
_notebook = Notebook()
_watching: set[asyncio.Task[None]] = set()


def _skill(name: str, **options: Any) -> Callable[[Callable[[Turn], Awaitable[None]]], object]:
    # The version before this one knows no attempts.
    known = inspect.signature(agent.skill).parameters
    return agent.skill(
        id=name,
        name=name,
        description="See the module.",
        tags=["test"],
        **{option: value for option, value in options.items() if option in known},
    )


class _Run:
    """One execution of one turn."""

    def __init__(self, skill: str, turn: Turn, first: int) -> None:
        self.name = f"{os.getpid()}-{secrets.token_hex(4)}"
        # A message to a task that exists may name another skill; its own is what runs.
        self.skill = skill
        self.turn = turn
        _, chunks, delay = turn.text.split()
        self.chunks, self.delay = int(chunks), int(delay) / 1000
        self.first = first

    async def __aenter__(self) -> Self:
        if not _watching:
            _watching.add(asyncio.create_task(_watch()))
        _notebook.write(
            "begin",
            run=self.name,
            task=self.turn.task_id,
            message=self.turn.message.message_id,
            skill=self.skill,
            attempt=self.turn.attempt,
            number=self.first,
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        how = "returned" if kind is None else "cancelled" if kind is asyncio.CancelledError else kind.__name__
        _notebook.write("end", run=self.name, how=how)

    async def chunk(self, number: int) -> None:
        await asyncio.sleep(self.delay)
        await self.turn.stream("out", text=f"{self.name} {number}")

    async def complete(self) -> None:
        await self.turn.complete(f"{self.name} wrote {self.first} to {self.chunks}")


async def _watch() -> None:
    while True:
        begun = time.monotonic()
        await asyncio.sleep(0.05)
        late = time.monotonic() - begun - 0.05
        if late > STALL:
            _notebook.write("late", number=int(late * 1000))


async def _write(skill: str, turn: Turn) -> None:
    async with _Run(skill, turn, 0) as run:
        for number in range(run.chunks):
            await run.chunk(number)
        await run.complete()


@_skill("work")
async def work(turn: Turn) -> None:
    """Begins again where it is lost."""
    await _write("work", turn)


@_skill("once", attempts=1)
async def once(turn: Turn) -> None:
    """Must never be begun twice."""
    await _write("once", turn)


@_skill("resume")
async def resume(turn: Turn) -> None:
    """Goes on where its checkpoint stands."""
    message, _, written = (turn.restored or b"").decode().partition(" ")
    first = int(written) if message == turn.message.message_id else 0
    async with _Run("resume", turn, first) as run:
        for number in range(first, run.chunks):
            await run.chunk(number)
            await turn.checkpoint(f"{turn.message.message_id} {number + 1}".encode())
            _notebook.write("kept", run=run.name, number=number + 1)
        await run.complete()


@_skill("ask")
async def ask(turn: Turn) -> None:
    """Asks before it completes; answers to the first question that it asked."""
    async with _Run("ask", turn, 0) as run:
        asked = any(message.role == turn.say("?").role for message in turn.history)
        for number in range(run.chunks):
            await run.chunk(number)
        if asked:
            await run.complete()
        else:
            await turn.require_input(f"{run.name} asks after 0 to {run.chunks}")
