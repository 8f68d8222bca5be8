"""An agent whose turns give every panel of the dashboard something to show."""

import asyncio

from a2a_grpc.server.agents import Agent, Retry, Turn
from tests.telemetry.endings import end_as_told

agent = Agent(name="Watched", description="Does what the message says.", version="1.0")


@agent.skill(
    id="work", name="Work", description="One of the words of `endings`, or anything.", tags=["test"], attempts=2
)
async def work(turn: Turn) -> None:
    match turn.text:
        case "give up":
            raise Retry("Not today.")
        case "long":
            await asyncio.sleep(1.5)
        case _:
            await end_as_told(turn, steps=8, pause=0.05)
    if turn.text != "ask":
        await turn.artifact("answer", text=turn.text)
