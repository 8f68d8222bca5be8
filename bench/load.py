"""Load from h2load (nghttp2), which is fast enough not to be what is measured."""

import json
import re
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import Message

CONNECTIONS, STREAMS = 4, 8


@dataclass(frozen=True)
class Load:
    """One run: requests per second as the caller sees them, and how many there were."""

    per_second: float
    requests: int


def grpc_load(address: str, method: str, request: Message, requests: int, *, cpu: int) -> Load:
    """Call a method `requests` times with the same request.

    Raises: RuntimeError where a call did not come back with HTTP 200.
    """
    body = request.SerializeToString()
    headers = ["-H", "content-type: application/grpc", "-H", "te: trailers", "-H", "a2a-version: 1.0"]
    return _h2load(
        f"http://{address}/lf.a2a.v1.A2AService/{method}",
        struct.pack(">BI", 0, len(body)) + body,
        headers,
        requests,
        cpu,
    )


def http_load(url: str, body: Mapping[str, object], requests: int, *, cpu: int) -> Load:
    """POST the same JSON `requests` times over HTTP/1.1. Raises: as `grpc_load`."""
    headers = ["--h1", "-H", "content-type: application/json", "-H", "a2a-version: 1.0"]
    return _h2load(url, json.dumps(body).encode(), headers, requests, cpu, streams=1, connections=CONNECTIONS * STREAMS)


def _h2load(
    url: str,
    body: bytes,
    options: list[str],
    requests: int,
    cpu: int,
    *,
    streams: int = STREAMS,
    connections: int = CONNECTIONS,
) -> Load:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "body"
        data.write_bytes(body)
        command = ["taskset", "-c", str(cpu), "h2load", "-n", str(requests), "-c", str(connections), "-m", str(streams)]
        printed = subprocess.run(
            [*command, "-d", str(data), *options, url], capture_output=True, text=True, check=True, timeout=300
        ).stdout
    succeeded = re.search(r"(\d+) succeeded, 0 failed, 0 errored", printed)
    rate = re.search(r"finished in [\d.]+m?s, ([\d.]+) req/s", printed)
    if succeeded is None or rate is None or int(succeeded[1]) != requests:
        raise RuntimeError(f"not every call succeeded:\n{printed}")
    return Load(float(rate[1]), requests)
