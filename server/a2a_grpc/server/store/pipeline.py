"""Many small calls of many tasks, sent to the store together.

Calls of one turn of the event loop travel in one write, whatever is still in flight; replies come back in order. A
lost or silent connection is mended within the deadline of each call: every script is safe to repeat.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from hiredis import ReplyError
from redis.exceptions import RedisError, ResponseError

from a2a_grpc.server.store.connections import Connect
from a2a_grpc.server.store.errors import StoreMisconfiguredError, StoreUnavailableError
from a2a_grpc.server.store.link import Argument, Link, pack
from a2a_grpc.server.store.scripts import Script
from a2a_grpc.server.store.tracing import record
from a2a_grpc.server.telemetry.instruments import STORE_CALLS
from a2a_grpc.server.telemetry.tracing import TRACES

log = logging.getLogger(__name__)

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
# These say that this server is not, or not yet again, the one to ask.
_ASTRAY = ("READONLY", "MASTERDOWN", "UNBLOCKED", "CLUSTERDOWN", "TRYAGAIN")
_MOVED = ("MOVED ", "ASK ")
_ASKING = pack("ASKING")
_PAUSE = 0.05
_TICK = 0.1
_STEADY = 1.0


@dataclass(slots=True, eq=False)
class Call:
    """One command on its way."""

    packed: bytes
    script: Script | None
    reply: asyncio.Future[Any]
    deadline: float
    """By the loop's clock."""
    slot: int = -1
    """Where its keys are, in a cluster."""
    sent: float = 0.0
    loaded: bool = False
    """Its script was loaded for it."""
    refused: str = ""
    """What the server said to it last, instead of an answer."""
    asking: bool = False
    """The node does not own the slot yet and answers all the same when it is told so."""
    hops: int = 0
    """How often a node named another one for it."""
    operation: str = ""
    """What it is called where it is measured."""
    made: float = 0.0


class Calls(Protocol):
    """Takes calls to the store, whichever servers that is."""

    def script(
        self, script: Script, keys: Sequence[str], arguments: Sequence[Argument], timeout: float | None = None
    ) -> asyncio.Future[Any]:
        """Run `script` on the server that holds `keys`; its reply as hiredis decodes it (bytes, int, list, None).

        The future raises:
            StoreUnavailableError: no usable answer within `timeout` seconds (default: the store timeout).
        """
        ...

    def command(self, *command: Argument, timeout: float | None = None) -> asyncio.Future[Any]:
        """Run one plain command, whose key is `command[1]`. The future raises: as that of `script`."""
        ...

    async def close(self) -> None:
        """Give up what is waiting and close the connections."""
        ...


class Surroundings:
    """What a pipeline tells about its server to those who know the others. Alone it knows of no other."""

    def astray(self, pipeline: "Pipeline") -> None:
        """The server says that it is not the one to ask. A new connection may reach another one."""
        pipeline.renew()

    def moved(self, pipeline: "Pipeline", call: Call, error: str) -> None:  # noqa: ARG002 - for those who know more
        """The server names another one for `call`, which has no answer yet."""
        call.reply.set_exception(
            StoreMisconfiguredError("the store is part of a cluster; A2A_REDIS_URL must begin with redis+cluster://")
        )

    def unreachable(self, pipeline: "Pipeline") -> None:
        """There is no connection to be had."""


_ALONE = Surroundings()


class Pipeline:
    """One connection that carries the calls of a whole process to one node of the store."""

    def __init__(
        self, connect: Connect, timeout: float, *, around: Surroundings = _ALONE, name: str = "the store"
    ) -> None:
        """Connect by `connect`; each call is given up `timeout` seconds after it was made."""
        self._dial = connect
        self._timeout = timeout
        self._around = around
        self._name = name
        self._link: Link | None = None
        self._sent: deque[Call] = deque()
        self._waiting: deque[Call] = deque()
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
        """Run `script`: see `Calls`."""
        reply = self.call(("EVALSHA", script.sha, len(keys), *keys, *arguments), script, timeout)
        if TRACES.on:
            record(script.name, reply)
        return reply

    def command(self, *command: Argument, timeout: float | None = None) -> asyncio.Future[Any]:
        """Run one plain command: see `Calls`."""
        return self.call(command, None, timeout)

    async def close(self) -> None:
        """Give up what is waiting and close the connection."""
        self._closed = True
        if self._connector is not None:
            self._connector.cancel()
            await asyncio.gather(self._connector, return_exceptions=True)
        for call in self.evict():
            _fail(call, "the connection to the store was closed")

    def renew(self) -> None:
        """Replace the connection; what has no answer yet is sent again on the new one."""
        if self._link is not None:
            self._link.abort()

    def evict(self) -> list[Call]:
        """Cut the connection and give all calls that have no answer yet to somebody else."""
        link, self._link = self._link, None
        if link is not None:
            link.abort()
        calls = [call for call in (*self._unanswered(), *self._waiting) if not call.reply.done()]
        self._sent.clear()
        self._waiting.clear()
        return calls

    def release(self, gone: Callable[[Call], bool]) -> list[Call]:
        """Give those calls that wait, and of which `gone` is true, to somebody else."""
        released = [call for call in self._waiting if gone(call)]
        if released:
            self._waiting = deque(call for call in self._waiting if not gone(call))
        return released

    def call(
        self, command: tuple[Argument, ...], script: Script | None, timeout: float | None, slot: int = -1
    ) -> asyncio.Future[Any]:
        """Run a command that may be the `script`."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        call = Call(
            pack(*command),
            script,
            loop.create_future(),
            now + (self._timeout if timeout is None else timeout),
            slot,
            operation=script.name if script is not None else str(command[0]),
            made=now,
        )
        self._take(call, now)
        return call.reply

    def take(self, call: Call) -> None:
        """Go on with a call of another pipeline."""
        self._take(call, asyncio.get_running_loop().time())

    def _take(self, call: Call, now: float) -> None:
        if self._closed:
            _fail(call, "the connection to the store was closed")
        elif self._link is not None:
            self._send(self._link, call, now)
        else:
            self._waiting.append(call)
            self._connect()
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_later(_TICK, self._tick)

    def _send(self, link: Link, call: Call, now: float) -> None:
        call.sent = now
        if call.asking:
            call.asking = False
            self._sent.append(_unheard(now))
            link.send(_ASKING)
        self._sent.append(call)
        link.send(call.packed, call.made)

    # -- replies -----------------------------------------------------------------------------------------------------

    def _on_reply(self, reply: Any) -> None:
        call = self._sent.popleft()
        if STORE_CALLS.wanted:
            self._measure(call)
        if isinstance(reply, ReplyError):
            self._on_error(call, str(reply))
        elif not call.reply.done():
            call.reply.set_result(reply)

    def _measure(self, call: Call) -> None:
        if self._link is not None and call.operation:
            STORE_CALLS.record(self._link.heard - call.sent, call.operation)

    def _on_error(self, call: Call, error: str) -> None:
        if call.reply.done():
            return
        if call.script is not None and error.startswith("NOSCRIPT"):
            # The server never saw it, or has forgotten it after a restart or a failover.
            self._load(call.script)
            if call.loaded:
                self.later(call)
            else:
                call.loaded = True
                self._again(call)
        elif error.startswith(_TRANSIENT):
            call.refused = error
            if error.startswith(_ASTRAY):
                self._around.astray(self)
            self.later(call)
        elif error.startswith(_MOVED):
            self._around.moved(self, call, error)
        else:
            call.reply.set_exception(ResponseError(error))

    def _load(self, script: Script) -> None:
        if script.sha not in self._loading:
            self._loading.add(script.sha)
            self.call(("SCRIPT", "LOAD", script.source), None, None).add_done_callback(partial(self._loaded, script))

    def _loaded(self, script: Script, loading: asyncio.Future[Any]) -> None:
        self._loading.discard(script.sha)
        if not loading.cancelled() and (error := loading.exception()) is not None:
            log.warning("the store does not take the script %s: %s", script.name, error)

    def later(self, call: Call) -> None:
        """Send `call` again in a moment."""
        self._waiting.append(call)
        asyncio.get_running_loop().call_later(_PAUSE, self._resend)

    def _again(self, call: Call) -> None:
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
                link = self._new_link()
                try:
                    async with asyncio.timeout(self._timeout):
                        await link.open(self._dial)
                except (RedisError, OSError, TimeoutError) as error:
                    if str(error) != self._trouble:
                        self._trouble = str(error)
                        log.warning("cannot connect to %s: %s", self._name, self._trouble or "it does not answer")
                    self._around.unreachable(self)
                    await asyncio.sleep(_PAUSE)
                    continue
                self._link, self._trouble = link, None
                self._opened = asyncio.get_running_loop().time()
                self._resend()
                return
        finally:
            self._connector = None

    def _new_link(self) -> Link:
        return Link(self._on_reply, self._on_lost)

    def _unanswered(self) -> list[Call]:
        return [call for call in self._sent if not call.reply.done()]

    def _on_lost(self, link: Link) -> None:
        if link is not self._link:
            return
        self._link = None
        unanswered = self._unanswered()
        self._sent.clear()
        if unanswered:
            log.warning("lost %s with %d calls in flight; they are sent again", self._name, len(unanswered))
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
            log.warning("%s is silent for %.1f s; connecting anew", self._name, self._timeout)
            self._link.abort()
        self._waiting = deque(call for call in self._waiting if not expired(call, now))
        for call in self._sent:
            expired(call, now)
        self._ticking = bool(self._sent or self._waiting)
        if self._ticking:
            loop.call_later(_TICK, self._tick)


def _unheard(now: float) -> Call:
    """Stands for a command whose answer nobody waits for."""
    reply = asyncio.get_running_loop().create_future()
    reply.cancel()
    return Call(b"", None, reply, float("inf"), sent=now)


def expired(call: Call, now: float) -> bool:
    """Give up a call whose time is over; whether nobody waits for its answer any more."""
    if call.deadline <= now:
        _fail(call, f"the store refuses: {call.refused}" if call.refused else "the store did not answer in time")
    return call.reply.done()


def _fail(call: Call, why: str) -> None:
    if not call.reply.done():
        call.reply.set_exception(StoreUnavailableError(why))
