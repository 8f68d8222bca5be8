"""Real server processes: one replica, or two on one store."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

import httpx

from tests.support import leaks
from tests.support.forking import FORKER, MODULE, Forked
from tests.support.servers import StoreServer, fresh_store_server

ROOT = Path(__file__).parents[2]
READY_TIMEOUT = 30.0
"""Seconds until /readyz must answer 200; far above the budget, since a test machine may be busy."""
STOP_TIMEOUT = 10.0
"""Seconds between SIGTERM and SIGKILL."""

_PORTS = range(20_000, 32_000)
"""Below those that the system gives to connections going out: one of these would take a port before its server does."""
_SHARE = 300
_TAKEN = set[int]()
"""Given out by this process. What is stopped may come back to its port, which nobody must have taken meanwhile."""

# Loading the certificates of the world costs as much as a call takes.
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

# Ends process $1 when the pipe on stdin is closed, that is when the tests are gone without having ended it themselves.
WATCHER = 'read -r _; kill -TERM "$1"; sleep 10; kill -KILL "$1"'


class Replica:
    """`a2a-grpc serve` in a process of its own, on ports of its own on 127.0.0.1."""

    def __init__(self, *, agent: str | None, redis_url: str | None, env: Mapping[str, str]) -> None:
        """`agent` is what follows `serve`: MODULE:ATTR, or options and their values."""
        self._home = Path(tempfile.mkdtemp(prefix="a2a-test-replica-"))
        self._log_path = leaks.log_file("replica")
        grpc_port, http_port = free_ports(2)
        self.grpc_addr = f"127.0.0.1:{grpc_port}"
        """host:port"""
        self.http_url = f"http://127.0.0.1:{http_port}"
        """Without a slash at the end."""
        self._agent = agent
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("A2A_")},
            "A2A_GRPC_ADDR": self.grpc_addr,
            "A2A_HTTP_ADDR": f"127.0.0.1:{http_port}",
            "A2A_DATA_DIR": str(self._home / "data"),
            "A2A_METRICS_ADDR": "none",
            **({"A2A_REDIS_URL": redis_url} if redis_url else {}),
            # Enough for a turn that is about to end. Most tests stop replicas with turns that never would.
            "A2A_DRAIN_GRACE": "1",
            **env,
        }
        """The environment of the process."""
        self._process: Forked | subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    def arguments(self) -> list[str]:
        """What follows `a2a-grpc`; other commands of the server overwrite it."""
        return ["serve", *(self._agent or "").split()]

    def spawn(self, log: int) -> Forked | subprocess.Popen[bytes]:
        """Starts the process, whose stdout and stderr go to the descriptor `log`."""
        if self.env.get("PYTHONPATH") == os.environ.get("PYTHONPATH"):
            return FORKER.start(self.arguments(), self.env, log)
        # Other sources than those that the forking process has imported.
        return self.execute([sys.executable, "-m", MODULE, *self.arguments()], log)

    def execute(self, command: Sequence[str], log: int) -> subprocess.Popen[bytes]:
        """For `spawn`: starts `command`."""
        return subprocess.Popen(command, cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def pid(self) -> int:
        """Of the server's process; changes with every start."""
        return self._running().pid

    @property
    def alive(self) -> bool:
        """The process has not ended (it may be stopped)."""
        return self._process is not None and self._process.poll() is None

    def _running(self) -> Forked | subprocess.Popen[bytes]:
        assert self._process is not None, "the replica is not started"
        return self._process

    def start(self, *, wait: bool = True) -> None:
        """Starts the process, on the same ports as before, and waits until it is ready (unless `wait` is off)."""
        assert not self.alive, "the replica runs already"
        with self._log_path.open("ab") as log:
            # In the root of the repository, so that agents of the tests can be named as tests.….
            self._process = self.spawn(log.fileno())
        self._end_watcher()
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", WATCHER, "sh", str(self._process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        if wait:
            self.wait_ready()

    def _end_watcher(self) -> None:
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()

    def wait_ready(self) -> None:
        """Waits until /readyz answers 200; fails with the end of the log."""
        deadline = time.monotonic() + READY_TIMEOUT
        answer = "nothing"
        with httpx.Client(trust_env=False, verify=_NO_TLS) as client:
            while True:
                assert self.alive, f"the replica ended with {self._running().returncode}:\n{self.log()}"
                try:
                    response = client.get(f"{self.http_url}/readyz", timeout=1)
                    if response.status_code == httpx.codes.OK:
                        return
                    answer = f"{response.status_code} {response.text}"
                except httpx.TransportError as error:
                    answer = repr(error)
                assert time.monotonic() < deadline, f"the replica is not ready ({answer}):\n{self.log()}"
                time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone. `start` brings it back."""
        self._running().kill()
        self._running().wait()

    def stop_signal(self) -> None:
        """SIGSTOP: the process stands still, its connections stay open."""
        self._running().send_signal(signal.SIGSTOP)

    def cont(self) -> None:
        """SIGCONT: the process goes on."""
        self._running().send_signal(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        """Sends a signal; returns at once."""
        self._running().send_signal(number)

    def terminate(self) -> None:
        """SIGTERM, as a deployment sends it; returns at once."""
        self._running().terminate()

    def wait(self, limit: float = STOP_TIMEOUT) -> int:
        """The exit status, at the latest after `limit` seconds (subprocess.TimeoutExpired)."""
        return self._running().wait(limit)

    def log(self, lines: int | None = 100) -> str:
        """What the process said on stdout and stderr, the last `lines` of it; None: all."""
        text = self._log_path.read_text(errors="replace") if self._log_path.exists() else ""
        return text if lines is None else "\n".join(text.splitlines()[-lines:])

    def close(self) -> None:
        """Ends the process (SIGTERM, then SIGKILL) and removes its data."""
        if self.alive:
            self.cont()
            self.terminate()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.kill()
        self._end_watcher()
        shutil.rmtree(self._home)


@contextlib.asynccontextmanager
async def replica(
    *, agent: str | None = None, redis_url: str | None = None, env: Mapping[str, str] | None = None
) -> AsyncIterator[Replica]:
    """A ready replica that serves `agent` (MODULE:ATTR; default: the demo agent).

    Without `redis_url` it has an embedded store of its own, with fresh data. `env` adds to the environment or replaces.
    """
    started = Replica(agent=agent, redis_url=redis_url, env=env or {})
    try:
        await asyncio.to_thread(started.start)
        yield started
    finally:
        await asyncio.to_thread(started.close)


class Pair:
    """Two replicas of one agent on one store that nobody else uses."""

    def __init__(self, store: StoreServer, replicas: tuple[Replica, Replica]) -> None:
        self.store = store
        self.replicas = replicas

    def repair(self) -> None:
        """Brings back what a test killed, froze or paused. The tasks stay."""
        self.store.revive()
        for one in self.replicas:
            if one.alive:
                one.cont()
            else:
                one.start(wait=False)
        for one in self.replicas:
            one.wait_ready()


@contextlib.contextmanager
def pair(agent: str | None, env: Mapping[str, str]) -> Iterator[Pair]:
    """Starts a pair and ends it."""
    with fresh_store_server() as store, contextlib.ExitStack() as stack:
        replicas = (
            Replica(agent=agent, redis_url=store.url, env=env),
            Replica(agent=agent, redis_url=store.url, env=env),
        )
        for one in replicas:
            stack.callback(one.close)
            one.start(wait=False)
        for one in replicas:
            one.wait_ready()
        yield Pair(store, replicas)


class PairPool:
    """One pair for each agent and environment that the tests of a session ask for."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._pairs: dict[tuple[str | None, tuple[tuple[str, str], ...]], Pair] = {}

    def get(self, agent: str | None, env: Mapping[str, str]) -> Pair:
        """A pair of which both replicas are ready."""
        key = (agent, tuple(sorted(env.items())))
        if key in self._pairs:
            self._pairs[key].repair()
        else:
            self._pairs[key] = self._stack.enter_context(pair(agent, env))
        return self._pairs[key]

    def close(self) -> None:
        """Ends all pairs."""
        self._stack.close()


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different, and not given out before."""
    # Each process of the tests has a share of its own, so that none takes what another one means to come back to.
    share = _PORTS[os.getpid() % (len(_PORTS) // _SHARE) * _SHARE :][:_SHARE]
    found: list[int] = []
    while len(found) < count:
        left = [port for port in share if port not in _TAKEN]
        port = random.choice(left or _PORTS)
        _TAKEN.add(port)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found
