"""Whether memory stays flat under load that lasts: `python -m bench.soak --minutes 20`.

Callers do by turns what callers do: send and wait, stream, read, list, answer a question, cancel, and go away in the
middle of a stream. Tasks are kept for a short time only, so that the store forgets as fast as it learns. After the
first quarter, in which that time has passed and caches have filled, memory should grow no more. The callers call as
often as they get answers, and the store holds what was called for in the time that tasks are kept: its memory is judged
by the calls of that time.
"""

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from statistics import median

import grpc.aio
import httpx
from redis import Redis

from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from bench import results
from bench.calls import VERSION, as_json, message
from bench.processes import Server, service, store
from bench.rounds import growth
from bench.subject import Budget, Effort, Subject, table

_MINUTES = 20.0
_CALLERS = 16
_SAMPLES = 240


@dataclass(frozen=True)
class Sample:
    """What was in use at one time."""

    second: float
    service: int
    """Bytes of the process in memory."""
    store: int
    """Bytes that the store uses for its data."""
    calls: int
    """Answered since the start."""


@dataclass(frozen=True)
class Soak:
    """One run."""

    minutes: float
    calls: dict[str, int]
    """By what was done."""
    failed: int
    kept: float
    """Seconds that a task is kept after its end."""
    samples: list[Sample] = field(default_factory=list)

    def service(self, quarter: int) -> float:
        """Bytes of the service, the median in one quarter of the run, 0 to 3."""
        return median(sample.service for sample in self._of(quarter))

    def store(self, quarter: int) -> float:
        """Bytes of the store, as above."""
        return median(sample.store for sample in self._of(quarter))

    def store_per_call(self, quarter: int) -> float:
        """Bytes of the store for each call of the last `kept` seconds, as above, at the pace since then."""
        return median(
            now.store * (now.second - then.second) / self.kept / max(1, now.calls - then.calls)
            for now in self._of(quarter)
            if (then := self._about(now.second - self.kept)).second < now.second
        )

    def _of(self, quarter: int) -> list[Sample]:
        size = len(self.samples) // 4
        return self.samples[quarter * size : (quarter + 1) * size]

    def _about(self, second: float) -> Sample:
        """The last sample before that time, or the first of all."""
        return next((sample for sample in reversed(self.samples) if sample.second <= second), self.samples[0])


class Callers:
    """Their calls, and how often each was made."""

    def __init__(self, channel: grpc.aio.Channel, client: httpx.AsyncClient, seed: int) -> None:
        self._stub = a2a_pb2_grpc.A2AServiceStub(channel)
        self._client = client
        self._chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.failed = 0

    async def go_on(self, until: float) -> None:
        """One caller, until that time of `time.monotonic`."""
        kinds: list[Callable[[], Awaitable[object]]] = [
            self._send, self._stream, self._leave, self._read, self._list, self._answer, self._cancel, self._post,
            self._listen,
        ]  # fmt: skip
        while time.monotonic() < until:
            kind = self._chance.choices(kinds, weights=(6, 2, 1, 4, 1, 1, 1, 2, 1))[0]
            try:
                await kind()
            except (grpc.aio.AioRpcError, httpx.HTTPError) as error:
                self.failed += 1
                if self.failed < 10:
                    sys.stderr.write(f"bench: {kind.__name__} failed: {error!r}\n")
            self.done[kind.__name__.strip("_")] += 1

    async def _send(self) -> a2a_pb2.Task:
        return (await self._stub.SendMessage(message("work"), metadata=VERSION)).task

    async def _stream(self) -> None:
        async for _ in self._stub.SendStreamingMessage(message("chunks 20"), metadata=VERSION):
            pass

    async def _leave(self) -> None:
        stream = self._stub.SendStreamingMessage(message("chunks 20"), metadata=VERSION)
        await stream.read()
        stream.cancel()

    async def _read(self) -> None:
        task = await self._send()
        await self._stub.GetTask(a2a_pb2.GetTaskRequest(id=task.id), metadata=VERSION)

    async def _list(self) -> None:
        await self._stub.ListTasks(a2a_pb2.ListTasksRequest(page_size=20), metadata=VERSION)

    async def _answer(self) -> None:
        asked = (await self._stub.SendMessage(message("ask"), metadata=VERSION)).task
        request = message("work")
        request.message.task_id, request.message.context_id = asked.id, asked.context_id
        await self._stub.SendMessage(request, metadata=VERSION)

    async def _cancel(self) -> None:
        task = (await self._stub.SendMessage(message("idle", at_once=True), metadata=VERSION)).task
        await self._stub.CancelTask(a2a_pb2.CancelTaskRequest(id=task.id), metadata=VERSION)

    async def _post(self) -> None:
        answer = await self._client.post("/message:send", json=as_json("work"))
        answer.raise_for_status()

    async def _listen(self) -> None:
        """Leaves a stream of server-sent events after the first of them."""
        async with self._client.stream("POST", "/message:stream", json=as_json("chunks 20")) as answer:
            answer.raise_for_status()
            async for _ in answer.aiter_lines():
                break


def soak(minutes: float) -> Soak:
    """One run."""
    # The store has forgotten the tasks of the first calls when the first quarter is over.
    kept = max(1.0, min(60.0, minutes * 6))
    with store() as url, service(url, A2A_TASK_TTL=f"{kept:g}") as server, Redis.from_url(url) as client:
        return asyncio.run(_run(server, client, minutes, kept))


async def _run(server: Server, client: Redis, minutes: float, kept: float) -> Soak:
    samples = []
    async with (
        grpc.aio.insecure_channel(server.grpc) as channel,
        httpx.AsyncClient(base_url=server.http, headers=dict(VERSION), timeout=30) as http,
    ):
        callers = Callers(channel, http, 1)
        begun, end = time.monotonic(), time.monotonic() + 60 * minutes
        calling = [asyncio.create_task(callers.go_on(end)) for _ in range(_CALLERS)]
        for number in range(1, _SAMPLES + 1):
            await asyncio.sleep(max(0.0, begun + 60 * minutes * number / _SAMPLES - time.monotonic()))
            used = client.info("memory")["used_memory"]
            samples.append(Sample(time.monotonic() - begun, server.memory, used, callers.done.total()))
        await asyncio.gather(*calling)
    return Soak(minutes, dict(callers.done), callers.failed, kept, samples)


def measure(effort: Effort) -> Soak:
    """The whole run of a full bench."""
    return soak(_MINUTES * effort.scale)


def tables(result: Soak) -> str:
    """Memory by quarters."""
    did = ", ".join(f"{count:,} × {name}" for name, count in sorted(result.calls.items(), key=lambda one: -one[1]))
    quarters = range(4)
    return (f"{result.minutes:g} minutes, {_CALLERS} callers: {did}; {result.failed} failed.\n\n") + table(
        ("median of a quarter", "first", "second", "third", "last"),
        [
            ("the service, MiB", *(result.service(number) / 2**20 for number in quarters)),
            ("the store, MiB", *(result.store(number) / 2**20 for number in quarters)),
            (
                f"the store, bytes for each call of the last {result.kept:g} s",
                *(result.store_per_call(number) for number in quarters),
            ),
        ],
    )


def budgets(result: Soak) -> list[Budget]:
    """By how much the last quarter exceeds the second."""
    return [
        Budget(
            f"a soak of {result.minutes:g} minutes: growth of {what}, second to last quarter",
            "–", 100 * growth([of(1), of(3)]), 5, at_most=True, unit=" %",
        )
        for what, of in (
            ("the service's memory", result.service),
            ("the store's memory for each call of the time that tasks are kept", result.store_per_call),
        )
    ]  # fmt: skip


SUBJECT = Subject("soak", "A soak", Soak, measure, tables, budgets)


def main() -> int:
    """Run, and put the outcome among the results. Returns the exit status: 1 where a call failed or memory grew."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=_MINUTES)
    minutes = parser.parse_args().minutes
    taken = results.take(SUBJECT, Effort(1, minutes / _MINUTES))
    results.save(SUBJECT, taken, results.FOLDER)
    sys.stdout.write(f"{tables(taken.result)}\n\nThe README gets it from `python -m bench.report`.\n")
    return int(taken.result.failed > 0 or not all(budget.met for budget in budgets(taken.result)))


if __name__ == "__main__":
    sys.exit(main())
