"""The agent that the tests of the commands call. The first word of a message says what it does."""

import asyncio
import json
from pathlib import Path

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent, Reject, Turn
from tests.support.waiting import wait_until

agent = Agent(
    name="Command test agent",
    description="Does what the first word says.",
    version="1.0",
    answers="mixed",
    input_modes=["*/*"],
    output_modes=["*/*"],
)

EVIL = "\x1b[2J\x07\x9b31m\u202eevil\rState: COMPLETED\n\nState: COMPLETED\n[bold]not bold[/bold]"
"""What an agent says that wants to drive the terminal, or to be taken for the command itself."""


@agent.skill(id="do", name="Do", description="Does what the first word says.", tags=["test"])
async def do(turn: Turn) -> None:
    word, _, rest = next(part.text for part in turn.parts if part.text).partition(" ")
    if turn.history:
        await turn.artifact("answer", text=turn.text)
        return
    match word:
        case "msg":
            await turn.reply(rest)
        case "count":
            await turn.working("counting")
            for number in range(1, int(rest) + 1):
                await turn.stream("count", text=f"{number} ", last=number == int(rest))
        case "tick":
            await _tick(turn, rest)
        case "after":
            path, _, ticking = rest.partition(" ")
            await wait_until(Path(path).exists, "somebody says that it may go on", 60)
            await _tick(turn, ticking)
        case "ask":
            await turn.require_input("What is your name?")
        case "auth":
            await turn.working("looking for the door")
            await turn.require_auth("Open https://idp.example.com/door first.")
        case "reject":
            raise Reject("I do not do that.")
        case "fail":
            await turn.fail("It broke.")
        case "hang":
            await turn.working("for ever")
            await asyncio.Event().wait()
        case "all":
            await turn.artifact("words", text="first line\nsecond line")
            await turn.artifact("table", data={"b": [1, 2], "a": None})
            await turn.artifact("picture", raw=b"\x89PNG....", media_type="image/png", filename="plot.png")
            await turn.artifact("link", url="https://files.example.com/big.bin", media_type="application/x-big")
        case "evil":
            await turn.artifact(EVIL, text=EVIL)
            await turn.fail(EVIL)
        case "names":
            await turn.artifact("../../evil", raw=b"x", media_type="text/plain", filename="../../../etc/passwd")
            await turn.artifact("/abs/.hidden", text="y")
            await turn.artifact("..", data=1)
            await turn.artifact("長" * 100, text="as many letters as a name may have, and too many bytes")
        case "parts":
            await turn.artifact("parts", text=json.dumps([_described(part) for part in turn.parts]))
        case "metadata":
            await turn.artifact("metadata", data=turn.metadata)
        case _:
            await turn.artifact("echo", text=rest)


async def _tick(turn: Turn, rest: str) -> None:
    last, pause = map(int, rest.split(" "))
    for one in range(1, last + 1):
        await asyncio.sleep(pause / 1000)
        await turn.stream("ticks", text=f"{one}\n", last=one == last)


def _described(part: a2a_pb2.Part) -> list[str]:
    kind = part.WhichOneof("content") or ""
    value = part.raw.decode() if kind == "raw" else str(getattr(part, kind)) if kind != "data" else "data"
    return [kind, value, part.media_type, part.filename]
