"""Calls a service at a rate that does not depend on its answers: `python -m tests.cases.flood ADDR RATE SECONDS`.

In a process of its own, so that whoever measures beside it is not slowed down. Prints how many calls ended how.
"""

import asyncio
import sys
import time
import uuid
from collections import Counter

import grpc.aio

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub

PATIENCE = 60.0


async def flood(addr: str, rate: float, seconds: float) -> None:
    outcomes = Counter[str]()
    async with grpc.aio.insecure_channel(addr) as channel:
        stub = A2AServiceStub(channel)

        async def once() -> None:
            message = pb.Message(message_id=uuid.uuid4().hex, role=pb.ROLE_USER, parts=[pb.Part(text="echo x")])
            request = pb.SendMessageRequest(message=message)
            try:
                await stub.SendMessage(request, metadata=(("a2a-version", "1.0"),), timeout=PATIENCE)
                outcomes["OK"] += 1
            except grpc.aio.AioRpcError as error:
                outcomes[error.code().name] += 1

        begun, calls = time.monotonic(), list[asyncio.Task[None]]()
        while (passed := time.monotonic() - begun) < seconds:
            calls += [asyncio.create_task(once()) for _ in range(int(passed * rate) - len(calls))]
            await asyncio.sleep(0.005)
        await asyncio.gather(*calls)
    for outcome, count in outcomes.items():
        sys.stdout.write(f"{outcome} {count}\n")


if __name__ == "__main__":
    asyncio.run(flood(sys.argv[1], float(sys.argv[2]), float(sys.argv[3])))
