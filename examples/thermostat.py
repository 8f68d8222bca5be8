"""A thermostat that answers at once where it can, and with a task where that takes time.

`a2a-grpc serve examples.thermostat:agent`, then ask "how warm is it", "heat" or "heat to 21".
"""

import asyncio
import os
import re

from a2a_grpc.server.agents import Agent, Reject, Turn

agent = Agent(name="Thermostat", description="Keeps a room warm.", version="1.0.0", answers="mixed")
ROOM, WARMEST = 19, 25
SECONDS = float(os.environ.get("THERMOSTAT_SECONDS", "1"))
"""How long a degree takes."""


@agent.skill(id="heat", name="Heat", description="Says how warm it is, and heats.", tags=["home"])
async def heat(turn: Turn) -> None:
    found = re.search(r"\d+", turn.text)
    if "heat" not in turn.text.lower():
        await turn.reply(f"It is {ROOM} °C.")
    elif found is None:
        # What to do is settled by messages; the task begins when that is clear.
        await turn.reply(f"To how many degrees? {WARMEST} °C is the most.")
    else:
        wanted = int(found[0])
        if wanted > WARMEST:
            raise Reject(f"{WARMEST} °C is the most.")
        for degrees in range(ROOM, wanted):
            await turn.working(f"{degrees} °C")
            await asyncio.sleep(SECONDS)
        await turn.complete(f"It is {max(ROOM, wanted)} °C.")


@agent.on_cancel
async def off(turn: Turn) -> None:
    await turn.artifact("heating", text="The heating is off.")
