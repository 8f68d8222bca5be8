"""The smallest agent: `a2a-grpc serve examples.minimal_agent:agent`."""

from a2a_grpc.server.agents import Agent, Turn

agent = Agent(name="Shouter", description="Says it louder.", version="1.0.0")


@agent.skill(id="shout", name="Shout", description="Answers in capitals.", tags=["text"])
async def shout(turn: Turn) -> None:
    await turn.artifact("louder", text=turn.text.upper())
