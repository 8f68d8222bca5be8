"""Thousands of idle subscriptions on one process, against as many empty grpc.aio streams.

Each subscription is to a task of its own, which waits for its caller's answer.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import grpc.aio
from redis import Redis

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from bench.calls import VERSION, message
from bench.processes import Server, floor, service, store
from bench.subject import Budget, Effort, Subject, table

_COUNT, _STEPS, _CHANNELS = 10_000, 4, 20
_OPENING = 256
"""Streams that are opened at the same time."""
_SETTLING, _IDLE = 1.0, 10.0
"""Seconds before memory is looked at, and in which nothing happens."""


@dataclass(frozen=True)
class Streams:
    """One side."""

    name: str
    counts: list[int]
    memory: list[float]
    """Bytes of the server process in memory, at each of `counts`."""
    cpu: float
    """Share of a core while all are open and nothing happens."""
    redis_connections: int
    """At most, at any of `counts`; 0 for the floor."""

    @property
    def a_stream(self) -> float:
        """Bytes of one stream."""
        return (self.memory[-1] - self.memory[0]) / self.counts[-1]


@dataclass(frozen=True)
class Subscriptions:
    """The floor and the service."""

    floor: Streams
    ours: Streams


def measure(effort: Effort) -> Subscriptions:
    """Once each: memory that was used once is not given back."""
    counts = [effort.many(_COUNT) * step // _STEPS for step in range(_STEPS + 1)]
    with floor("grpc") as server:
        empty = asyncio.run(_open("empty grpc.aio streams", server, ["t"] * counts[-1], counts, None, effort))
    with store() as url, service(url) as server, Redis.from_url(url) as client:
        tasks = asyncio.run(_waiting(server.grpc, counts[-1]))
        ours = asyncio.run(_open("subscriptions", server, tasks, counts, client, effort))
    return Subscriptions(empty, ours)


async def _waiting(address: str, count: int) -> list[str]:
    """So many tasks that wait for an answer."""
    left = iter(range(count))
    async with grpc.aio.insecure_channel(address) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)

        async def ask() -> list[str]:
            return [(await stub.SendMessage(message("ask"), metadata=VERSION)).task.id for _ in left]

        return [task_id for asked in await asyncio.gather(*(ask() for _ in range(32))) for task_id in asked]


async def _open(
    name: str, server: Server, tasks: list[str], counts: list[int], client: Redis | None, effort: Effort
) -> Streams:
    memory, connections, open_streams = [], 0, []
    async with AsyncExitStack() as stack:
        # A channel of its own for each: those of one address share their connection otherwise.
        apart = (("grpc.use_local_subchannel_pool", 1),)
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(server.grpc, apart)) for _ in range(_CHANNELS)
        ]
        for channel in channels:
            await channel.channel_ready()
        stubs = [a2a_pb2_grpc.A2AServiceStub(channel) for channel in channels]
        for before, count in zip([0, *counts], counts, strict=False):
            left = iter(range(before, count))

            async def subscribe(left: Iterator[int] = left) -> None:
                for at in left:
                    stream = stubs[at % _CHANNELS].SubscribeToTask(
                        a2a_pb2.SubscribeToTaskRequest(id=tasks[at]), metadata=VERSION
                    )
                    first = await stream.read()
                    if not isinstance(first, a2a_pb2.StreamResponse) or not first.HasField("task"):
                        raise RuntimeError(f"a subscription begins with {first}")
                    open_streams.append(stream)

            await asyncio.gather(*(subscribe() for _ in range(_OPENING)))
            await asyncio.sleep(_SETTLING * min(1, 10 * effort.scale))
            memory.append(float(server.memory))
            if client is not None:
                # Without this one's own.
                connections = max(connections, client.info("clients")["connected_clients"] - 1)
        used, begun = server.cpu_seconds, time.perf_counter()
        await asyncio.sleep(_IDLE * effort.scale)
        cpu = (server.cpu_seconds - used) / (time.perf_counter() - begun)
        for stream in open_streams:
            stream.cancel()
    return Streams(name, counts, memory, cpu, connections)


def tables(result: Subscriptions) -> str:
    """Both sides."""
    columns = ("on one process", "streams", "MiB before", "MiB with all", "KiB each", "CPU %", "Redis connections")
    rows = [
        (one.name, one.counts[-1], one.memory[0] / 2**20, one.memory[-1] / 2**20, one.a_stream / 1024,
         100 * one.cpu, one.redis_connections or "–")
        for one in (result.floor, result.ours)
    ]  # fmt: skip
    return f"Over {_CHANNELS} connections; each subscription is to a task of its own, which waits.\n\n" + table(
        columns, rows
    )


def budgets(result: Subscriptions) -> list[Budget]:
    """Memory of the process with all of them, and connections."""
    work = f"{result.ours.counts[-1]:,} idle subscriptions on one process"
    ratio = result.ours.memory[-1] / result.floor.memory[-1]
    return [
        Budget(f"{work}, memory", "empty grpc.aio streams", ratio, 1.5, at_most=True, unit="×"),
        Budget(f"{work}, Redis connections", "–", result.ours.redis_connections, 4, at_most=True),
    ]


SUBJECT = Subject("subscriptions", "Idle subscriptions", Subscriptions, measure, tables, budgets)
