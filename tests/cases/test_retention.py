"""B009: what has ended goes when its time is over, what lives stays, and what is long is cut."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.cases.conftest import AGENT
from tests.cases.reading import chunks, ticks
from tests.conformance.callers import Connect, kinds, refused, say, state, texts
from tests.conformance.expected import TASK_NOT_FOUND
from tests.support.audit import audit
from tests.support.replica import Pair
from tests.support.replica import pair as opened
from tests.support.servers import StoreServer
from tests.support.waiting import wait_until

TTL = 1.0
ALWAYS = {"a2a:shards", "a2a:{0}:replicas", *(f"a2a:{{{shard}}}:tally" for shard in range(4))}
"""What a service that has nothing to do keeps for ever."""


@pytest.fixture
def brief() -> Iterator[Pair]:
    """Two replicas that keep nothing for longer than a second, and run few turns, each of them twice at most."""
    env = {
        "A2A_TASK_TTL": str(TTL),
        "A2A_DEDUPE_TTL": str(TTL),
        "A2A_DEAD_LETTER_TTL": str(TTL),
        "A2A_SHARDS": "4",
        "A2A_MAX_TURNS": "4",
        "A2A_MAX_ATTEMPTS": "2",
        "A2A_LEASE_TTL": "1",
    }
    with opened(AGENT, env) as pair:
        yield pair


@pytest.mark.wide
async def test_b009_what_has_ended_goes_whole_and_what_lives_stays(brief: Pair, connect: Connect) -> None:
    """A turn and a question outlive many times the time for which ended tasks are kept; of those no key is left."""
    one, other = [await connect(replica) for replica in brief.replicas]
    store = brief.store.client
    memory = store.info("memory")["used_memory"]
    question = await one.task("ask")
    async with other.stream("SendStreamingMessage", say("tick 80 100")) as stream:
        running = (await anext(stream)).task.id
        reading = asyncio.create_task(stream.all())
        ended = await asyncio.gather(*(one.task(text) for text in ["echo x", "fail", "reject", "raise"] * 50))
        for task in await asyncio.gather(*(other.task("ask") for _ in range(20))):
            # Its message goes to another shard, mostly, than where it would begin a task.
            ended.append(await one.task("echo y", task_id=task.id))
        ended += [await one.cancel((await other.task("ask")).id) for _ in range(5)]
        ended += await asyncio.gather(*(one.task("again 200") for _ in range(5)))
        await wait_until(lambda: store.keys("*:letter:*"), "those that could not be done have left a letter")
        lost = await one.task("hang", return_immediately=True)
        brief.replicas[0].kill()
        await wait_until(lambda: store.exists("a2a:{0}:condemned"), "a replica is lost", 10)
        await asyncio.to_thread(brief.replicas[0].start)
        ended.append(await other.cancel(lost.id))
        one = await connect(brief.replicas[0])

        async def gone() -> bool:
            found = {task.id for task in (await other.page(page_size=100)).tasks}
            # Where all this took long, the running turn is over, and its task may be gone.
            return found | {running} == {question.id, running} and (running in found or reading.done())

        await wait_until(gone, "the ended tasks are erased", 15)
        for task in (ended[0], ended[-1]):
            await refused(TASK_NOT_FOUND, one.get(task.id))
        assert await one.get(question.id) == question
        events = await reading
        assert (chunks(events), kinds(events)[-1]) == (ticks(1, 80), "COMPLETED")
    assert texts(await other.task("echo z", task_id=question.id)) == ["z"]
    await wait_until(lambda: not store.keys("*:task:*"), "the last tasks are erased", 15)
    # A lost replica is remembered for a minute; let that have passed.
    for name, since in store.hgetall("a2a:{0}:condemned").items():
        store.hset("a2a:{0}:condemned", name, int(since) - 60_000)
    await wait_until(lambda: not lasting(brief.store), "nothing else is left that would stay")
    assert not audit(store)
    assert store.info("memory")["used_memory"] < memory + 2**20


def lasting(server: StoreServer) -> list[str]:
    """The keys that stay for ever although nothing is left for which the table of `store/keys.py` would keep them."""
    names = [name.decode() for name in cast("list[bytes]", server.client.keys("*"))]
    return [name for name in names if name not in ALWAYS and server.client.pttl(name) == -1]


LOG, SNAPSHOT = 100, 16
LONGEST = 2 * LOG + 256
"""Entries of a log that may stand at once: what is kept, as much until the next cut, and a batch."""


@pytest.fixture
def short() -> Iterator[Pair]:
    """Two replicas that keep short logs."""
    env = {"A2A_LOG_EVENTS": str(LOG), "A2A_SNAPSHOT_EVENTS": str(SNAPSHOT), "A2A_LEASE_TTL": "1"}
    with opened(AGENT, env) as pair:
        yield pair


async def test_b009_a_long_task_keeps_a_short_log_and_outlives_its_replica(
    short: Pair, connect: Connect, notes: Path
) -> None:
    """Killed when the beginning of the log is gone: the turn runs again with its message, then the one that waited."""
    one, other = [await connect(replica) for replica in short.replicas]
    watched = await connect(short.replicas[1], over="HTTP+JSON")
    task = await one.task(f"counted 1000 2 {notes}", return_immediately=True)
    await one.task("echo more", task_id=task.id, return_immediately=True)
    lengths = [0]

    def cut() -> bool:
        lengths.append(short.store.client.xlen(f"a2a:{{0}}:log:{task.id}"))
        return int(short.store.client.hget(f"a2a:{{0}}:task:{task.id}", "base") or 0) > LOG

    await wait_until(cut, "the beginning of the log is gone", 10)
    short.replicas[0].kill()
    async with watched.subscribe(task.id) as stream:
        reading = asyncio.create_task(stream.all())
        await wait_until(lambda: cut() and len(notes.read_text().splitlines()) == 2, "the other one runs it", 10)
        while not reading.done():
            cut()
            await asyncio.wait([reading], timeout=0.02)
        events = await reading
    assert max(lengths) <= LONGEST
    done = await other.get(task.id)
    assert (state(done.status.state), texts(done)) == ("COMPLETED", [ticks(1, 1000), "more"])
    assert len(notes.read_text().splitlines()) == 2
    assert kinds(events)[-1] == "COMPLETED"
    assert chunks(events).endswith(ticks(1, 1000) + "more")
    assert not audit(short.store.client)
