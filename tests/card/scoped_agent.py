"""An agent whose skills are not for everybody's eyes."""

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent, Reader, Turn

agent = Agent(name="Scoped", description="Shows what one may see.", version="1.0")


@agent.skill(id="admin", name="Admin", description="For those who may.", tags=["x"], scopes=["admin"])
async def admin(turn: Turn) -> None:
    await turn.artifact("done", text="admin")


@agent.skill(id="known", name="Known", description="For those we know.", tags=["x"], scopes=[])
async def known(turn: Turn) -> None:
    await turn.artifact("done", text="known")


@agent.skill(id="echo", name="Echo", description="For everybody.", tags=["x"])
async def echo(turn: Turn) -> None:
    await turn.artifact("done", text="echo")


by_caller = Agent(name="By caller", description="Tells each caller its own.", version="1.0")
by_caller.card.capabilities.extended_agent_card = True


@by_caller.skill(id="echo", name="Echo", description="For everybody.", tags=["x"])
async def echo_again(turn: Turn) -> None:
    await turn.artifact("done", text="echo")


@by_caller.skill(id="admin", name="Admin", description="For those who may.", tags=["x"], scopes=["admin"])
async def admin_again(turn: Turn) -> None:
    await turn.artifact("done", text="admin")


async def card_for(reader: Reader) -> a2a_pb2.AgentCard | None:
    """A description of one's own; nothing for bob, and half a card for eve."""
    if reader.name.endswith("#bob"):
        return None
    card = a2a_pb2.AgentCard()
    card.CopyFrom(by_caller.card)
    card.description = "" if reader.name.endswith("#eve") else f"For {reader.claims['sub']}: {sorted(reader.scopes)}"
    return card


by_caller.extended_card = card_for
