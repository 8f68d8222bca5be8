"""B079, B081, B083, B085: what is read back is what was written, and costs no more than it must."""

import asyncio
import time

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.cases.reading import chunks, reached
from tests.conformance.callers import BINDINGS, Connect, kinds, refused, say, state, texts
from tests.conformance.expected import INVALID_ARGUMENT
from tests.support.replica import Pair

# -- B079 --------------------------------------------------------------------------------------------------------------


async def test_b079_pages_stay_right_while_tasks_change(pair: Pair, connect: Connect, tenant: str) -> None:
    """250 tasks, some of them of the same millisecond, read by sevens from both replicas while others are updated.

    Each task that nobody touched comes exactly once, newest first, and the order among equals is the same every time.
    """
    callers = [await connect(replica, tenant=tenant) for replica in pair.replicas]
    numbers = iter(range(250))
    still: list[pb.Task] = []
    moving: list[str] = []

    async def create() -> None:
        for number in numbers:
            if number % 5:
                still.append(await callers[number % 2].task("echo x"))
            else:
                moving.append((await callers[number % 2].task("ask")).id)

    await asyncio.gather(*(create() for _ in range(50)))
    stamps = [task.status.timestamp.ToMilliseconds() for task in still]
    assert len(set(stamps)) < len(stamps), "no two tasks have the same time: the test says nothing about ties"
    done = asyncio.Event()

    async def update() -> None:
        for number, task_id in enumerate(moving):
            await callers[number % 2].task("ask again", task_id=task_id)
            if done.is_set():
                return

    async def scan() -> list[tuple[int, str]]:
        found, token = [], ""
        for number in range(250):
            page = await callers[number % 2].page(page_size=7, page_token=token)
            assert page.total_size == 250 and len(page.tasks) <= 7
            found += [(task.status.timestamp.ToMilliseconds(), task.id) for task in page.tasks]
            token = page.next_page_token
            if not token:
                break
        return found

    updating = asyncio.create_task(update())
    scans = await asyncio.gather(scan(), scan())
    done.set()
    await updating
    untouched = {task.id for task in still}
    expected = sorted(((task.status.timestamp.ToMilliseconds(), task.id) for task in still), reverse=True)
    for found in scans:
        assert [row for row in found if row[1] in untouched] == expected


@pytest.mark.parametrize("over", BINDINGS)
async def test_b079_only_a_token_of_the_same_listing_is_taken(
    over: str, pair: Pair, connect: Connect, tenant: str
) -> None:
    """On any replica; a damaged one, and one of other filters or another caller, is refused."""
    one, other = [await connect(replica, over=over, tenant=tenant) for replica in pair.replicas]
    tasks = [await one.task("echo x") for _ in range(3)]
    token = (await one.page(page_size=1)).next_page_token
    assert [task.id for task in (await other.page(page_size=1, page_token=token)).tasks] == [tasks[1].id]
    stranger = await connect(pair.replicas[1], over=over, tenant=f"{tenant}-other")
    wrong = [
        other.page(page_size=1, page_token=token[:-1]),
        other.page(page_size=1, page_token=token[:8] + ("A" if token[8] != "A" else "B") + token[9:]),
        other.page(page_size=1, page_token="x" * 50),
        other.page(page_size=1, page_token=token, status=pb.TASK_STATE_COMPLETED),
        other.page(page_size=1, page_token=token, context_id=tasks[0].context_id),
        stranger.page(page_size=1, page_token=token),
    ]
    for call in wrong:
        failure = await refused(INVALID_ARGUMENT, call)
        assert set(failure.violations) == {"page_token" if over == "GRPC" else "pageToken"}


# -- B081 --------------------------------------------------------------------------------------------------------------


async def test_b081_artifacts_are_listed_only_when_asked_for_and_never_too_large(
    pair: Pair, connect: Connect, tenant: str
) -> None:
    """100 tasks of 100 kB: 10 MB, which no page may hold, since clients take 4 MiB."""
    callers = {over: await connect(pair.replicas[1], over=over, tenant=tenant) for over in ("GRPC", "HTTP+JSON")}
    numbers = iter(range(100))

    async def create() -> None:
        for _ in numbers:
            await callers["GRPC"].task("large 100000", history_length=0)

    await asyncio.gather(*(create() for _ in range(10)))
    for caller in callers.values():
        plain = await caller.answer("ListTasks", pb.ListTasksRequest(page_size=100))
        assert len(plain.message.tasks) == 100
        assert not any(task.artifacts for task in plain.message.tasks)
        assert "artifacts" not in str(plain.json)
        found: list[pb.Task] = []
        token = ""
        while True:
            page = await caller.page(page_size=100, include_artifacts=True, page_token=token)
            assert page.ByteSize() < 4 * 1024 * 1024
            assert page.tasks and page.total_size == 100
            found += page.tasks
            token = page.next_page_token
            if not token:
                break
        assert [task.id for task in found] == [task.id for task in plain.message.tasks]
        assert all(texts(task) == ["x" * 100_000] for task in found)


# -- B083 --------------------------------------------------------------------------------------------------------------


@pytest.mark.wide
async def test_b083_a_long_answer_costs_the_store_what_it_is_long(pair: Pair, connect: Connect) -> None:
    """5,000 chunks of 20 bytes are 100 kB; a store that writes the task anew with each needs 250 MB for them."""
    one, other = [await connect(replica) for replica in pair.replicas]
    task = await one.task("ask")
    store = pair.store.client
    before = store.info("stats")["total_net_input_bytes"]
    async with other.subscribe(task.id) as stream:
        reading = asyncio.create_task(stream.all())
        begun = time.monotonic()
        done = await one.task("chunks 5000", task_id=task.id)
        took = time.monotonic() - begun
        events = await reading
    written = store.info("stats")["total_net_input_bytes"] - before
    expected = "".join(f"{number:019d} " for number in range(1, 5001))
    assert texts(done) == [expected]
    assert chunks(events) == expected and kinds(events)[-1] == "COMPLETED"
    assert 100_000 < written < 5_000_000, f"{written} bytes went to the store"
    assert took < 10
    begun = time.monotonic()
    assert await other.get(task.id) == done
    assert time.monotonic() - begun < 5


@pytest.mark.wide
async def test_b083_twice_the_answer_costs_twice_as_much(pair: Pair, connect: Connect) -> None:
    """Bytes to the store grow with the output and not with its square, however often somebody reads meanwhile."""
    one = await connect(pair.replicas[0])
    store = pair.store.client

    async def cost(count: int) -> int:
        before = store.info("stats")["total_net_input_bytes"]
        async with one.stream("SendStreamingMessage", say(f"chunks {count}")) as stream:
            task_id = (await anext(stream)).task.id
            number = 0
            async for _ in stream:
                number += 1
                if number % 500 == 0:
                    await one.get(task_id)
        return int(store.info("stats")["total_net_input_bytes"] - before)

    small, large = await cost(1000), await cost(4000)
    assert large < 4 * small * 1.5, (small, large)


# -- B085 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", BINDINGS)
async def test_b085_each_message_stands_in_the_history_once(over: str, pair: Pair, connect: Connect) -> None:
    """Over three turns on two replicas, sent again and again: the callers' words and the agent's, in their order."""
    one, other = [await connect(replica, over=over) for replica in pair.replicas]
    first = say("step a")
    task = (await one.send(first)).task
    assert (await other.send(first)).task == task
    follow_ups = [say(text, task_id=task.id) for text in ("step b", "last c")]
    expected = ["step a"]
    question = "what after a?"
    for request in follow_ups:
        assert [part.text for part in (await one.get(task.id)).status.message.parts] == [question]
        await asyncio.gather(other.send(request), one.send(request))
        await one.send(request)
        expected += [question, request.message.parts[0].text]
        got = await one.get(task.id)
        assert [part.text for message in got.history for part in message.parts] == expected
        assert len({message.message_id for message in got.history}) == len(expected)
        assert {(message.task_id, message.context_id) for message in got.history} == {(task.id, task.context_id)}
        question = "what after b?"
    got = await other.get(task.id)
    assert state(got.status.state) == "COMPLETED" and not got.status.HasField("message")
    assert [artifact.name for artifact in got.artifacts] == ["a", "b", "c"]
    assert [message.role for message in got.history] == [pb.ROLE_USER, pb.ROLE_AGENT] * 2 + [pb.ROLE_USER]
    assert [message.message_id for message in got.history][::2] == [
        request.message.message_id for request in (first, *follow_ups)
    ]


@pytest.mark.parametrize("over", BINDINGS)
async def test_b085_an_answer_that_comes_early_stands_behind_its_question(
    over: str, pair: Pair, connect: Connect
) -> None:
    """The task has asked, and its turn is not over yet: the question moves into the history once, before the answer."""
    one, other = [await connect(replica, over=over) for replica in pair.replicas]
    task = await one.task("linger 200")
    early = await other.task("last a", task_id=task.id, return_immediately=True)
    expected = ["linger 200", "what now?", "last a"]
    assert [part.text for message in early.history for part in message.parts] == expected
    done = await reached(one, task.id, "COMPLETED")
    assert [part.text for message in done.history for part in message.parts] == expected
    assert await other.get(task.id) == done
