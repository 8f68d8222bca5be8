"""How long after an agent wrote an event a subscriber on another replica has it."""

import asyncio
import time

import grpc.aio

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from bench.processes import LOAD_CPU, SERVER_CPU, service, store
from bench.throughput import message

_VERSION = (("a2a-version", "1.0"),)


def measure(events: int) -> list[float]:
    """Milliseconds from the agent's call to the subscriber's client, sorted; an event each 5 ms."""
    with store() as url, service(url, SERVER_CPU) as first, service(url, LOAD_CPU) as second:
        return asyncio.run(_follow(first.grpc, second.grpc, events))


async def _follow(first: str, second: str, events: int) -> list[float]:
    async with grpc.aio.insecure_channel(first) as one, grpc.aio.insecure_channel(second) as other:
        request = message(f"ticks {events}")
        request.configuration.return_immediately = True
        sent = await a2a_pb2_grpc.A2AServiceStub(one).SendMessage(request, metadata=_VERSION)
        stream = a2a_pb2_grpc.A2AServiceStub(other).SubscribeToTask(
            a2a_pb2.SubscribeToTaskRequest(id=sent.task.id), metadata=_VERSION
        )
        taken = []
        async for response in stream:
            now = time.perf_counter_ns()
            if response.HasField("artifact_update"):
                # The same clock in every process of the machine.
                taken.append((now - int(response.artifact_update.artifact.parts[0].text)) / 1e6)
        return sorted(taken)


def percentile(ordered: list[float], share: float) -> float:
    """The value below which `share` (0 to 1) of `ordered` lies."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
