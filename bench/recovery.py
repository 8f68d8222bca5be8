"""`python -m bench.recovery`: how long the turns of a lost replica wait, and what it costs to be noticed when lost.

Three replicas with the default lease share a store. A turn begins on one of them, which is killed (SIGKILL) or stopped
(SIGSTOP); the time until the agent's function runs again elsewhere is taken from the signal on, by the clock that all
processes of the machine share.
"""

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from statistics import median

import grpc.aio
import redis

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from bench.processes import LOAD_CPU, SERVER_CPU, Server, service, store
from bench.throughput import message

_VERSION = (("a2a-version", "1.0"),)
_IDLE = 10.0


def recoveries(number: signal.Signals, rounds: int) -> list[float]:
    """Seconds from the signal until the turn runs again, sorted."""
    with store() as url:
        return sorted(asyncio.run(_recovery(url, number)) for _ in range(rounds))


async def _recovery(url: str, number: signal.Signals) -> float:
    with ExitStack() as stack:
        lost, *_, other = (stack.enter_context(service(url, cpu)) for cpu in (SERVER_CPU, LOAD_CPU, LOAD_CPU))
        async with grpc.aio.insecure_channel(lost.grpc) as one, grpc.aio.insecure_channel(other.grpc) as two:
            request = message("began")
            request.configuration.return_immediately = True
            sent = await a2a_pb2_grpc.A2AServiceStub(one).SendMessage(request, metadata=_VERSION)
            stream = a2a_pb2_grpc.A2AServiceStub(two).SubscribeToTask(
                a2a_pb2.SubscribeToTaskRequest(id=sent.task.id), metadata=_VERSION
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


def heartbeat(turns: int) -> float:
    """Store commands a second of one replica that runs `turns` idle turns and is not called."""
    with store() as url, service(url) as server, _connected(url) as client:
        asyncio.run(_begin(server.grpc, turns))
        before, begun = _calls(client), time.perf_counter()
        time.sleep(_IDLE)
        return (_calls(client) - before - 1) / (time.perf_counter() - begun)


async def _begin(address: str, turns: int) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        for _ in range(turns):
            request = message("idle")
            request.configuration.return_immediately = True
            await a2a_pb2_grpc.A2AServiceStub(channel).SendMessage(request, metadata=_VERSION)


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


def main() -> int:
    """Measure and print the tables in Markdown. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.recovery", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    sys.stdout.write("| lost by | rounds | p50 s | max s | goal |\n|---|---|---|---|---|\n")
    for number in (signal.SIGKILL, signal.SIGSTOP):
        taken = recoveries(number, rounds)
        sys.stdout.write(f"| {number.name} | {rounds} | {median(taken):.2f} | {taken[-1]:.2f} | ≤ 6 |\n")
        sys.stdout.flush()
    sys.stdout.write("\n| turns that run | store commands a second |\n|---|---|\n")
    for turns in (0, 10, 100):
        sys.stdout.write(f"| {turns} | {heartbeat(turns):.1f} |\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
