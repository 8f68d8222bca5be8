"""The agent of `test_processes`: what it does stands in the message."""

import asyncio
import os

from a2a_grpc.server.agents import Agent, Turn

agent = Agent(name="Work", description="Does as it is told.", version="1")


@agent.skill(id="work", name="Work", description="Works for a while.", tags=["test"])
async def work(turn: Turn) -> None:
    """`steps N`: N chunks, fifty a second. `hang`: until it is canceled. Each says in which process it runs."""
    await turn.working(f"{os.getpid()}")
    if turn.text == "hang":
        await asyncio.Event().wait()
    for number in range(int(turn.text.removeprefix("steps "))):
        await turn.stream("out", text=str(number))
        await asyncio.sleep(0.02)
