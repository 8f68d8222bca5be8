"""Receivers that break the rules of HTTP, or drag them out (B053): that costs an attempt, and nobody else anything."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import VERSION, GrpcCaller
from tests.push.config import AGENT, QUICK
from tests.support.receiver import receiver
from tests.support.replica import PairPool
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wide

Misbehave = Callable[[asyncio.StreamWriter, str], Awaitable[None]]
"""Answers; the text is where a redirect may lead."""
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
DRIP = 0.2


def says(text: bytes) -> Misbehave:
    async def behave(writer: asyncio.StreamWriter, elsewhere: str) -> None:
        writer.write(text.replace(b"ELSEWHERE", elsewhere.encode()))
        await writer.drain()

    return behave


def forever(chunk: bytes, first: bytes = b"", pause: float = 0.0) -> Misbehave:
    async def behave(writer: asyncio.StreamWriter, _: str) -> None:
        writer.write(first)
        while True:
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(pause)

    return behave


def status(line: str, *headers: str) -> Misbehave:
    return says("\r\n".join([f"HTTP/1.1 {line}", "content-length: 0", *headers, "", ""]).encode())


REPEATED: dict[str, Misbehave] = {
    "closes": says(b""),
    "closes-in-the-status": says(b"HTTP/1."),
    "closes-in-the-headers": says(b"HTTP/1.1 200 OK\r\ncontent-len"),
    "no-http": says(b"220 mail.example.com ESMTP\r\n"),
    "http-2": says(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + b"\x00\x03\x00\x00\x00\x64" * 3),
    "http-0.9": says(b"<html>hello</html>"),
    "endless-headers": forever(b"x-more: yes\r\n" * 1000, b"HTTP/1.1 200 OK\r\n"),
    "one-endless-header": forever(b"x" * 10_000, b"HTTP/1.1 200 OK\r\nx: "),
    "endless-status": forever(b"x" * 10_000, b"HTTP/1.1 200 "),
    "one-byte-at-a-time": forever(b"x", b"HTTP/1.1 200 OK\r\nx: ", DRIP),
    "only-interim-answers": forever(b"HTTP/1.1 100 Continue\r\n\r\n" * 10),
    "slow-interim-answers": forever(b"HTTP/1.1 103 Early Hints\r\n\r\n", pause=DRIP),
    "switches-protocols": says(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n"),
    "two-lengths": says(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx"),
    "length-that-is-none": says(b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"),
    "bytes-in-a-header": says(b"HTTP/1.1 200 OK\r\nx: a\x00b\r\n\r\n"),
    "status-600": status("600 Beyond"),
    "status-999": status("999 Beyond"),
    "status-20": status("20 OK"),
    "moved-301": status("301 Moved", "location: ELSEWHERE"),
    "moved-302": status("302 Found", "location: ELSEWHERE"),
    "moved-303": status("303 See Other", "location: ELSEWHERE"),
    "moved-308": status("308 Permanent", "location: ELSEWHERE"),
    "unauthorized": status("401 Unauthorized", 'www-authenticate: Basic realm="give me more"'),
    "internal": status("500 Internal"),
    "later-garbage": status("429 Too Many", "retry-after: soon \xa7 ever"),
    "later-negative": status("429 Too Many", "retry-after: -5"),
    "later-in-the-past": status("503 Unavailable", "retry-after: Sun, 06 Nov 1994 08:49:37 GMT"),
    "later-broken-date": status("503 Unavailable", "retry-after: Sun, 99 Nov 99999999999 08:49:37 +99999999999"),
}
TAKEN: dict[str, Misbehave] = {
    "endless-body": forever(b"x" * 10_000, b"HTTP/1.1 200 OK\r\n\r\n"),
    "endless-chunks": forever(b"1\r\nx\r\n", b"HTTP/1.1 202 OK\r\ntransfer-encoding: chunked\r\n\r\n", DRIP),
    "body-too-short": says(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx"),
    "broken-chunks": says(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"),
    "body-where-none-belongs": says(b"HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\nhello"),
    "an-answer-too-many": says(OK + OK),
}


@dataclass
class Raw:
    """Misbehaves for the first request to each path, and takes the others."""

    elsewhere: str
    port: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    order: dict[str, list[int]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                path = head.split(" ")[1].removeprefix("/")
                length = int(head.split("content-length: ")[1].split("\r\n")[0])
                body = await reader.readexactly(length)
                self.requests[path] += 1
                self.order.setdefault(path, []).append(int(head.split("x-a2a-event-seq: ")[1].split("\r\n")[0]))
                if self.requests[path] == 1:
                    await (REPEATED | TAKEN)[path](writer, self.elsewhere)
                    return
                if b"TASK_STATE_COMPLETED" in body:
                    self.ended.add(path)
                writer.write(OK)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def raw(elsewhere: str) -> AsyncIterator[Raw]:
    made = Raw(elsewhere)
    serving: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(made.serve(reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def test_b053_whatever_a_receiver_does_costs_an_attempt_at_most(pair_pool: PairPool) -> None:
    """What was not taken is sent again, in its order; what was taken is not, however the answer goes on."""
    # Longer than a busy machine keeps an answer waiting that is there: an attempt that timed out is rightly repeated.
    pair = pair_pool.get(AGENT, {**QUICK, "A2A_PUSH_TIMEOUT": "4", "A2A_PUSH_PER_HOST": "100"})
    async with receiver() as elsewhere, raw(elsewhere.url) as hook, GrpcCaller(pair.replicas[0], VERSION) as caller:
        for name in REPEATED | TAKEN:
            given = pb.TaskPushNotificationConfig(url=f"http://127.0.0.1:{hook.port}/{name}")
            await caller.task("chunks 1", return_immediately=True, task_push_notification_config=given)
        await wait_until(lambda: hook.ended == (REPEATED | TAKEN).keys(), "the end at each", 40)
        assert elsewhere.connections == 0

    for name, seqs in hook.order.items():
        distinct = sorted(set(seqs))
        expected = distinct if name in TAKEN else [distinct[0], *distinct]
        assert seqs == expected, name
    assert {name for name, count in hook.requests.items() if count == 4} == REPEATED.keys()
