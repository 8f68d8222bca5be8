"""How long after an agent wrote an event a subscriber on another replica has it."""

import asyncio
import time
from dataclasses import dataclass

import grpc.aio

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from bench.calls import VERSION, message
from bench.processes import LOAD_CPU, SERVER_CPU, service, store
from bench.rounds import percentile
from bench.subject import Budget, Effort, Subject, table


@dataclass(frozen=True)
class Latency:
    """Milliseconds from the agent's call to the subscriber's client, sorted."""

    milliseconds: list[float]


def measure(effort: Effort) -> Latency:
    """The events of one task a round, one each 5 ms."""
    with store() as url, service(url, SERVER_CPU) as first, service(url, LOAD_CPU) as second:
        taken = [asyncio.run(_follow(first.grpc, second.grpc, effort.many(2_000))) for _ in range(effort.rounds)]
        return Latency(sorted(one for events in taken for one in events))


async def _follow(first: str, second: str, events: int) -> list[float]:
    async with grpc.aio.insecure_channel(first) as one, grpc.aio.insecure_channel(second) as other:
        request = message(f"ticks {events}", at_once=True)
        sent = await a2a_pb2_grpc.A2AServiceStub(one).SendMessage(request, metadata=VERSION)
        stream = a2a_pb2_grpc.A2AServiceStub(other).SubscribeToTask(
            a2a_pb2.SubscribeToTaskRequest(id=sent.task.id), metadata=VERSION
        )
        taken = []
        async for response in stream:
            now = time.perf_counter_ns()
            if response.HasField("artifact_update"):
                # The same clock in every process of the machine.
                taken.append((now - int(response.artifact_update.artifact.parts[0].text)) / 1e6)
        return [round(one, 4) for one in taken]


def tables(result: Latency) -> str:
    """Percentiles."""
    shares = (0.5, 0.9, 0.99, 1.0)
    return (
        "Events of one task a round, one each 5 ms, read from another replica than the one that runs the agent.\n\n"
        + table(
            ("events", "p50 ms", "p90 ms", "p99 ms", "max ms"),
            [(len(result.milliseconds), *(percentile(result.milliseconds, share) for share in shares))],
        )
    )


def budgets(result: Latency) -> list[Budget]:
    """p50 and p99."""
    work = "event seen on another replica"
    return [
        Budget(f"{work}, {name}", "–", percentile(result.milliseconds, share), goal, at_most=True, unit=" ms")
        for name, share, goal in (("p50", 0.5, 2), ("p99", 0.99, 10))
    ]


SUBJECT = Subject("latency", "Events on another replica", Latency, measure, tables, budgets)
