"""An agent that is at work when its process is told to end. The first word of a message says in which way."""

import asyncio
import logging
import multiprocessing
import os
import re
import time

from a2a_grpc.server.agents import Agent, Answers, Turn

agent = Agent(name="Busy", description="Is at work.", version="1.0")


@agent.skill(id="work", name="Work", description="Works as the first word of the text says.", tags=["test"])
async def work(turn: Turn) -> None:
    word, _, rest = turn.text.partition(" ")
    match word:
        case "count":
            await turn.working()
            for number in range(1, int(rest) + 1):
                await turn.stream("count", text=f"{number} ")
                await asyncio.sleep(0.1)
        case "attempt":
            await turn.artifact("attempt", text=str(turn.attempt))
            for number in range(1, int(rest) + 1):
                await turn.stream("count", text=f"{number} ")
                await asyncio.sleep(0.1)
        case "hang":
            await turn.working()
            await asyncio.Event().wait()
        case "deaf":
            await turn.working()
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    continue
        case "block":
            await turn.working()
            await turn.flush()
            time.sleep(60)  # noqa: ASYNC251 - what authors do by mistake
        case "stutter":
            await turn.working()
            for _ in range(int(rest)):
                time.sleep(0.03)  # noqa: ASYNC251 - for a moment, again and again
                await asyncio.sleep(0.03)
        case "stand":
            await turn.working()
            await turn.flush()
            time.sleep(float(rest))  # noqa: ASYNC251 - as above
        case "regex":
            await turn.working()
            await turn.flush()
            re.match("(a+)+$", "a" * 60 + "b")  # keeps the interpreter for itself, for years
        case "fork":
            forked = multiprocessing.get_context("fork").Process(target=time.sleep, args=(300,))
            forked.start()
            await turn.artifact("processes", text=f"{os.getpid()} {forked.pid}")
        case "ask":
            await turn.require_input("What else?")
        case _:
            await turn.artifact("echo", text=rest)


talker = Agent(name="Talker", description="Answers with a message, after a while.", version="1.0")


@talker.skill(
    id="talk", name="Talk", description="Says the text after a second.", tags=["test"], answers=Answers.MESSAGE
)
async def talk(turn: Turn) -> None:
    seconds, _, rest = turn.text.partition(" ")
    logging.getLogger(__name__).info("begun to talk")
    await asyncio.sleep(float(seconds))
    await turn.reply(rest)
