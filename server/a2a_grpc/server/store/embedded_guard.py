"""The guard: a small process between the application and the store's server.

A child does not end with its parent by itself, and Linux's parent-death signal fires when the *thread* that spawned the
child ends. The guard instead reads a pipe whose only writer is the application: end of file means that the application
is gone, however it died. It then stops the server, waits for it, and removes the run directory.

Protocol: the guard writes one line, the exit code, each time the server ends while the pipe is open; the application
answers with a line to have the server started again, or closes the pipe. The run directory, and with it the socket's
path, outlives a restart, so nobody else can take that path in between.
"""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Self, cast

SCRIPT = Path(__file__).with_name("embedded_guard.sh")
SIGNAL_BASE = 128
"""A shell reports a process that signal N ended as exit code 128 + N."""
_STATUS = re.compile(rb"\d+\n")


def guard_command(run_dir: Path, server_command: Sequence[str | Path], *, log: Path, grace: int) -> list[str]:
    """The command line of a guard.

    Start it in a new session, with a pipe as stdin, another as stdout, and as stderr the descriptor of a lock that
    the guard and the server shall hold while they live (or anything else where there is none).

    `log`: the file to which the server's output is appended. `grace`: seconds that the server has to end after SIGTERM
    before it gets SIGKILL.
    """
    return ["/bin/sh", str(SCRIPT), str(run_dir), str(log), str(grace), *map(str, server_command)]


def server_command(binary: Path, *, data_dir: Path, socket: Path) -> list[str | Path]:
    """The command line of a server that listens on `socket` only and keeps its data in `data_dir`.

    Every option exists in Redis 7.0, Valkey 8 and Valkey 9. An acknowledged write is in the append-only file before its
    reply leaves, so only a crash of the operating system can lose one; how much, is said in `embedded_sync`.
    """
    return [
        binary,
        *("--port", "0"),
        *("--unixsocket", socket),
        *("--unixsocketperm", "700"),
        *("--dir", data_dir),
        *("--daemonize", "no"),
        *("--appendonly", "yes"),
        *("--appendfsync", "no"),
        # The binary preamble is private to the server that wrote it; without it any of these servers loads the data.
        *("--aof-use-rdb-preamble", "no"),
        *("--save", ""),
        # The log of a task begins with a whole node: by default 4 KiB, of which most tasks fill a few hundred bytes.
        *("--stream-node-max-bytes", "1024"),
        # Tasks must never be evicted to make room: a full store says so to the writer instead.
        *("--maxmemory-policy", "noeviction"),
    ]


class Guard:
    """A running guard with its server."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._commands = cast("asyncio.StreamWriter", process.stdin)
        self._reports = cast("asyncio.StreamReader", process.stdout)
        self._next_report()

    @classmethod
    async def spawn(cls, command: Sequence[str], *, lock_fd: int) -> Self:
        """Starts `command` (of `guard_command`). Raises OSError when that is impossible."""
        return cls(
            await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=lock_fd,
                # A session of its own keeps Ctrl-C in the terminal away: the application ends first, then its store.
                start_new_session=True,
            )
        )

    def _next_report(self) -> None:
        self.ended = asyncio.create_task(self._reports.readline(), name="embedded-store-guard")
        """Done when the server has ended: a line with its exit code, or nothing if the guard itself has ended."""

    async def start_again(self) -> None:
        """Has an ended server started again. If the guard was killed meanwhile, the next `ended` says so."""
        with contextlib.suppress(ConnectionError):
            self._commands.write(b"again\n")
            await self._commands.drain()
        self._next_report()

    async def end(self, limit: float) -> bool:
        """Stops the server and the guard; after `limit` seconds with SIGKILL, and then the answer is False."""
        self.ended.cancel()
        # End of file also reaches the watcher of a guard that was killed, so that the server stops in any case.
        self._commands.close()
        try:
            await asyncio.wait_for(self._process.wait(), limit)
        except TimeoutError:
            os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            return False
        return True


def describe(report: bytes) -> str:
    """What a report says about the server, as the rest of a sentence that begins with it."""
    if not _STATUS.fullmatch(report):
        return "lost its guard process"
    code = int(report)
    if code > SIGNAL_BASE:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(code - SIGNAL_BASE).name}"
    return f"ended with exit code {code}"
