"""Calls that share a connection: each gets its own answer, in time, whatever becomes of the connection."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvloop
from redis.exceptions import ResponseError

from a2a_grpc.server.store.connections import to_server
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.pipeline import Pipeline
from a2a_grpc.server.store.scripts import Script
from tests.support.servers import StoreServer
from tests.support.waiting import wait_until

# Says its argument and how many calls were made before it.
COUNT = Script("count", "return {ARGV[1], redis.call('INCR', KEYS[1])}")
# May be repeated: a set knows each member once.
KEEP = Script("keep", "redis.call('SADD', KEYS[1], ARGV[1]) return ARGV[1]")

TIMEOUT = 0.4


@contextlib.asynccontextmanager
async def connect(url: str, timeout: float = 2.0) -> AsyncIterator[Pipeline]:
    pipeline = Pipeline(to_server(url), timeout)
    try:
        yield pipeline
    finally:
        await pipeline.close()


def keep(pipeline: Pipeline, number: int) -> asyncio.Future[Any]:
    return pipeline.script(KEEP, ["kept"], [number])


def number(value: int) -> bytes:
    return str(value).encode()


async def outcomes(calls: list[asyncio.Future[Any]]) -> list[Any]:
    return await asyncio.gather(*calls, return_exceptions=True)


async def in_time(call: asyncio.Future[Any], limit: float) -> float:
    """Wait for a call that must fail within `limit` seconds; how long it took."""
    began = asyncio.get_running_loop().time()
    with pytest.raises(StoreUnavailableError):
        async with asyncio.timeout(limit):
            await call
    return asyncio.get_running_loop().time() - began


async def test_five_hundred_calls_at_once_keep_their_order_and_their_answers(store_server: StoreServer) -> None:
    async with connect(store_server.url) as pipeline:
        await pipeline.script(COUNT, ["n"], ["warm"])
        answers = await asyncio.gather(*(pipeline.script(COUNT, ["n"], [at]) for at in range(500)))
        assert answers == [[number(at), at + 2] for at in range(500)]
        # Also when they come while others are under way, and of different kinds.
        calls = []
        for at in range(500):
            calls.append(pipeline.command("ECHO", f"e{at}") if at % 2 else pipeline.script(COUNT, ["n"], [at]))
            if at % 50 == 0:
                await asyncio.sleep(0)
        answers = await asyncio.gather(*calls)
        assert answers[1::2] == [f"e{at}".encode() for at in range(1, 500, 2)]
        assert answers[::2] == [[number(at), 502 + at // 2] for at in range(0, 500, 2)]


@pytest.mark.parametrize("under_way", [False, True])
async def test_cancelled_calls_take_no_answer_of_others(store_server: StoreServer, under_way: bool) -> None:
    async with connect(store_server.url) as pipeline:
        await keep(pipeline, -1)
        for _ in range(5):
            calls = [keep(pipeline, at) for at in range(500)]
            if under_way:
                await asyncio.sleep(0)
            for call in calls[::2]:
                call.cancel()
            assert await asyncio.gather(*calls[1::2]) == [number(at) for at in range(1, 500, 2)]
            assert all(call.cancelled() for call in calls[::2])
        assert await pipeline.command("ECHO", "still in step") == b"still in step"


async def test_scripts_that_the_server_does_not_know_are_loaded(store_server: StoreServer) -> None:
    async with connect(store_server.url) as pipeline:
        for _ in range(3):
            assert await asyncio.gather(*(keep(pipeline, at) for at in range(50))) == [number(at) for at in range(50)]
            store_server.client.script_flush()
        await store_server.restart()
        assert await asyncio.gather(*(keep(pipeline, at) for at in range(50))) == [number(at) for at in range(50)]


async def test_scripts_may_vanish_in_the_middle(store_server: StoreServer) -> None:
    async with connect(store_server.url) as pipeline:
        calls = []
        for at in range(300):
            calls.append(keep(pipeline, at))
            if at % 20 == 0:
                store_server.client.script_flush()
                await asyncio.sleep(0)
        assert await asyncio.gather(*calls) == [number(at) for at in range(300)]


async def test_a_script_that_no_server_takes_fails_in_time_and_is_not_tried_for_ever(store_server: StoreServer) -> None:
    async with connect(store_server.url, TIMEOUT) as pipeline:
        await in_time(pipeline.script(Script("broken", "this is no Lua"), ["k"], []), 3 * TIMEOUT)
        assert await pipeline.command("ECHO", "x") == b"x"
        before = store_server.client.info("stats")["total_commands_processed"]
        await asyncio.sleep(0.1)
        assert store_server.client.info("stats")["total_commands_processed"] == before + 1


async def test_an_error_is_the_answer_to_its_own_call_only(store_server: StoreServer) -> None:
    store_server.client.set("text", "x")
    async with connect(store_server.url) as pipeline:
        calls = [
            pipeline.command("ECHO", "1"),
            pipeline.command("HGET", "text", "f"),
            pipeline.command("NONSENSE"),
            pipeline.command("ECHO", "2"),
        ]
        answers = await outcomes(calls)
        assert [answers[0], answers[3]] == [b"1", b"2"]
        assert isinstance(answers[1], ResponseError) and str(answers[1]).startswith("WRONGTYPE")
        assert isinstance(answers[2], ResponseError) and "unknown command" in str(answers[2])


async def test_a_cut_connection_is_mended_and_nothing_is_lost(store_server: StoreServer) -> None:
    async with connect(store_server.url) as pipeline:
        for cut in range(10):
            calls = [keep(pipeline, cut * 100 + at) for at in range(100)]
            if cut % 2:
                await asyncio.sleep(0)
            store_server.cut_connections()
            assert await asyncio.gather(*calls) == [number(cut * 100 + at) for at in range(100)]
    assert store_server.client.scard("kept") == 1000


async def test_a_pause_shorter_than_the_timeout_is_waited_for(store_server: StoreServer) -> None:
    async with connect(store_server.url) as pipeline:
        await keep(pipeline, 0)
        store_server.pause(0.3)
        assert await asyncio.gather(*(keep(pipeline, at) for at in range(100))) == [number(at) for at in range(100)]


async def test_a_pause_longer_than_the_timeout_fails_in_time(one_store_server: StoreServer) -> None:
    async with connect(one_store_server.url, TIMEOUT) as pipeline:
        await keep(pipeline, 0)
        one_store_server.pause(4 * TIMEOUT)
        assert await in_time(keep(pipeline, 1), 2 * TIMEOUT) >= TIMEOUT
        # A call may have more patience than the others.
        assert await pipeline.script(KEEP, ["kept"], [2], 8 * TIMEOUT) == b"2"
        assert await keep(pipeline, 3) == b"3"


@pytest.mark.parametrize("connected", [True, False])
async def test_a_frozen_server_fails_calls_in_time_and_its_late_answers_reach_nobody(
    store_server: StoreServer, connected: bool
) -> None:
    async with connect(store_server.url, TIMEOUT) as pipeline:
        if connected:
            await keep(pipeline, 0)
        with store_server.frozen():
            early = [keep(pipeline, at) for at in range(1, 50)]
            await asyncio.sleep(TIMEOUT / 2)
            late = keep(pipeline, 50)
            patient = pipeline.script(KEEP, ["kept"], [51], 10 * TIMEOUT)
            assert all(isinstance(answer, StoreUnavailableError) for answer in await outcomes(early))
            assert not late.done()
            await in_time(late, 2 * TIMEOUT)
            assert not patient.done()
        assert await patient == b"51"
        assert await asyncio.gather(*(keep(pipeline, at) for at in range(99, 200))) == [
            number(at) for at in range(99, 200)
        ]


def test_who_stood_still_reads_the_answers_before_it_takes_them_for_lost(one_store_server: StoreServer) -> None:
    """The timeouts were over meanwhile, and the connection looked silent: neither was the store's doing."""

    async def stand_still() -> None:
        async with connect(one_store_server.url, TIMEOUT) as pipeline:
            await keep(pipeline, 0)
            before = connections(one_store_server)
            calls = [keep(pipeline, at) for at in range(1, 4)]
            await asyncio.sleep(0)  # they are sent
            time.sleep(2 * TIMEOUT)  # noqa: ASYNC251 - as an agent does by mistake
            assert await asyncio.gather(*calls) == [number(at) for at in range(1, 4)]
            assert connections(one_store_server) == before

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(stand_still())


async def test_a_server_that_comes_back_in_time_answers(store_server: StoreServer) -> None:
    async with connect(store_server.url) as pipeline:
        await keep(pipeline, 0)
        for downtime in (0.0, 0.2):
            restart = asyncio.create_task(store_server.restart(downtime))
            calls: list[asyncio.Future[Any]] = []
            while not restart.done():
                calls.append(keep(pipeline, len(calls)))
                await asyncio.sleep(0.01)
            assert await asyncio.gather(*calls) == [number(at) for at in range(len(calls))]


async def test_a_server_that_stays_away_fails_calls_in_time(one_store_server: StoreServer) -> None:
    async with connect(one_store_server.url, TIMEOUT) as pipeline:
        await keep(pipeline, 0)
        one_store_server.kill()
        for _ in range(2):
            assert await in_time(keep(pipeline, 1), 2 * TIMEOUT) >= TIMEOUT
        one_store_server.start()
        assert await keep(pipeline, 2) == b"2"


async def test_a_server_that_is_full_is_waited_for(store_server: StoreServer) -> None:
    client = store_server.client
    async with connect(store_server.url) as pipeline:
        await keep(pipeline, 0)
        client.config_set("maxmemory", 1)
        try:
            call = keep(pipeline, 1)
            # Reading goes on meanwhile.
            assert await pipeline.command("SCARD", "kept") == 1
            await wait_until(lambda: errors(store_server, "OOM") > 1, "the call was refused more than once")
            assert not call.done()
        finally:
            client.config_set("maxmemory", 0)
        assert await call == b"1"


async def test_a_server_that_is_no_primary_is_waited_for(store_server: StoreServer) -> None:
    async with connect(store_server.url) as pipeline:
        await keep(pipeline, 0)
        store_server.client.replicaof("127.0.0.1", 1)
        try:
            call = keep(pipeline, 1)
            await wait_until(lambda: errors(store_server, "READONLY") > 0, "the call was refused")
        finally:
            store_server.client.replicaof("NO", "ONE")
        assert await call == b"1"


async def test_a_server_that_is_busy_is_waited_for(store_server: StoreServer) -> None:
    client = store_server.client
    client.config_set("lua-time-limit", 10)
    async with connect(store_server.url) as pipeline, connect(store_server.url) as slow:
        await keep(pipeline, 0)
        endless = slow.script(Script("endless", "while true do end"), [], [], 5.0)
        busy = keep(pipeline, 1)
        # Nothing else than this is answered now, and not before it is too long for the server too.
        await wait_until(lambda: killed(store_server), "the endless script is killed")
        assert await busy == b"1"
        with pytest.raises(ResponseError):
            await endless
    client.config_set("lua-time-limit", 5000)


async def test_closing_gives_up_what_waits(store_server: StoreServer) -> None:
    async with connect(store_server.url) as pipeline:
        await keep(pipeline, 0)
        with store_server.frozen():
            calls = [keep(pipeline, at) for at in range(10)]
            await asyncio.sleep(0)
            await pipeline.close()
            assert all(isinstance(answer, StoreUnavailableError) for answer in await outcomes(calls))
            await in_time(keep(pipeline, 11), 0.1)
    # A server that was frozen notices the end of a connection when it goes on.
    await wait_until(lambda: connections(store_server) == 1, "the connection is gone")


async def test_one_pipeline_is_one_connection(store_server: StoreServer) -> None:
    async with connect(store_server.url) as pipeline:
        for _ in range(3):
            await asyncio.gather(*(keep(pipeline, at) for at in range(100)))
            await wait_until(lambda: connections(store_server) == 2, "there is one connection beside this")
            store_server.cut_connections()


def connections(server: StoreServer) -> int:
    return len(server.client.client_list())


def errors(server: StoreServer, kind: str) -> int:
    """How many calls the server has refused with an error of this kind since it started."""
    found = server.client.info("errorstats").get(f"errorstat_{kind}", {"count": 0})
    return int(found["count"])


def killed(server: StoreServer) -> bool:
    with contextlib.suppress(ResponseError):
        server.client.script_kill()
        return True
    return False
