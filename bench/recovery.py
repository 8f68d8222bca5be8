"""How long the turns of a lost replica wait, and what it costs to be noticed when lost.

Three replicas with the default lease share a store. A turn begins on one of them, which is killed (SIGKILL) or stopped
(SIGSTOP); the time until the agent's function runs again elsewhere is taken from the signal on, by the clock that all
processes of the machine share.
"""

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median

import grpc.aio
import redis

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from bench.calls import VERSION, message
from bench.processes import LOAD_CPU, SERVER_CPU, Server, service, store
from bench.subject import Budget, Effort, Subject, table

_IDLE = 10.0


@dataclass(frozen=True)
class Recovery:
    """Both figures."""

    seconds: dict[str, list[float]]
    """From the signal of that name until the turn runs again, sorted."""
    heartbeat: dict[int, float]
    """Store commands a second, by the number of turns that run."""


def recoveries(number: signal.Signals, rounds: int) -> list[float]:
    """Seconds from the signal until the turn runs again, sorted."""
    with store() as url:
        return sorted(asyncio.run(_recovery(url, number)) for _ in range(rounds))


async def _recovery(url: str, number: signal.Signals) -> float:
    with ExitStack() as stack:
        lost, *_, other = (stack.enter_context(service(url, cpu)) for cpu in (SERVER_CPU, LOAD_CPU, LOAD_CPU))
        async with grpc.aio.insecure_channel(lost.grpc) as one, grpc.aio.insecure_channel(other.grpc) as two:
            request = message("began", at_once=True)
            sent = await a2a_pb2_grpc.A2AServiceStub(one).SendMessage(request, metadata=VERSION)
            stream = a2a_pb2_grpc.A2AServiceStub(two).SubscribeToTask(
                a2a_pb2.SubscribeToTaskRequest(id=sent.task.id), metadata=VERSION
            )
            # So that the signal does not always come at the same point between two beats.
            await asyncio.sleep(1 + time.time_ns() % 1_000_000 / 1e6)
            _signal(lost, number)
            hit = time.perf_counter_ns()
            async for response in stream:
                for part in response.artifact_update.artifact.parts:
                    begun = int(part.text)
                    if begun > hit:
                        _signal(lost, signal.SIGCONT)
                        return (begun - hit) / 1e9
    raise RuntimeError("the turn did not run again")


def _signal(server: Server, number: signal.Signals) -> None:
    if server.process.poll() is None:
        server.process.send_signal(number)


def heartbeat(turns: int, seconds: float) -> float:
    """Store commands a second of one replica that runs `turns` idle turns and is not called for so many seconds."""
    with store() as url, service(url) as server, _connected(url) as client:
        asyncio.run(_begin(server.grpc, turns))
        before, begun = _calls(client), time.perf_counter()
        time.sleep(seconds)
        return (_calls(client) - before - 1) / (time.perf_counter() - begun)


async def _begin(address: str, turns: int) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        for _ in range(turns):
            request = message("idle", at_once=True)
            await a2a_pb2_grpc.A2AServiceStub(channel).SendMessage(request, metadata=VERSION)


@contextmanager
def _connected(url: str) -> Iterator[redis.Redis]:
    client = redis.Redis.from_url(url)
    try:
        yield client
    finally:
        client.close()


def _calls(client: redis.Redis) -> int:
    """Commands so far, those that scripts call included."""
    return int(client.info("stats")["total_commands_processed"])


def measure(effort: Effort) -> Recovery:
    """As many kills as four times the rounds of a full run, and what the beat costs."""
    rounds = max(1, round(4 * effort.rounds * effort.scale))
    lost = {number.name: recoveries(number, rounds) for number in (signal.SIGKILL, signal.SIGSTOP)}
    return Recovery(lost, {turns: heartbeat(turns, effort.scale * _IDLE) for turns in (0, 10, 100)})


def tables(result: Recovery) -> str:
    """Times of the turns, and commands by turns."""
    return (
        "Three replicas with the default lease of 4 s; from the signal until the agent's function runs again.\n\n"
        + table(
            ("lost by", "rounds", "p50 s", "max s"),
            [(name, len(taken), median(taken), max(taken)) for name, taken in result.seconds.items()],
        )
        + "\n\n"
        + table(
            (
                "turns that run",
                "store commands a second of one replica that is not called, those inside scripts included",
            ),
            list(result.heartbeat.items()),
        )
    )


def budgets(result: Recovery) -> list[Budget]:
    """The slowest turn."""
    work = "killed replica: its turns run again elsewhere"
    return [Budget(work, "–", max(result.seconds[signal.SIGKILL.name]), 6, at_most=True, unit=" s")]


SUBJECT = Subject("recovery", "Lost replicas", Recovery, measure, tables, budgets)
