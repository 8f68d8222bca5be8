"""What several workers cost: processor time for a call, by how many share what. `python -m bench.workers`.

A worker has as many calls at a time in every case. Two of them have a core each, beside load and store, or share the
one that a single process has for itself.
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import grpc
import psutil

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from bench.calls import message
from bench.load import grpc_load
from bench.processes import LOAD_CPU, SERVER_CPU, Server, service, store, until

_CONNECTIONS: Final = 16
"""For each worker. The kernel deals them out at random: many, so that each gets about its share."""
_STREAMS: Final = 2


class _Case(NamedTuple):
    about: str
    workers: int
    cpus: str


_CASES: Final = (
    _Case("one process", 1, f"{SERVER_CPU}"),
    _Case("two workers, a core each", 2, f"{SERVER_CPU},{LOAD_CPU}"),
    _Case("two workers on one core", 2, f"{SERVER_CPU}"),
    _Case("one process", 1, f"{SERVER_CPU}"),
)
"""The last is the first again: how far they differ is noise."""


class Row(NamedTuple):
    """One line."""

    work: str
    about: str
    per_second: float
    """The median of the rounds."""
    cpu: float
    """Microseconds of the processor time of all its processes, for a call; the least of the rounds, which is what it
    takes where nobody else is at work."""
    per_core: float
    """Calls for that processor time, against one process."""
    memory: float
    """MiB: its own, and its share of what processes share."""


def measure(rounds: int, calls: int) -> Iterator[Row]:
    """SendMessage and GetTask over gRPC, each case in every round."""
    with ExitStack() as stack:
        url = stack.enter_context(store())
        servers = [stack.enter_context(service(url, case.cpus, workers=case.workers)) for case in _CASES]
        for case, server in zip(_CASES, servers, strict=True):
            _wait_for_all(server, case.workers)
        get = a2a_pb2.GetTaskRequest(id=_task(servers[0]))
        for method, request in (("SendMessage", message("work")), ("GetTask", get)):
            seen: list[list[tuple[float, float]]] = [[] for _ in servers]
            for turn in range(rounds + 1):
                for case, server, samples in zip(_CASES, servers, seen, strict=True):
                    before = _cpu_seconds(server)
                    rate = grpc_load(
                        server.grpc,
                        method,
                        request,
                        calls * case.workers,
                        connections=_CONNECTIONS * case.workers,
                        streams=_STREAMS,
                    ).per_second
                    if turn:  # the first one warms up
                        samples.append((rate, 1e6 * (_cpu_seconds(server) - before) / calls / case.workers))
            for case, server, samples in zip(_CASES, servers, seen, strict=True):
                yield Row(
                    method,
                    case.about,
                    median(rate for rate, _ in samples),
                    min(cpu for _, cpu in samples),
                    min(cpu for _, cpu in seen[0]) / min(cpu for _, cpu in samples),
                    sum(one.memory_full_info().pss for one in _processes(server)) / 2**20,
                )


def _processes(server: Server) -> list[psutil.Process]:
    """The process of a service, and its workers."""
    first = psutil.Process(server.process.pid)
    return [first, *first.children()]


def _wait_for_all(server: Server, workers: int) -> None:
    """Workers take calls when the threads of the gRPC library are there."""
    if workers > 1:
        until(lambda: sum(one.num_threads() > 1 for one in _processes(server)[1:]) == workers, "all workers serve")


def _cpu_seconds(server: Server) -> float:
    """To the nanosecond: what `times` says is in steps of ten milliseconds."""
    threads = (path for one in _processes(server) for path in Path(f"/proc/{one.pid}/task").glob("*/schedstat"))
    return sum(int(path.read_text().split()[0]) for path in threads) / 1e9


def _task(server: Server) -> str:
    with grpc.insecure_channel(server.grpc) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[arg-type]
        return str(stub.SendMessage(message("work"), metadata=(("a2a-version", "1.0"),)).task.id)  # type: ignore[attr-defined]


_HEAD: Final = "| call | served by | a second | CPU µs | per core | memory MiB |\n|---|---|---|---|---|---|\n"

if __name__ == "__main__":
    sys.stdout.write(_HEAD)
    for row in measure(*(int(given) for given in sys.argv[1:3] or ("15", "500"))):
        sys.stdout.write(
            f"| {row.work} | {row.about} | {row.per_second:.0f} | {row.cpu:.0f} | {row.per_core:.2f} "
            f"| {row.memory:.0f} |\n"
        )
        sys.stdout.flush()
