"""What metrics, the access log and a limit cost a call. `python -m bench.overhead`."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from statistics import median
from typing import Any, NamedTuple

import grpc

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from bench.calls import message
from bench.load import grpc_load
from bench.processes import Server, free_port, service, store

_OFF = {"A2A_METRICS_ADDR": "none", "A2A_LOG_LEVEL": "warning"}
_METRICS = {"A2A_METRICS_ADDR": f"127.0.0.1:{free_port()}"}
_LOG = {"A2A_LOG_LEVEL": "info", "A2A_LOG_FORMAT": "json"}
_CASES: dict[str, dict[str, Any]] = {
    "nothing": _OFF,
    "metrics": {**_OFF, **_METRICS},
    "the access log": {**_OFF, **_LOG},
    "metrics and the access log": {**_LOG, "A2A_METRICS_ADDR": f"127.0.0.1:{free_port()}"},
    "a fast rate": {**_OFF, "A2A_LIMIT_CALLER_RATES": "send=1000000,read=1000000"},
    "a slow rate": {**_OFF, "A2A_LIMIT_CALLER_RATES": "send=100:1000000,read=100:1000000"},
}


class Row(NamedTuple):
    """One line: medians of the rounds; the ratios are those to the run without anything in the same round."""

    work: str
    case: str
    per_second: float
    against: float
    cpu: float
    """Microseconds of the server's processor time a call."""
    cpu_against: float


def measure(rounds: int, calls: int, cases: Mapping[str, Mapping[str, Any]] = _CASES) -> Iterator[Row]:
    """GetTask and SendMessage over gRPC, each case after the other in every round, compared with the first of them."""
    first = next(iter(cases))
    with ExitStack() as stack:
        url = stack.enter_context(store())
        servers = {name: stack.enter_context(service(url, **env)) for name, env in cases.items()}
        get = a2a_pb2.GetTaskRequest(id=_task(servers[first]))
        for method, request in (("GetTask", get), ("SendMessage", message("work"))):
            seen: dict[str, list[tuple[float, float]]] = {name: [] for name in servers}
            for turn in range(rounds + 1):
                for name, server in servers.items():
                    before = server.cpu_seconds
                    rate = grpc_load(server.grpc, method, request, calls).per_second
                    if turn:  # the first one warms up
                        seen[name].append((rate, 1e6 * (server.cpu_seconds - before) / calls))
            base = seen[first]
            for name, runs in seen.items():
                yield Row(
                    method,
                    name,
                    median(rate for rate, _ in runs),
                    median(one[0] / other[0] for one, other in zip(runs, base, strict=True)),
                    median(cpu for _, cpu in runs),
                    median(one[1] / other[1] for one, other in zip(runs, base, strict=True)),
                )


def _task(server: Server) -> str:
    with grpc.insecure_channel(server.grpc) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[arg-type]
        return str(stub.SendMessage(message("work"), metadata=(("a2a-version", "1.0"),)).task.id)  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.stdout.write(
        "| call | with | a second | against nothing | CPU µs | against nothing |\n|---|---|---|---|---|---|\n"
    )
    for row in measure(int((sys.argv[1:2] or ["7"])[0]), int((sys.argv[2:3] or ["4000"])[0])):
        sys.stdout.write(
            f"| {row.work} | {row.case} | {row.per_second:.0f} | {row.against:.2f} | {row.cpu:.0f} "
            f"| {row.cpu_against:.3f} |\n"
        )
        sys.stdout.flush()
