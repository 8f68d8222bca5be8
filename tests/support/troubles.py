"""What can be wrong with a store that is still there, or was until a moment ago: each of it on a real server.

A server in trouble is told apart by what it answers: nothing, an error to everybody, or an error to who writes.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import redis

from tests.support.servers import StoreServer

HOLD = 3.0
"""Seconds that the trouble is meant to last; the block inside may be left a little earlier or later."""


@contextlib.contextmanager
def gone(store: StoreServer) -> Iterator[None]:
    """Inside the block nobody listens: the server was stopped, and is started again with its data."""
    store.kill(signal.SIGTERM)
    try:
        yield
    finally:
        store.start()


@contextlib.contextmanager
def killed(store: StoreServer) -> Iterator[None]:
    """As `gone`, and nobody asked the server."""
    store.kill()
    try:
        yield
    finally:
        store.start()


@contextlib.contextmanager
def paused(store: StoreServer) -> Iterator[None]:
    """The server answers nobody (CLIENT PAUSE), and carries everything out later."""
    store.pause(HOLD)
    yield
    store.client.ping()  # which is answered when the pause is over


@contextlib.contextmanager
def full(store: StoreServer) -> Iterator[None]:
    """The memory is used up: OOM to everything that would take more."""
    store.client.config_set("maxmemory", 1)
    try:
        yield
    finally:
        store.client.config_set("maxmemory", 0)


@contextlib.contextmanager
def read_only(store: StoreServer) -> Iterator[None]:
    """The server follows a master that nobody can reach: READONLY to everybody who writes."""
    store.client.replicaof("127.0.0.1", "1")
    try:
        yield
    finally:
        store.client.replicaof("NO", "ONE")


@contextlib.contextmanager
def unsaved(store: StoreServer) -> Iterator[None]:
    """The disk takes no snapshots: MISCONF to everybody who writes (stop-writes-on-bgsave-error)."""
    client = store.client
    client.config_set("save", "3600 100000000")
    in_the_way = _folder(client) / str(client.config_get("dbfilename")["dbfilename"])
    in_the_way.mkdir()
    try:
        _save(client, "err")
        yield
    finally:
        in_the_way.rmdir()
        _save(client, "ok")
        client.config_set("save", "")


def _folder(client: redis.Redis) -> Path:
    """Where the server keeps its data."""
    return Path(str(client.config_get("dir")["dir"]))


def _save(client: redis.Redis, outcome: str) -> None:
    client.bgsave()
    deadline = time.monotonic() + 5
    # PING is answered with MISCONF as well; INFO is not.
    while (told := client.info("persistence"))["rdb_bgsave_in_progress"] or told["rdb_last_bgsave_status"] != outcome:
        assert time.monotonic() < deadline, told
        time.sleep(0.01)


@contextlib.contextmanager
def busy(store: StoreServer) -> Iterator[None]:
    """Somebody's script runs and runs: BUSY to everybody, whatever they want."""
    store.client.config_set("busy-reply-threshold", 100)
    somebody = redis.Redis(unix_socket_path=store.url.removeprefix("unix://"), socket_timeout=None)

    def run() -> None:
        with contextlib.suppress(redis.ResponseError):  # that of SCRIPT KILL
            somebody.eval("while true do end", 0)

    running = threading.Thread(target=run)
    running.start()
    while not _is_busy(store.client):
        assert running.is_alive()
    try:
        yield
    finally:
        store.client.script_kill()
        running.join()
        somebody.close()


def _is_busy(client: redis.Redis) -> bool:
    try:
        client.ping()
    except redis.ResponseError as error:
        return str(error).startswith("BUSY")
    return False


@contextlib.contextmanager
def loading(store: StoreServer) -> Iterator[None]:
    """The server comes back with so much data that it says LOADING for some seconds."""
    client, filler = store.client, "test:filler"
    folder = _folder(client) / str(client.config_get("appenddirname")["appenddirname"])
    store.kill(signal.SIGTERM)
    newest = max(folder.glob("*.incr.aof"), key=lambda path: int(path.name.split(".")[-3]))
    with newest.open("ab") as file:
        file.write(f"*2\r\n$4\r\nINCR\r\n${len(filler)}\r\n{filler}\r\n".encode() * _FILLERS)
    starting = threading.Thread(target=store.start)
    starting.start()
    try:
        yield
    finally:
        starting.join()
        client.delete(filler)
        with contextlib.suppress(redis.ResponseError):  # it does so by itself already
            client.bgrewriteaof()


_FILLERS = 6_000_000
"""More than two seconds of it, on any of the servers."""


@dataclass(frozen=True)
class Trouble:
    """One kind of trouble."""

    name: str
    begin: Callable[[StoreServer], AbstractContextManager[None]]
    """Inside the block the server is in trouble; afterwards it is as before."""
    word: str = "not answer"
    """What operators read of it: the store's own word for it, where it has one."""
    readable: bool = False
    """What only reads is answered all the same."""


TROUBLES = (
    Trouble("gone", gone),
    Trouble("killed", killed),
    Trouble("standing still", StoreServer.frozen),
    Trouble("paused", paused),
    Trouble("full", full, "OOM", readable=True),
    Trouble("read-only", read_only, "READONLY", readable=True),
    Trouble("unsaved", unsaved, "MISCONF", readable=True),
    Trouble("busy", busy, "BUSY"),
    Trouble("loading", loading, "LOADING"),
)
