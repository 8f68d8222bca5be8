"""Servers of the store that know each other: each on a TCP port of its own on 127.0.0.1, with a guard beside it."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from a2a_grpc.server.store.embedded_guard import guard_command
from tests.support.servers import KINDS, START_TIMEOUT, STOP_GRACE, ServerKind


class Node:
    """One server or sentinel. Port, data and configuration stay the same over `kill` and `start`."""

    def __init__(
        self, binary: Path, port: int, arguments: Sequence[str], conf: str = "", *, bus: int = 0, password: str = ""
    ) -> None:
        """`bus` is the port for other nodes of a cluster; `password` is what `conf` or `arguments` ask for.

        `conf` is a configuration file that the server may write to; `arguments` come after it.
        """
        self.port, self.bus = port, bus
        self.address = f"127.0.0.1:{port}"
        self._home = Path(tempfile.mkdtemp(prefix=f"a2a-test-node-{port}-"))
        self._log_path = self._home / "server.log"
        self._conf = self._home / "node.conf"
        self._conf.write_text(f"port {port}\nbind 127.0.0.1\ndir {self._home}\ndaemonize no\n{conf}\n")
        self._command = [str(binary), str(self._conf), *arguments]
        self._guard: subprocess.Popen[bytes] | None = None
        self.alive = False
        """The process runs, or is stopped."""
        self.stopped = False
        self.pid = 0
        self.client = redis.Redis(port=port, password=password or None, socket_timeout=5, retry=Retry(NoBackoff(), 0))
        """A synchronous client for set-up and inspection."""

    def start(self) -> None:
        """Starts the server, or starts it again after `kill`, and waits until it answers."""
        assert not self.alive, f"{self.address} runs already"
        if self._guard is None:
            run_dir = self._home / "run"
            run_dir.mkdir()
            self._guard = subprocess.Popen(
                guard_command(run_dir, self._command, log=self._log_path, grace=STOP_GRACE),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        else:
            assert self._guard.stdin is not None
            self._guard.stdin.write(b"again\n")
            self._guard.stdin.flush()
        self.alive = True
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                self.client.ping()
                break
            except redis.RedisError as error:
                if isinstance(error, redis.ResponseError):
                    break  # it answers, with what it has against it: a replica without its master
                assert time.monotonic() < deadline, f"{self.address} does not start ({error}):\n{self.log()}"
                time.sleep(0.005)
        self.pid = self.client.info("server")["process_id"]

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        assert self.alive and self._guard is not None and self._guard.stdout is not None
        os.kill(self.pid, signal.SIGKILL)
        assert self._guard.stdout.readline(), f"the guard of {self.address} ended:\n{self.log()}"
        self.alive = False

    def stop(self) -> None:
        """SIGSTOP: the process stands still, its connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)
        self.stopped = True

    def cont(self) -> None:
        """SIGCONT: the process goes on."""
        os.kill(self.pid, signal.SIGCONT)
        self.stopped = False

    @property
    def answers(self) -> bool:
        """The process runs and is not stopped."""
        return self.alive and not self.stopped

    def close(self) -> None:
        """Ends the server for good and removes its data."""
        self.client.close()
        if self._guard is not None:
            assert self._guard.stdin is not None and self._guard.stdout is not None
            if self.alive:
                self.cont()
                os.kill(self.pid, signal.SIGKILL)
            self._guard.stdin.close()
            self._guard.wait(STOP_GRACE + 2)
            self._guard.stdout.close()
        shutil.rmtree(self._home)

    def log(self) -> str:
        """The end of the server's log."""
        return "\n".join(self._log_path.read_text(errors="replace").splitlines()[-20:])

    def replication(self) -> dict[str, object]:
        """INFO replication, or nothing while the server does not answer."""
        try:
            found: dict[str, object] = self.client.info("replication")
        except redis.RedisError:
            return {}
        return found


def binary_of(kind: ServerKind | None) -> Path:
    """The server program of `kind`, or the first one that the machine has. Skips the test where there is none."""
    wanted = (kind,) if kind is not None else KINDS
    for one in wanted:
        if (binary := one.find()) is not None:
            return binary
    pytest.skip("; ".join(one.missing for one in wanted))


def start_all(nodes: Iterable[Node], stack: contextlib.ExitStack) -> None:
    """Starts all; `stack` ends them."""
    for node in nodes:
        stack.callback(node.close)
        node.start()


def wait_for(condition: Callable[[], object], description: str, timeout: float = 20.0) -> None:
    """Waits, in a test's set-up, until `condition` is true."""
    deadline = time.monotonic() + timeout
    while True:
        with contextlib.suppress(redis.RedisError):
            if condition():
                return
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {description}"
        time.sleep(0.02)
