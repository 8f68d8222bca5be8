"""`python -m bench.webhooks`: what webhooks lose when receivers fail half the time and a sender is killed.

Two replicas share a store and tell 20 receivers in this process, which take 20 ms for an answer. Half of all requests
fail: with 503, by a connection that is closed without an answer, or by no answer at all. A third of the way one replica
is killed (SIGKILL). The tasks run on the other one: what is counted is deliveries, not turns that begin again.
"""

import argparse
import asyncio
import contextlib
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import grpc.aio

from a2a_grpc.client.webhooks import parse
from a2a_grpc.pb import a2a_pb2_grpc
from bench.calls import message
from bench.processes import LOAD_CPU, SERVER_CPU, service, store
from tests.support.waiting import wait_until

_VERSION = (("a2a-version", "1.0"),)
# Half of all requests fail, so that of 3,000 events some fail eleven times in a row: the run should end in minutes.
_ENVIRONMENT: dict[str, Any] = {
    "A2A_PUSH_ALLOW": "localhost",
    "A2A_PUSH_ALLOW_HTTP": "true",
    "A2A_PUSH_TIMEOUT": "2",
    "A2A_PUSH_ATTEMPTS": "100",
    "A2A_PUSH_BACKOFF_MAX": "5",
}
_RECEIVERS = 20
_EVENTS = 3
"""WORKING, an artifact, COMPLETED."""
_CALLERS = 16
_ANSWER = 0.02
_PATIENCE = 180.0


@dataclass
class Told:
    """What the receivers have heard; tasks by the path of their webhook."""

    chance: random.Random
    failing: float
    requests: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    taken: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """The numbers of the events in the order in which they were answered with 200."""

    def ended(self) -> int:
        """Tasks whose last event was taken."""
        return sum(len(set(seqs)) == _EVENTS for seqs in self.taken.values())

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            while await self._request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        path = head[0].split(" ")[1]
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        delivery = parse(headers, await reader.readexactly(int(headers["content-length"])))
        self.requests += 1
        if self.chance.random() < self.failing:
            kind = self.chance.choice(["503", "closed", "silent"])
            self.failed[kind] += 1
            if kind == "silent":
                await reader.read()
            if kind != "503":
                return False
            writer.write(b"HTTP/1.1 503 Later\r\ncontent-length: 0\r\n\r\n")
        else:
            self.taken[path].append(delivery.seq)
            await asyncio.sleep(_ANSWER)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        return True


@dataclass(frozen=True)
class Outcome:
    """One run. What is counted is events."""

    tasks: int
    requests: int
    failed: int
    delivered: int
    repeated: int
    """Taken again, because the sender did not hear of it: it was killed, or its time was over."""
    lost: int
    unordered: int
    """Taken for the first time after one that follows them."""
    seconds: float
    """From the first task until the last event was taken."""


async def measure(tasks: int, failing: float, kill: bool, seed: int) -> Outcome:
    """One run on a store of its own."""
    told = Told(random.Random(seed), failing)
    with ExitStack() as stack:
        url = stack.enter_context(store())
        survivor, victim = (stack.enter_context(service(url, cpu, **_ENVIRONMENT)) for cpu in (SERVER_CPU, LOAD_CPU))
        async with AsyncExitStack() as opened:
            ports = [await opened.enter_async_context(_receiver(told)) for _ in range(_RECEIVERS)]
            channel = await opened.enter_async_context(grpc.aio.insecure_channel(survivor.grpc))
            stub = a2a_pb2_grpc.A2AServiceStub(channel)
            begun = time.perf_counter()
            left = iter(range(tasks))

            async def send() -> None:
                for number in left:
                    request = message("work")
                    config = request.configuration.task_push_notification_config
                    config.url = f"http://127.0.0.1:{ports[number % _RECEIVERS]}/{number}"
                    await stub.SendMessage(request, metadata=_VERSION)

            sending = [asyncio.create_task(send()) for _ in range(_CALLERS)]
            if kill:
                await _until(lambda: sum(map(len, told.taken.values())) >= tasks * _EVENTS / 3)
                victim.process.send_signal(signal.SIGKILL)
            await asyncio.gather(*sending)
            await _until(lambda: told.ended() == tasks)
            seconds = time.perf_counter() - begun
            # Whoever was told to stop may still have a request to make: a lease (4 s) and a poll.
            await asyncio.sleep(6)
    first = {path: list(dict.fromkeys(seqs)) for path, seqs in told.taken.items()}
    delivered = sum(map(len, first.values()))
    return Outcome(
        tasks=tasks,
        requests=told.requests,
        failed=told.failed.total(),
        delivered=delivered,
        repeated=sum(map(len, told.taken.values())) - delivered,
        lost=tasks * _EVENTS - delivered,
        unordered=sum(later < earlier for seqs in first.values() for earlier, later in pairwise(seqs)),
        seconds=seconds,
    )


@contextlib.asynccontextmanager
async def _receiver(told: Told) -> AsyncIterator[int]:
    """A receiver; yields its port."""
    serving: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(told.serve(reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def _until(condition: Callable[[], bool]) -> None:
    """Wait for `condition`, and for `_PATIENCE` at most: what is missing then is counted as lost."""
    with contextlib.suppress(AssertionError):
        await wait_until(condition, "the end of the run", _PATIENCE)


def main() -> int:
    """Measure and print the table in Markdown. Returns the exit status: 1 where something was lost."""
    parser = argparse.ArgumentParser(prog="python -m bench.webhooks", description=__doc__)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    columns = (
        "receivers fail", "sender killed", "tasks", "requests", "refused", "events delivered", "repeated",
        "out of order", "lost", "s",
    )  # fmt: skip
    _print(*columns)
    _print(*("---" for _ in columns))
    lost = 0
    for failing, kill in ((0.0, False), (0.5, False), (0.5, True)):
        run = asyncio.run(measure(arguments.tasks, failing, kill, arguments.seed))
        lost += run.lost
        _print(
            f"{failing:.0%}", "one of two" if kill else "none", run.tasks, run.requests, run.failed, run.delivered,
            run.repeated, run.unordered, f"**{run.lost}**", f"{run.seconds:.1f}",
        )  # fmt: skip
    return 1 if lost else 0


def _print(*cells: object) -> None:
    sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
