"""The guard: a small process between the application and the store's server.

A child does not end with its parent by itself, and Linux's parent-death signal fires when the *thread* that spawned the
child ends. The guard instead reads a pipe whose only writer is the application: end of file means that the application
is gone, however it died. It then stops the server, waits for it, and removes the run directory.

Protocol: the guard writes one line, the exit code, each time the server ends while the pipe is open; the application
answers with a line to have the server started again, or closes the pipe. The run directory, and with it the socket's
path, outlives a restart, so nobody else can take that path in between.
"""

from collections.abc import Sequence
from pathlib import Path

SCRIPT = Path(__file__).with_name("embedded_guard.sh")


def guard_command(run_dir: Path, server_command: Sequence[str | Path], *, grace: int) -> list[str]:
    """The command line of a guard. Start it in a new session, with a pipe as stdin and another as stdout.

    `grace`: seconds that the server has to end after SIGTERM before it gets SIGKILL.
    """
    return ["/bin/sh", str(SCRIPT), str(run_dir), str(grace), *map(str, server_command)]


def server_command(binary: Path, *, data_dir: Path, socket: Path) -> list[str | Path]:
    """The command line of a server that listens on `socket` only and keeps its data in `data_dir`.

    Every option exists in Redis 7.0, Valkey 8 and Valkey 9. An acknowledged write is in the append-only file before its
    reply leaves, so only a crash of the operating system can lose one (at most a second's worth).
    """
    return [
        binary,
        *("--port", "0"),
        *("--unixsocket", socket),
        *("--unixsocketperm", "700"),
        *("--dir", data_dir),
        *("--daemonize", "no"),
        *("--appendonly", "yes"),
        *("--appendfsync", "everysec"),
        # The binary preamble is private to the server that wrote it; without it any of these servers loads the data.
        *("--aof-use-rdb-preamble", "no"),
        *("--save", ""),
        # Tasks must never be evicted to make room: a full store says so to the writer instead.
        *("--maxmemory-policy", "noeviction"),
    ]
