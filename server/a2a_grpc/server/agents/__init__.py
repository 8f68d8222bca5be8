"""What an agent's author writes and uses: `Agent`, `Turn`, and the ways a turn ends."""

from a2a_grpc.server.agents.agent import Agent, Answers, Reader, Skill
from a2a_grpc.server.agents.ends import Fail, Reject, Retry, TurnOverError
from a2a_grpc.server.agents.schemas import ArtifactMismatchError
from a2a_grpc.server.agents.turn import Turn

__all__ = [
    "Agent",
    "Answers",
    "ArtifactMismatchError",
    "Fail",
    "Reader",
    "Reject",
    "Retry",
    "Skill",
    "Turn",
    "TurnOverError",
]
