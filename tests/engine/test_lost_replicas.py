"""Replicas that are killed, stopped or cut off: who runs their turns again, how often, and what subscribers see (B005).

The lease is a second here, so that nobody has to wait for long; one test keeps the default.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from a2a_grpc.client import A2AClient
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import states
from a2a_grpc.wire import protojson
from tests.engine.nodes import artifacts, history, words
from tests.support.lossy import lossy
from tests.support.replica import Pair, Replica, replica
from tests.support.servers import fresh_store_server
from tests.support.waiting import wait_until

AGENT = "tests.engine.lost_agent:agent"
LEASE = 1.0

pytestmark = pytest.mark.agent(AGENT, A2A_LEASE_TTL=str(LEASE))


class Caller:
    """Somebody who calls one replica over gRPC."""

    def __init__(self, client: A2AClient) -> None:
        self._client = client

    async def begin(self, text: str) -> str:
        """The id of a new task; nobody waits for its end."""
        request = a2a_pb2.SendMessageRequest(
            message=a2a_pb2.Message(message_id=text, role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text=text)])
        )
        request.configuration.return_immediately = True
        response = await self._client.send_message(request)
        return response.task.id

    async def get(self, task_id: str) -> a2a_pb2.Task:
        return await self._client.get_task(a2a_pb2.GetTaskRequest(id=task_id))

    async def cancel(self, task_id: str) -> a2a_pb2.Task:
        return await self._client.cancel_task(a2a_pb2.CancelTaskRequest(id=task_id))

    async def until(self, task_id: str, state: a2a_pb2.TaskState, timeout: float = 15) -> a2a_pb2.Task:
        async def reached() -> a2a_pb2.Task | None:
            task = await self.get(task_id)
            return task if task.status.state == state else None

        found = await wait_until(reached, f"the task is {states.name(state)}", timeout)
        assert found is not None
        return found

    async def until_written(self, task_id: str, artifacts: int = 1) -> None:
        async def written() -> bool:
            return len((await self.get(task_id)).artifacts) >= artifacts

        await wait_until(written, "the turn has written something", 10)


@contextlib.asynccontextmanager
async def calling(*replicas: Replica) -> AsyncIterator[list[Caller]]:
    """Callers of these replicas, one each."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            Caller(await stack.enter_async_context(await A2AClient.connect(f"grpc://{one.grpc_addr}")))
            for one in replicas
        ]


@pytest.fixture
async def callers(two_replicas: Pair) -> AsyncIterator[list[Caller]]:
    async with calling(*two_replicas.replicas) as found:
        yield found


def attempts(file: Path) -> list[str]:
    """What was noted: the number and the process of each attempt."""
    return file.read_text().splitlines() if file.exists() else []


def has_begun(file: Path, times: int) -> bool:
    return len(attempts(file)) == times


async def watch(at: Replica, task_id: str, seen: list[tuple[int, a2a_pb2.StreamResponse]]) -> None:
    """Subscribe over SSE and note each event with its number, up to the end of the stream."""
    async with (
        httpx.AsyncClient(trust_env=False, timeout=60, headers={"a2a-version": "1.0"}) as http,
        http.stream("GET", f"{at.http_url}/tasks/{task_id}:subscribe") as response,
    ):
        number = 0
        async for line in response.aiter_lines():
            if line.startswith("id: "):
                number = int(line[4:])
            elif line.startswith("data: "):
                seen.append((number, protojson.loads(line[6:].encode(), a2a_pb2.StreamResponse)))


def chunks(count: int, attempt: int) -> list[str]:
    return [f"{number} of attempt {attempt}" for number in range(count)]


async def test_the_turns_of_a_killed_replica_run_again_and_subscribers_see_one_log(
    two_replicas: Pair, callers: list[Caller], tmp_path: Path
) -> None:
    one, other = two_replicas.replicas
    here, there = callers
    file, lost = tmp_path / "file", one.pid
    task_id = await here.begin(f"work {file} 20")
    seen: list[tuple[int, a2a_pb2.StreamResponse]] = []
    watching = asyncio.create_task(watch(other, task_id, seen))
    await here.until_written(task_id)
    one.kill()
    task = await there.until(task_id, states.COMPLETED)
    assert attempts(file) == [f"1 {lost}", f"2 {other.pid}"]
    # What the lost attempt had written is replaced, and the history says why.
    assert artifacts(task) == {"out": chunks(20, 2)}
    assert history(task)[1:] == ["Starting again: attempt 2 of 3."]
    await asyncio.wait_for(watching, 5)
    numbers = [number for number, _ in seen]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert seen[0][1].HasField("task")
    texts = [event.artifact_update.artifact.parts[0].text for _, event in seen if event.HasField("artifact_update")]
    first = [text for text in texts if text.endswith("attempt 1")]
    known = [part.text for artifact in seen[0][1].task.artifacts for part in artifact.parts]
    assert known + first == chunks(len(known + first), 1)
    assert texts[len(first) :] == chunks(20, 2)
    assert seen[-1][1].status_update.status.state == states.COMPLETED


async def test_a_stopped_replica_that_goes_on_writes_nothing_more(
    two_replicas: Pair, callers: list[Caller], tmp_path: Path
) -> None:
    one, other = two_replicas.replicas
    here, there = callers
    file = tmp_path / "file"
    task_id = await here.begin(f"work {file} 60")
    await here.until_written(task_id)
    one.stop_signal()
    await wait_until(lambda: len(attempts(file)) == 2, "the other one runs it", 5 * LEASE)
    one.cont()
    task = await there.until(task_id, states.COMPLETED)
    assert attempts(file) == [f"1 {one.pid}", f"2 {other.pid}"]
    assert artifacts(task) == {"out": chunks(60, 2)}
    # It is one of the living again.
    again = await here.begin(f"work {tmp_path / 'again'} 1")
    await here.until(again, states.COMPLETED)
    assert "taken for lost" in one.log()


async def test_what_may_not_run_twice_ends_as_failed_and_leaves_a_dead_letter(
    two_replicas: Pair, callers: list[Caller], tmp_path: Path
) -> None:
    one, _ = two_replicas.replicas
    here, there = callers
    file, lost = tmp_path / "file", one.pid
    task_id = await here.begin(f"once {file} 50")
    await here.until_written(task_id)
    one.kill()
    task = await there.until(task_id, states.FAILED)
    assert words(task) == "The process that ran this was lost, and it may not be run twice."
    assert attempts(file) == [f"1 {lost}"]
    (letter,) = two_replicas.store.client.keys(f"*:letter:{task_id}*")
    assert two_replicas.store.client.hget(letter, "attempts") == b"1"


@pytest.mark.agent(AGENT, A2A_LEASE_TTL=str(LEASE), A2A_CANCEL_GRACE="0.2")
async def test_a_replica_that_leaves_while_the_store_is_away_is_missed_if_it_could_not_write_an_end(
    two_replicas: Pair, callers: list[Caller], tmp_path: Path
) -> None:
    one, _ = two_replicas.replicas
    here, there = callers
    file, leaving = tmp_path / "file", one.pid
    task_id = await here.begin(f"once {file} 300")
    await here.until_written(task_id)
    with two_replicas.store.frozen():
        one.terminate()
        await wait_until(lambda: "was cancelled" in one.log(), "it interrupts the turn", 10)
        # It waits for the end to be stored for the grace and a second more. Then it gives back what it holds, for which
        # the store has a second and a half: that is when it comes back.
        await asyncio.sleep(1.9)
    assert await asyncio.to_thread(one.wait) == 0
    task = await there.until(task_id, states.FAILED)
    # Who writes the end depends on when exactly the store is back. There is one, and nothing was run again.
    assert words(task) in {
        "The process that ran this was lost, and it may not be run twice.",
        "The service stopped before this was done, and it may not be run twice.",
    }
    assert attempts(file) == [f"1 {leaving}"]


async def test_a_turn_goes_on_where_its_checkpoint_stands(
    two_replicas: Pair, callers: list[Caller], tmp_path: Path
) -> None:
    one, other = two_replicas.replicas
    here, there = callers
    file, lost = tmp_path / "file", one.pid
    task_id = await here.begin(f"resume {file} 15")
    # Behind the first artifact its checkpoint may still be on its way; behind the second one it is stored.
    await here.until_written(task_id, 2)
    one.kill()
    task = await there.until(task_id, states.COMPLETED)
    assert attempts(file) == [f"1 {lost}", f"2 {other.pid}"]
    written = [text for parts in artifacts(task).values() for text in parts]
    first = sum(text.endswith("attempt 1") for text in written)
    assert first >= 1
    assert written == [f"{number} of attempt {1 if number < first else 2}" for number in range(15)]


async def test_a_replica_that_comes_back_under_its_name_does_not_inherit_its_turns(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with fresh_store_server() as store:
        async with replica(
            agent=AGENT, redis_url=store.url, env={"A2A_LEASE_TTL": str(LEASE), "A2A_REPLICA": "pod-1"}
        ) as pod:
            async with calling(pod) as (caller,):
                task_id = await caller.begin(f"work {file} 10")
                await caller.until_written(task_id)
            lost = pod.pid
            pod.kill()
            await asyncio.to_thread(pod.start)
            async with calling(pod) as (caller,):
                await caller.until(task_id, states.COMPLETED)
            assert attempts(file) == [f"1 {lost}", f"2 {pod.pid}"]


async def test_a_replica_that_is_cut_off_from_the_store_loses_its_turns(tmp_path: Path) -> None:
    file = tmp_path / "file"
    env = {"A2A_LEASE_TTL": str(LEASE)}
    with fresh_store_server() as store:
        async with (
            lossy(store) as link,
            replica(agent=AGENT, redis_url=link.url, env=env) as one,
            replica(agent=AGENT, redis_url=store.url, env=env) as other,
            calling(one, other) as (here, there),
        ):
            task_id = await here.begin(f"work {file} 60")
            await here.until_written(task_id)
            link.hold()
            await wait_until(lambda: len(attempts(file)) == 2, "the other one runs it", 5 * LEASE)
            link.let_go()
            task = await there.until(task_id, states.COMPLETED)
            assert artifacts(task) == {"out": chunks(60, 2)}
            assert attempts(file) == [f"1 {one.pid}", f"2 {other.pid}"]
            again = await here.begin(f"work {tmp_path / 'again'} 1")
            await here.until(again, states.COMPLETED)


async def test_nobody_is_taken_for_lost_while_the_store_is_away(
    two_replicas: Pair, callers: list[Caller], tmp_path: Path
) -> None:
    here, there = callers
    files = [tmp_path / "one", tmp_path / "other"]
    tasks = [await caller.begin(f"work {file} 15") for caller, file in zip(callers, files, strict=True)]
    for task_id in tasks:
        await here.until_written(task_id)
    with two_replicas.store.frozen():
        await asyncio.sleep(3 * LEASE)
    for task_id in tasks:
        task = await there.until(task_id, states.COMPLETED)
        assert artifacts(task) == {"out": chunks(15, 1)}
    assert [len(attempts(file)) for file in files] == [1, 1]


@pytest.mark.parametrize("needed", [3, 4])
async def test_an_agent_may_ask_for_another_attempt_as_long_as_one_is_left(
    callers: list[Caller], tmp_path: Path, needed: int
) -> None:
    here, _ = callers
    file = tmp_path / "file"
    task_id = await here.begin(f"retry {file} {needed}")
    task = await here.until(task_id, states.COMPLETED if needed == 3 else states.FAILED)
    assert [line.split()[0] for line in attempts(file)] == ["1", "2", "3"]
    if needed == 3:
        assert artifacts(task) == {"out": ["attempt 3"]}
        assert history(task)[1:] == [
            "not yet",
            "Starting again: attempt 2 of 3.",
            "not yet",
            "Starting again: attempt 3 of 3.",
        ]
    else:
        assert words(task) == "not yet"


async def test_a_turn_that_is_lost_again_and_again_is_given_up(
    two_replicas: Pair, callers: list[Caller], tmp_path: Path
) -> None:
    here, _ = callers
    file = tmp_path / "file"
    task_id = await here.begin(f"work {file} 300")
    pids = {one.pid: one for one in two_replicas.replicas}
    for number in range(1, 4):
        await wait_until(partial(has_begun, file, number), f"attempt {number} runs", 10)
        holder = pids.pop(int(attempts(file)[-1].split()[1]))
        holder.kill()
        await asyncio.to_thread(holder.start)
        pids[holder.pid] = holder
    async with calling(*two_replicas.replicas) as (caller, _):
        task = await caller.until(task_id, states.FAILED)
    assert words(task) == "The process that ran this was lost 3 times."
    assert len(attempts(file)) == 3
    (letter,) = two_replicas.store.client.keys(f"*:letter:{task_id}*")
    assert two_replicas.store.client.hget(letter, "attempts") == b"3"


async def test_a_task_can_be_canceled_whose_replica_was_killed(
    two_replicas: Pair, callers: list[Caller], tmp_path: Path
) -> None:
    one, _ = two_replicas.replicas
    here, there = callers
    file = tmp_path / "file"
    task_id = await here.begin(f"work {file} 300")
    await here.until_written(task_id)
    one.kill()
    task = await there.cancel(task_id)
    assert task.status.state == states.CANCELED
    assert len(attempts(file)) == 1


@pytest.mark.agent(AGENT)
async def test_with_the_default_lease_a_lost_turn_runs_elsewhere_within_six_seconds(
    two_replicas: Pair, callers: list[Caller], tmp_path: Path
) -> None:
    one, other = two_replicas.replicas
    here, _ = callers
    file = tmp_path / "file"
    task_id = await here.begin(f"work {file} 300")
    await here.until_written(task_id)
    one.kill()
    killed = time.monotonic()
    await wait_until(lambda: len(attempts(file)) == 2, "the other one runs it", 6)
    assert time.monotonic() - killed > 2, "nobody may be taken for lost at once"
    assert attempts(file)[1] == f"2 {other.pid}"
