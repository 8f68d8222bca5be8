"""Following a log: no gap, no repeat, in order, whatever else goes on."""

import asyncio
import random
import sys
from functools import partial
from pathlib import Path

import pytest

from a2a_grpc.server.core import states
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.records import StoredTask
from a2a_grpc.server.store.tail import unpack
from a2a_grpc.server.store.tasks import TaskStore
from tests.store.pens import Pen
from tests.support.lossy import lossy
from tests.support.places import open_place, take
from tests.support.servers import StoreServer
from tests.support.tasks import chunk, create, dedupe, open_store, origin, read, status, step
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]


async def log_of(store: TaskStore, task_id: str) -> list[Event]:
    events: list[Event] = []
    while more := await store.log(task_id, len(events), 2000):
        events += more
    return events


async def test_followers_that_begin_at_any_time_see_all_that_another_process_writes(
    one_store_server: StoreServer,
) -> None:
    """Two thousand events by a second process; twenty followers here join while it writes, the next after the last."""
    chance, count, joining = random.Random(1), 2000, 20
    async with open_place(one_store_server.url, "r1") as one, open_place(one_store_server.url, "r2") as two:
        stored = await create(one.store)
        writer = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.store.writer_app",
            one_store_server.url,
            stored.task_id,
            "1",
            str(count),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
        )
        assert writer.stdin is not None
        followers = []
        for at in range(joining):
            writer.stdin.write(b"%d\n" % (count // joining * (at + 1)))
            await wait_until(
                partial(written, one_store_server, stored, count // joining * at), "the writer gets on", 20
            )
            place = chance.choice([one, two])
            followers.append(asyncio.create_task(place.collect(stored.task_id, count + 2)))
            await wait_until(lambda: one.begun + two.begun == len(followers), "it has joined")
        seen = await asyncio.gather(*followers)
        assert await writer.wait() == 0
        whole = await log_of(one.store, stored.task_id)
        assert [event.seq for event in whole] == list(range(1, count + 3))
        for events in seen:
            assert events == whole[len(whole) - len(events) :]
        assert channels(one_store_server) == {one.store.all_keys()[0].wake("r1"), one.store.all_keys()[0].wake("r2")}


def written(server: StoreServer, stored: StoredTask, least: int) -> bool:
    return int(server.client.xlen(f"a2a:{{0}}:log:{stored.task_id}")) > least


def channels(server: StoreServer) -> set[str]:
    """What anybody is subscribed to."""
    found = server.client.execute_command("PUBSUB", "SHARDCHANNELS")  # type: ignore[no-untyped-call]
    return {channel.decode() for channel in found}


async def test_a_slow_follower_with_a_tiny_buffer_reads_the_log(store_server: StoreServer) -> None:
    async with open_place(store_server.url, buffer=4) as here, open_store(store_server.url, "r2") as there:
        stored = await create(there)
        pen = Pen(there, stored)
        async with here.tail.follow(stored.task_id) as slow, here.tail.follow(stored.task_id) as quick:
            slow.begin(1)
            quick.begin(1)
            for size in [1, 2, 3, 4, 5, 6, 1, 1, 700, 1, 2]:
                await pen.write(size)
                assert [event.seq for event in await take(quick, stored, pen.seq)][-1] == pen.seq
                stored.seq = pen.seq
            stored.seq = 1
            assert await take(slow, stored, pen.seq) == (await log_of(there, stored.task_id))[1:]


async def test_entries_too_large_to_be_published_are_read_from_the_log(one_store_server: StoreServer) -> None:
    """Two hundred chunks of 200 kB to a follower who does not read meanwhile: the server must not cut it off."""
    async with open_place(one_store_server.url) as here, open_store(one_store_server.url, "r2") as there:
        stored = await create(there)
        follower = asyncio.create_task(here.collect(stored.task_id, 201))
        await wait_until(lambda: here.begun == 1, "the follower is there")
        before = {client["id"] for client in one_store_server.client.client_list() if int(client["ssub"])}
        for operation in range(1, 101):
            large = [chunk(stored, f"{operation} " + "x" * 200_000) for _ in range(2)]
            await there.append(step(stored, operation, *large))
        assert [event.seq for event in await follower] == list(range(2, 202))
        assert {client["id"] for client in one_store_server.client.client_list() if int(client["ssub"])} == before


async def test_older_entries_than_the_follower_are_read_where_they_are_wanted(store_server: StoreServer) -> None:
    async with open_place(store_server.url) as here, open_store(store_server.url, "r2") as there:
        stored = await create(there)
        pen = Pen(there, stored)
        await pen.write(1500)
        async with here.tail.follow(stored.task_id) as follower:
            follower.begin(10, behind=True)
            stored.seq = 10
            assert await take(follower, stored, pen.seq) == (await log_of(there, stored.task_id))[10:]


async def test_every_kind_of_entry_is_followed(store_server: StoreServer) -> None:
    async with open_place(store_server.url) as here, open_store(store_server.url, "r2") as there:
        stored = await create(there)
        follower = asyncio.create_task(here.collect(stored.task_id, 7))
        await wait_until(lambda: here.begun == 1, "the follower is there")
        await there.append(
            step(stored, 1, status(stored, states.WORKING), status(stored, states.INPUT_REQUIRED, "?"), release=True)
        )
        parked = await read(there, stored.task_id)
        await there.follow_up(parked, status(parked, states.WORKING), origin("m2"), dedupe("m2"), claim=True)
        working = await read(there, stored.task_id)
        await there.follow_up(working, status(working, states.WORKING), origin("m3"), dedupe("m3"), claim=True)
        working = await read(there, stored.task_id)
        assert await there.cancel(working, status(working, states.CANCELED), over="r2") is not None
        events = await follower
        assert [event.response.WhichOneof("payload") for event in events] == [
            "status_update", "status_update", "status_update", "message", "message", "status_update"
        ]  # fmt: skip
        assert events == (await log_of(there, stored.task_id))[1:]


# -- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["cut", "restart", "pause", "freeze"])
async def test_a_log_is_continuous_over_a_fault_of_the_store(store_server: StoreServer, fault: str) -> None:
    async with open_place(store_server.url, timeout=3.0) as here, open_store(store_server.url, "r2") as there:
        stored = await create(there)
        pen = Pen(there, stored)
        followers = [asyncio.create_task(here.collect(stored.task_id, 601)) for _ in range(5)]
        await wait_until(lambda: here.begun == 5, "the followers are there")
        for at in range(60):
            await pen.write(10)
            if at % 15 == 7:
                match fault:
                    case "cut":
                        await wait_until(lambda: store_server.cut_connections("pubsub") == 1, "it is cut")
                    case "restart":
                        await store_server.restart()
                    case "pause":
                        store_server.pause(0.2)
                    case "freeze":
                        with store_server.frozen():
                            await asyncio.sleep(0.2)
        async with asyncio.timeout(5):
            seen = await asyncio.gather(*followers)
        assert [[event.seq for event in events] for events in seen] == [list(range(2, 602))] * 5


async def test_what_is_written_before_the_subscription_stands_again_is_not_missed(store_server: StoreServer) -> None:
    """The last event of all comes while the request to subscribe again is on its way."""
    async with (
        lossy(store_server) as link,
        open_place(store_server.url, tail_url=link.url) as here,
        open_store(store_server.url, "r2") as there,
    ):
        stored = await create(there)
        pen = Pen(there, stored)
        async with here.tail.follow(stored.task_id) as follower:
            follower.begin(1)
            await pen.write()
            assert (await follower.next()).seq == 2
            link.hold()
            store_server.cut_connections("pubsub")
            waiting = asyncio.create_task(follower.next())
            await wait_until(lambda: link.held > 0, "a new connection asks for something")
            await asyncio.sleep(0.2)  # all that can be done without the subscription is done
            await pen.write()
            link.let_go()
            async with asyncio.timeout(3):
                assert (await waiting).seq == 3


async def test_who_begins_to_follow_while_the_connection_is_made_is_subscribed_too(store_server: StoreServer) -> None:
    async with (
        lossy(store_server) as link,
        # To select a database is a request and its answer, before anything else can be asked for.
        open_place(store_server.url, tail_url=f"{link.url}?db=1") as here,
        open_store(store_server.url, "r2") as there,
    ):
        stored = await create(there)
        pen = Pen(there, stored)
        link.hold()
        store_server.cut_connections("pubsub")
        await wait_until(lambda: link.held > 0, "a new connection asks for something")
        follower = asyncio.create_task(here.collect(stored.task_id, 2))
        leaver = asyncio.create_task(here.collect((await create(there)).task_id, 2))
        await asyncio.sleep(0.05)
        leaver.cancel()
        await asyncio.gather(leaver, return_exceptions=True)
        link.let_go()
        await wait_until(lambda: here.begun == 1, "the follower follows")
        assert len(channels(store_server)) == 2, "the leaver is still subscribed"
        await pen.write()
        async with asyncio.timeout(3):
            assert [event.seq for event in await follower] == [2]
        await wait_until(lambda: len(channels(store_server)) == 1, "the follower's channel is left")


async def test_without_a_store_following_fails_in_time_and_goes_on_when_it_is_back(
    one_store_server: StoreServer,
) -> None:
    async with open_place(one_store_server.url, timeout=0.3) as here:
        stored = await create(here.store)
        one_store_server.kill()
        await wait_until(lambda: not here.tail.connected, "the loss is noticed")
        began = asyncio.get_running_loop().time()
        with pytest.raises(StoreUnavailableError):
            await here.collect(stored.task_id, 2)
        assert asyncio.get_running_loop().time() - began < 10
        one_store_server.start()
        await wait_until(lambda: here.tail.connected, "the tail is connected again")
        follower = asyncio.create_task(here.collect(stored.task_id, 2))
        await wait_until(lambda: here.begun == 1, "the follower follows")
        await Pen(here.store, stored).write()
        assert [event.seq for event in await follower] == [2]


async def test_who_waits_for_longer_than_the_patience_hears_that_the_store_is_away(
    one_store_server: StoreServer,
) -> None:
    async with open_place(one_store_server.url, timeout=0.3, patience=0.5) as here:
        stored = await create(here.store)
        follower = asyncio.create_task(here.collect(stored.task_id, 2))
        await wait_until(lambda: here.begun == 1, "the follower is there")
        one_store_server.kill()
        with pytest.raises(StoreUnavailableError):
            async with asyncio.timeout(5):
                await follower
        one_store_server.start()


async def test_a_log_with_a_hole_is_told_and_not_jumped_over(store_server: StoreServer) -> None:
    async with open_place(store_server.url) as here, open_store(store_server.url, "r2") as there:
        stored = await create(there)
        pen = Pen(there, stored)
        async with here.tail.follow(stored.task_id) as follower:
            follower.begin(1)
            await pen.write(3)
            stored.seq = 1
            assert len(await take(follower, stored, 4)) == 3
            follower.begin(1)
            store_server.client.delete(f"a2a:{{0}}:log:{stored.task_id}")
            await pen.write()
            with pytest.raises(StoreUnavailableError, match="no longer complete"):
                await follower.next()


# -- the direct path -------------------------------------------------------------------------------------------------


async def test_events_of_a_run_in_this_process_come_without_the_store_and_go_on_over_the_channel(
    store_server: StoreServer,
) -> None:
    async with open_place(store_server.url) as here, open_place(store_server.url, "r2") as there:
        stored = await create(here.store)
        task_id, seen = stored.task_id, asyncio.create_task(here.collect(stored.task_id, 25))
        elsewhere = asyncio.create_task(there.collect(task_id, 25))
        await wait_until(lambda: here.begun == there.begun == 1, "the followers are there")
        pen, operation = Pen(there.store, stored), 100

        async def write_here() -> None:
            nonlocal operation
            operation += 1
            entry = chunk(stored, "here")
            appended = await here.store.append(step(stored, operation, entry))
            pen.seq = appended.first
            here.tail.publish(task_id, [Event(appended.first, entry)])

        for _ in range(4):
            await pen.write(2)
            # It comes here. What came before may still be on its way over the channel.
            here.tail.run_begins(task_id)
            for _ in range(2):
                await write_here()
            # It goes away again.
            assert here.tail.run_ends(task_id, ended=False)
            await pen.write(2)
            await here.tail.go_on(task_id)
        async with asyncio.timeout(5):
            whole = (await log_of(here.store, task_id))[1:]
            assert [event.seq for event in whole] == list(range(2, 26))
            assert await seen == await elsewhere == whole


async def test_a_run_of_this_process_needs_no_channel(store_server: StoreServer) -> None:
    async with open_place(store_server.url) as here:
        stored = await create(here.store)
        here.tail.run_begins(stored.task_id)
        async with here.tail.follow(stored.task_id) as follower:
            follower.begin(1)
            assert len(channels(store_server)) == 1
            entry = chunk(stored, "x")
            await here.store.append(step(stored, 1, entry))
            here.tail.publish(stored.task_id, [Event(2, entry)])
            assert await follower.next() == Event(2, entry)
        assert not here.tail.run_ends(stored.task_id, ended=True)


async def test_what_began_a_run_here_is_seen_at_once(store_server: StoreServer) -> None:
    """An answer resumes a task on this replica: its subscribers see WORKING before the agent says anything."""
    async with lossy(store_server) as link, open_place(store_server.url, tail_url=link.url) as here:
        stored = await create(here.store)
        await here.store.append(step(stored, 1, status(stored, states.INPUT_REQUIRED, "?"), release=True))
        stored = await read(here.store, stored.task_id)
        follower = asyncio.create_task(here.collect(stored.task_id, 4))
        await wait_until(lambda: here.begun == 1, "the follower is there")
        # What the channel brings comes later than the answer to the step itself.
        link.hold()
        await here.store.follow_up(stored, status(stored, states.WORKING), origin("a"), dedupe("a"), claim=True)
        here.tail.run_begins(stored.task_id)
        async with asyncio.timeout(3):
            assert [event.seq for event in await follower] == [3, 4]
        link.let_go()


async def test_channels_are_left_whichever_way_a_task_came_and_went(store_server: StoreServer) -> None:
    async with open_place(store_server.url) as here:
        for leaves_first in (True, False):
            stored = await create(here.store)
            async with here.tail.follow(stored.task_id):
                assert len(channels(store_server)) == 2
                here.tail.run_begins(stored.task_id)
                if not leaves_first and here.tail.run_ends(stored.task_id, ended=False):
                    await here.tail.go_on(stored.task_id)
            if leaves_first and here.tail.run_ends(stored.task_id, ended=True):
                await here.tail.go_on(stored.task_id)
            await wait_until(lambda: len(channels(store_server)) == 1, "the channel is left")
        assert not here.tail._topics
        assert not here.tail._subscribed


async def test_one_connection_carries_any_number_of_followers(store_server: StoreServer) -> None:
    async with open_place(store_server.url) as here, open_store(store_server.url, "r2") as there:
        tasks = [await create(there) for _ in range(20)]
        followers = [asyncio.create_task(here.collect(task.task_id, 2)) for task in tasks for _ in range(25)]
        await wait_until(lambda: here.begun == 500, "the followers are there")
        assert len(channels(store_server)) == 21
        clients = store_server.client.client_list()
        assert sum(int(client["ssub"]) > 0 for client in clients) == 1
        assert len(clients) == 6  # two for calls on each side, one that follows, one for this look
        for task in tasks:
            await Pen(there, task).write()
        assert [[event.seq for event in events] for events in await asyncio.gather(*followers)] == [[2]] * 500
        await wait_until(lambda: len(channels(store_server)) == 1, "the channels are left")


async def test_followers_come_and_go_without_losing_each_other(store_server: StoreServer) -> None:
    """The same task is left and followed again at once, many times, while events come."""
    async with open_place(store_server.url) as here, open_store(store_server.url, "r2") as there:
        stored = await create(there)
        pen = Pen(there, stored)

        async def come_and_go() -> None:
            for _ in range(30):
                follower = asyncio.create_task(here.collect(stored.task_id, 10**9))
                await asyncio.sleep(0)
                follower.cancel()
                await asyncio.gather(follower, return_exceptions=True)
                seq = pen.seq
                await asyncio.wait_for(here.collect(stored.task_id, seq), 3)

        steady = asyncio.create_task(here.collect(stored.task_id, 301))
        await wait_until(lambda: here.begun == 1, "the steady follower is there")
        restless = [asyncio.create_task(come_and_go()) for _ in range(3)]
        for _ in range(150):
            await pen.write(2)
        assert [event.seq for event in await steady] == list(range(2, 302))
        await asyncio.gather(*restless)
        await wait_until(lambda: len(channels(store_server)) == 1, "the channels are left")


async def test_a_wish_is_heard_and_a_loss_of_wishes_too(store_server: StoreServer) -> None:
    async with open_place(store_server.url) as here:
        assert here.wakes == [None]
        channel = here.store.all_keys()[0].wake("r1")
        store_server.client.execute_command("SPUBLISH", channel, "task")  # type: ignore[no-untyped-call]
        await wait_until(lambda: here.wakes == [None, b"task"], "the wish is heard")
        store_server.cut_connections("pubsub")
        await wait_until(lambda: here.wakes == [None, b"task", None], "the loss is told")


def test_a_published_batch_is_taken_apart() -> None:
    one, two = (b"\x0a\x03\x0a\x01a", b"")
    packed = b"41\n" + len(one).to_bytes(4) + one + len(two).to_bytes(4) + two
    assert [(event.seq, event.response.SerializeToString()) for event in unpack(packed)] == [(41, one), (42, two)]
