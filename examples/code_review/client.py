"""Have files reviewed: `python -m examples.code_review.client URL FILE…`; REVIEW_TOKEN may hold a bearer token.

It finds the agent by its card, sends each file without waiting, and then asks for the tasks until they have ended.
"""

import asyncio
import os
import sys
from pathlib import Path

from a2a_grpc.client import BearerToken, Completed, RemoteAgent, Reply, message
from a2a_grpc.pb import a2a_pb2


async def main(url: str, files: list[str]) -> int:
    token = os.environ.get("REVIEW_TOKEN")
    async with await RemoteAgent.connect(url, credentials=BearerToken(token) if token else None) as agent:
        begun = {file: await agent.start(code(file)) for file in files}
        found = 0
        for file, place in begun.items():
            result = place if isinstance(place, Reply) else await agent.result(place)
            if not isinstance(result, Completed):
                print(f"{file}: {result.finish_reason}: {result.text}")
                found += 1
                continue
            for finding in result.data[0]["findings"]:
                print(f"{file}:{finding['line']}: {finding['advice']}")
                found += 1
    return 1 if found else 0


def code(file: str) -> a2a_pb2.Message:
    """A message with what stands in the file, under its name."""
    made = message(Path(file).read_text(encoding="utf-8"))
    made.parts[0].filename = Path(file).name
    return made


if __name__ == "__main__":
    match sys.argv[1:]:
        case [url, *files] if files:
            sys.exit(asyncio.run(main(url, files)))
        case _:
            sys.exit("usage: python -m examples.code_review.client URL FILE…")
