"""What is said and heard, whatever becomes of connections; `Screen` shows it."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import aclosing
from typing import Final, Protocol

from a2a_grpc.client.errors import NotConnectedError
from a2a_grpc.client.messages import message as user_message
from a2a_grpc.client.polling import changes
from a2a_grpc.client.remote_agent import RemoteAgent
from a2a_grpc.client.results import Reply, Result, StatusUpdate, TaskUpdate, Update
from a2a_grpc.client.session import Session
from a2a_grpc.client.states import INTERRUPTED, TERMINAL
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import UnavailableError
from a2a_grpc.wire.folding import Fold

_FIRST_PAUSE: Final = 0.5
_LAST_PAUSE: Final = 5.0
_GROWTH: Final = 1.5


class Screen(Protocol):
    """Where a conversation is shown."""

    def event(self, event: a2a_pb2.StreamResponse) -> None:
        """Something happened."""

    def lost(self, why: str) -> None:
        """The connection is gone; it is tried again."""

    def back(self) -> None:
        """The connection is there again."""


class NotKnownError(UnavailableError):
    """Nobody knows whether the agent got the message. It is not sent again: the work might be done twice."""


class Talk:
    """A conversation: one message at a time, and what comes of it."""

    def __init__(self, agent: RemoteAgent, screen: Screen, *, patience: float) -> None:
        """`patience`: how many seconds without a connection are too many."""
        self._agent = agent
        self._screen = screen
        self._patience = patience
        self._session = agent.session()
        self._fold = Fold()

    @property
    def session(self) -> Session:
        """The session of the conversation."""
        return self._session

    @property
    def waits(self) -> bool:
        """Whether the agent waits for somebody."""
        return self._session.state in INTERRUPTED

    @property
    def runs(self) -> bool:
        """Whether there is a task that has not ended."""
        return bool(self._session.task_id) and self._session.state not in TERMINAL

    def renew(self) -> None:
        """Begin another conversation."""
        self._session = self._agent.session()
        self._fold = Fold()

    async def say(self, parts: Iterable[a2a_pb2.Part]) -> Result:
        """Send a message and show what happens until there is a result.

        Raises: NotKnownError; UnavailableError where the patience is over; what else the agent answers.
        """
        said = user_message("")
        del said.parts[:]
        said.parts.extend(parts)
        return await self._heard(said)

    async def follow(self) -> Result:
        """Show what happens to the task from where it was last heard of."""
        return await self._heard(None)

    async def cancel(self) -> Result:
        """Cancel the task and show how it ends."""
        result = await self._agent.cancel(self._session.task_id)
        if isinstance(result, Reply):
            return result
        for event in self._news(TaskUpdate(result.task)):
            self._screen.event(event)
        async with aclosing(self._session.resume()) as updates:  # the session learns of the end
            async for _ in updates:
                pass
        return result

    async def _heard(self, said: a2a_pb2.Message | None) -> Result:
        accepted = said is None
        pause, lost_at = _FIRST_PAUSE, None
        while True:
            updates = self._session.resume() if accepted or said is None else self._session.run_stream(said)
            try:
                async with aclosing(updates):
                    async for item in updates:
                        accepted = True
                        if lost_at is not None:
                            self._screen.back()
                            pause, lost_at = _FIRST_PAUSE, None
                        if isinstance(item, Result):
                            return self._ended(item)
                        for event in self._news(item):
                            self._screen.event(event)
            except UnavailableError as error:
                if not (accepted or isinstance(error, NotConnectedError) or self._agent.client.numbers_events):
                    raise NotKnownError(f"{error.message} Nobody knows whether the agent got the message.") from error
                now = time.monotonic()
                lost_at = lost_at or now
                if now - lost_at >= self._patience:
                    raise
                self._screen.lost(error.message)
                await asyncio.sleep(max(pause, error.retry_after or 0.0))
                pause = min(pause * _GROWTH, _LAST_PAUSE)

    def _ended(self, result: Result) -> Result:
        if isinstance(result, Reply):
            self._screen.event(a2a_pb2.StreamResponse(message=result.message))
        return result

    def _news(self, update: Update) -> list[a2a_pb2.StreamResponse]:
        """What an update says that was not said before."""
        match update:
            case TaskUpdate():
                known = self._fold.task()
                event = a2a_pb2.StreamResponse(task=update.task)
                self._fold.apply(event)
                return changes(known, update.task) if known.id == update.task.id else [event]
            case StatusUpdate():
                event = a2a_pb2.StreamResponse(status_update=update.event)
            case _:
                event = a2a_pb2.StreamResponse(artifact_update=update.event)
        self._fold.apply(event)
        return [event]
