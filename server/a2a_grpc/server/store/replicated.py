"""Writes that are acknowledged only when replicas of the store have them, too.

Behind the calls of each write to the socket stands one WAIT, and their answers are kept back until it says enough. The
answers of those for which it does not are thrown away and the calls made again: every script finds its own traces.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from hiredis import ReplyError

from a2a_grpc.server.store import keys as key_names
from a2a_grpc.server.store.connections import Connect
from a2a_grpc.server.store.link import Link, pack
from a2a_grpc.server.store.pipeline import Call, Pipeline, Surroundings, expired
from a2a_grpc.server.telemetry.instruments import STORE_CALLS

# Of the store timeout; what is left of it is for making the calls again.
_SHARE = 0.5


class _Seal(Call):
    """Stands for a mark, then for the WAIT behind it."""

    __slots__ = ("marked",)
    marked: bool | None


class ReplicatedPipeline(Pipeline):
    """A pipeline whose answers are true of `replicas` replicas besides the server itself."""

    def __init__(
        self,
        connect: Connect,
        timeout: float,
        replicas: int,
        mark: Callable[[], str],
        *,
        around: Surroundings,
        name: str,
    ) -> None:
        """`mark` names a key on this server that may be written to at any time."""
        super().__init__(connect, timeout, around=around, name=name)
        self._mark = mark
        self._wait = pack("WAIT", replicas, int(timeout * _SHARE * 1000))
        self._enough = replicas
        self._answered: deque[tuple[Call, Any]] = deque()
        """Calls and their answers, of which it is not known yet whether replicas have them."""

    def _new_link(self) -> Link:
        return Link(self._on_reply, self._on_lost, self._sealed)

    def _sealed(self) -> bytes:
        """What stands behind the calls of one write: a mark, and WAIT.

        WAIT looks at the last write of its own connection. A call that finds its own traces, left over another
        connection, writes nothing: without the mark it would be taken for safe.
        """
        now = asyncio.get_running_loop().time()
        reply = asyncio.get_running_loop().create_future()
        reply.cancel()
        seal = _Seal(b"", None, reply, float("inf"), sent=now)
        seal.marked = None
        self._sent += (seal, seal)
        return pack("SET", self._mark(), "", "PX", key_names.MARK_KEPT_MS) + self._wait

    def _on_reply(self, reply: Any) -> None:
        call = self._sent[0]
        if isinstance(call, _Seal):
            self._sent.popleft()
            if call.marked is None:
                call.marked = not isinstance(reply, ReplyError)
            else:
                self._decide(call.marked and isinstance(reply, int) and reply >= self._enough)
        elif isinstance(reply, ReplyError):
            super()._on_reply(reply)
        else:
            self._sent.popleft()
            if STORE_CALLS.wanted:
                self._measure(call)
            self._answered.append((call, reply))

    def _decide(self, safe: bool) -> None:
        answered, self._answered = self._answered, deque()
        for call, reply in answered:
            if call.reply.done():
                continue
            if safe:
                call.reply.set_result(reply)
            else:
                self.later(call)

    def _unanswered(self) -> list[Call]:
        answered, self._answered = self._answered, deque()
        return [call for call, _ in answered if not call.reply.done()] + super()._unanswered()

    def _tick(self) -> None:
        super()._tick()
        now = asyncio.get_running_loop().time()
        for call, _ in self._answered:
            expired(call, now)
