"""One process of several that serve on the same ports: what its supervisor tells it, and what it tells the supervisor.

Both talk over a pair of connected sockets, in frames: a byte that says what it is, the length (4 bytes), the content.
The end of the supervisor, however it came, closes its socket; a thread waits for that alone, so that it is also noticed
while an agent blocks the event loop. Where an agent keeps the interpreter too, the thread cannot run, and on Linux the
kernel tells.
"""

import asyncio
import ctypes
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Final, NoReturn

from a2a_grpc.server.settings import Settings
from a2a_grpc.server.settings.values import Address, RedisUrl

_HEAD: Final = struct.Struct(">cI")
_PR_SET_PDEATHSIG: Final = 1
"""Of prctl(2)."""

ASSIGNMENT: Final = b"a"
"""From the supervisor, first of all."""
MEASURE: Final = b"m"
"""From the supervisor: a worker answers with its metrics in a frame of the same kind."""
LISTENING: Final = b"l"
"""From the worker, once: it takes calls."""
READY: Final = b"r"
"""From the worker, once: it has been ready."""


def frame(kind: bytes, content: bytes = b"") -> bytes:
    """What stands on the wire."""
    return _HEAD.pack(kind, len(content)) + content


async def read_frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Kind and content of the next frame. Raises: asyncio.IncompleteReadError at the end, OSError."""
    kind, length = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    return kind, await reader.readexactly(length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a worker is told: all of them have the same environment and the same arguments."""

    number: int
    """From 1 on; a worker that takes the place of another one has its number."""
    replica: str
    """The name of this worker, for `A2A_REPLICA`."""
    ports: dict[str, int]
    """By group of settings: `grpc`, `http`, `admin`."""
    redis_url: str | None
    """The embedded store, where the supervisor has one."""
    measured: bool
    """The supervisor asks for metrics."""

    def applied(self, settings: Settings) -> Settings:
        """The settings of this worker."""
        groups: dict[str, object] = {}
        for group, port in self.ports.items():
            addr = getattr(settings, group).addr
            groups[group] = getattr(settings, group).model_copy(update={"addr": Address(addr.host, port)})
        if self.redis_url is not None:
            groups["store"] = settings.store.model_copy(update={"redis_url": RedisUrl(self.redis_url)})
        if not self.measured:
            groups["metrics"] = settings.metrics.model_copy(update={"addr": None})
        groups["process"] = settings.process.model_copy(update={"replica": self.replica})
        return settings.model_copy(update=groups)

    def encoded(self) -> bytes:
        """For a frame."""
        return json.dumps(asdict(self)).encode()


class Membership:
    """The worker's side. Made before there is an event loop."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor`: the worker's end of the pair. Raises: OSError where it is none, or the supervisor is gone."""
        self._socket = socket.socket(fileno=descriptor)
        # What an agent starts must not keep the supervisor from seeing that its worker is gone.
        self._socket.set_inheritable(False)
        kind, length = _HEAD.unpack(self._receive(_HEAD.size))
        if kind != ASSIGNMENT:
            raise OSError(f"the supervisor says {kind!r}")
        self.assignment = Assignment(**json.loads(self._receive(length)))
        self._render: Callable[[], Awaitable[bytes]] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._was_ready = self._told = False
        if sys.platform == "linux":
            # Sent when the thread has ended that started this process: that is the supervisor's main thread.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        threading.Thread(target=self._outlive, name="a2a-supervisor", daemon=True).start()

    def _receive(self, length: int) -> bytes:
        received = self._socket.recv(length, socket.MSG_WAITALL)
        if len(received) < length:
            raise OSError("the supervisor is gone")
        return received

    def _outlive(self) -> None:
        poll = select.poll()
        poll.register(self._socket, 0)  # nothing but the hang-up
        poll.poll()
        os.kill(os.getpid(), signal.SIGTERM)

    def publish(self, render: Callable[[], Awaitable[bytes]]) -> None:
        """Answer with this when the supervisor asks for metrics."""
        self._render = render

    def note(self, ready: bool) -> None:
        """The readiness of this process; see `Readiness.subscribe`."""
        self._was_ready = self._was_ready or ready
        if self._was_ready and self._writer is not None and not self._told:
            self._told = True
            self._writer.write(frame(READY))

    async def run(self) -> NoReturn:
        """Tell that this process listens, and answer the supervisor for as long as both live."""
        reader, self._writer = await asyncio.open_unix_connection(sock=self._socket.dup())
        self._writer.write(frame(LISTENING))
        self.note(False)
        try:
            while True:
                kind, _ = await read_frame(reader)
                if kind == MEASURE:
                    self._writer.write(frame(MEASURE, b"" if self._render is None else await self._render()))
        except (asyncio.IncompleteReadError, OSError):
            await asyncio.Event().wait()  # the thread has noticed as well
        finally:
            self._writer.close()
        raise AssertionError
