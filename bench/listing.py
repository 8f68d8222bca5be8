"""A page of ListTasks as a caller's tasks become many.

The store is filled with tasks like those of `bench.agent` ("work"), all of one caller: each in two steps of the
service's own store (`TaskStore.create`, `TaskStore.append`), that is by its own scripts under its own keys, without a
call and a turn for each. A small and a large store are there at the same time, and their pages take turns.
"""

import asyncio
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import grpc
from redis import Redis

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids, pages, states
from a2a_grpc.server.core.events import Fold, set_timestamp, status_changed
from a2a_grpc.server.store.records import Append, Dedupe, Origin, Scope
from a2a_grpc.server.store.tasks import TaskStore
from bench.calls import VERSION, blocking_stub
from bench.processes import service, store
from bench.rounds import growth, interleaved
from bench.subject import Budget, Effort, Subject, table
from tests.support.tasks import open_store

SIZES = (10_000, 1_000_000)
_PAGES, _PAGE = 200, 50
_ANONYMOUS = Scope("", "")
_FIRST = 1_700_000_000_000
"""When the first task ended, in milliseconds since 1970; the others a second apart."""


@dataclass(frozen=True)
class Listing:
    """One kind of page, milliseconds in the median for each number of tasks."""

    page: str
    milliseconds: list[float]


@dataclass(frozen=True)
class Listings:
    """All kinds of pages."""

    tasks: list[int]
    bytes_a_task: float
    """Memory of the store for one task, in the larger store."""
    seconds: float
    """What it took to fill the larger store."""
    listings: list[Listing]


async def fill(url: str, count: int) -> None:
    """Put `count` completed tasks of the anonymous caller into the store."""
    left = iter(range(count))
    async with open_store(url, "bench", timeout=30.0) as filled:

        async def work() -> None:
            for number in left:
                await _task(filled, number)

        await asyncio.gather(*(work() for _ in range(64)))


async def _task(filled: TaskStore, number: int) -> None:
    context, stamp_ms = ids.new_id(), _FIRST + 1_000 * number
    sent = a2a_pb2.Message(
        message_id=str(number), context_id=context, role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text="work")]
    )
    sent.task_id = filled.new_task_id(_ANONYMOUS, sent.message_id)
    entry = a2a_pb2.StreamResponse()
    entry.task.id, entry.task.context_id = sent.task_id, context
    entry.task.status.state = states.SUBMITTED
    set_timestamp(entry.task.status.timestamp, stamp_ms)
    entry.task.history.append(sent)
    origin = Origin(message=sent, request=a2a_pb2.SendMessageRequest(), extensions=())
    known = Dedupe(message_id=sent.message_id, digest="", window_ms=1, call_id=str(number))
    placed = await filled.create(entry, _ANONYMOUS, origin, known, claim=True, limit=3)
    result = a2a_pb2.StreamResponse()
    update = result.artifact_update
    update.task_id, update.context_id, update.last_chunk = sent.task_id, context, True
    update.artifact.artifact_id, update.artifact.name = ids.new_id(), "result"
    update.artifact.parts.add(text="done")
    events = [
        status_changed(sent.task_id, context, states.WORKING, stamp_ms),
        result,
        status_changed(sent.task_id, context, states.COMPLETED, stamp_ms),
    ]
    fold = Fold()
    for event in (entry, *events):
        fold.apply(event)
    head, artifacts = fold.to_bytes()
    await filled.append(
        Append(
            task_id=sent.task_id,
            scope=_ANONYMOUS,
            context=context,
            epoch=placed.epoch,
            operation=1,
            expected=states.SUBMITTED,
            entries=[event.SerializeToString() for event in events],
            state=states.COMPLETED,
            told=len(events),
            stamp_ms=stamp_ms,
            terminal=True,
            release=True,
            snapshot_at=1,
            head=head,
            artifacts=artifacts,
        )
    )


def measure(effort: Effort) -> Listings:
    """The first page, one from the middle, one by state, in both stores."""
    sizes = [max(2 * _PAGE, effort.many(size)) for size in SIZES]
    with ExitStack() as stack:
        stubs = {}
        took = memory = 0.0
        for size in sizes:
            url = stack.enter_context(store())
            with Redis.from_url(url) as client:
                before, begun = client.info("memory")["used_memory"], time.perf_counter()
                asyncio.run(fill(url, size))
                took = time.perf_counter() - begun
                memory = (client.info("memory")["used_memory"] - before) / size
            server = stack.enter_context(service(url))
            stubs[size] = blocking_stub(stack.enter_context(grpc.insecure_channel(server.grpc)))
        asked = {size: _pages(size) for size in sizes}
        listings = []
        for kind in asked[sizes[0]]:
            runs = {str(size): partial(_median, stubs[size], asked[size][kind], effort.many(_PAGES)) for size in sizes}
            interleaved(1, runs)  # warms up
            listings.append(Listing(kind, [median(taken) for taken in interleaved(effort.rounds, runs).values()]))
    return Listings(sizes, memory, took, listings)


def _pages(size: int) -> dict[str, a2a_pb2.ListTasksRequest]:
    """What is asked for in a store of so many tasks."""
    first = a2a_pb2.ListTasksRequest()
    middle = pages.Cursor(_FIRST + 1_000 * (size // 2), "")
    return {
        f"the newest {_PAGE}": first,
        f"{_PAGE} from the middle": a2a_pb2.ListTasksRequest(
            page_token=pages.encode(middle, pages.filters(first, ids.scope(*_ANONYMOUS)))
        ),
        f"the newest {_PAGE} that are completed": a2a_pb2.ListTasksRequest(status=states.COMPLETED),
    }


def _median(stub: Any, request: a2a_pb2.ListTasksRequest, count: int) -> float:
    """Milliseconds of one page."""
    taken = []
    for _ in range(count):
        begun = time.perf_counter()
        answer = stub.ListTasks(request, metadata=VERSION)
        taken.append(1e3 * (time.perf_counter() - begun))
        if len(answer.tasks) != _PAGE:
            raise RuntimeError(f"a page of {len(answer.tasks)} tasks")
    return median(taken)


def tables(result: Listings) -> str:
    """A line for each kind of page."""
    columns = ("a page over gRPC", *(f"ms at {size:,} tasks" for size in result.tasks))
    return (
        f"{result.tasks[-1]:,} tasks take {result.bytes_a_task / 1024:.1f} KiB of the store's memory each. "
        f"The store was filled by its own scripts (`TaskStore.create` and `append`), in {result.seconds:.0f} s.\n\n"
    ) + table(columns, [(one.page, *one.milliseconds) for one in result.listings])


def budgets(result: Listings) -> list[Budget]:
    """By how much the page that suffers most is dearer among many tasks."""
    grown = max(growth(one.milliseconds) for one in result.listings)
    work = f"ListTasks page, growth of its time from {result.tasks[0]:,} to {result.tasks[-1]:,} tasks"
    return [Budget(work, "–", 100 * grown, 20, at_most=True, unit=" %")]


SUBJECT = Subject("listing", "ListTasks among many tasks", Listings, measure, tables, budgets)
