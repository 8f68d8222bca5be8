"""B005: a turn whose process is gone, or as good as gone, is run again elsewhere, once, and everybody sees it."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases.conftest import AGENT
from tests.cases.reading import chunks, reached, ticks
from tests.conformance.callers import BINDINGS, CallError, Connect, kinds, texts
from tests.conformance.expected import UNAVAILABLE
from tests.support.replica import Pair, Replica
from tests.support.servers import fresh_store_server
from tests.support.waiting import wait_until

LEASE = 1.0


@pytest.fixture
def pods() -> Iterator[list[Replica]]:
    """Two replicas on one store, named as a platform names its pods: a new process has the name of the one before."""
    with fresh_store_server() as store, contextlib.ExitStack() as stack:
        pods = [
            Replica(agent=AGENT, redis_url=store.url, env={"A2A_REPLICA": f"pod-{number}", "A2A_LEASE_TTL": str(LEASE)})
            for number in range(2)
        ]
        for pod in pods:
            stack.callback(pod.close)
            pod.start(wait=False)
        for pod in pods:
            pod.wait_ready()
        yield pods


def begun(notes: Path) -> list[str]:
    """The process of each time that the turn was begun."""
    return [line.split()[1] for line in notes.read_text().splitlines()]


async def test_b005_a_killed_pod_loses_its_turn_although_it_comes_back_at_once(
    pods: list[Replica], connect: Connect, notes: Path
) -> None:
    """Under the same name. The turn is run once more, and readers elsewhere, on every binding, see it to its end."""
    one, other = [await connect(pod) for pod in pods]
    lost = str(pods[0].pid)
    task = await one.task(f"counted 30 100 {notes}", return_immediately=True)
    async with contextlib.AsyncExitStack() as stack:
        readers = [await connect(pods[1], over=over) for over in BINDINGS]
        streams = [await stack.enter_async_context(reader.subscribe(task.id)) for reader in readers]
        reading = [asyncio.create_task(stream.all()) for stream in streams]
        await wait_until(lambda: begun(notes) == [lost], "the turn has begun")
        pods[0].kill()
        await asyncio.to_thread(pods[0].start)
        await wait_until(lambda: len(begun(notes)) == 2, "somebody runs it again", 6 * LEASE)
        logs = await asyncio.wait_for(asyncio.gather(*reading), 10)
    longest = max(logs, key=len)
    for log in logs:
        # Each begins with the task as it was when that reader came.
        assert log[1:] == longest[len(longest) - len(log) + 1 :]
        assert kinds(log)[-1] == "COMPLETED" and kinds(log).count("COMPLETED") == 1
        assert chunks(log).endswith(ticks(1, 30))
    assert texts(await other.get(task.id)) == [ticks(1, 30)]
    assert len(begun(notes)) == 2 and lost not in begun(notes)[1:]


async def test_b005_who_blocks_the_event_loop_for_longer_than_the_lease_loses_the_turn(
    pods: list[Replica], connect: Connect, notes: Path
) -> None:
    """Nobody can tell such a process from one that is gone; when it goes on, what it writes is not heard."""
    one, other = [await connect(pod) for pod in pods]
    task = await one.task(f"block {4000 * LEASE:g} {notes}", return_immediately=True)
    done = await reached(other, task.id, "COMPLETED")
    assert texts(done) == ["attempt 2"]
    assert begun(notes) == [str(pods[0].pid), str(pods[1].pid)]
    # The other one is back, and runs turns again.
    assert texts(await one.task("echo back")) == ["back"]
    assert await one.get(task.id) == done
    assert len(begun(notes)) == 2


@pytest.mark.agent("tests.engine.lost_agent:agent")
async def test_what_may_not_run_twice_is_not_given_back_by_a_replica_that_stops(
    two_replicas: Pair, connect: Connect, notes: Path
) -> None:
    """The grace is over and the turn is not: it ends as FAILED, and a dead letter keeps what was to be done."""
    one, other = [await connect(replica) for replica in two_replicas.replicas]
    task = await one.task(f"once {notes} 600", return_immediately=True)
    await wait_until(lambda: len(begun(notes)) == 1, "the turn has begun")
    two_replicas.replicas[0].terminate()
    assert await asyncio.to_thread(two_replicas.replicas[0].wait) == 0
    done = await reached(other, task.id, "FAILED")
    assert [part.text for part in done.status.message.parts] == [
        "The service stopped before this was done, and it may not be run twice."
    ]
    assert len(begun(notes)) == 1
    [letter] = two_replicas.store.client.keys(f"*:letter:{task.id}*")
    assert two_replicas.store.client.hget(letter, "attempts") == b"1"


@pytest.mark.agent("tests.engine.lost_agent:agent", A2A_STORE_PATIENCE="2")
async def test_turns_are_given_up_when_the_store_is_away_for_longer_than_the_patience(
    two_replicas: Pair, connect: Connect, tmp_path: Path
) -> None:
    """They stop, as others may have them, and are run again when it is back; what may not run twice ends as FAILED."""
    one, other = [await connect(replica) for replica in two_replicas.replicas]
    twice, once = tmp_path / "twice", tmp_path / "once"
    again = await one.task(f"work {twice} 20", return_immediately=True)
    never = await one.task(f"once {once} 20", return_immediately=True)
    await wait_until(lambda: twice.exists() and once.exists(), "both have begun")
    blocking = asyncio.create_task(one.task(f"work {tmp_path / 'blocking'} 20"))
    await wait_until((tmp_path / "blocking").exists, "so has this one, for which somebody waits")
    async with other.subscribe(again.id) as stream:
        reading = asyncio.create_task(stream.all())
        two_replicas.store.kill()
        lost = time.monotonic()
        for waiting in (blocking, reading):
            with pytest.raises(CallError) as caught:
                await asyncio.wait_for(waiting, 10)
            assert caught.value.is_of(UNAVAILABLE), caught.value
        assert time.monotonic() - lost >= 2
    two_replicas.store.start()
    done = await reached(other, again.id, "COMPLETED")
    assert texts(done) == ["".join(f"{number} of attempt 2" for number in range(20))]
    assert len(begun(twice)) == 2
    failed = await reached(other, never.id, "FAILED")
    assert [part.text for part in failed.status.message.parts] == [
        "The process that ran this was lost, and it may not be run twice."
    ]
    assert len(begun(once)) == 1
