"""More than the replicas can run: who is next, who is refused, and how long a turn may take."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.cases.agents import HASTY_LIMIT
from tests.cases.conftest import AGENT
from tests.conformance.callers import BINDINGS, KEYS, Caller, Connect, refused, say, state
from tests.conformance.conftest import API_KEYS
from tests.conformance.expected import RESOURCE_EXHAUSTED
from tests.support.audit import audit
from tests.support.replica import Pair, replica
from tests.support.replica import pair as opened
from tests.support.waiting import wait_until

PLACES, QUEUE = 2, 10
LIMIT = 1.0


@pytest.fixture(scope="module")
def small() -> Iterator[Pair]:
    """Two replicas with a few places each, and a short queue, that know the callers of `KEYS`."""
    env = {
        "A2A_API_KEYS": API_KEYS,
        "A2A_MAX_TURNS": str(PLACES),
        "A2A_MAX_READY": str(QUEUE),
        "A2A_CANCEL_GRACE": "1",
    }
    with opened(AGENT, env) as pair:
        yield pair


def begun(notes: Path) -> int:
    """How many turns have begun."""
    return notes.read_text().count("begin") if notes.exists() else 0


async def fill(caller: Caller, text: str) -> list[str]:
    """Tasks for every place of both replicas, and for the whole queue."""
    sent = [await caller.task(text, return_immediately=True) for _ in range(2 * PLACES + QUEUE - 1)]
    return [task.id for task in sent]


async def test_who_floods_the_service_does_not_keep_others_waiting(
    small: Pair, connect: Connect, notes: Path, tmp_path: Path
) -> None:
    """One caller has all places and a queue; the single task of another is next, on whatever replica has room."""
    alice = await connect(small.replicas[0], key=KEYS["alice"])
    bob = await connect(small.replicas[1], key=KEYS["bob"])
    flood = await fill(alice, f"exclusive 300 {notes}")
    assert begun(notes) == 2 * PLACES
    theirs = tmp_path / "theirs"
    waiting = asyncio.create_task(bob.task(f"exclusive 0 {theirs}"))
    await wait_until(lambda: begun(theirs) == 1, "it is their turn")
    # The places may be free at the same moment, so that it is one of those that are next.
    assert begun(notes) <= 4 * PLACES
    assert state((await waiting).status.state) == "COMPLETED"
    for task_id in flood:
        await done(alice, task_id)
    assert begun(notes) == len(flood)


async def done(caller: Caller, task_id: str) -> pb.Task:
    async def ended() -> pb.Task | None:
        task = await caller.get(task_id)
        return task if state(task.status.state) in {"COMPLETED", "FAILED", "CANCELED"} else None

    task = await wait_until(ended, "the task has ended", 10)
    assert task is not None
    return task


async def test_a_full_queue_refuses_on_every_binding_and_stores_nothing(
    small: Pair, connect: Connect, notes: Path
) -> None:
    """RESOURCE_EXHAUSTED, 429, with a hint when to come back; the same message is taken when there is room."""
    alice = await connect(small.replicas[0], key=KEYS["alice"])
    parked = await alice.task("ask")
    flood = await fill(alice, f"exclusive 60000 {notes}")
    flood.append((await alice.task("echo the last one", return_immediately=True)).id)
    client = small.store.client
    keys = sorted(cast("list[bytes]", client.keys("*")))
    for one in small.replicas:
        for over in BINDINGS:
            for key in KEYS.values():
                caller = await connect(one, over=over, key=key)
                for method in ("SendMessage", "SendStreamingMessage"):
                    failure = await refused(RESOURCE_EXHAUSTED, caller.call(method, say("echo one too many")))
                    assert failure.retry_after is not None and 0 < failure.retry_after <= 30
                    if over == "HTTP+JSON":
                        assert int(failure.parameters["retry-after"]) >= 1
    # What begins no turn goes on, and so does a message whose task was accepted.
    assert await alice.get(parked.id) == parked
    await refused(RESOURCE_EXHAUSTED, alice.task("echo x", task_id=parked.id))
    assert sorted(cast("list[bytes]", client.keys("*"))) == keys
    assert await alice.get(parked.id) == parked
    for task_id in reversed(flood):
        await alice.cancel(task_id)
    assert state((await alice.task("echo x", task_id=parked.id)).status.state) == "COMPLETED"
    await wait_until(lambda: not audit(client), "all is in order")


async def test_a_turn_has_the_time_of_its_skill_or_of_the_service(connect: Connect) -> None:
    """A2A_TURN_TIMEOUT, unless the skill says otherwise; the caller reads how long it was."""
    async with replica(agent=AGENT, env={"A2A_TURN_TIMEOUT": str(LIMIT)}) as server:
        caller = await connect(server)
        for skill, limit in (("task", LIMIT), ("hasty", HASTY_LIMIT)):
            begun_at = time.monotonic()
            task = await caller.task(f"{skill} end hang")
            assert limit <= time.monotonic() - begun_at < limit + 1
            assert state(task.status.state) == "FAILED"
            assert task.status.message.parts[0].text == f"The agent did not finish within {limit:g} seconds."
