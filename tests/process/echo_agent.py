"""The smallest agent there is, for tests of the process around it."""

from a2a_grpc.server.agents import Agent, Turn

agent = Agent(name="Echo", description="Says what it hears.", version="1.0")


@agent.skill(id="echo", name="Echo", description="Says what it hears.", tags=["test"])
async def echo(turn: Turn) -> None:
    await turn.artifact("echo", text=turn.text)
