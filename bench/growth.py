"""What a chunk costs as its artifact grows: time, and bytes sent to the store."""

import time
from dataclasses import dataclass
from statistics import median
from urllib.parse import urlsplit

import grpc
from redis import Redis

from a2a_grpc.pb import a2a_pb2_grpc
from bench.processes import service, store
from bench.throughput import message

SIZES = (500, 1_000, 2_000, 4_000)
_VERSION = (("a2a-version", "1.0"),)


@dataclass(frozen=True)
class Growth:
    """One artifact of so many chunks of 20 bytes."""

    chunks: int
    microseconds: float
    """A chunk."""
    store_bytes: float
    """A chunk."""


def measure(rounds: int) -> list[Growth]:
    """Medians of `rounds` for each size."""
    with store() as url, service(url) as server, grpc.insecure_channel(server.grpc) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[arg-type]
        redis = Redis(port=urlsplit(url).port or 0)
        measured: dict[int, list[tuple[float, float]]] = {size: [] for size in SIZES}
        for _ in range(rounds + 1):
            for size in SIZES:
                written = redis.info("stats")["total_net_input_bytes"]
                begun = time.perf_counter()
                task = stub.SendMessage(message(f"chunks {size}"), metadata=_VERSION).task  # type: ignore[attr-defined]
                took = time.perf_counter() - begun
                written = redis.info("stats")["total_net_input_bytes"] - written
                if len(task.artifacts[0].parts) != size:
                    raise RuntimeError(f"{len(task.artifacts[0].parts)} chunks instead of {size}")
                measured[size].append((1e6 * took / size, written / size))
        # The first round warms up.
        return [
            Growth(size, *(median(column) for column in zip(*runs[1:], strict=True))) for size, runs in measured.items()
        ]
