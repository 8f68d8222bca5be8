"""Agents whose artifacts have schemas, and one that says so and does not keep to it."""

import asyncio
from typing import Any

from a2a_grpc.server.agents import Agent, ArtifactMismatchError, Turn
from a2a_grpc.wire.artifact_schemas import declare_schemas

REPORT: dict[str, Any] = {
    "type": "object",
    "required": ["post", "candidates"],
    "properties": {
        "post": {"type": "string", "pattern": "^[a-z]+(?: [a-z]+)*$"},
        "candidates": {"type": "array", "items": {"$ref": "#/$defs/candidate"}, "minItems": 1},
    },
    "additionalProperties": False,
    "$defs": {
        "candidate": {
            "type": "object",
            "required": ["name", "score"],
            "properties": {"name": {"type": "string"}, "score": {"type": "number", "minimum": 0, "maximum": 100}},
        }
    },
}
GOOD: dict[str, Any] = {"post": "night watch", "candidates": [{"name": "Ada", "score": 88}]}
BAD: dict[str, Any] = {
    "post": "night watch",
    "candidates": [{"name": "Ada", "score": 88}, {"name": "Bob", "score": 180}],
}

agent = Agent(name="Screening", description="Judges candidates.", version="1.0.0", answers="mixed")


@agent.skill(id="screen", name="Screen", description="Judges.", tags=["test"], artifacts={"report": REPORT})
async def screen(turn: Turn) -> None:
    """The second word says what is written."""
    match turn.text.split()[1]:
        case "good":
            await turn.artifact("report", data=GOOD)
        case "bad":
            await turn.artifact("notes", text="kept")
            await turn.artifact("report", data=BAD)
        case "unknown":
            await turn.artifact("notes", data=BAD)
        case "streamed":
            await turn.stream("report", text="First the report, ")
            await turn.stream("report", data=GOOD)
            await turn.stream("report", text="then its end.", last=True)
        case "streamed-bad":
            await turn.stream("report", data=GOOD)
            await turn.stream("report", data=BAD, last=True)
        case "no-data":
            await turn.stream("report", text="It was fine.", last=True)
        case "no-end":
            await turn.stream("report", text="It was fine.")
        case "no-end-said":
            await turn.stream("report", text="It was fine.")
            await turn.complete("That is all.")
        case "repaired":
            try:
                await turn.artifact("report", data=BAD)
            except ArtifactMismatchError:
                await turn.artifact("report", data=GOOD)
        case "asks":
            await turn.stream("report", text="To be continued.")
            await turn.require_input("By how much?")
            await turn.inbox.get()
            await turn.stream("report", data=GOOD, last=True)


@agent.skill(id="count", name="Count", description="Counts.", tags=["test"], artifacts={"total": {"type": "integer"}})
async def count(turn: Turn) -> None:
    """Writes what only the other skill declares."""
    await turn.artifact("total", data=3)
    await turn.artifact("report", data=GOOD if turn.text.endswith("good") else BAD)


liar = Agent(name="Liar", description="Does not keep to its card.", version="1.0.0")


@liar.skill(id="screen", name="Screen", description="Judges.", tags=["test"])
async def lie(turn: Turn) -> None:
    """Writes what its card forbids; the service does not know of the schema."""
    await turn.artifact("notes", data=BAD)
    await turn.stream("report", text="The report: ")
    await turn.stream("report", data=GOOD if turn.text == "good" else BAD, last=True)
    if turn.text == "bad and on":
        await asyncio.Event().wait()


declare_schemas(liar.card, "screen", {"report": REPORT})


messenger = Agent(name="Messenger", description="Answers with messages.", version="1.0.0", answers="message")


@messenger.skill(id="screen", name="Screen", description="Judges.", tags=["test"], artifacts={"report": REPORT})
async def tell(turn: Turn) -> None:
    """Writes what its schema forbids, where a message is all that it may write."""
    await turn.artifact("report", data=BAD)
