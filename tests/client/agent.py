"""The agent that the client tests call. The first word of a message says what it does."""

import asyncio
from pathlib import Path

from a2a_grpc.server.agents import Agent, Reject, Turn
from tests.support.waiting import wait_until

agent = Agent(name="Client test agent", description="Does what the first word says.", version="1.0", answers="mixed")


@agent.skill(id="do", name="Do", description="Does what the first word says.", tags=["test"])
async def do(turn: Turn) -> None:
    word, _, rest = turn.text.partition(" ")
    if word == "again":
        await asyncio.sleep(float(rest) / 1000)
        await turn.artifact("answer", text="again")
        await turn.require_input("And now?")
        return
    if turn.history:
        await turn.artifact("answer", text=turn.text)
        return
    match word:
        case "msg":
            await turn.reply(rest)
        case "chunks":
            await turn.working("counting")
            for number in range(int(rest)):
                await turn.stream("count", text=f"{number} ")
        case "tick":
            count, pause = rest.split(" ")
            for number in range(1, int(count) + 1):
                await asyncio.sleep(float(pause) / 1000)
                await turn.stream("ticks", text=f"{number} ", last=number == int(count))
        case "halves":
            # The second half when a file is there.
            count, path = rest.split(" ")
            for number in range(1, int(count) + 1):
                if number == int(count) // 2 + 1:
                    await wait_until(Path(path).exists, "somebody says that it may go on", 60)
                await turn.stream("ticks", text=f"{number} ", last=number == int(count))
        case "ask":
            await turn.require_input("What is your name?")
        case "reject":
            raise Reject("I do not do that.")
        case "fail":
            await turn.fail("It broke.")
        case "auth":
            await turn.require_auth("Approve it at https://example.com/approve.")
            await asyncio.sleep(float(rest) / 1000)
            await turn.working("approved")
            await turn.artifact("answer", text="done")
        case "hang":
            await turn.working("for ever")
            await asyncio.Event().wait()
        case _:
            await turn.artifact("echo", text=rest)
