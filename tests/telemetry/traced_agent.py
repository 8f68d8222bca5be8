"""An agent that makes spans of its own, says which is current, and waits to be killed."""

import asyncio
import logging
from typing import Any

from opentelemetry import trace

from a2a_grpc.server.agents import Agent, Answers, Fail, Retry, Turn

log = logging.getLogger(__name__)

agent = Agent(name="Traced", description="Does what the message says.", version="1.0")


def current() -> dict[str, Any]:
    """Which span OpenTelemetry takes for current here."""
    found = trace.get_current_span().get_span_context()
    return {
        "trace": trace.format_trace_id(found.trace_id),
        "span": trace.format_span_id(found.span_id),
        "sampled": found.trace_flags.sampled,
    }


@agent.skill(id="work", name="Work", description="What the message says, or nothing.", tags=["test"])
async def work(turn: Turn) -> None:
    await turn.artifact("turn", data=current())
    with turn.tracer.start_as_current_span("think", attributes={"by": "agent"}):
        await turn.artifact("thread", data=await asyncio.to_thread(current))
    await turn.flush()
    if turn.text == "hold" or (turn.text == "once more" and turn.attempt == 1):
        await asyncio.Event().wait()
    if turn.text == "retry" and turn.attempt == 1:
        raise Retry("Not yet.")
    if turn.text == "fail":
        raise Fail("It is the caller's secret why.")
    if turn.text == "ask":
        await turn.require_input("More?")


@agent.skill(id="still", name="Still", description="Ends without a word.", tags=["test"])
async def still(_: Turn) -> None:
    log.info("at work")


@agent.skill(id="mixed", name="Mixed", description="`reply`, or ends without.", tags=["test"], answers=Answers.MIXED)
async def mixed(turn: Turn) -> None:
    if turn.text == "mixed reply":
        await turn.reply("hi")
