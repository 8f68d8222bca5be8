"""B019, B023, B025: what a stream is for its reader and for the proxies on the way."""

import asyncio
import contextlib
import json
import random
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from a2a_grpc.client import A2AClient, A2AError
from a2a_grpc.pb import a2a_pb2 as pb
from tests.cases.conftest import AGENT
from tests.conformance.callers import (
    BINDINGS,
    VERSION,
    Caller,
    CallError,
    Connect,
    http_failure,
    kinds,
    refused,
    say,
    server_sent,
)
from tests.conformance.expected import TASK_NOT_FOUND, UNAVAILABLE, UNSUPPORTED_OPERATION
from tests.support.replica import Pair
from tests.support.waiting import wait_until

# -- B019 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "row"), [("ended", UNSUPPORTED_OPERATION), ("unknown", TASK_NOT_FOUND)])
async def test_b019_what_cannot_be_subscribed_to_is_refused_before_any_event(
    how: str, row: object, pair: Pair, connect: Connect
) -> None:
    """A proper error with its status, on every route; never an event stream that holds nothing else."""
    one = await connect(pair.replicas[0])
    task_id = (await one.task("echo x")).id if how == "ended" else "no-such-task"
    expected = UNSUPPORTED_OPERATION if how == "ended" else TASK_NOT_FOUND
    assert row is expected
    for over in BINDINGS:
        caller = await connect(pair.replicas[1], over=over)
        await refused(expected, caller.call("SubscribeToTask", pb.SubscribeToTaskRequest(id=task_id)))
    async with httpx.AsyncClient(base_url=pair.replicas[1].http_url, headers=VERSION, trust_env=False) as http:
        for verb in ("GET", "POST"):
            for accept in ("text/event-stream", "*/*"):
                answer = await http.request(verb, f"/tasks/{task_id}:subscribe", headers={"accept": accept})
                assert answer.status_code == expected.http
                assert answer.headers["content-type"].partition(";")[0] in {"application/a2a+json", "application/json"}
                assert http_failure(answer, answer.json()).is_of(expected)


# -- B023 --------------------------------------------------------------------------------------------------------------

NGINX = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr;
events {{ worker_connections 64; }}
http {{
    access_log off;
    gzip on;
    {gzip}
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass {upstream}; }}
    }}
}}
"""
"""What a Debian package configures, and the least that makes it a proxy."""


@contextlib.contextmanager
def nginx(upstream: str, folder: Path, gzip: str = "") -> Iterator[str]:
    """An nginx in front of `upstream`; yields its URL."""
    binary = shutil.which("nginx", path="/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin")
    if binary is None:
        pytest.skip("nginx is not installed: streams are not tested behind it")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, port=port, upstream=upstream, gzip=gzip))
    command = [binary, "-p", str(folder), "-c", str(config), "-e", "stderr"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.communicate(timeout=5)


async def delays(url: str, path: str, body: object) -> tuple[httpx.Headers, list[float]]:
    """Open the stream and say how long each chunk of `stamps` was on its way, in seconds."""
    found = []
    headers = {**VERSION, "accept-encoding": "gzip, deflate, br", "content-type": "application/json"}
    async with (
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=10) as http,
        http.stream("POST", path, json=body, headers=headers) as response,
    ):
        assert response.status_code == httpx.codes.OK
        async for data in server_sent(response):
            arrived = time.monotonic()
            event = json.loads(data)
            update = event.get("result", event).get("artifactUpdate")
            if update is not None:
                found.append(arrived - float(update["artifact"]["parts"][0]["text"]))
        return response.headers, found


STREAMING: dict[str, tuple[str, dict[str, object]]] = {
    "HTTP+JSON": ("/message:stream", {}),
    "JSONRPC": ("/", {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage"}),
}


def said(text: str) -> dict[str, object]:
    """A user's message as JSON."""
    return {"messageId": random.randbytes(8).hex(), "role": "ROLE_USER", "parts": [{"text": text}]}


@pytest.mark.parametrize("over", STREAMING)
@pytest.mark.parametrize("through", ["directly", "nginx", "nginx with gzip of everything"])
async def test_b023_events_are_not_held_up(through: str, over: str, pair: Pair, tmp_path: Path) -> None:
    """Each arrives long before the next one is written, also through a proxy that nobody has configured for streams."""
    path, envelope = STREAMING[over]
    request = {"message": said("stamps 8 150")}
    body = {**envelope, "params": request} if envelope else request
    gzip = "gzip_proxied any; gzip_min_length 1; gzip_types *;" if "gzip" in through else ""
    with contextlib.ExitStack() as stack:
        url = pair.replicas[1].http_url
        if through != "directly":
            url = stack.enter_context(nginx(url, tmp_path, gzip))
            await wait_until(lambda: listening(url), "nginx listens")
        headers, found = await delays(url, path, body)
    assert headers["content-type"].partition(";")[0] == "text/event-stream"
    assert "no-cache" in headers["cache-control"] and "no-transform" in headers["cache-control"]
    assert "content-length" not in headers
    if through == "directly":
        assert headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in headers
    assert len(found) == 8
    # A buffer would hold the first until the last is written, 1.05 s later.
    assert statistics.median(found) < 0.2 and max(found) < 0.8, found


async def test_b023_a_silent_stream_is_kept_open_by_what_the_proxy_lets_through(
    pair: Pair, connect: Connect, tmp_path: Path
) -> None:
    """Comments come every second (as the service is set here), so that nobody on the way takes it for dead."""
    task = await (await connect(pair.replicas[0])).task("ask")
    with nginx(pair.replicas[1].http_url, tmp_path, "gzip_proxied any; gzip_min_length 1; gzip_types *;") as url:
        await wait_until(lambda: listening(url), "nginx listens")
        headers = {**VERSION, "accept-encoding": "gzip"}
        async with (
            httpx.AsyncClient(base_url=url, trust_env=False, timeout=10) as http,
            http.stream("GET", f"/tasks/{task.id}:subscribe", headers=headers) as response,
        ):
            comments = 0
            async for line in response.aiter_lines():
                comments += line.startswith(":")
                if comments == 2:
                    break
    assert comments == 2


def listening(url: str) -> bool:
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


# -- B025 --------------------------------------------------------------------------------------------------------------


@pytest.mark.agent(AGENT, A2A_STORE_PATIENCE="1", A2A_STORE_TIMEOUT="0.5")
async def test_b025_a_stream_that_loses_the_store_ends_with_an_error(two_replicas: Pair, connect: Connect) -> None:
    """On the replica that runs the task and on the other one, on every binding; a cut is never taken for the end."""
    task = await (await connect(two_replicas.replicas[0])).task("tick 1000 50", return_immediately=True)

    async def read(caller: Caller, begun: asyncio.Event) -> None:
        async with caller.subscribe(task.id) as stream:
            assert kinds([await anext(stream), await anext(stream)]) == ["task WORKING", "artifact"]
            begun.set()
            async for event in stream:
                assert event.HasField("artifact_update")

    callers = [await connect(replica, over=over) for over in BINDINGS for replica in two_replicas.replicas]
    flags = [asyncio.Event() for _ in callers]
    reading = [asyncio.create_task(read(caller, flag)) for caller, flag in zip(callers, flags, strict=True)]
    await asyncio.wait_for(asyncio.gather(*(flag.wait() for flag in flags)), 10)
    two_replicas.store.kill()
    for failure in await asyncio.wait_for(asyncio.gather(*reading, return_exceptions=True), 15):
        assert isinstance(failure, CallError), failure
        assert failure.is_of(UNAVAILABLE), failure


@pytest.mark.agent(AGENT, A2A_STORE_PATIENCE="1", A2A_STORE_TIMEOUT="0.5")
@pytest.mark.parametrize("over", ["GRPC", "HTTP+JSON"])
async def test_b025_the_client_does_not_take_a_lost_store_for_the_end(over: str, two_replicas: Pair) -> None:
    """Its stream raises; it does not just stop."""
    async with await A2AClient.connect(two_replicas.replicas[0].http_url, bindings=(over,), patience=2) as client:
        stream = client.send_streaming_message(say("tick 1000 50"))
        assert (await anext(stream)).HasField("task")
        two_replicas.store.kill()
        with pytest.raises(A2AError):
            await asyncio.wait_for(_exhaust(stream), 15)


async def _exhaust(stream: AsyncIterator[pb.StreamResponse]) -> None:
    async for event in stream:
        assert not event.HasField("status_update") or kinds([event]) == ["WORKING"]
