"""The HTTP listener: uvicorn's connections in the event loop that is running, started and stopped by whoever owns it.

`uvicorn.Server` is not used: it installs signal handlers, exits the process when the port is taken, wakes up ten times
a second, and leaves the connections of peers that do not read open behind it.
"""

import asyncio
import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Sequence
from email.utils import formatdate
from functools import partial
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from a2a_grpc.server.bindings.asgi.connection import Connection, ConnectionLimits
from a2a_grpc.server.bindings.asgi.draining import Draining
from a2a_grpc.server.bindings.asgi.tls import HSTS
from a2a_grpc.server.bindings.asgi.types import App, Header
from a2a_grpc.server.tls import Certificates, Pair

_log = logging.getLogger(__name__)

_SETTLE = 0.5
"""Seconds in which requests may end by themselves when everything that they could wait for is over."""
_LAST_WORDS = 1.0
"""Seconds that requests have, once ended, to write an error."""
_LOOK_EVERY = 0.05
_LOOK_FOR_CERTIFICATES = 1.0
"""Seconds between two looks at the files of the certificate."""
_HANDSHAKE = 10.0
"""Seconds that a handshake may take."""
_GOODBYE = 1.0
"""Seconds that a peer has to answer the end of a TLS connection."""


class HttpListener:
    """Serves `app` on `host`:`port` (0: a free port) between `start` and `stop`; it can be started once."""

    def __init__(
        self,
        app: App,
        host: str,
        port: int,
        *,
        limits: ConnectionLimits | None = None,
        backlog: int = 2048,
        certificates: Certificates | None = None,
        encrypted: bool = False,
        shared: bool = False,
    ) -> None:
        """With `certificates` it speaks TLS and nothing else; `encrypted`: somebody in front of it does.

        `shared`: other processes listen on the same port.
        """
        self._app = app
        self._host = host
        self._port = port
        self._limits = limits or ConnectionLimits()
        self._backlog = backlog
        self._shared = shared
        self._certificates = certificates
        self._headers: list[Header] = [HSTS] if certificates is not None or encrypted else []
        self._pair: Pair | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()
        self._sockets: list[socket.socket] = []
        self._draining = Draining()
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []
        self._clock: asyncio.TimerHandle | None = None
        self._closed = asyncio.Event()
        self._leaving = False

    async def start(self) -> int:
        """Begin to listen; the port that was bound. Raises OSError, with the address in its text, when that fails."""
        config = uvicorn.Config(
            self._app,
            # The class is handed over for the sake of `load`; the connections are made below, with their limits.
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            # The peer is who is connected. What X-Forwarded-* say is not believed (and never gets into the card).
            proxy_headers=False,
            forwarded_allow_ips=[],
            server_header=False,
            workers=1,
            timeout_keep_alive=self._limits.keep_alive,  # type: ignore[arg-type]  # goes to call_later as it is
        )
        config.load()
        self._connection = partial(
            Connection,
            config=config,
            server_state=self._state,
            app_state=self._draining.state(),
            limits=self._limits,
            leaving=lambda: self._leaving,
            on_closed=self._connection_closed,
        )
        self._tick()
        self._sockets = _bind(self._host, self._port, shared=self._shared)
        port: int = self._sockets[0].getsockname()[1]
        await self._accept()
        if self._certificates is not None:
            self._renewing = asyncio.create_task(self._renew(self._certificates))
        return port

    async def _accept(self) -> None:
        """Take connections from the sockets, with the certificate of now in place of that of before.

        Raises: OSError, and everything is as before.
        """
        pair: Pair | None = None
        tls: dict[str, Any] = {}
        if self._certificates is not None:
            pair = self._certificates.current()
            tls = {"ssl": pair.context, "ssl_handshake_timeout": _HANDSHAKE, "ssl_shutdown_timeout": _GOODBYE}
        loop = asyncio.get_running_loop()
        servers: list[asyncio.Server] = []
        try:
            for listening in self._sockets:
                # Connections wait at the socket while servers change, and those of the old one go on.
                with contextlib.ExitStack() as unused:
                    its_own = unused.enter_context(listening.dup())
                    servers.append(
                        await loop.create_server(self._connection, sock=its_own, backlog=self._backlog, **tls)
                    )
                    unused.pop_all()
        except OSError:
            await _close(servers)
            raise
        before, self._servers, self._pair = self._servers, servers, pair
        await _close(before)

    async def _renew(self, certificates: Certificates) -> None:
        while True:
            await asyncio.sleep(_LOOK_FOR_CERTIFICATES)
            if certificates.current() is not self._pair:
                async with self._changing:
                    try:
                        await self._accept()
                    except OSError as error:  # no file descriptor is left, for example
                        _log.error("the new TLS certificate is not in use yet, which is tried again: %s", error)

    def retire(self) -> None:
        """Serve on, and close each connection with its next response.

        A caller that is told so sends nothing more over it; one whose idle connection is just closed may have.
        """
        self._leaving = True

    async def leave(self) -> None:
        """Accept nothing more, and close the connections that are idle; requests that are here go on."""
        self.retire()
        if self._renewing is not None:
            # Not in the middle of a change: servers would be left that nobody closes.
            async with self._changing:
                self._renewing.cancel()
            await asyncio.wait((self._renewing,))
            self._renewing = None
        await _close(self._servers)
        for listening in self._sockets:
            listening.close()
        for connection in self._connections():
            connection.shutdown()

    async def answered(self) -> None:
        """Wait until every request has its answer; event streams don't count."""
        while tasks := set(self._state.tasks) - self._draining.tasks:
            # A request may turn out to be for a stream.
            await asyncio.wait(tasks, timeout=_LOOK_EVERY)

    async def end(self) -> None:
        """End the requests that still run, after a moment in which they may do so themselves."""
        await self._wait_closed(_SETTLE)
        await self.stop(grace=0.0)

    async def stop(self, grace: float) -> None:
        """Accept nothing more, end event streams, and give running requests `grace` seconds before they are cut.

        Event streams end at once, with an error event and a complete response, so that their readers know that there is
        more and attach again elsewhere (B077). When this returns no connection is open.
        """
        await self.leave()
        streams = self._draining.tasks
        self._draining.start()
        if not await self._wait_closed(grace):
            for task in set(self._state.tasks) - streams:
                task.cancel()
            for connection in self._connections():
                connection.close_unless_answering()
            if not await self._wait_closed(_LAST_WORDS):
                for connection in self._connections():
                    connection.abort()
                await self._wait_closed(_LAST_WORDS)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS):  # handshakes that do not end
                for server in self._servers:
                    await server.wait_closed()
        if self._clock is not None:
            self._clock.cancel()

    def _connections(self) -> list[Connection]:
        return [connection for connection in self._state.connections if isinstance(connection, Connection)]

    async def _wait_closed(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while self._state.connections:
                    self._closed.clear()
                    await self._closed.wait()
                # A request may outlive its connection for a moment: it has yet to notice.
                while self._state.tasks:
                    await asyncio.wait(set(self._state.tasks))
        except TimeoutError:
            return False
        return True

    def _connection_closed(self) -> None:
        self._closed.set()

    def _tick(self) -> None:
        # The Date of every response is formatted once a second rather than once a response.
        self._state.default_headers = [(b"date", formatdate(time.time(), usegmt=True).encode()), *self._headers]
        self._clock = asyncio.get_running_loop().call_later(1.0, self._tick)


async def _close(servers: Sequence[asyncio.Server]) -> None:
    """Accept nothing more. What was accepted already is served, unlike with `Server.close` alone.

    asyncio accepts a connection in one turn of the loop and hands it to the server in the next; if that was closed
    in between, that fails, and the connection is forgotten where it stands.
    """
    loop = asyncio.get_running_loop()
    for server in servers:
        for listening in server.sockets:
            loop.remove_reader(listening)
    for _ in range(2):
        await asyncio.sleep(0)
    for server in servers:
        server.close()


def _bind(host: str, port: int, *, shared: bool) -> list[socket.socket]:
    """Sockets on every address that `host` stands for, all with the same port."""
    where = f"{host or '*'}:{port}"
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise OSError(errno.EADDRNOTAVAIL, f"cannot listen on {where}: {error.strerror}") from error
    bound: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            bound.append(listening)
            _set_options(listening, host)
            if shared:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listening.bind((address[0], port, *address[2:]))
            port = listening.getsockname()[1]
    except OSError as error:
        for listening in bound:
            listening.close()
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OSError(error.errno, f"cannot listen on {where}: {reason}") from error
    return bound


def _set_options(listening: socket.socket, host: str) -> None:
    listening.setblocking(False)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if listening.family == socket.AF_INET6:
        # "::" alone means every address of both families, as it does for the gRPC listener.
        listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if host == "::" else 1)
    # Accepted sockets inherit these (Linux). A peer that vanished without a word is noticed within 30 s of silence, and
    # within 30 s of the first unanswered byte of a stream (B107); the kernel's own limit is a quarter of an hour.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000)):
        if hasattr(socket, name):
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
