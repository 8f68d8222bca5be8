"""What turns of the agents here do at a word: work for long, or end in another way than by returning."""

import asyncio

from a2a_grpc.server.agents import Retry, Turn


async def end_as_told(turn: Turn, *, steps: int, pause: float) -> None:
    """Do what the message says; of what it does not know it does nothing. `pause` in seconds, between its `steps`."""
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
            for at in range(steps):
                await turn.working(f"step {at}")
                await asyncio.sleep(pause)
