"""Callers who go on calling while the store is away, and what they saw."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import httpx

from tests.conformance.callers import CallError, GrpcCaller
from tests.support.replica import Replica

_EVERY = 0.05


@dataclass
class Seen:
    """Times are those of time.monotonic()."""

    sent: list[tuple[float, float, str]] = field(default_factory=list)
    """When each SendMessage began, when it was answered, and with which task; only those that were."""
    refused: list[tuple[float, CallError]] = field(default_factory=list)
    """How long a call took that was not, whatever it was, and what it was told."""
    readiness: list[tuple[float, int]] = field(default_factory=list)
    """When /readyz gave which status."""

    def outage(self, at: Callable[[str], bool] = lambda _: True) -> float:
        """The longest time in seconds between two tasks that were answered, of those which stand `at` some place.

        The usual distance between two calls is part of it.
        """
        return max(later - before for before, later in pairwise(sorted(end for _, end, task in self.sent if at(task))))


@contextlib.asynccontextmanager
async def callers(replicas: Sequence[Replica], text: str) -> AsyncIterator[Seen]:
    """While the block lasts, each replica is sent `text`, asked for a task and for its readiness, 20 times a second."""
    seen, stopped = Seen(), asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=10))
        tasks = []
        for replica in replicas:
            grpc = await stack.enter_async_context(GrpcCaller(replica))
            tasks += [
                asyncio.create_task(_send(grpc, text, seen, stopped)),
                asyncio.create_task(_get(grpc, seen, stopped)),
                asyncio.create_task(_ask(http, replica, seen, stopped)),
            ]
        try:
            yield seen
        finally:
            stopped.set()
            await asyncio.gather(*tasks)


async def _send(grpc: GrpcCaller, text: str, seen: Seen, stopped: asyncio.Event) -> None:
    while not stopped.is_set():
        began = time.monotonic()
        try:
            task = await grpc.task(text)
        except CallError as error:
            seen.refused.append((time.monotonic() - began, error))
        else:
            seen.sent.append((began, time.monotonic(), task.id))
        await asyncio.sleep(_EVERY)


async def _get(grpc: GrpcCaller, seen: Seen, stopped: asyncio.Event) -> None:
    while not stopped.is_set():
        if seen.sent:
            began = time.monotonic()
            try:
                await grpc.get(seen.sent[-1][2])
            except CallError as error:
                seen.refused.append((time.monotonic() - began, error))
        await asyncio.sleep(_EVERY)


async def _ask(http: httpx.AsyncClient, replica: Replica, seen: Seen, stopped: asyncio.Event) -> None:
    while not stopped.is_set():
        answer = await http.get(f"{replica.http_url}/readyz")
        seen.readiness.append((time.monotonic(), answer.status_code))
        await asyncio.sleep(_EVERY)
