"""An agent whose turns end well, never, or in a dead letter."""

import asyncio
import logging

from a2a_grpc.server.agents import Agent, Retry, Turn

log = logging.getLogger(__name__)

agent = Agent(name="Measured", description="Does what the message says.", version="1.0")


@agent.skill(id="work", name="Work", description="`wait`, `give up`, or anything.", tags=["test"], attempts=1)
async def work(turn: Turn) -> None:
    if turn.text == "wait":
        await turn.working()
        await asyncio.Event().wait()
    if turn.text == "log":
        log.info("at work")
    if turn.text == "give up":
        raise Retry("Not today.")
    await turn.artifact("answer", text=turn.text)
