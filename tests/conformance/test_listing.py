"""3.1.4 List Tasks: order, filters, pages. Each test has a tenant of its own, so that totals are exact."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import Caller, Connect, refused
from tests.conformance.expected import INVALID_ARGUMENT
from tests.support.replica import Replica


@pytest.fixture
async def one(connect: Connect, replicas: tuple[Replica, Replica], tenant: str) -> Caller:
    """Calls the first replica in a fresh tenant."""
    return await connect(replicas[0], tenant=tenant)


@pytest.fixture
async def two(connect: Connect, replicas: tuple[Replica, Replica], tenant: str) -> Caller:
    """Calls the second replica in the same tenant."""
    return await connect(replicas[1], tenant=tenant)


def named(task: pb.Task) -> tuple[int, int, str]:
    return task.status.timestamp.seconds, task.status.timestamp.nanos, task.id


async def pages(callers: Sequence[Caller], size: int, **filters: Any) -> list[pb.ListTasksResponse]:
    """All pages of a listing, each asked of the next of `callers`."""
    found: list[pb.ListTasksResponse] = []
    token = ""
    while not found or token:
        page = await callers[len(found) % len(callers)].page(page_size=size, page_token=token, **filters)
        found.append(page)
        token = page.next_page_token
    return found


def tasks_of(found: list[pb.ListTasksResponse]) -> list[pb.Task]:
    return [task for page in found for task in page.tasks]


async def test_3_1_4_nothing_to_list_is_an_answer(one: Caller) -> None:
    """3.1.4: page size 50 unless asked otherwise, total 0, and the token is there and empty."""
    answer = await one.answer("ListTasks")
    assert answer.message == pb.ListTasksResponse(page_size=50)
    # B065: zero values that the proto requires are written out.
    assert answer.json in (None, {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0})
    assert (await one.page(context_id="unknown", status=pb.TASK_STATE_WORKING)).total_size == 0


async def test_3_1_4_the_last_page_has_an_empty_token(one: Caller, two: Caller) -> None:
    for _ in range(3):
        await one.task("x")
    for size, rest in ((2, True), (3, False), (4, False)):
        answer = await two.answer("ListTasks", pb.ListTasksRequest(page_size=size))
        assert bool(answer.message.next_page_token) is rest
        if answer.json is not None:
            assert (answer.json["nextPageToken"] != "") is rest
        assert (answer.message.page_size, answer.message.total_size) == (size, 3)
    assert [len(page.tasks) for page in await pages([one], 2)] == [2, 1]


async def test_3_1_4_the_newest_status_comes_first(one: Caller, two: Caller) -> None:
    """3.1.4: by the time of the status, so that a task that changes moves to the front."""
    first = await one.task("ask")
    others = [await two.task("ask") for _ in range(3)]
    assert [task.id for task in (await two.page()).tasks] == [task.id for task in (*others[::-1], first)]
    await two.task("done", task_id=first.id)
    listed = (await one.page()).tasks
    assert [task.id for task in listed] == [task.id for task in (first, *others[::-1])]
    assert [named(task) for task in listed] == sorted(map(named, listed), reverse=True)


async def test_3_1_4_artifacts_only_when_asked_for(one: Caller, two: Caller) -> None:
    """3.1.4, B081: otherwise the field is absent, not empty."""
    made = await one.task("echo something")
    without = await two.answer("ListTasks", pb.ListTasksRequest(include_artifacts=False))
    assert not without.message.tasks[0].artifacts
    assert without.json is None or "artifacts" not in without.json["tasks"][0]
    [task] = (await two.page(include_artifacts=True)).tasks
    assert task == made


@pytest.mark.parametrize("size", [0, -1, 101, 2**31 - 1])
async def test_3_1_4_a_page_size_out_of_range_is_refused(size: int, one: Caller) -> None:
    failure = await refused(INVALID_ARGUMENT, one.page(page_size=size))
    assert set(failure.violations) == {"page_size" if one.binding == "GRPC" else "pageSize"}


@pytest.mark.parametrize("size", [1, 100])
async def test_3_1_4_a_page_size_in_range_is_taken(size: int, one: Caller) -> None:
    await one.task("x")
    page = await one.page(page_size=size)
    assert (page.page_size, page.total_size, len(page.tasks)) == (size, 1, 1)


async def test_3_1_4_fifty_to_a_page_unless_asked(one: Caller, two: Caller) -> None:
    """3.1.4: and pages follow each other on any replica without a gap or a repeat, also among equal times."""
    made = await asyncio.gather(*((one, two)[at % 2].task("x") for at in range(60)))
    page = await two.page()
    assert (len(page.tasks), page.page_size, page.total_size) == (50, 50, 60)
    whole = (await one.page(page_size=100)).tasks
    assert {task.id for task in whole} == {task.id for task in made}
    times = [named(task)[:2] for task in whole]
    assert times == sorted(times, reverse=True)
    for callers, size in (([one, two], 7), ([two, one], 1), ([two], 60)):
        assert tasks_of(await pages(callers, size)) == list(whole)


async def test_3_1_4_filters_each_and_together(one: Caller, two: Caller) -> None:
    """3.1.4: context, status, time (from that time on); the totals are those of the filter."""
    made: list[pb.Task] = []
    for at, text in enumerate(["ask", "echo a", "fail", "ask", "reject", "echo b"]):
        made.append(await (one, two)[at % 2].task(text, context_id=f"context-{at % 2}"))
        await asyncio.sleep(0.002)  # so that their times differ
    middle = made[2].status.timestamp
    for context in ("", "context-0", "context-1", "context-2"):
        for status in (0, pb.TASK_STATE_COMPLETED, pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_WORKING):
            for since in (None, middle):
                expected = [
                    task.id
                    for task in reversed(made)
                    if context in ("", task.context_id)
                    and status in (0, task.status.state)
                    and (since is None or named(task)[:2] >= (since.seconds, since.nanos))
                ]
                filters = {"context_id": context, "status": status, "status_timestamp_after": since}
                found = await pages([two, one], 2, **filters)
                assert [task.id for task in tasks_of(found)] == expected, filters
                assert {page.total_size for page in found} == {len(expected)}


async def test_3_1_4_the_time_filter_includes_its_time(one: Caller) -> None:
    """3.1.4: at or after; a microsecond later is after all that milliseconds can say."""
    task = await one.task("x")
    at = task.status.timestamp
    assert at.nanos % 1_000_000 == 0
    later = Timestamp(seconds=at.seconds, nanos=at.nanos + 1000)
    before = Timestamp(seconds=at.seconds - 1, nanos=at.nanos)
    for since, total in ((before, 1), (at, 1), (later, 0), (Timestamp(seconds=-62135596800), 1)):
        assert (await one.page(status_timestamp_after=since)).total_size == total


async def test_3_1_4_a_status_filter_follows_the_task(one: Caller, two: Caller) -> None:
    """3.1.4: a task is listed under the status it has, on every replica at once."""
    task = await one.task("ask")
    assert (await two.page(status=pb.TASK_STATE_INPUT_REQUIRED)).tasks[0].id == task.id
    await two.task("done", task_id=task.id)
    assert (await one.page(status=pb.TASK_STATE_INPUT_REQUIRED)).total_size == 0
    assert (await one.page(status=pb.TASK_STATE_COMPLETED)).tasks[0].id == task.id


async def test_3_1_4_no_task_is_missed_or_repeated_while_others_change(one: Caller, two: Caller) -> None:
    """3.1.4, B079: those that stay as they are come exactly once, in order, whatever happens between the pages."""
    still = [await one.task("ask") for _ in range(12)]
    moving = [await two.task("ask") for _ in range(4)]
    still += [await two.task("ask") for _ in range(12)]
    seen: list[pb.Task] = []
    token = ""
    for step in range(100):
        page = await (one, two)[step % 2].page(page_size=3, page_token=token)
        seen.extend(page.tasks)
        token = page.next_page_token
        if not token:
            break
        if step < len(moving):
            await one.task("done", task_id=moving[step].id)
        await two.task("new")
    unmoved = {task.id for task in still}
    assert [task.id for task in seen if task.id in unmoved] == [task.id for task in reversed(still)]
    assert [named(task) for task in seen] == sorted(map(named, seen), reverse=True)


def damaged(token: str) -> list[str]:
    """Tokens that nobody was given."""
    flipped = ("B" if token[0] == "A" else "A") + token[1:]
    other = base64.urlsafe_b64encode(b"1700000000000.some-task").decode()
    return [flipped, token[:-2], token + "AA", "x", "not a token", "é", "0", other, "A" * 2000]


async def test_3_1_4_only_its_own_tokens_are_taken(one: Caller, two: Caller, connect: Connect) -> None:
    """3.1.4, B079: not damaged ones, not those of a listing with other filters or of another caller."""
    for _ in range(3):
        await one.task("x", context_id="c")
    token = (await one.page(page_size=1, context_id="c")).next_page_token
    field = "page_token" if one.binding == "GRPC" else "pageToken"
    for wrong in damaged(token):
        failure = await refused(INVALID_ARGUMENT, two.page(page_size=1, context_id="c", page_token=wrong))
        assert set(failure.violations) == {field}, wrong
    since = Timestamp(seconds=1)
    for filters in (
        {},
        {"context_id": "d"},
        {"context_id": "c", "status": pb.TASK_STATE_COMPLETED},
        {"context_id": "c", "status_timestamp_after": since},
    ):
        failure = await refused(INVALID_ARGUMENT, two.page(page_size=1, page_token=token, **filters))
        assert set(failure.violations) == {field}, filters
    elsewhere = await connect(one.service, tenant="another-tenant")
    await refused(INVALID_ARGUMENT, elsewhere.page(page_size=1, context_id="c", page_token=token))
    # What does not decide which tasks there are may change from page to page.
    page = await two.page(page_size=2, context_id="c", page_token=token, include_artifacts=True, history_length=0)
    assert len(page.tasks) == 2 and not page.next_page_token


async def test_3_1_4_large_tasks_make_shorter_pages(one: Caller, two: Caller) -> None:
    """B081: a page with artifacts stays below what a gRPC client takes by default (4 MiB), and nothing is left out."""
    text = "x" * 700_000
    made = [await one.task(f"echo {text}") for _ in range(4)]
    found = await pages([two], 10, include_artifacts=True)
    assert len(found) > 1
    assert [task.id for task in tasks_of(found)] == [task.id for task in reversed(made)]
    assert all(len(task.artifacts[0].parts[0].text) == len(text) for task in tasks_of(found))


async def test_3_1_4_an_unknown_status_is_refused(one: Caller) -> None:
    """5.5: over gRPC by its number; the JSON bindings have names, and take numbers (B069)."""
    unknown: Any = 99
    failure = await refused(INVALID_ARGUMENT, one.page(status=unknown))
    assert set(failure.violations) == {"status"}
