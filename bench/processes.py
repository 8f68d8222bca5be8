"""The processes of a run: servers on one core, the load and the store on the other."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SERVER_CPU, LOAD_CPU = 0, 1
_REPOSITORY = Path(__file__).parent.parent


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@dataclass
class Server:
    """A server process on `SERVER_CPU`."""

    process: subprocess.Popen[bytes]
    grpc: str = ""
    http: str = ""

    @property
    def cpu_seconds(self) -> float:
        """Processor time used so far, by all threads, in user and kernel mode."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running(arguments: Sequence[str], cpu: int, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Run `python ARGUMENTS`, or another program where the first one is a path, pinned to `cpu`."""
    command = list(arguments) if arguments[0].startswith("/") else [sys.executable, *arguments]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            ["taskset", "-c", str(cpu), *command],  # noqa: S607
            cwd=_REPOSITORY,
            env={**os.environ, **(environment or {})},
            stdout=log,
            stderr=log,
        )
        try:
            yield Server(process)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


@contextlib.contextmanager
def store() -> Iterator[str]:
    """A Redis or Valkey server without persistence beside the load; yields its URL."""
    from a2a_grpc.server.store.embedded_binary import find_binary  # noqa: PLC0415

    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    with running([str(find_binary()), *options], LOAD_CPU):
        _listening(port)
        yield f"redis://127.0.0.1:{port}"


@contextlib.contextmanager
def floor(kind: str) -> Iterator[Server]:
    """The floor of `bench.floor`: "grpc" or "http"."""
    port = free_port()
    with running(["-m", "bench.floor", kind, str(port)], SERVER_CPU) as server:
        _listening(port)
        server.grpc, server.http = f"127.0.0.1:{port}", f"http://127.0.0.1:{port}"
        yield server


@contextlib.contextmanager
def service(
    redis_url: str | None, cpu: int = SERVER_CPU, *, agent: str = "bench.agent:agent", **environment: str
) -> Iterator[Server]:
    """The service with `agent`, ready."""
    grpc, http = free_port(), free_port()
    settings = {
        "A2A_GRPC_ADDR": f"127.0.0.1:{grpc}",
        "A2A_HTTP_ADDR": f"127.0.0.1:{http}",
        "A2A_METRICS_ADDR": f"127.0.0.1:{free_port()}",
        # h2load sends one and the same message, which the service would take for one and the same task.
        "A2A_DEDUPE_TTL": "0",
        **({"A2A_REDIS_URL": redis_url} if redis_url else {}),
        **environment,
    }
    with running(["-m", "a2a_grpc.command", "serve", agent], cpu, settings) as server:
        server.grpc, server.http = f"127.0.0.1:{grpc}", f"http://127.0.0.1:{http}"
        ready(server.http)
        yield server


def ready(url: str, timeout: float = 30.0) -> float:
    """Wait until `/readyz` says so; the seconds that took. Raises: TimeoutError."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < timeout:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=1):  # noqa: S310
                return time.perf_counter() - begun
        except OSError:
            time.sleep(0.01)
    raise TimeoutError(f"{url} did not get ready in {timeout} s")


def _listening(port: int, timeout: float = 15.0) -> None:
    begun = time.perf_counter()
    while time.perf_counter() - begun < timeout:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise TimeoutError(f"nobody listens on port {port}")
