"""An agent without tasks, whose answers are messages: `a2a-grpc serve examples.echo:agent`."""

from a2a_grpc.server.agents import Agent, Turn

agent = Agent(name="Echo", description="Says what you say.", version="1.0.0", answers="message")


@agent.skill(id="echo", name="Echo", description="Answers with the same words.", tags=["text"])
async def echo(turn: Turn) -> None:
    await turn.reply(turn.parts)
