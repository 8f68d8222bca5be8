"""Processes of the server that are forked from one that has imported it already.

A test run starts hundreds of replicas. In a fresh interpreter each would spend half a second of a processor on imports
before its first line; here that happens once for each process of the tests. From there on nothing differs: the child
runs `python -m a2a_grpc.server` with its arguments, environment and output, and ends as an interpreter does.
"""

import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

MODULE = "a2a_grpc.server"
# With what most replicas import when they are running.
_IMPORTS = ("a2a_grpc.server.main", "a2a_grpc.server.compose.registry", "httpx", "uvloop", "yaml")


class Forked:
    """A process of the server; what it can do is named and behaves as in subprocess.Popen."""

    def __init__(self, status: int) -> None:
        """`status` is the end of a pipe that tells the id of the process, and its exit status when it has ended."""
        self._status = status
        # Not as soon as it has told all: another thread may be waiting for it.
        weakref.finalize(self, os.close, status)
        self._told = b""
        while b"\n" not in self._told:
            self._read()
        self.pid = int(self._told.split(b"\n")[0])
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def _read(self) -> None:
        said = os.read(self._status, 100)
        assert said, "the process that forks has ended"
        self._told += said

    def _readable(self, timeout: float | None) -> bool:
        return bool(select.select([self._status], [], [], timeout)[0])

    def poll(self) -> int | None:
        with self._lock:
            while self.returncode is None and self._readable(0):
                self._read()
                _, status, *complete = self._told.split(b"\n")
                if complete:
                    self.returncode = int(status)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(MODULE, timeout or 0)
            self._readable(left)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # It may have ended since, and is not a zombie until somebody asks, as it would be after a Popen.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class Forker:
    """The process that forks, from the tests' side. It starts when first needed and ends with the tests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        # Not used, but a Popen that is collected while its process runs warns of it.
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, arguments: Sequence[str], env: Mapping[str, str], log: int) -> Forked:
        """Runs `python -m a2a_grpc.server` in the root of the repository; its output goes to the descriptor `log`."""
        with tempfile.TemporaryFile() as request, self._lock:
            request.write(json.dumps([[*arguments], {**env}]).encode())
            request.flush()
            status, theirs = os.pipe()
            try:
                socket.send_fds(self._connected(env), [b"."], [request.fileno(), log, theirs])
            finally:
                os.close(theirs)
            return Forked(status)

    def _connected(self, env: Mapping[str, str]) -> socket.socket:
        if self._socket is None:
            self._socket, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.support.forking", str(theirs.fileno())],
                    cwd=Path(__file__).parents[2],
                    env={name: value for name, value in env.items() if not name.startswith("A2A_")},
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                )
        return self._socket


FORKER = Forker()


def _serve(connection: socket.socket) -> Sequence[str] | None:
    """Forks for each request. Returns in a child, with its arguments, and at the end: None."""
    pipes: dict[int, int] = {}

    def reap(*_: object) -> None:
        for pid in list(pipes):
            try:
                ended, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                continue  # by this function, which the next signal has interrupted
            if ended:
                pipe = pipes.pop(pid)
                with contextlib.suppress(BrokenPipeError):
                    os.write(pipe, b"%d\n" % os.waitstatus_to_exitcode(status))
                os.close(pipe)

    # A Ctrl-C is for the tests, which then end the children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, reap)
    while True:
        _, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
        if not descriptors:
            return None
        request, log, pipe = descriptors
        with os.fdopen(request, "rb") as stream:
            stream.seek(0)
            arguments, env = json.load(stream)
        # Not between the fork and the note of it.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if pid == 0:
            connection.close()
            for other in (*pipes.values(), pipe):
                os.close(other)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            # As a shell leaves it: what runs the tests may have been told not to hang up.
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            os.environ.clear()
            os.environ.update(env)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.close(log)
            return list(arguments)
        pipes[pid] = pipe
        os.write(pipe, b"%d\n" % pid)
        os.close(log)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


if __name__ == "__main__":
    for _name in _IMPORTS:
        with contextlib.suppress(ModuleNotFoundError):
            __import__(_name)
    # What is there now is the same in all of them: the collector need not look at it, nor the system copy it.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as _connection:
        _arguments = _serve(_connection)
    if _arguments is not None:
        sys.argv = [MODULE, *_arguments]
        runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
