"""What a chunk costs as its artifact grows: time, and bytes sent to the store."""

import time
from dataclasses import dataclass
from functools import partial
from statistics import median
from urllib.parse import urlsplit

import grpc
from redis import Redis

from bench.calls import VERSION, blocking_stub, message
from bench.processes import service, store
from bench.rounds import growth, interleaved
from bench.subject import Budget, Effort, Subject, table

SIZES = (500, 1_000, 2_000, 4_000)


@dataclass(frozen=True)
class Artifact:
    """One artifact of so many chunks of 20 bytes: medians of the rounds."""

    chunks: int
    microseconds: float
    """A chunk."""
    store_bytes: float
    """Sent to the store for a chunk."""


@dataclass(frozen=True)
class Growth:
    """Artifacts of all sizes."""

    artifacts: list[Artifact]


def measure(effort: Effort) -> Growth:
    """Blocking SendMessage; the sizes take turns."""
    sizes = [effort.many(size) for size in SIZES]
    with store() as url, service(url) as server, grpc.insecure_channel(server.grpc) as channel:
        stub = blocking_stub(channel)
        redis = Redis(port=urlsplit(url).port or 0)

        def write(size: int) -> tuple[float, float]:
            written = redis.info("stats")["total_net_input_bytes"]
            begun = time.perf_counter()
            task = stub.SendMessage(message(f"chunks {size}"), metadata=VERSION).task
            took = time.perf_counter() - begun
            written = redis.info("stats")["total_net_input_bytes"] - written
            if len(task.artifacts[0].parts) != size:
                raise RuntimeError(f"{len(task.artifacts[0].parts)} chunks instead of {size}")
            return 1e6 * took / size, written / size

        runs = {str(size): partial(write, size) for size in sizes}
        interleaved(1, runs)  # warms up
        taken = interleaved(effort.rounds, runs)
        redis.close()
    return Growth(
        [Artifact(int(size), *(median(column) for column in zip(*runs, strict=True))) for size, runs in taken.items()]
    )


def tables(result: Growth) -> str:
    """A line for each size."""
    columns = ("chunks of one artifact", "µs a chunk", "store bytes a chunk")
    return table(columns, [(one.chunks, one.microseconds, one.store_bytes) for one in result.artifacts])


def budgets(result: Growth) -> list[Budget]:
    """By how much a chunk of a larger artifact is dearer than one of the smallest."""
    grown = growth([one.microseconds for one in result.artifacts])
    sizes = " / ".join(f"{one.chunks:,}" for one in result.artifacts)
    return [Budget(f"one artifact of {sizes} chunks: growth of the time per chunk", "–", 100 * grown, 20, True, " %")]


SUBJECT = Subject("growth", "Long artifacts", Growth, measure, tables, budgets)
