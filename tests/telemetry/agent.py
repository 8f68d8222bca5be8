"""An agent whose turns end well, never, or in a dead letter."""

import asyncio

from a2a_grpc.server.agents import Agent, Retry, Turn

agent = Agent(name="Measured", description="Does what the message says.", version="1.0")


@agent.skill(id="work", name="Work", description="`wait`, `give up`, or anything.", tags=["test"], attempts=1)
async def work(turn: Turn) -> None:
    if turn.text == "wait":
        await turn.working()
        await asyncio.Event().wait()
    if turn.text == "give up":
        raise Retry("Not today.")
    await turn.artifact("answer", text=turn.text)
