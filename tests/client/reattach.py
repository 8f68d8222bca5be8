"""Another process: `python -m tests.client.reattach URL`, with the token of a continuation on stdin.

Prints what it is told as lines of JSON: updates by their kind and text, then the result. It knows nothing else.
"""

import asyncio
import json
import sys

from a2a_grpc.client import ArtifactChunk, Continuation, RemoteAgent, Reply, StatusUpdate, TaskUpdate
from a2a_grpc.client.results import text_of


async def main(url: str, token: str) -> None:
    target = url or Continuation.from_token(token).target
    async with await RemoteAgent.connect(target) as agent:
        async for update in agent.resume(token):
            match update:
                case TaskUpdate():
                    text = "".join(text_of(artifact.parts) for artifact in update.task.artifacts)
                case StatusUpdate() | ArtifactChunk() | Reply():
                    text = update.text
                case result:
                    text = result.text
            print(json.dumps({"kind": type(update).__name__, "text": text}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "", sys.stdin.read()))
