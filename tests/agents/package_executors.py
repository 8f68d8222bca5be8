"""Agents on top of two packages from PyPI, each with the executor and the card that the package makes of them.

Neither needs a network or a model: a2a-adapter runs a function, a2a-lite skills that are functions.
"""

import asyncio
from collections.abc import AsyncIterator

from a2a_adapter import CallableAdapter
from a2a_adapter.executor import AdapterAgentExecutor
from a2a_adapter.server import build_agent_card
from a2a_lite import Agent
from a2a_lite.executor import LiteAgentExecutor
from a2a_lite.tasks import TaskContext


async def words(inputs: dict[str, str]) -> AsyncIterator[str]:
    """Gives the words back one by one; hangs, or breaks, if told so."""
    for word in inputs["message"].split():
        if word == "hang":
            await asyncio.Event().wait()
        if word == "break":
            raise RuntimeError("out of words")
        yield f"{word} "


adapter = CallableAdapter(
    words,
    streaming=True,
    name="Words",
    description="Gives the words back.",
    skills=[{"id": "words", "name": "Words", "description": "Gives the words back.", "tags": ["test"]}],
)
adapter_executor = AdapterAgentExecutor(adapter)
adapter_card = build_agent_card(adapter)

lite = Agent(name="Lite", description="Greets and counts.", version="1.0.0")


@lite.skill("greet", tags=["test"])
async def greet(name: str) -> str:
    """Greets."""
    return f"Hello, {name}!"


@lite.skill("count", tags=["test"], streaming=True)
async def count(to: int) -> AsyncIterator[str]:
    """Counts."""
    for number in range(1, to + 1):
        yield str(number)


@lite.skill("order", tags=["test"])
async def order(what: str, task: TaskContext) -> str:
    """Takes its time, and says how it goes."""
    await task.update("working", f"making {what}", progress=0.5)
    if what == "nothing":
        await asyncio.Event().wait()
    return f"{what} is ready"


# As its `run` makes it.
lite_executor = LiteAgentExecutor(skills=lite._skills)
lite_card = lite.build_agent_card()
