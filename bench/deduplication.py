"""What it costs to know every message again: blocking SendMessage with de-duplication on, against off, in one run.

Each call has a message id of its own, as those of real callers have, so the driver is a program of this folder and not
h2load. It runs on the core of the store and is not what is measured: both sides get the same.
"""

import asyncio
import os
import sys
import time
from statistics import median
from typing import NamedTuple

import grpc.aio

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from bench.calls import message
from bench.processes import LOAD_CPU, service, store

_VERSION = (("a2a-version", "1.0"),)
_CALLERS = 32


class Cost(NamedTuple):
    """Medians over all rounds."""

    rate: float
    """Calls a second."""
    cpu: float
    """Microseconds of processor time of the server for one call."""


def measure(rounds: int, requests: int) -> tuple[Cost, Cost]:
    """Without and with de-duplication, in `rounds` that alternate."""
    os.sched_setaffinity(0, {LOAD_CPU})
    taken: tuple[list[Cost], list[Cost]] = ([], [])
    with store() as url, service(url, A2A_DEDUPE_TTL="0") as without, service(url, A2A_DEDUPE_TTL="86400") as keeping:
        for server in (without, keeping):
            asyncio.run(_drive(server.grpc, requests // 5))
        for _ in range(rounds):
            for server, costs in zip((without, keeping), taken, strict=True):
                before = server.cpu_seconds
                rate = asyncio.run(_drive(server.grpc, requests))
                costs.append(Cost(rate, (server.cpu_seconds - before) / requests * 1e6))
    off, on = (Cost(median(cost.rate for cost in costs), median(cost.cpu for cost in costs)) for costs in taken)
    return off, on


async def _drive(address: str, requests: int) -> float:
    """Calls a second of so many callers, each with one call at a time."""
    template = message("work").SerializeToString()
    left = iter(range(requests))
    async with grpc.aio.insecure_channel(address) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)

        async def call() -> None:
            for _ in left:
                request = a2a_pb2.SendMessageRequest.FromString(template)
                request.message.message_id = os.urandom(16).hex()
                answer = await stub.SendMessage(request, metadata=_VERSION)
                assert answer.task.status.state == a2a_pb2.TASK_STATE_COMPLETED

        begun = time.perf_counter()
        await asyncio.gather(*(call() for _ in range(_CALLERS)))
        return requests / (time.perf_counter() - begun)


if __name__ == "__main__":
    off, on = measure(9, 2000)
    sys.stdout.write(f"{off.rate:.0f} and {on.rate:.0f} a second ({on.rate / off.rate:.3f}), ")
    sys.stdout.write(f"{off.cpu:.0f} and {on.cpu:.0f} us of CPU\n")
