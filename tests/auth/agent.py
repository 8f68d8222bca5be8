"""An agent with a skill for everybody who is let in, and skills that want more."""

import asyncio

from a2a_grpc.server.agents import Agent, Turn

agent = Agent(name="Guarded", description="Asks who calls.", version="1.0")


@agent.skill(id="echo", name="Echo", description="Says what it hears.", tags=["test"])
async def echo(turn: Turn) -> None:
    await turn.artifact("echo", text=turn.text)


@agent.skill(id="ask", name="Ask", description="Asks back.", tags=["test"])
async def ask(turn: Turn) -> None:
    await turn.require_input("And then?")


@agent.skill(id="wait", name="Wait", description="Goes on until it is canceled.", tags=["test"])
async def wait(turn: Turn) -> None:
    await turn.working("waiting")
    await asyncio.Event().wait()


agent.extended_card = type(agent.card)()
agent.card.capabilities.extended_agent_card = True
agent.extended_card.CopyFrom(agent.card)
