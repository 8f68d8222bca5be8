"""An agent with a skill that wants a scope, and one that wants two schemes."""

from a2a_grpc.server.agents import Agent, Turn

agent = Agent(name="Scoped", description="Asks what callers may do.", version="1.0")


@agent.skill(id="echo", name="Echo", description="Says what it hears.", tags=["test"])
async def echo(turn: Turn) -> None:
    await turn.artifact("echo", text=turn.text)


@agent.skill(
    id="publish",
    name="Publish",
    description="Wants a scope.",
    tags=["test"],
    security=[{"bearer": ["publish"]}],
)
async def publish(turn: Turn) -> None:
    await turn.artifact("published", text=turn.text)


@agent.skill(
    id="both",
    name="Both",
    description="Wants a key and a token.",
    tags=["test"],
    security=[{"apiKey": [], "bearer": []}],
)
async def both(turn: Turn) -> None:
    await turn.artifact("both", text=turn.text)
