"""The agent that people talk to: it collects candidates for a post, and has another agent judge them."""

import os
from typing import Any

from a2a_grpc.client import (
    A2AError,
    ArtifactChunk,
    Completed,
    RemoteAgent,
    Reply,
    Result,
    StatusUpdate,
    UnavailableError,
    message,
)
from a2a_grpc.server.agents import Agent, Fail, Reject, Retry, Turn
from examples.screening.candidates import POSTS, collect

agent = Agent(
    name="Recruiter",
    description="Finds candidates for a post.",
    version="1.0.0",
    output_modes=["text/plain", "application/json"],
)
JUDGE = os.environ.get("JUDGE_URL", "http://localhost:8081")


@agent.skill(id="find", name="Find", description="Finds the best candidate for a post.", tags=["hiring"])
async def find(turn: Turn) -> None:
    post = next((name for name in POSTS if name in turn.text.lower()), None)
    if post is None:
        raise Reject(f"Open posts are: {', '.join(POSTS)}.")
    candidates = collect(POSTS[post])
    await turn.working(f"found {len(candidates)} candidates")
    try:
        async with await RemoteAgent.connect(JUDGE) as judge:
            result = await judged(turn, judge, {"post": POSTS[post], "candidates": candidates})
    except UnavailableError as error:
        raise Retry("The judge is away; this is tried again.", after=5) from error
    except A2AError as error:
        raise Fail(f"The judge cannot be asked: {error.message}") from error
    if not isinstance(result, Completed):
        raise Fail(f"The judge gave no scores ({result.finish_reason}): {result.text}")
    ranking = sorted(result.data, key=lambda one: one["score"], reverse=True)
    await turn.artifact("ranking", data=ranking)
    names = [candidate["name"] for candidate in candidates]
    best = ranking[0]["name"]
    await turn.complete(f"Candidate {names.index(best) + 1}, {best}, fits the post best. Ask them to an interview.")


async def judged(turn: Turn, judge: RemoteAgent, order: dict[str, Any]) -> Result:
    """What the judge says at the end, its progress passed on."""
    # Should this turn begin anew, it sends the same message: the judge knows its id, and does not judge twice.
    begun = await judge.start(message("Judge these.", data=order, message_id=f"judge-{turn.task_id}"))
    if isinstance(begun, Reply):
        return begun
    async for update in judge.resume(begun):
        if isinstance(update, StatusUpdate) and update.text:
            await turn.working(f"judge: {update.text}")
        elif isinstance(update, ArtifactChunk):
            for one in update.data:
                await turn.stream("scores", text=f"{one['name']}: {one['score']}\n", anew=not update.append)
        elif isinstance(update, Result):
            return update
    raise Fail("The judge stopped without a word.")
