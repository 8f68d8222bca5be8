"""A receiver of webhooks: a real HTTP server that notes what it gets and answers as a test wants."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.support.waiting import wait_until


@dataclass(slots=True)
class Delivery:
    """One request as it came."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    """Names in lower case."""
    body: bytes
    answered: int = 0

    def header(self, name: str) -> str:
        """The value of the header, which must be there once."""
        [value] = [value for known, value in self.headers if known == name]
        return value

    def has(self, name: str) -> bool:
        return any(known == name for known, _ in self.headers)

    @property
    def seq(self) -> int:
        return int(self.header("x-a2a-event-seq"))

    @property
    def event(self) -> dict[str, Any]:
        """The body, which must have exactly one member."""
        [_] = event = json.loads(self.body)
        assert isinstance(event, dict)
        return event

    @property
    def state(self) -> str:
        """The state that a status update or a task tells, or ""."""
        told = self.event.get("statusUpdate") or self.event.get("task") or {}
        return str(told.get("status", {}).get("state", "")).removeprefix("TASK_STATE_")


@dataclass(slots=True)
class Answer:
    """What a receiver says. `silent`: nothing, for ever; `cut`: the connection is closed instead."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    silent: bool = False
    cut: bool = False


Behave: TypeAlias = Callable[[Delivery], Awaitable[Answer]]

SILENT = Answer(silent=True)
ENDS = frozenset({"COMPLETED", "FAILED", "CANCELED", "REJECTED"})


async def take(_: Delivery) -> Answer:
    """Answer 200 at once."""
    return Answer()


class Receiver:
    """`url` is where it listens; set `behave` to change what it answers."""

    def __init__(self, behave: Behave) -> None:
        self.behave = behave
        self.deliveries: list[Delivery] = []
        self.connections = 0
        self.open = 0
        """Requests that are not answered yet."""
        self.most_open = 0
        self.url = ""
        self.port = 0

    def taken(self, target: str = "") -> list[Delivery]:
        """What was answered with 2xx, in the order in which it came; only that to `target` where given."""
        return [one for one in self.deliveries if one.answered // 100 == 2 and target in {"", one.target}]

    async def until(self, count: int, timeout: float = 10.0) -> list[Delivery]:
        """All deliveries, once there are so many."""
        await wait_until(lambda: len(self.deliveries) >= count, f"{count} deliveries", timeout)
        return list(self.deliveries)

    async def until_end(self, target: str = "", timeout: float = 15.0) -> list[Delivery]:
        """What was taken, once the end of the task is among it."""
        await wait_until(
            lambda: any(one.state in ENDS for one in self.taken(target)), f"the end at {target or self.url}", timeout
        )
        return self.taken(target)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._request(reader, writer):
                    pass
        finally:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = [
            (name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in head[1:] if line)
        ]
        length = next((int(value) for name, value in headers if name == "content-length"), 0)
        delivery = Delivery(method, target, headers, await reader.readexactly(length))
        self.deliveries.append(delivery)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            answer = await self.behave(delivery)
            if answer.silent:
                await reader.read()
        finally:
            self.open -= 1
        if answer.cut or answer.silent:
            return False
        delivery.answered = answer.status
        lines = [f"HTTP/1.1 {answer.status} X", f"content-length: {len(answer.body)}"]
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + answer.body)
        await writer.drain()
        return True


@contextlib.asynccontextmanager
async def receiver(
    behave: Behave = take, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """A receiver on a port of its own."""
    made = Receiver(behave)
    connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(made.serve(reader, writer))
        connections[serving] = writer
        serving.add_done_callback(connections.pop)

    server = await asyncio.start_server(connected, host, 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    made.url = f"{'https' if tls else 'http'}://{host}:{made.port}"
    try:
        yield made
    finally:
        server.close()
        left = dict(connections)
        for serving, writer in left.items():
            serving.cancel()
            # One that has only just come has not begun to serve, and would never end.
            writer.transport.abort()
        await asyncio.gather(*left, return_exceptions=True)
        # A transport closes in the next turn of the loop.
        await asyncio.sleep(0)
