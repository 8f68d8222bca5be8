"""An agent whose turns end in every way, on a service that looks at its store all the time."""

from a2a_grpc.server.agents import Agent, Turn
from a2a_grpc.server.store import levels
from tests.telemetry.endings import end_as_told

levels._EVERY, levels._FRESH = 0.1, 0.5

agent = Agent(name="Counted", description="Does what the message says.", version="1.0")


@agent.skill(id="work", name="Work", description="One of the words of `endings`.", tags=["test"], attempts=2)
async def work(turn: Turn) -> None:
    await end_as_told(turn, steps=5, pause=0.02)
