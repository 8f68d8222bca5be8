"""A store that cannot be used says in a sentence what to change; how the card's first day is known everywhere."""

import asyncio
import contextlib
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from a2a_grpc.server.store.errors import StoreMisconfiguredError, StoreUnavailableError
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.servers import StoreServer
from tests.support.tasks import open_store


def unchecked(url: str, **settings: object) -> TaskStore:
    given = {
        "shards": 1,
        "timeout": 0.5,
        "task_ttl": 60.0,
        "patience": 1.0,
        "max_ready": 10,
        "log_events": 1000,
        **settings,
    }
    return TaskStore(url, replica="r1", **given)  # type: ignore[arg-type]


async def test_the_number_of_shards_is_fixed_at_the_first_start(audited_server: StoreServer) -> None:
    async with open_store(audited_server.url, shards=4):
        pass
    async with open_store(audited_server.url, "r2", shards=4):
        pass
    store = unchecked(audited_server.url, shards=2)
    with pytest.raises(StoreMisconfiguredError) as caught:
        await store.check()
    await store.close()
    assert str(caught.value) == (
        "this store was started with A2A_SHARDS=4, this process has 2: task ids carry their shard, "
        "so set A2A_SHARDS=4 or use an empty store"
    )


@contextlib.asynccontextmanager
async def pretender(version: str) -> AsyncIterator[str]:
    """A server that says it is Redis `version`: old ones can no longer be installed here."""
    info = f"# Server\r\nredis_version:{version}\r\nredis_mode:standalone\r\n".encode()

    served: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.current_task())
        while (head := await reader.readline()).startswith(b"*"):
            words = [await word(reader) for _ in range(int(head[1:]))]
            writer.write(b"$%d\r\n%s\r\n" % (len(info), info) if words[0] == b"INFO" else b"+OK\r\n")
        writer.close()

    with tempfile.TemporaryDirectory(prefix="a2a-test-") as folder:
        async with await asyncio.start_unix_server(serve, Path(folder) / "s"):
            yield f"unix://{folder}/s"
            await asyncio.gather(*(task for task in served if task is not None))


async def word(reader: asyncio.StreamReader) -> bytes:
    """One argument of a command."""
    length = int((await reader.readline())[1:])
    return (await reader.readexactly(length + 2))[:-2]


@pytest.mark.parametrize("version", ["6.2.14", "5.0", "6.9.9-rc1", "unheard of"])
async def test_a_server_that_is_too_old_is_refused(version: str) -> None:
    async with pretender(version) as url:
        store = unchecked(url)
        with pytest.raises(StoreMisconfiguredError) as caught:
            await store.check()
        await store.close()
    assert str(caught.value) == (
        f"the store is Redis {version}; sharded pub/sub needs Redis 7.0 or Valkey 7.2, or later"
    )


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (
            "colour=blue",
            "A2A_REDIS_URL has the option colour, which this service does not take; remove it. It may have",
        ),
        ("db=0&colour=&db=1", "A2A_REDIS_URL has the option colour, which"),
        ("password=hunter2&colour=hunter2", "A2A_REDIS_URL has the option colour, which"),
        # What redis-py would take and this service cannot work with.
        ("decode_responses=true", "A2A_REDIS_URL has the option decode_responses, which"),
        ("protocol=3", "A2A_REDIS_URL has the option protocol, which"),
        ("socket_timeout=1", "A2A_REDIS_URL has the option socket_timeout, which"),
        ("db=hunter2", "A2A_REDIS_URL cannot be used: Invalid value for 'db' in connection URL."),
        ("ssl_cert_reqs=none", "A2A_REDIS_URL has options that an address of this kind does not take"),
    ],
)
def test_an_option_that_cannot_be_used_is_named_before_anything_is_tried(query: str, sentence: str) -> None:
    with pytest.raises(StoreMisconfiguredError, match=f"^{re.escape(sentence)}") as caught:
        unchecked(f"unix:///nowhere/s?{query}")
    assert "hunter2" not in str(caught.value)


async def test_options_that_can_be_used_have_effect(audited_server: StoreServer) -> None:
    async with open_store(f"{audited_server.url}?db=3") as store:
        await store.ping()
    assert audited_server.client.dbsize() == 0
    assert audited_server.client.info("keyspace").keys() == {"db3"}
    audited_server.client.flushall()


async def test_a_store_that_is_not_there_is_unavailable_in_time() -> None:
    store = unchecked("unix:///nowhere/at/all", timeout=0.3)
    began = asyncio.get_running_loop().time()
    with pytest.raises(StoreUnavailableError):
        await store.check()
    assert 0.2 < asyncio.get_running_loop().time() - began < 5
    await store.close()


async def test_the_first_day_of_a_card_is_the_same_on_every_replica(
    store: TaskStore, other: TaskStore, audited_server: StoreServer
) -> None:
    first = await store.card_published_ms('"etag"')
    assert await other.card_published_ms('"etag"') == first
    assert await other.card_published_ms('"another"') >= first
    year = 365 * 86_400_000
    assert audited_server.client.pttl('a2a:card:"etag"') > year


async def test_a_ping_needs_a_store_that_takes_writes(store: TaskStore, audited_server: StoreServer) -> None:
    await store.ping()
    # Also when everything was lost: the number of shards is written anew.
    audited_server.client.flushall()
    await store.ping()
    assert audited_server.client.get("a2a:shards") == b"1"
