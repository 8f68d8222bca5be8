"""Talk to an agent, line by line: `python -m examples.historian.chat URL`. The session keeps what was said together."""

import asyncio
import sys

from a2a_grpc.client import ArtifactChunk, InputRequired, RemoteAgent, Reply


async def main(url: str) -> None:
    async with await RemoteAgent.connect(url) as agent:
        session = agent.session()
        while (said := await asyncio.to_thread(question)) not in (":q", "quit"):
            async for update in session.run_stream(said):
                match update:
                    case ArtifactChunk() | Reply() | InputRequired():
                        print(update.text, end="", flush=True)
            print()


def question() -> str:
    """A line of the user; the end of the input stands for ":q"."""
    try:
        return input("$ (:q to quit): ").strip() or ":q"
    except EOFError:
        return ":q"


if __name__ == "__main__":
    match sys.argv[1:]:
        case [url]:
            asyncio.run(main(url))
        case _:
            sys.exit("usage: python -m examples.historian.chat URL")
