"""Agents that say who they are, so that it shows which of them ran a turn."""

import asyncio

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent, Turn


def _named(name: str) -> Agent:
    """`ask` asks for more, `run` runs for a second, everything else is answered at once."""
    agent = Agent(name=name, description=f"Says that it is {name}.", version="1.0")

    async def work(turn: Turn) -> None:
        word = turn.text.partition(" ")[0]
        if word == "ask":
            await turn.require_input("What?")
            return
        if word == "run":
            await turn.working(f"by {name}, attempt {turn.attempt}")
            await asyncio.sleep(1)
        await turn.artifact("by", text=f"{name} for {turn.tenant} {turn.attempt}")

    agent.skill(id="work", name="Work", description="Works.", tags=["test"])(work)
    return agent


red = _named("red")
blue = _named("blue")

blue.card.capabilities.extended_agent_card = True
_extended = a2a_pb2.AgentCard()
_extended.CopyFrom(blue.card)
_extended.description = "Says that it is blue, in full."
blue.extended_card = _extended
