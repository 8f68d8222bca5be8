"""The servers and faults that the other tests rely on do what their names say."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.support.servers import StoreServer
from tests.support.waiting import wait_until


@pytest.fixture
async def client(store_server: StoreServer) -> AsyncIterator[Redis]:
    async with Redis.from_url(store_server.url, socket_timeout=0.2, retry=Retry(NoBackoff(), 0)) as connected:
        yield connected


async def test_each_kind_is_the_server_it_claims_to_be(store_server: StoreServer) -> None:
    facts = store_server.client.info("server")
    seen = f"valkey{facts['valkey_version']}" if "valkey_version" in facts else f"redis{facts['redis_version']}"
    assert seen.startswith(store_server.name)


@pytest.mark.parametrize("round", [1, 2])
async def test_every_test_starts_with_an_empty_server(round: int, store_server: StoreServer) -> None:
    assert store_server.client.dbsize() == 0
    store_server.client.set("left", "behind")


async def test_a_frozen_server_holds_its_connections_and_answers_nobody(
    store_server: StoreServer, client: Redis
) -> None:
    await client.set("k", "1")
    with store_server.frozen(), pytest.raises(RedisTimeoutError):
        await client.get("k")
    assert await client.get("k") == b"1"


async def test_a_paused_server_answers_when_the_pause_is_over(store_server: StoreServer, client: Redis) -> None:
    await client.ping()
    began = time.monotonic()
    store_server.pause(0.5)
    with pytest.raises(RedisTimeoutError):
        await client.ping()
    await wait_until(lambda: answers(client), "the server answers again")
    assert time.monotonic() - began > 0.3


async def test_a_killed_server_is_gone_and_comes_back_with_its_data(store_server: StoreServer, client: Redis) -> None:
    await client.set("k", "1")
    before = store_server.pid
    store_server.kill()
    with pytest.raises(RedisConnectionError):
        await client.get("k")
    await asyncio.to_thread(store_server.start)
    assert store_server.pid != before
    assert await client.get("k") == b"1"


async def test_a_restarted_server_keeps_its_data(store_server: StoreServer, client: Redis) -> None:
    await client.set("k", "1")
    await store_server.restart(down_for=0.1)
    await wait_until(lambda: answers(client), "the client is connected again")
    assert await client.get("k") == b"1"


async def test_cut_connections_are_those_of_the_kind_only(store_server: StoreServer, client: Redis) -> None:
    await client.ping()
    async with client.pubsub() as pubsub:
        await pubsub.subscribe("c")
        await wait_until(lambda: store_server.client.pubsub_numsub("c") == [(b"c", 1)], "the subscription")
        assert store_server.cut_connections("pubsub") == 1
    assert await client.ping()


async def test_a_server_on_a_port_does_not_outlive_the_tests_that_started_it(tmp_path: Path) -> None:
    program = (
        "import os, signal\n"
        "from tests.support.nodes import Node, binary_of\n"
        "from tests.support.replica import free_ports\n"
        "node = Node(binary_of(None), free_ports(1)[0], ())\n"
        "node.start()\n"
        "print(node.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"TMPDIR": str(tmp_path)},  # nobody is left to remove what it makes there
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await killed.communicate()
    await wait_until(lambda: not psutil.pid_exists(int(said)), "the server has ended")


async def test_wait_until_says_what_it_waited_for() -> None:
    with pytest.raises(AssertionError, match=r"not within 0\.05 s: the cow jumps \(last seen: 0\)"):
        await wait_until(lambda: 0, "the cow jumps", timeout=0.05)
    with pytest.raises(AssertionError, match="the first look did not end"):
        await wait_until(lambda: asyncio.sleep(9), "a look that hangs", timeout=0.05)
    assert await wait_until(lambda: "moon", "a value") == "moon"


async def answers(client: Redis) -> bool:
    try:
        return bool(await client.ping())
    except (RedisConnectionError, RedisTimeoutError):
        return False
