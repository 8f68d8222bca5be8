"""Many small calls of many tasks, sent to the store together.

Calls that arrive while a batch is in flight travel in the next one: one write to the socket, one round trip. Order is
kept. A lost connection is mended within the deadline of each call: the scripts are safe to repeat.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.exceptions import (
    ClusterDownError,
    MasterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.scripts import Script

log = logging.getLogger(__name__)

Argument = str | bytes | int

# Replies of a server that is not able to serve just now: it lacks the script, a failover, a full memory, a broken disk.
_TRANSIENT = (NoScriptError, ReadOnlyError, MasterDownError, ClusterDownError, TryAgainError, OutOfMemoryError)
_TRANSIENT_PREFIXES = ("MISCONF", "NOREPLICAS", "LOADING")
_LOST = (RedisConnectionError, RedisTimeoutError, OSError, TimeoutError)
_MAX_BATCH = 256
_PAUSE = 0.05


@dataclass(slots=True, eq=False)
class _Call:
    command: tuple[Argument, ...]
    script: Script | None
    reply: asyncio.Future[Any]
    deadline: float


class Pipeline:
    """One connection that carries the calls of a whole process to one node of the store."""

    def __init__(self, pool: ConnectionPool, timeout: float) -> None:
        """Connect as `pool` would; each call is given up `timeout` seconds after it was made."""
        self._pool = pool
        self._timeout = timeout
        self._waiting: deque[_Call] = deque()
        self._connection: AbstractConnection | None = None
        self._sender: asyncio.Task[None] | None = None

    def script(
        self, script: Script, keys: Sequence[str], arguments: Sequence[Argument], timeout: float | None = None
    ) -> asyncio.Future[Any]:
        """Run `script`; its reply as redis-py decodes it (bytes, int, list).

        The future raises:
            StoreUnavailableError: no usable answer within `timeout` seconds (default: the pipeline's).
        """
        return self._call(("EVALSHA", script.sha, len(keys), *keys, *arguments), script, timeout)

    def command(self, *command: Argument, timeout: float | None = None) -> asyncio.Future[Any]:
        """Run one plain command. The future raises: as that of `script`."""
        return self._call(command, None, timeout)

    async def close(self) -> None:
        """Give up what is waiting and close the connection."""
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.gather(self._sender, return_exceptions=True)
        for call in self._waiting:
            _fail(call, StoreUnavailableError("the connection to the store was closed"))
        self._waiting.clear()
        await self._disconnect()

    def _call(self, command: tuple[Argument, ...], script: Script | None, timeout: float | None) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        limit = self._timeout if timeout is None else timeout
        call = _Call(command, script, loop.create_future(), loop.time() + limit)
        self._waiting.append(call)
        if self._sender is None:
            self._sender = loop.create_task(self._send_all(), name="store-pipeline")
        return call.reply

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MAX_BATCH))]
                again = await self._send(batch)
                if again:
                    self._waiting.extendleft(reversed(again))
                    await asyncio.sleep(_PAUSE)
                    self._expire()
        finally:
            self._sender = None

    async def _send(self, batch: list[_Call]) -> list[_Call]:
        """Send `batch`, answer its calls, and return those to be sent again."""
        now = asyncio.get_running_loop().time()
        answered = 0
        again: list[_Call] = []
        try:
            patience = min(self._timeout, min(call.deadline for call in batch) - now)
            async with asyncio.timeout(max(0.01, patience)):
                connection = await self._connected()
                await connection.send_packed_command(
                    b"".join(pack_command(call.command) for call in batch),  # type: ignore[arg-type]
                    check_health=False,
                )
                for call in batch:
                    try:
                        reply = await connection.read_response()
                    except ResponseError as error:
                        reply = error
                    if not _settle(call, reply):
                        again.append(call)
                    answered += 1
            await self._load_missing(again)
        except _LOST as error:
            log.warning("lost the store in the middle of %d calls: %s", len(batch) - answered, error or "no answer")
            await self._disconnect()
            again.extend(batch[answered:])
        except BaseException:
            # Cancelled between a request and its reply: the connection must not serve anybody else.
            for call in batch[answered:]:
                _fail(call, StoreUnavailableError("the connection to the store was closed"))
            await self._disconnect()
            raise
        return again

    async def _load_missing(self, calls: list[_Call]) -> None:
        """Load the scripts that the server does not know (yet, or any more: after a restart or a failover)."""
        missing = {call.script.sha: call.script for call in calls if call.script is not None}
        if not missing:
            return
        connection = await self._connected()
        async with asyncio.timeout(self._timeout):
            for script in missing.values():
                await connection.send_command("SCRIPT", "LOAD", script.source)
                try:
                    await connection.read_response()
                except ResponseError as error:
                    log.warning("the store refused a script: %s", error)

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        for call in [call for call in self._waiting if call.deadline <= now]:
            self._waiting.remove(call)
            _fail(call, StoreUnavailableError("the store did not answer in time"))

    async def _connected(self) -> AbstractConnection:
        if self._connection is None:
            connection: AbstractConnection = self._pool.make_connection()  # type: ignore[no-untyped-call]
            await connection.connect()  # type: ignore[no-untyped-call]
            self._connection = connection
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)


def _settle(call: _Call, reply: Any) -> bool:
    """Answer `call`; False where it must be sent again."""
    if isinstance(reply, _TRANSIENT) or (
        isinstance(reply, ResponseError) and str(reply).startswith(_TRANSIENT_PREFIXES)
    ):
        return call.reply.done()
    if call.reply.done():
        return True
    if isinstance(reply, RedisError):
        call.reply.set_exception(reply)
    else:
        call.reply.set_result(reply)
    return True


def _fail(call: _Call, error: Exception) -> None:
    if not call.reply.done():
        call.reply.set_exception(error)
