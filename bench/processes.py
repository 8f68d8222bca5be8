"""The processes of a run: servers on one core, the load and the store on the other."""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    """A server process."""

    process: subprocess.Popen[bytes]
    grpc: str = ""
    http: str = ""

    @property
    def cpu_seconds(self) -> float:
        """Processor time used so far, by all threads, in user and kernel mode."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory(self) -> int:
        """Bytes of it that are in memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def running(
    arguments: Sequence[str],
    cpu: int | str,
    environment: Mapping[str, str] | None = None,
    *,
    user: int | None = None,
    cwd: Path = _REPOSITORY,
) -> Iterator[Server]:
    """Run `python ARGUMENTS`, or another program where the first one is a path, pinned to `cpu` (or several)."""
    command = list(arguments) if arguments[0].startswith("/") else [sys.executable, *arguments]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            ["taskset", "-c", str(cpu), *command],  # noqa: S607
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdout=log,
            stderr=log,
            user=user,
        )
        try:
            yield Server(process)
        except BaseException:
            if process.poll() is not None:
                log.seek(0)
                words = log.read()[-2000:].decode(errors="replace")
                sys.stderr.write(f"bench: the last words of {' '.join(command)}:\n{words}\n")
            raise
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
        until(lambda: _listens(port), "the store listens")
        yield f"redis://127.0.0.1:{port}"


@contextlib.contextmanager
def floor(kind: str) -> Iterator[Server]:
    """The floor of `bench.floor`: "grpc" or "http"."""
    port = free_port()
    with running(["-m", "bench.floor", kind, str(port)], SERVER_CPU) as server:
        until(lambda: _listens(port), "the floor listens")
        server.grpc, server.http = f"127.0.0.1:{port}", f"http://127.0.0.1:{port}"
        yield server


@contextlib.contextmanager
def peer(database: str | None = None) -> Iterator[Server]:
    """The official SDK, with its tasks in memory or in the SQL `database`. Its tracing is switched off."""
    grpc, http = free_port(), free_port()
    arguments = ["-m", "bench.peer", str(grpc), str(http), *([database] if database else [])]
    with running(arguments, SERVER_CPU, {"OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false"}) as server:
        until(lambda: _listens(grpc) and _listens(http), "the peer listens")
        server.grpc, server.http = f"127.0.0.1:{grpc}", f"http://127.0.0.1:{http}"
        yield server


@contextlib.contextmanager
def service(
    redis_url: str | None,
    cpu: int | str = SERVER_CPU,
    *,
    agent: str = "bench.agent:agent",
    workers: int = 1,
    trusted: ssl.SSLContext | None = None,
    **environment: str,
) -> Iterator[Server]:
    """The service with `agent`, ready; with more than one of the `workers`, the first of them is.

    `trusted` is what believes it where the `environment` gives it a certificate.
    """
    grpc, http = free_port(), free_port()
    settings = {
        "A2A_GRPC_ADDR": f"127.0.0.1:{grpc}",
        "A2A_HTTP_ADDR": f"127.0.0.1:{http}",
        "A2A_METRICS_ADDR": f"127.0.0.1:{free_port()}",
        # h2load sends one and the same message, which the service would take for one and the same task.
        "A2A_DEDUPE_TTL": "0",
        # What still runs at the end is not waited for.
        "A2A_DRAIN_GRACE": "0",
        **({"A2A_REDIS_URL": redis_url} if redis_url else {}),
        **environment,
    }
    with running(["-m", "a2a_grpc.command", "serve", "--workers", str(workers), agent], cpu, settings) as server:
        server.grpc, server.http = f"127.0.0.1:{grpc}", f"{'https' if trusted else 'http'}://127.0.0.1:{http}"
        until(lambda: _ready(server, trusted), "the service is ready")
        yield server


def until(condition: Callable[[], bool], what: str, timeout: float = 120.0) -> None:
    """Wait for `condition`. Raises: TimeoutError that says `what` did not come true."""
    begun = time.perf_counter()
    while not condition():
        if time.perf_counter() - begun > timeout:
            raise TimeoutError(f"not after {timeout:g} s: {what}")
        time.sleep(0.01)


def _ready(server: Server, trusted: ssl.SSLContext | None) -> bool:
    if server.process.poll() is not None:
        raise RuntimeError("the service has ended")
    try:
        with urllib.request.urlopen(f"{server.http}/readyz", timeout=1, context=trusted):  # noqa: S310
            return True
    except OSError:
        return False


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
