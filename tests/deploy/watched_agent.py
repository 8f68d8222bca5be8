"""An agent whose turns give every panel of the dashboard something to show."""

import asyncio

from a2a_grpc.server.agents import Agent, Retry, Turn

agent = Agent(name="Watched", description="Does what the message says.", version="1.0")


@agent.skill(id="work", name="Work", description="One of the words below, or anything.", tags=["test"], attempts=2)
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
        case "give up":
            raise Retry("Not today.")
        case "steps":
            for at in range(8):
                await turn.working(f"step {at}")
                await asyncio.sleep(0.05)
        case "long":
            await asyncio.sleep(1.5)
    if turn.text != "ask":
        await turn.artifact("answer", text=turn.text)
