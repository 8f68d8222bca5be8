"""Calls a second and how long each takes: the service, the floor of the same libraries, and the official SDK."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from statistics import median

import grpc

from a2a_grpc.pb import a2a_pb2
from bench.agent import CHUNKS
from bench.calls import VERSION, as_json, blocking_stub, message
from bench.load import Load, grpc_load, http_load
from bench.postgresql import postgresql
from bench.processes import Server, floor, peer, service, store
from bench.rounds import interleaved, percentile
from bench.subject import Budget, Effort, Subject, table

SEND, STREAM, GET, HTTP = (
    "blocking SendMessage over gRPC",
    f"SendStreamingMessage, {CHUNKS} chunks",
    "GetTask over gRPC",
    "blocking SendMessage over HTTP+JSON",
)
OURS, FLOOR, IN_MEMORY, ON_POSTGRESQL = "a2a-grpc", "the floor", "a2a-sdk in memory", "a2a-sdk on PostgreSQL"
_SECONDS = 2.0


@dataclass(frozen=True)
class Side:
    """One server at one kind of work: medians of the rounds."""

    name: str
    per_second: float
    cpu: float
    """Microseconds of the server's processor time a call."""
    p50: float
    p90: float
    p99: float
    """Milliseconds, over all calls of all rounds."""


@dataclass(frozen=True)
class Work:
    """One kind of work, done by all."""

    name: str
    sides: list[Side]

    def side(self, name: str) -> Side | None:
        """The side of that name; None where it was not there."""
        return next((side for side in self.sides if side.name == name), None)


@dataclass(frozen=True)
class Throughput:
    """Everything in one run."""

    rounds: int
    works: list[Work]


def measure(effort: Effort) -> Throughput:
    """Every kind of work on every side."""
    with ExitStack() as stack:
        url = stack.enter_context(store())
        database = stack.enter_context(postgresql())
        servers = {
            FLOOR: stack.enter_context(floor("grpc")),
            OURS: stack.enter_context(service(url)),
            IN_MEMORY: stack.enter_context(peer()),
        }
        if database is not None:
            servers[ON_POSTGRESQL] = stack.enter_context(peer(database))
        over_http = {**servers, FLOOR: stack.enter_context(floor("http"))}
        tasks = {name: "t" if name == FLOOR else _done(server) for name, server in servers.items()}

        def over_grpc(method: str, request: a2a_pb2.SendMessageRequest) -> dict[str, _Run]:
            return {name: partial(grpc_load, server.grpc, method, request) for name, server in servers.items()}

        get: dict[str, _Run] = {
            name: partial(grpc_load, server.grpc, "GetTask", a2a_pb2.GetTaskRequest(id=tasks[name]))
            for name, server in servers.items()
        }
        post: dict[str, _Run] = {
            name: partial(http_load, f"{server.http}/message:send", as_json("work"))
            for name, server in over_http.items()
        }
        return Throughput(
            effort.rounds,
            [
                _work(SEND, over_grpc("SendMessage", message("work")), servers, effort),
                _work(STREAM, over_grpc("SendStreamingMessage", message(f"chunks {CHUNKS}")), servers, effort),
                _work(GET, get, servers, effort),
                _work(HTTP, post, over_http, effort),
            ],
        )


_Run = Callable[[int], Load]


def _work(name: str, runs: dict[str, _Run], servers: dict[str, Server], effort: Effort) -> Work:
    counts, least = {}, {}
    for side, run in runs.items():
        # Warms up, and tells how many calls a round takes and how large an answer is.
        first = run(effort.many(500))
        counts[side] = max(20, round(first.per_second * _SECONDS * effort.scale))
        least[side] = 0.9 * first.answered / effort.many(500)

    def measured(side: str) -> tuple[Load, float]:
        count, before = counts[side], servers[side].cpu_seconds
        load = runs[side](count)
        if load.answered < count * least[side]:
            raise RuntimeError(f"{name} of {side}: {count} answers have {load.answered} bytes, some were errors")
        return load, 1e6 * (servers[side].cpu_seconds - before) / count

    taken = interleaved(effort.rounds, {side: partial(measured, side) for side in runs})
    sides = []
    for side, samples in taken.items():
        times = [one for load, _ in samples for one in load.milliseconds]
        sides.append(
            Side(
                side,
                median(load.per_second for load, _ in samples),
                median(cpu for _, cpu in samples),
                *(percentile(times, share) for share in (0.5, 0.9, 0.99)),
            )
        )
    return Work(name, sides)


def _done(server: Server) -> str:
    """See that a server does the work before its speed is measured; the id of a completed task."""
    with grpc.insecure_channel(server.grpc) as channel:
        stub = blocking_stub(channel)
        task: a2a_pb2.Task = stub.SendMessage(message("work"), metadata=VERSION).task
        events = list(stub.SendStreamingMessage(message(f"chunks {CHUNKS}"), metadata=VERSION))
    if task.status.state != a2a_pb2.TASK_STATE_COMPLETED or len(task.artifacts) != 1:
        raise RuntimeError(f"SendMessage does not work: {task}")
    if len(events) != CHUNKS + 2:
        raise RuntimeError(f"SendStreamingMessage gave {len(events)} events")
    return task.id


def tables(result: Throughput) -> str:
    """A line for each side of each kind of work."""
    rows = []
    for work in result.works:
        ours = work.side(OURS)
        assert ours is not None
        rows += [
            (work.name, side.name, f"{side.per_second:.0f}", f"**{ours.per_second / side.per_second:.2f}**",
             f"{side.cpu:.0f}", side.p50, side.p90, side.p99)
            for side in work.sides
        ]  # fmt: skip
    columns = ("work", "side", "calls/s", "a2a-grpc against it", "CPU µs a call", "p50 ms", "p90 ms", "p99 ms")
    return f"Medians of {result.rounds} rounds; the percentiles are of all calls, with 32 in flight.\n\n" + table(
        columns, rows
    )


_GOALS = (
    (SEND, FLOOR, "an empty grpc.aio handler", 0.5),
    (SEND, IN_MEMORY, IN_MEMORY, 4),
    (SEND, ON_POSTGRESQL, ON_POSTGRESQL, 25),
    (STREAM, FLOOR, "an empty grpc.aio stream", 0.5),
    (GET, FLOOR, "an empty grpc.aio handler", 0.7),
    (HTTP, FLOOR, "bare Starlette", 0.25),
    (HTTP, IN_MEMORY, IN_MEMORY, 5),
)


def budgets(result: Throughput) -> list[Budget]:
    """Ratios of calls a second."""
    works = {work.name: work for work in result.works}
    found = []
    for name, against, words, goal in _GOALS:
        ours, other = works[name].side(OURS), works[name].side(against)
        if ours and other:
            found.append(Budget(name, words, ours.per_second / other.per_second, goal, unit="×"))
    return found


SUBJECT = Subject(
    "throughput", "Calls a second, against the floor and against a2a-sdk", Throughput, measure, tables, budgets
)
