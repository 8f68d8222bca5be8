"""An agent that tells what its process has loaded."""

import sys
from typing import Final

from a2a_grpc.server.agents import Agent, Turn

agent = Agent(name="Loaded", description="Tells which modules are loaded.", version="1.0")

# The client of Redis loads the part for metrics by itself.
OF_TRACES: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter", "a2a_grpc.server.telemetry.spans")


@agent.skill(id="tell", name="Tell", description="Names them.", tags=["test"])
async def tell(turn: Turn) -> None:
    await turn.complete(" ".join(sorted(name for name in sys.modules if name.startswith(OF_TRACES))) or "nothing")
