"""What two replicas tell of what they share, and of what each of them does."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple, cast

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.server.core import states
from tests.conformance.callers import Caller, Connect, say
from tests.store.pens import Pen
from tests.support.audit import audit
from tests.support.metrics import Reading, measuring, scrape
from tests.support.places import open_place, take
from tests.support.replica import Replica, free_ports
from tests.support.servers import StoreServer, fresh_store_server
from tests.support.tasks import create, open_store
from tests.support.waiting import wait_until

AGENT = "tests.telemetry.levels_agent:agent"
STATES = {
    "submitted", "working", "completed", "failed", "canceled", "input_required", "rejected", "auth_required"
}  # fmt: skip


class Two(NamedTuple):
    """Two replicas on one store, and where each tells its metrics."""

    store: StoreServer
    replicas: tuple[Replica, Replica]
    addrs: tuple[str, str]


@pytest.fixture(scope="module")
def two() -> Iterator[Two]:
    addrs = tuple(f"127.0.0.1:{port}" for port in free_ports(2))
    env = {"A2A_MAX_TURNS": "1", "A2A_LEASE_TTL": "1", "A2A_TURN_TIMEOUT": "600"}
    with fresh_store_server() as store, ExitStack() as stack:
        replicas = [Replica(agent=AGENT, redis_url=store.url, env={**env, "A2A_METRICS_ADDR": addr}) for addr in addrs]
        for one in replicas:
            stack.callback(one.close)
            one.start(wait=False)
        for one in replicas:
            one.wait_ready()
        yield Two(store, (replicas[0], replicas[1]), (addrs[0], addrs[1]))


@pytest.fixture
async def caller(connect_over: Connect, two: Two) -> Caller:
    return await connect_over(two.replicas[0], over="GRPC")


def tasks(reading: Reading) -> dict[str, float] | None:
    """Tasks by state, those of which there are some; None where nothing is told."""
    told = {dict(labels)["a2a_task_state"]: labels for labels in reading.labels("a2a_tasks")}
    if not told:
        return None
    assert told.keys() == STATES
    return {state: count for state, labels in told.items() if (count := reading.samples["a2a_tasks", labels])}


def there(store: StoreServer) -> Counter[str]:
    """The tasks that are in the store, by state."""
    found = (store.client.hget(name.decode(), "state") for name in cast("list[bytes]", store.client.keys("*:task:*")))
    return Counter(states.label(states.parse(cast("bytes", state))) for state in found)


async def until(addr: str, what: Callable[[Reading], bool], about: str, timeout: float = 5.0) -> Reading:
    """The metrics at `addr` once `what` is true of them."""

    async def reached() -> Reading | None:
        reading = await scrape(addr)
        return reading if what(reading) else None

    found = await wait_until(reached, about, timeout)
    assert found is not None
    return found


async def test_all_replicas_tell_the_same_of_the_store(two: Two, caller: Caller) -> None:
    for text in ("done", "fail", "ask"):
        await caller.task(text)
    # Each replica has one place: two run, three wait.
    waits = [await caller.task("wait", return_immediately=True) for _ in range(5)]
    for addr in two.addrs:
        reading = await until(addr, lambda seen: (tasks(seen) or {}).get("working") == 2, "two run")
        seen = tasks(reading)
        assert seen is not None
        assert seen == there(two.store)
        assert seen["submitted"] == 3
        assert min(seen[state] for state in ("completed", "failed", "input_required")) >= 1
        assert reading.of("a2a_queue_depth") == 3
        assert 0 < reading.of("a2a_queue_age_seconds") < 60
        assert reading.of("a2a_turns_active") == reading.of("a2a_turns_limit") == 1
        assert reading.kinds["a2a_tasks"] == reading.kinds["a2a_queue_age_seconds"] == "gauge"
    for task in waits:
        await caller.cancel(task.id)
    for addr in two.addrs:
        reading = await until(addr, lambda seen: tasks(seen) == there(two.store), "all are canceled")
        assert reading.of("a2a_queue_depth") == reading.of("a2a_queue_age_seconds") == 0
    assert audit(two.store.client) == []


async def test_levels_are_absent_while_the_store_is_away(two: Two) -> None:
    names = ("a2a_tasks", "a2a_queue_depth", "a2a_queue_age_seconds")

    def told(reading: Reading) -> list[bool]:
        return [bool(reading.labels(name)) for name in names]

    before = await until(two.addrs[0], lambda seen: all(told(seen)), "all is told")
    with two.store.frozen():
        away = await until(two.addrs[0], lambda seen: not any(told(seen)), "nothing of the store is told", 10)
        # What the process knows by itself is told all the same.
        assert away.of("a2a_turns_limit") == 1
        assert away.labels("a2a_turns_active")
    after = await until(two.addrs[0], lambda seen: all(told(seen)), "all is told again", 10)
    assert tasks(after) == tasks(before)


async def test_turns_by_their_outcome(two: Two, caller: Caller) -> None:
    name = "a2a_turn_duration_seconds_count"

    async def outcomes() -> dict[str, float]:
        readings = [await scrape(addr) for addr in two.addrs]
        found = {dict(labels)["a2a_turn_outcome"] for seen in readings for labels in seen.labels(name)}
        return {each: sum(seen.of(name, a2a_turn_outcome=each) for seen in readings) for each in found}

    before = await outcomes()
    for text in ("done", "fail", "ask", "again"):
        await caller.task(text)
    task = await caller.task("wait", return_immediately=True)
    await caller.cancel(task.id)
    expected = {"completed": 2, "failed": 1, "input_required": 1, "retry": 1, "canceled": 1}

    async def seen() -> bool:
        after = await outcomes()
        return {each: after[each] - before.get(each, 0) for each in after if after[each] != before.get(each, 0)} == (
            expected
        )

    await wait_until(seen, f"the outcomes are {expected}")


async def test_events_on_their_way_by_path(two: Two, caller: Caller, connect_over: Connect) -> None:
    """A reader beside the turn, and one at the other replica."""
    name = "a2a_event_delivery_duration_seconds"
    before = [await scrape(addr) for addr in two.addrs]
    other = await connect_over(two.replicas[1], over="GRPC")
    async with caller.stream("SendStreamingMessage", say("steps")) as here:
        task_id = (await anext(here)).task.id
        async with other.subscribe(task_id) as there:
            assert (await here.all())[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
            assert (await there.all())[-1].status_update.status.state == pb.TASK_STATE_COMPLETED
    after = [await scrape(addr) for addr in two.addrs]

    def more(at: int, path: str, suffix: str) -> float:
        return after[at].of(name + suffix, a2a_event_path=path) - before[at].of(name + suffix, a2a_event_path=path)

    assert 2 <= more(0, "local", "_count") <= 7
    assert more(0, "local", "_sum") < 5
    assert 1 <= more(1, "followed", "_count") <= 7
    assert 0 <= more(1, "followed", "_sum") < 5
    assert more(0, "followed", "_count") == more(1, "local", "_count") == 0


async def test_streams_that_are_open(two: Two, caller: Caller, connect_over: Connect) -> None:
    task = await caller.task("wait", return_immediately=True)
    web = await connect_over(two.replicas[0], over="HTTP+JSON")

    def open_now(grpc: int, http: int) -> Callable[[Reading], bool]:
        return lambda seen: (
            seen.of("a2a_streams_active", rpc_system_name="grpc") == grpc
            and seen.of("a2a_streams_active", rpc_system_name="http_json") == http
        )

    async with caller.subscribe(task.id), caller.subscribe(task.id), web.subscribe(task.id):
        await until(two.addrs[0], open_now(2, 1), "three streams are open")
    reading = await until(two.addrs[0], open_now(0, 0), "none is open")
    assert reading.of("a2a_streams_active", rpc_system_name="jsonrpc") == 0
    await caller.cancel(task.id)


async def test_calls_to_the_store(two: Two, caller: Caller) -> None:
    name = "db_client_operation_duration_seconds_count"
    before = await scrape(two.addrs[0])
    await caller.task("done")
    after = await scrape(two.addrs[0])
    for operation in ("create", "append"):
        assert after.of(name, db_operation_name=operation) > before.of(name, db_operation_name=operation)
    operations = {dict(labels)["db_operation_name"] for labels in after.labels(name)}
    assert {"create", "append", "beat", "look", "SET"} <= operations
    assert len(operations) < 60
    waits = "db_client_connection_wait_time_seconds"
    assert after.of(f"{waits}_count") > before.of(f"{waits}_count")
    assert 0 <= after.of(f"{waits}_sum") - before.of(f"{waits}_sum") < 5


async def test_turns_of_a_lost_replica_are_counted_by_those_who_take_them(
    two: Two, caller: Caller, connect_over: Connect
) -> None:
    name = "a2a_turns_recovered_total"
    other = await connect_over(two.replicas[1], over="GRPC")
    before = (await scrape(two.addrs[1])).of(name)
    task = await caller.task("wait", return_immediately=True)
    await until(two.addrs[0], lambda seen: seen.of("a2a_turns_active") == 1, "it runs at the first one")
    two.replicas[0].kill()
    await until(two.addrs[1], lambda seen: seen.of(name) == before + 1, "the turn is recovered", 10)
    await until(two.addrs[1], lambda seen: seen.of("a2a_turns_active") == 1, "it runs at the second one")
    await other.cancel(task.id)
    two.replicas[0].start()
    reading = await until(two.addrs[0], lambda seen: tasks(seen) is not None, "the first one is back")
    assert tasks(reading) == tasks(await scrape(two.addrs[1]))


async def test_what_followers_repair_and_how_far_they_are_behind(one_store_server: StoreServer) -> None:
    with measuring() as meters:

        def repairs() -> dict[str, float]:
            name, seen = "a2a_follower_repairs_total", meters.read()
            counts = {dict(labels)["a2a_follower_reason"]: seen.samples[name, labels] for labels in seen.labels(name)}
            assert counts.keys() == {"gap", "buffer", "doubt", "silence"}
            return {reason: count for reason, count in counts.items() if count}

        async with open_place(one_store_server.url, buffer=4) as here, open_store(one_store_server.url, "r2") as there:
            stored = await create(there)
            pen = Pen(there, stored)
            async with here.tail.follow(stored.task_id) as follower:
                follower.begin(1)
                await pen.write(3)
                await wait_until(lambda: here.tail.lag() == 3, "three events wait")
                await pen.write(4)
                await wait_until(lambda: here.tail.lag() == 0, "the buffer was too small")
                await take(follower, stored, pen.seq)
                assert repairs() == {"buffer": 1}
                follower.doubt()
                reading = asyncio.create_task(follower.next())
                await wait_until(lambda: repairs() == {"buffer": 1, "doubt": 1}, "it has looked into the log")
                reading.cancel()
