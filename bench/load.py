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

from bench.processes import LOAD_CPU

CONNECTIONS, STREAMS = 4, 8


@dataclass(frozen=True)
class Load:
    """One run as the caller sees it."""

    per_second: float
    milliseconds: list[float]
    """How long each call took, from its first byte to the end of the answer."""
    answered: int
    """Bytes of all answers, without headers."""


def grpc_load(
    address: str,
    method: str,
    request: Message,
    requests: int,
    *,
    connections: int = CONNECTIONS,
    streams: int = STREAMS,
) -> Load:
    """Call a method `requests` times with the same request, `streams` at a time on each of the `connections`.

    h2load does not read the trailers: whether an answer was an error shows in `answered`, since errors have no message.

    Raises: RuntimeError where a call did not come back with HTTP 200.
    """
    body = request.SerializeToString()
    headers = ["-H", "content-type: application/grpc", "-H", "te: trailers", "-H", "a2a-version: 1.0"]
    url = f"http://{address}/lf.a2a.v1.A2AService/{method}"
    return _h2load(url, struct.pack(">BI", 0, len(body)) + body, headers, requests, connections, streams)


def http_load(url: str, body: Mapping[str, object], requests: int) -> Load:
    """POST the same JSON `requests` times over HTTP/1.1. Raises: as `grpc_load`."""
    headers = ["--h1", "-H", "content-type: application/json", "-H", "a2a-version: 1.0"]
    return _h2load(url, json.dumps(body).encode(), headers, requests, CONNECTIONS * STREAMS, 1)


def _h2load(url: str, body: bytes, options: list[str], requests: int, connections: int, streams: int) -> Load:
    connections = min(connections, requests)
    with tempfile.TemporaryDirectory() as folder:
        data, log = Path(folder) / "body", Path(folder) / "log"
        data.write_bytes(body)
        pinned = ["taskset", "-c", str(LOAD_CPU), "h2load", "-n", str(requests), "-c", str(connections)]
        printed = subprocess.run(
            [*pinned, "-m", str(streams), "-d", str(data), f"--log-file={log}", *options, url],
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout
        took = [int(line.split("\t")[2]) / 1e3 for line in log.read_text().splitlines()]
    succeeded = re.search(r"(\d+) succeeded, 0 failed, 0 errored", printed)
    rate = re.search(r"finished in [\d.]+[mu]?s, ([\d.]+) req/s", printed)
    answered = re.search(r"\((\d+)\) data", printed)
    if succeeded is None or rate is None or answered is None or int(succeeded[1]) != requests:
        raise RuntimeError(f"not every call succeeded:\n{printed}")
    return Load(float(rate[1]), took, int(answered[1]))
