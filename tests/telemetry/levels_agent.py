"""An agent whose turns end in every way, on a service that looks at its store all the time."""

import asyncio

from a2a_grpc.server.agents import Agent, Retry, Turn
from a2a_grpc.server.store import levels

levels._EVERY, levels._FRESH = 0.1, 0.5

agent = Agent(name="Counted", description="Does what the message says.", version="1.0")


@agent.skill(id="work", name="Work", description="One of the words below.", tags=["test"], attempts=2)
async def work(turn: Turn) -> None:
    match turn.text:
        case "wait":
            await turn.working()
            await asyncio.Event().wait()
        case "ask":
            await turn.require_input("Which one?")
        case "fail":
            raise ValueError("so it was wanted")
        case "again" if turn.attempt == 1:
            raise Retry("Once more.")
        case "steps":
            for at in range(5):
                await turn.working(f"step {at}")
                await asyncio.sleep(0.02)
