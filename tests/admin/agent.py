"""The agent that operators look after in these tests: its skills end in every way that is of interest to them."""

import asyncio

from a2a_grpc.server.agents import Agent, Retry, Turn

agent = Agent(name="Admin test agent", description="Does what the first word says.", version="1.0")


@agent.skill(id="echo", name="Echo", description="Says it again.", tags=["test"])
async def echo(turn: Turn) -> None:
    await turn.artifact("echo", text=turn.text)


@agent.skill(id="ask", name="Ask", description="Asks back.", tags=["test"])
async def ask(turn: Turn) -> None:
    if turn.history:
        await turn.artifact("answer", text=turn.text)
    else:
        await turn.require_input("What is your name?")


@agent.skill(id="hang", name="Hang", description="Never ends.", tags=["test"])
async def hang(turn: Turn) -> None:
    await turn.working("for ever")
    await turn.checkpoint(b"halfway")
    await asyncio.Event().wait()


@agent.skill(id="once", name="Once", description="Must not be run twice, and never ends.", tags=["test"], attempts=1)
async def once(turn: Turn) -> None:
    if turn.references:
        # Sent again by an operator, as another task.
        await turn.artifact("once", text="done after all")
        return
    await turn.working("begun")
    await asyncio.Event().wait()


@agent.skill(id="sick", name="Sick", description="Gives up until it is healed.", tags=["test"], attempts=2)
async def sick(turn: Turn) -> None:
    if turn.references:
        await turn.artifact("cured", text=f"{turn.text} of {turn.references[0]}")
        return
    raise Retry("The patient is not well.")
