"""The agent of `test_lost_replicas`. The message says what to do, and the file in which to note every attempt of it.

The first word picks the skill: `work`, `once` (never twice) or `resume` (goes on where a checkpoint stands). Then comes
the file, and the number of chunks: ten a second.
"""

import asyncio
import os
from pathlib import Path

from a2a_grpc.server.agents import Agent, Retry, Turn

agent = Agent(name="Lost", description="Works where it may be lost.", version="1")


@agent.skill(id="work", name="Work", description="Begins again.", tags=["test"])
async def work(turn: Turn) -> None:
    await _work(turn, 0)


@agent.skill(id="once", name="Once", description="Never twice.", tags=["test"], attempts=1)
async def once(turn: Turn) -> None:
    await _work(turn, 0)


@agent.skill(id="resume", name="Resume", description="Goes on.", tags=["test"])
async def resume(turn: Turn) -> None:
    await _work(turn, int(turn.restored or b"0"))


@agent.skill(id="retry", name="Retry", description="Fails twice.", tags=["test"])
async def retry(turn: Turn) -> None:
    _note(turn)
    if turn.attempt < int(turn.text.split()[2]):
        raise Retry("not yet", after=0.2)
    await turn.stream("out", text=f"attempt {turn.attempt}", last=True)


async def _work(turn: Turn, first: int) -> None:
    _note(turn)
    for number in range(first, int(turn.text.split()[2])):
        if turn.text.startswith("resume"):
            await turn.artifact(artifact_id=f"out-{number}", text=f"{number} of attempt {turn.attempt}")
            await turn.checkpoint(str(number + 1).encode())
        else:
            await turn.stream("out", text=f"{number} of attempt {turn.attempt}")
        await asyncio.sleep(0.1)


def _note(turn: Turn) -> None:
    with Path(turn.text.split()[1]).open("a") as file:
        file.write(f"{turn.attempt} {os.getpid()}\n")
