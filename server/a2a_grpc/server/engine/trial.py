"""A turn without a task: for answers that are messages, and for those whose first word decides (3.1.1)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import TurnOverError
from a2a_grpc.server.agents.turn import Sink

Lookup: TypeAlias = Callable[[str], Awaitable[a2a_pb2.Task | None]]


class Trial:
    """A `Sink` that waits for the first thing a turn writes.

    A message decides for a message. Anything else decides for a task: then the writer of it waits until `become` names
    the sink that goes on with it.
    """

    def __init__(self, lookup: Lookup, *, message_only: bool) -> None:
        """`lookup` finds another task of the caller; with `message_only` nothing but a message will do."""
        self._lookup = lookup
        self._message_only = message_only
        self._sink: Sink | None = None
        self._closed = False
        self._became: asyncio.Future[Sink] = asyncio.get_running_loop().create_future()
        self.decided = asyncio.Event()
        self.message: a2a_pb2.Message | None = None
        self.misused = False
        """The agent tried to answer with a task and may not."""

    @property
    def answered(self) -> bool:
        """There is a message, or a task has taken over."""
        return self.message is not None or self.adopted

    @property
    def adopted(self) -> bool:
        """A task has taken over."""
        return self._sink is not None

    def close(self) -> None:
        """It will be a task: what comes from now on is part of that, a message too."""
        self._closed = True

    def become(self, sink: Sink) -> None:
        """Everything the turn writes from now on goes to `sink`."""
        self._sink = sink
        self._became.set_result(sink)
        self.decided.set()

    async def _task_sink(self) -> Sink:
        if self._message_only:
            self.misused = True
            raise TurnOverError("this skill answers with messages only: use turn.reply(…)")
        if self.message is not None:
            raise TurnOverError("the turn was answered with a message")
        self.decided.set()
        return await self._became

    async def emit(self, response: a2a_pb2.StreamResponse) -> None:
        await (self._sink or await self._task_sink()).emit(response)

    async def reply(self, message: a2a_pb2.Message) -> None:
        if self._closed:
            await (self._sink or await self._became).reply(message)
        elif self.message is not None:
            raise TurnOverError("the turn was answered with a message")
        else:
            # It belongs to no task: the id that one would have had must not get out.
            message.ClearField("task_id")
            self.message = message
            self.decided.set()

    async def flush(self) -> None:
        if self._sink is not None:
            await self._sink.flush()

    async def next_message(self) -> a2a_pb2.Message:
        return await (self._sink or await self._task_sink()).next_message()

    async def keep(self, checkpoint: bytes) -> None:
        await (self._sink or await self._task_sink()).keep(checkpoint)

    async def task(self, task_id: str) -> a2a_pb2.Task | None:
        return await self._lookup(task_id)
