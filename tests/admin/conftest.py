"""The commands for operators, and replicas that serve administration."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.commands import Outcome, Run, running
from tests.support.replica import Pair, Replica
from tests.support.tasks import DAY, open_store
from tests.support.waiting import wait_until

T = TypeVar("T")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs any command."""
    return running(capsys)


@pytest.fixture
def admin(two_replicas: Pair, command: Run) -> Run:
    """Runs a command for operators against the first replica (or `at`)."""

    def run(*argv: str, at: Replica | None = None) -> Outcome:
        return command(*argv, "--admin", admin_addr(at or two_replicas.replicas[0]))

    return run


def admin_addr(replica: Replica) -> str:
    """Where a replica with A2A_ADMIN_ADDR=127.0.0.1:0 listens, since it was started last."""
    found: list[str] = re.findall(r"administration on (127\.0\.0\.1:[0-9]+)", replica.log(None))
    return found[-1]


def with_store(pair: Pair, work: Callable[[TaskStore], Coroutine[Any, Any, T]]) -> T:
    """Does something with the store of a pair, as if another replica did it."""

    async def run() -> T:
        async with open_store(pair.store.url, "test") as store:
            return await work(store)

    return asyncio.run(run())


def letters_of(store: TaskStore) -> DeadLetters:
    return DeadLetters(store, ttl=30 * DAY)


def until(look: Callable[[], T], description: str, timeout: float = 10.0) -> T:
    """Waits in a test that is not async; `look` may run commands, which have an event loop of their own."""

    async def threaded() -> T:
        return await asyncio.to_thread(look)

    return asyncio.run(wait_until(threaded, description, timeout))
