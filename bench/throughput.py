"""Calls per second against the floor of the same libraries doing nothing, in one run, round by round."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import grpc

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from bench.agent import CHUNKS
from bench.load import Load, grpc_load, http_load
from bench.processes import LOAD_CPU, Server, floor, service, store

_VERSION = (("a2a-version", "1.0"),)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    work: str
    floor: float
    ours: float
    """Requests a second."""
    floor_cpu: float
    ours_cpu: float
    """Microseconds of processor time a request."""
    goal: float

    @property
    def ratio(self) -> float:
        return self.ours / self.floor


def message(text: str) -> a2a_pb2.SendMessageRequest:
    """A request with one text part."""
    return a2a_pb2.SendMessageRequest(
        message=a2a_pb2.Message(message_id="bench", role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text=text)])
    )


def measure(rounds: int, requests: int) -> list[Row]:
    """Every row of the throughput table; medians of `rounds`."""
    with store() as url, floor("grpc") as empty, floor("http") as starlette, service(url) as ours:
        task_id = _check(ours)
        work, get = message("work"), a2a_pb2.GetTaskRequest(id=task_id)
        chunks = message(f"chunks {CHUNKS}")
        body = {"message": {"messageId": "bench", "role": "ROLE_USER", "parts": [{"text": "work"}]}}

        def over_grpc(method: str, request: a2a_pb2.SendMessageRequest | a2a_pb2.GetTaskRequest) -> _Run:
            return lambda server, count: grpc_load(server.grpc, method, request, count, cpu=LOAD_CPU)

        def over_http(server: Server, count: int) -> Load:
            return http_load(f"{server.http}/message:send", body, count, cpu=LOAD_CPU)

        return [
            _row("blocking SendMessage over gRPC", over_grpc("SendMessage", work), empty, ours, rounds, requests, 0.5),
            _row(
                f"SendStreamingMessage, {CHUNKS} chunks",
                over_grpc("SendStreamingMessage", chunks),
                empty,
                ours,
                rounds,
                requests // 5,
                0.5,
            ),
            _row("GetTask over gRPC", over_grpc("GetTask", get), empty, ours, rounds, requests, 0.7),
            _row("blocking SendMessage over HTTP+JSON", over_http, starlette, ours, rounds, requests, 0.25),
        ]


_Run = Callable[[Server, int], Load]


def _row(work: str, run: _Run, empty: Server, ours: Server, rounds: int, requests: int, goal: float) -> Row:
    run(empty, requests // 10)
    run(ours, requests // 10)
    measured = []
    for _ in range(rounds):
        per_second = []
        cpu = []
        for server in (empty, ours):
            before = server.cpu_seconds
            per_second.append(run(server, requests).per_second)
            cpu.append(1e6 * (server.cpu_seconds - before) / requests)
        measured.append((*per_second, *cpu))
    floor_rate, our_rate, floor_cpu, our_cpu = (median(column) for column in zip(*measured, strict=True))
    return Row(work, floor_rate, our_rate, floor_cpu, our_cpu, goal)


def _check(server: Server) -> str:
    """See that the service does the work before its speed is measured; the id of a completed task."""
    with grpc.insecure_channel(server.grpc) as channel:
        stub = a2a_pb2_grpc.A2AServiceStub(channel)  # type: ignore[arg-type]
        task = stub.SendMessage(message("work"), metadata=_VERSION).task  # type: ignore[attr-defined]
        events = list(stub.SendStreamingMessage(message(f"chunks {CHUNKS}"), metadata=_VERSION))  # type: ignore[call-overload]
    if task.status.state != a2a_pb2.TASK_STATE_COMPLETED or len(task.artifacts) != 1:
        raise RuntimeError(f"SendMessage does not work: {task}")
    if len(events) != CHUNKS + 2:
        raise RuntimeError(f"SendStreamingMessage gave {len(events)} events")
    return str(task.id)
