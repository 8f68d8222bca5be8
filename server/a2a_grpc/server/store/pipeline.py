"""Many small calls of many tasks, sent to the store together.

Calls of one turn of the event loop travel in one write, whatever is still in flight; replies come back in order. A
lost or silent connection is mended within the deadline of each call: every script is safe to repeat.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from hiredis import ReplyError, pack_command
from redis.asyncio.connection import ConnectionPool
from redis.exceptions import RedisError, ResponseError

from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.link import Link
from a2a_grpc.server.store.scripts import Script

log = logging.getLogger(__name__)

Argument = str | bytes | int

# Replies of a server that is not able to serve just now: a failover, a full memory, a disk that cannot be written.
_TRANSIENT = (
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    "LOADING",
    "BUSY",
    "UNBLOCKED",
)
# After these another connection may reach another server, which can.
_ELSEWHERE = ("READONLY", "MASTERDOWN", "UNBLOCKED")
_PAUSE = 0.05
_TICK = 0.1
_STEADY = 1.0


@dataclass(slots=True, eq=False)
class _Call:
    packed: bytes
    script: Script | None
    reply: asyncio.Future[Any]
    deadline: float
    sent: float = 0.0
    loaded: bool = False
    """Its script was loaded for it."""


class Pipeline:
    """One connection that carries the calls of a whole process to one node of the store."""

    def __init__(self, pool: ConnectionPool, timeout: float) -> None:
        """Connect as `pool` would; each call is given up `timeout` seconds after it was made."""
        self._pool = pool
        self._timeout = timeout
        self._link: Link | None = None
        self._sent: deque[_Call] = deque()
        self._waiting: deque[_Call] = deque()
        self._loading: set[str] = set()
        self._connector: asyncio.Task[None] | None = None
        self._ticking = False
        self._opened = float("-inf")
        self._closed = False
        self._trouble: str | None = None
        """Why there is no connection, as far as the log has been told."""

    def script(
        self, script: Script, keys: Sequence[str], arguments: Sequence[Argument], timeout: float | None = None
    ) -> asyncio.Future[Any]:
        """Run `script`; its reply as hiredis decodes it (bytes, int, list, None).

        The future raises:
            StoreUnavailableError: no usable answer within `timeout` seconds (default: the pipeline's).
        """
        return self._call(("EVALSHA", script.sha, len(keys), *keys, *arguments), script, timeout)

    def command(self, *command: Argument, timeout: float | None = None) -> asyncio.Future[Any]:
        """Run one plain command. The future raises: as that of `script`."""
        return self._call(command, None, timeout)

    async def close(self) -> None:
        """Give up what is waiting and close the connection."""
        self._closed = True
        if self._connector is not None:
            self._connector.cancel()
            await asyncio.gather(self._connector, return_exceptions=True)
        link, self._link = self._link, None
        if link is not None:
            link.abort()
        for call in (*self._sent, *self._waiting):
            _fail(call, "the connection to the store was closed")
        self._sent.clear()
        self._waiting.clear()

    def _call(self, command: tuple[Argument, ...], script: Script | None, timeout: float | None) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        now = loop.time()
        call = _Call(
            pack_command(command),  # type: ignore[arg-type]
            script,
            loop.create_future(),
            now + (self._timeout if timeout is None else timeout),
        )
        if self._closed:
            _fail(call, "the connection to the store was closed")
        elif self._link is not None:
            self._send(self._link, call, now)
        else:
            self._waiting.append(call)
            self._connect()
        if not self._ticking:
            self._ticking = True
            loop.call_later(_TICK, self._tick)
        return call.reply

    def _send(self, link: Link, call: _Call, now: float) -> None:
        call.sent = now
        self._sent.append(call)
        link.send(call.packed)

    # -- replies -----------------------------------------------------------------------------------------------------

    def _on_reply(self, reply: Any) -> None:
        call = self._sent.popleft()
        if isinstance(reply, ReplyError):
            self._on_error(call, str(reply))
        elif not call.reply.done():
            call.reply.set_result(reply)

    def _on_error(self, call: _Call, error: str) -> None:
        if call.reply.done():
            return
        if call.script is not None and error.startswith("NOSCRIPT"):
            # The server never saw it, or has forgotten it after a restart or a failover.
            self._load(call.script)
            if call.loaded:
                self._later(call)
            else:
                call.loaded = True
                self._again(call)
        elif error.startswith(_TRANSIENT):
            if error.startswith(_ELSEWHERE) and self._link is not None:
                self._link.abort()
            self._later(call)
        else:
            call.reply.set_exception(ResponseError(error))

    def _load(self, script: Script) -> None:
        if script.sha not in self._loading:
            self._loading.add(script.sha)
            self._call(("SCRIPT", "LOAD", script.source), None, None).add_done_callback(partial(self._loaded, script))

    def _loaded(self, script: Script, loading: asyncio.Future[Any]) -> None:
        self._loading.discard(script.sha)
        if not loading.cancelled() and (error := loading.exception()) is not None:
            log.warning("the store does not take the script %s: %s", script.name, error)

    def _later(self, call: _Call) -> None:
        self._waiting.append(call)
        asyncio.get_running_loop().call_later(_PAUSE, self._resend)

    def _again(self, call: _Call) -> None:
        if self._link is not None:
            self._send(self._link, call, asyncio.get_running_loop().time())
        else:
            self._waiting.append(call)
            self._connect()

    def _resend(self) -> None:
        """Send what waits, if there is a connection to send it on."""
        link = self._link
        if link is None:
            if self._waiting:
                self._connect()
            return
        now = asyncio.get_running_loop().time()
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            if not call.reply.done():
                self._send(link, call, now)

    # -- the connection ----------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if self._connector is None and not self._closed:
            self._connector = asyncio.get_running_loop().create_task(self._connected(), name="store-connect")

    async def _connected(self) -> None:
        try:
            if asyncio.get_running_loop().time() - self._opened < _STEADY:
                # It was lost as soon as it was made: whoever refuses us is not to be asked without a pause.
                await asyncio.sleep(_PAUSE)
            while self._waiting:
                link = Link(self._on_reply, self._on_lost)
                try:
                    async with asyncio.timeout(self._timeout):
                        await link.open(self._pool)
                except (RedisError, OSError, TimeoutError) as error:
                    if str(error) != self._trouble:
                        self._trouble = str(error)
                        log.warning("cannot connect to the store: %s", self._trouble or "it does not answer")
                    await asyncio.sleep(_PAUSE)
                    continue
                self._link, self._trouble = link, None
                self._opened = asyncio.get_running_loop().time()
                self._resend()
                return
        finally:
            self._connector = None

    def _on_lost(self, link: Link) -> None:
        if link is not self._link:
            return
        self._link = None
        unanswered = [call for call in self._sent if not call.reply.done()]
        self._sent.clear()
        if unanswered:
            log.warning("lost the store with %d calls in flight; they are sent again", len(unanswered))
        self._waiting.extendleft(reversed(unanswered))
        if self._waiting:
            self._connect()

    # -- time --------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Give up the calls whose time is over, and a connection that is silent for too long."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        # A long answer is no silence, nor is one that this process is too busy to read.
        if self._link and self._sent and now - max(self._sent[0].sent, self._link.heard) > self._timeout:
            log.warning("the store is silent for %.1f s; connecting anew", self._timeout)
            self._link.abort()
        self._waiting = deque(call for call in self._waiting if not _expired(call, now))
        for call in self._sent:
            _expired(call, now)
        self._ticking = bool(self._sent or self._waiting)
        if self._ticking:
            loop.call_later(_TICK, self._tick)


def _expired(call: _Call, now: float) -> bool:
    if call.deadline <= now:
        _fail(call, "the store did not answer in time")
    return call.reply.done()


def _fail(call: _Call, why: str) -> None:
    if not call.reply.done():
        call.reply.set_exception(StoreUnavailableError(why))
