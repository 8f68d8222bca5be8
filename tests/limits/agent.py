"""An agent whose turns last until they are canceled, or not at all; and its extended card, which needs no store."""

import asyncio

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent, Turn

agent = Agent(name="Limited", description="Waits, or does not.", version="1.0")


@agent.skill(id="work", name="Work", description="`wait` waits, everything else is answered.", tags=["test"])
async def work(turn: Turn) -> None:
    if turn.text == "ask":
        await turn.require_input("What?")
    elif turn.text == "wait":
        await turn.working()
        await asyncio.sleep(600)
    else:
        await turn.artifact("answer", text=turn.text)


agent.card.capabilities.extended_agent_card = True
_extended = a2a_pb2.AgentCard()
_extended.CopyFrom(agent.card)
agent.extended_card = _extended
