"""The agent that judges: it is sent a post and candidates, and scores them one after the other."""

import asyncio
import os
from typing import Any

from a2a_grpc.server.agents import Agent, Reject, Turn

agent = Agent(
    name="Judge",
    description="Says how well candidates fit a post.",
    version="1.0.0",
    input_modes=["text/plain", "application/json"],
    output_modes=["application/json"],
)
# Nobody reads in no time.
SECONDS = float(os.environ.get("JUDGE_SECONDS", "0.5"))
SCORE = {
    "type": "object",
    "required": ["name", "score", "missing"],
    "properties": {"score": {"type": "number", "minimum": 0, "maximum": 10}},
}


@agent.skill(
    id="judge",
    name="Judge",
    description="Scores candidates from 0 to 10.",
    tags=["hiring"],
    artifacts={"scores": SCORE},
)
async def judge(turn: Turn) -> None:
    if not turn.data:
        raise Reject("Send the post and the candidates as data.")
    post, candidates = turn.data[0]["post"], turn.data[0]["candidates"]
    for at, candidate in enumerate(candidates, start=1):
        await turn.working(f"reading about {candidate['name']}, {at} of {len(candidates)}")
        await asyncio.sleep(SECONDS)
        await turn.stream("scores", data=score(post, candidate), last=at == len(candidates))
    await turn.complete(f"{len(candidates)} candidates judged.")


def score(post: dict[str, Any], candidate: dict[str, Any]) -> dict[str, Any]:
    """Seven points for the skills that are asked for, three for the years."""
    missing = [skill for skill in post["skills"] if skill not in candidate["skills"]]
    known = 1 - len(missing) / len(post["skills"])
    years = min(candidate["years"] / post["years"], 1)
    return {"name": candidate["name"], "score": round(7 * known + 3 * years, 1), "missing": missing}
