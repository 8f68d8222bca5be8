"""The agents under load: as little work as an agent can do, so that the service around it is what is measured."""

import asyncio
import time

from a2a_grpc.server.agents import Agent, Turn

agent = Agent(name="Bench", description="Answers at once.", version="1.0.0")
CHUNKS = 20


@agent.skill(id="work", name="Work", description="WORKING, an artifact, COMPLETED.", tags=["bench"])
async def work(turn: Turn) -> None:
    await turn.working()
    await turn.artifact("result", text="done")


@agent.skill(id="chunks", name="Chunks", description="So many chunks of 20 bytes.", tags=["bench"])
async def chunks(turn: Turn) -> None:
    count = int(turn.text.split()[1])
    for number in range(1, count + 1):
        await turn.stream("output", text=f"{number:019d} ", last=number == count)


@agent.skill(id="ticks", name="Ticks", description="So many chunks, one each 5 ms.", tags=["bench"])
async def ticks(turn: Turn) -> None:
    for _ in range(int(turn.text.split()[1])):
        await asyncio.sleep(0.005)
        await turn.stream("output", text=f"{time.perf_counter_ns()}")


@agent.skill(id="began", name="Began", description="Says when it began, and goes on for a minute.", tags=["bench"])
async def began(turn: Turn) -> None:
    await turn.artifact(f"attempt {turn.attempt}", text=f"{time.perf_counter_ns()}")
    await asyncio.sleep(60)


@agent.skill(id="ask", name="Ask", description="Asks, so that the task waits; an answer ends it.", tags=["bench"])
async def ask(turn: Turn) -> None:
    if not turn.history:
        await turn.require_input("Which?")


@agent.skill(id="idle", name="Idle", description="Does nothing for a minute.", tags=["bench"])
async def idle(turn: Turn) -> None:
    await asyncio.sleep(60)
    await turn.complete()
