"""A long log loses its oldest part: what is left is bounded, and nothing is forgotten that is still to be answered."""

import asyncio
from typing import cast

from a2a_grpc.server.core import states
from a2a_grpc.server.core.events import Fold, message_added
from a2a_grpc.server.store.records import Append, Outcome, StoredTask
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.servers import StoreServer
from tests.support.tasks import chunk, create, dedupe, facts, open_store, origin, read, status, step

KEPT = 100
BATCH = 10
EVERY = 40
"""Entries between two snapshots."""


class Scribe:
    """The holder of a task, who writes chunks in batches and a snapshot every now and then."""

    def __init__(self, store: TaskStore, stored: StoredTask) -> None:
        self.store = store
        self.stored = stored
        self.task_id = stored.task_id
        self.seq = stored.seq
        self.fold = stored.fold
        self.operation = 0
        self._snapshot_at = stored.seq

    def batch(self, *, anew: bool = False) -> Append:
        """The next append: chunks that are the number of their entry; `anew` they replace those before."""
        self.operation += 1
        entries = [chunk(self.stored, f"{self.seq + at} ") for at in range(1, BATCH + 1)]
        entries[0].artifact_update.append = not anew
        for entry in entries:
            self.fold.apply(entry)
        snapshot = self.seq - self._snapshot_at >= EVERY
        head, artifacts = self.fold.to_bytes() if snapshot else (b"", b"")
        return step(
            self.stored,
            self.operation,
            *entries,
            snapshot_at=self.seq if snapshot else None,
            head=head,
            artifacts=artifacts,
        )

    async def write(self, append: Append | None = None) -> None:
        append = self.batch() if append is None else append
        appended = await self.store.append(append)
        assert (appended.outcome, appended.first) == (Outcome.OK, self.seq + 1)
        if append.snapshot_at is not None:
            self._snapshot_at = append.snapshot_at
        self.seq += len(append.entries)

    async def hear(self, text: str) -> int:
        """A caller's message, which waits; the number of its entry."""
        said = origin(text)
        resumed = status(self.stored, states.WORKING)
        placed = await self.store.follow_up(
            await read(self.store, self.task_id), resumed, said, dedupe(said.message.message_id), claim=True
        )
        assert placed.outcome is Outcome.QUEUED
        self.seq += 1
        self.fold.apply(message_added(said.message))
        return placed.seq


def written(first: int, last: int) -> list[str]:
    """The chunks of so many entries."""
    return [f"{seq} " for seq in range(first, last + 1)]


def parts(fold: Fold) -> list[str]:
    return [part.text for artifact in fold.task().artifacts for part in artifact.parts]


def entries(server: StoreServer, store: TaskStore, task_id: str) -> int:
    return int(server.client.xlen(store.keys_of(task_id).log(task_id)))


async def test_a_long_log_is_cut_and_the_task_stays_whole(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, log_events=KEPT) as store:
        scribe = Scribe(store, await create(store))
        while scribe.seq < 1000:
            await scribe.write()
            kept = entries(audited_server, store, scribe.task_id)
            assert min(scribe.seq, KEPT) <= kept <= 2 * (KEPT + EVERY + BATCH)
        stored = await read(store, scribe.task_id)
        assert stored.first == stored.seq - entries(audited_server, store, scribe.task_id) + 1 > 500
        assert parts(stored.fold) == written(2, stored.seq)
        events = await store.log(scribe.task_id, 0, 2000)
        assert [event.seq for event in events] == list(range(stored.first, stored.seq + 1))


async def test_a_kept_event_can_be_gone_back_to_and_a_forgotten_one_cannot(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, log_events=KEPT) as store:
        scribe = Scribe(store, await create(store))
        while scribe.seq < 500:
            await scribe.write()
        first = (await read(store, scribe.task_id)).first
        # The snapshot behind which the log was cut stands for the last event that went.
        for seq in range(first - 1, scribe.seq + 1):
            fold = await store.as_of(scribe.task_id, seq)
            assert fold is not None and parts(fold) == written(2, seq), seq
        for seq in (0, 1, first // 2, first - 2, scribe.seq + 1, 10 * scribe.seq):
            assert await store.as_of(scribe.task_id, seq) is None, seq


async def test_looking_back_while_the_log_is_cut_gives_the_right_task_or_none(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, log_events=KEPT) as store, open_store(audited_server.url, "r2") as other:
        scribe = Scribe(store, await create(store))

        async def look_back() -> set[bool]:
            found = set()
            while scribe.seq < 1500:
                seq = max(scribe.seq - 2 * KEPT, 1)
                fold = await other.as_of(scribe.task_id, seq)
                found.add(fold is None)
                assert fold is None or parts(fold) == written(2, seq)
            return found

        looking = asyncio.create_task(look_back())
        while scribe.seq < 1500:
            await scribe.write()
        assert await looking == {True, False}


async def test_the_message_of_the_turn_is_kept_aside(audited_server: StoreServer) -> None:
    """Whoever takes the turn over has it whole, with what came along."""
    async with open_store(audited_server.url, log_events=KEPT) as store:
        stored = await create(store, "do it")
        before = await store.origin(stored.task_id, 1)
        scribe = Scribe(store, stored)
        while scribe.seq < 500:
            await scribe.write()
        assert (await read(store, scribe.task_id)).first > 1
        await store.put_back(scribe.task_id, stored.epoch, counted=True)
        async with open_store(audited_server.url, "r2", log_events=KEPT) as other:
            assert await other.claim(scribe.task_id)
            found = await read(other, scribe.task_id)
            assert (found.turn, found.attempt, found.holder) == (1, 2, "r2")
            assert before is not None and await other.origin(scribe.task_id, found.turn) == before
            assert parts(found.fold) == written(2, scribe.seq)


async def test_messages_that_wait_are_kept_aside_until_they_are_taken(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, log_events=KEPT) as store:
        scribe = Scribe(store, await create(store))
        await scribe.write()
        waiting = [await scribe.hear(f"message {number}") for number in range(3)]
        while scribe.seq < 500:
            await scribe.write()
        stored = await read(store, scribe.task_id)
        assert stored.first > waiting[-1]
        assert list(stored.queue) == waiting
        for number, seq in enumerate(waiting):
            assert await store.take(scribe.task_id, stored.epoch, number + 1) == (Outcome.TOOK, seq)
            said = await store.origin(scribe.task_id, seq)
            assert said is not None and said.message.parts[0].text == f"message {number}"
            assert (said.request.metadata["said"], said.extensions) == (f"message {number}", ("urn:one", "urn:two"))
            for _ in range(3 * KEPT // BATCH):
                await scribe.write()
            # Those that were answered are not kept any longer.
            assert kept(audited_server, store, scribe.task_id) == set(waiting[number:])
        assert [message.parts[0].text for message in (await read(store, scribe.task_id)).fold.task().history] == [
            "hello",
            *(f"message {number}" for number in range(3)),
        ]


def kept(server: StoreServer, store: TaskStore, task_id: str) -> set[int]:
    """Of which entries the message is kept aside."""
    fields = cast("list[bytes]", server.client.hkeys(store.keys_of(task_id).task(task_id)))
    return {int(field.split(b":")[1]) for field in fields if field.startswith(b"kept:")}


async def test_what_a_task_takes_does_not_grow_with_the_events_it_had(audited_server: StoreServer) -> None:
    """An artifact that is written anew again and again: the task stays small, and so does what is kept of it."""
    async with open_store(audited_server.url, log_events=KEPT) as store:
        scribe = Scribe(store, await create(store))
        keys = store.keys_of(scribe.task_id)

        async def largest() -> int:
            sizes = []
            for _ in range(60):
                await scribe.write(scribe.batch(anew=True))
                sizes.append(
                    sum(size(audited_server, key) for key in (keys.task(scribe.task_id), keys.log(scribe.task_id)))
                )
            return max(sizes)

        before = await largest()
        for _ in range(3):
            assert await largest() < 1.2 * before


def size(server: StoreServer, key: str) -> int:
    """What `key` takes in the server's memory, in bytes."""
    return server.client.memory_usage(key, samples=0) or 0


async def test_a_cut_whose_answer_was_lost_is_not_made_twice(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, log_events=KEPT) as store:
        scribe = Scribe(store, await create(store))
        cuts = 0
        while scribe.seq < 1000:
            before = (await read(store, scribe.task_id)).first
            append = scribe.batch()
            await scribe.write(append)
            stored = await read(store, scribe.task_id)
            cuts += stored.first > before
            again = await store.append(append)
            assert (again.outcome, again.first) == (Outcome.OK, scribe.seq - BATCH + 1)
            assert facts(await read(store, scribe.task_id)) == facts(stored)
        assert cuts > 3
