"""Following the logs of tasks: one pub/sub connection to each node, whatever the number of followers.

A published event is a hint. Each follower has a cursor of its own and takes an event only as the next of its cursor;
what is missing, for whatever reason (a lost connection, a full buffer, a message that never came), it reads from the
log. So nothing is missed, repeated or out of order.
"""

import asyncio
import contextlib
import logging
import struct
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Protocol

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.core.events import Event, milliseconds
from a2a_grpc.server.store.errors import StoreUnavailableError, TaskErasedError
from a2a_grpc.server.store.listener import Listener
from a2a_grpc.server.store.nodes import Nodes
from a2a_grpc.server.telemetry.instruments import DELIVERIES, FOLLOWER_REPAIRS

log = logging.getLogger(__name__)

# The net under the net: without any sign of life a follower looks into the log this often.
_SAFETY_POLL = 30.0
_PAGE = 512


class Log(Protocol):
    """Where a follower reads what it missed."""

    async def log(self, task_id: str, after: int, count: int = ..., *, patient: bool = ...) -> list[Event]:
        """Up to `count` entries with a seq above `after`; `patient` waits for a store that is away."""
        ...

    async def exists(self, task_id: str, *, patient: bool = ...) -> bool:
        """Whether there is such a task still."""
        ...


class Follower:
    """One reader of one task's log, from a cursor on.

    Follow first, then read the task, then `begin` at the seq it stood at: what comes after is on its way already.
    """

    def __init__(self, topic: "_Topic", source: Log, buffer: int) -> None:
        self._topic = topic
        self._source = source
        self._cursor = 0
        self._limit = buffer
        self._buffer: deque[Event] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._behind = False
        self._why = ""
        """For what reason it is behind, where it should not be."""
        self._patient = True
        self._since_ms = now_ms() if DELIVERIES.wanted else 0
        self._came: tuple[int, float] | None = None
        """An event that waits for the reader, and when the log had taken it."""

    @property
    def waiting(self) -> int:
        """How many events wait for the reader, as far as they have come."""
        return len(self._buffer)

    def begin(self, after: int, *, behind: bool = False) -> None:
        """Start after the entry `after`; `behind` where older entries than the follower's own are wanted."""
        self._cursor = after
        self._behind = self._behind or behind

    def offer(self, events: Sequence[Event]) -> None:
        """Take events that may be the next ones; called by the topic."""
        if DELIVERIES.wanted and self._came is None and self._topic.local:
            self._came = events[-1].seq, time.perf_counter()
        if len(self._buffer) + len(events) > self._limit:
            # Too slow for the buffer: forget it and read the log at the reader's own pace.
            self._buffer.clear()
            self._behind = True
            self._why = "buffer"
        else:
            self._buffer.extend(events)
        self._wake()

    def doubt(self, *, away: bool = False) -> None:
        """Something may have been missed: look into the log; called by the topic.

        `away`: the store has been for as long as anybody should wait.
        """
        self._behind = True
        self._why = self._why or "doubt"
        self._patient = not away
        self._wake()

    async def next(self) -> Event:
        """The next event of the log.

        Raises:
            StoreUnavailableError: the log had to be read and the store did not answer.
            TaskErasedError: there is no such task any more.
        """
        while True:
            if not self._buffer and self._behind:
                self._behind = False
                if self._why:
                    FOLLOWER_REPAIRS.add(self._why)
                    self._why = ""
                try:
                    found = await self._log()
                except BaseException:
                    self._behind = True
                    raise
                if len(found) == _PAGE:
                    self._behind = True
                # What was offered meanwhile comes later or is there twice; the cursor sorts it out.
                self._buffer.extendleft(reversed(found))
            while self._buffer:
                event = self._buffer.popleft()
                if event.seq <= self._cursor:
                    continue
                if event.seq > self._cursor + 1:
                    self._buffer.appendleft(event)
                    FOLLOWER_REPAIRS.add("gap")
                    await self._fill(event.seq)
                    continue
                self._cursor = event.seq
                if DELIVERIES.wanted:
                    self._delivered(event)
                return event
            if self._behind:
                continue
            await self._woken()

    # Thousands of streams wait here: a future and a timer are a fraction of an asyncio.Event and an asyncio.timeout.
    async def _woken(self) -> None:
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = loop.call_later(_SAFETY_POLL, self._look_anyway)
        try:
            await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _look_anyway(self) -> None:
        self._behind = True
        self._why = "silence"
        self._wake()

    def _delivered(self, event: Event) -> None:
        """`event` goes to the reader now."""
        if self._came is not None:
            seq, at = self._came
            if event.seq >= seq:
                self._came = None
                DELIVERIES.record(time.perf_counter() - at, "local")
        elif not self._topic.local and event.response.HasField("status_update"):
            then = milliseconds(event.response.status_update.status.timestamp)
            # What is older was there before the reader.
            if then >= self._since_ms:
                DELIVERIES.record(max(0, now_ms() - then) / 1000, "followed")

    async def _fill(self, before: int) -> None:
        """Read the gap between the cursor and `before`."""
        found = await self._log()
        missing = [event for event in found if event.seq < before]
        if not missing:
            raise StoreUnavailableError("the log of the task is no longer complete")
        self._buffer.extendleft(reversed(missing))

    async def _log(self) -> list[Event]:
        # Patient, since a server that is back and still loads its data takes subscriptions already.
        task_id, patient = self._topic.task_id, self._patient
        found = await self._source.log(task_id, self._cursor, _PAGE, patient=patient)
        if not found and not await self._source.exists(task_id, patient=patient):
            raise TaskErasedError(task_id)
        return found


class _Topic:
    """All followers in this process of one task."""

    def __init__(self, task_id: str, channel: str) -> None:
        self.task_id = task_id
        self.channel = channel
        self.followers: set[Follower] = set()
        self.local = False
        """The task runs in this process: its events come straight from the run, no channel is needed."""

    def offer(self, events: Sequence[Event]) -> None:
        for follower in self.followers:
            follower.offer(events)

    def doubt(self, *, away: bool = False) -> None:
        for follower in self.followers:
            follower.doubt(away=away)


class LogTail:
    """What other replicas publish, as it comes to this process, and the direct path for what runs here."""

    def __init__(
        self,
        nodes: Nodes,
        source: Log,
        channel_of: Callable[[str], str],
        *,
        buffer: int,
        timeout: float,
        patience: float,
    ) -> None:
        """`channel_of` names the channel of a task; `buffer` is how many events wait for a slow follower.

        `timeout`: seconds that a subscription may take. `patience`: seconds that followers wait for a store that is
        away before they hear that it is.
        """
        self._nodes = nodes
        self._source = source
        self._channel_of = channel_of
        self._limit = buffer
        self._timeout = timeout
        self._patience = patience
        self._topics: dict[str, _Topic] = {}
        self._watches: dict[str, Callable[[bytes | None], None]] = {}
        self._subscribed: dict[str, asyncio.Future[None]] = {}
        self._interrupted: set[str] = set()
        """Channels on which something may have been missed since they were last subscribed."""
        self._listeners: dict[str, Listener] = {}
        """By the home of their channels."""
        self._closing: set[asyncio.Task[None]] = set()
        self._started = False
        nodes.when_moved(self._regroup, self._renew)

    @property
    def connected(self) -> bool:
        """What is published is heard, on every node where anything may be."""
        return bool(self._listeners) and all(listener.connected for listener in self._listeners.values())

    async def start(self) -> None:
        """Begin to read; the connections are made, and made again, in the background."""
        self._started = True
        self._regroup()

    async def close(self) -> None:
        """Stop reading and close the connections."""
        self._started = False
        for listener in self._listeners.values():
            await listener.close()
        self._listeners.clear()
        await asyncio.gather(*self._closing)

    def watch(self, channel: str, callback: Callable[[bytes | None], None]) -> None:
        """Call `callback` with each message of `channel`, and with None when others may have been missed before.

        To be called before `start`.
        """
        self._watches[channel] = callback

    @contextlib.asynccontextmanager
    async def follow(self, task_id: str) -> AsyncIterator[Follower]:
        """Follow `task_id` until the context is left.

        Raises:
            StoreUnavailableError: there is no connection to the store.
        """
        topic = self._topic(task_id)
        follower = Follower(topic, self._source, self._limit)
        topic.followers.add(follower)
        try:
            if not topic.local:
                await self._ensure_subscribed(topic.channel)
            yield follower
        finally:
            topic.followers.discard(follower)
            self._tidy(topic)

    def run_begins(self, task_id: str) -> None:
        """From now on the events of `task_id` come through `publish`."""
        topic = self._topic(task_id)
        topic.local = True
        # What began the run may still be on its way over the channel, to which nobody listens any more.
        topic.doubt()

    def followed(self, task_id: str) -> bool:
        """Whether anybody in this process follows `task_id`."""
        topic = self._topics.get(task_id)
        return topic is not None and bool(topic.followers)

    def publish(self, task_id: str, events: Sequence[Event]) -> None:
        """Hand events that were appended to the log to the followers in this process."""
        topic = self._topics.get(task_id)
        if topic is not None:
            topic.offer(events)

    def run_ends(self, task_id: str, *, ended: bool) -> bool:
        """The task no longer runs here; True where `go_on` is needed then.

        Of a task that has `ended` nothing is to come: its followers have the end, or read it in the log.
        """
        topic = self._topics.get(task_id)
        if topic is None:
            return False
        topic.local = False
        if topic.followers:
            return not ended
        if topic.channel in self._subscribed:
            return True
        del self._topics[task_id]
        return False

    async def go_on(self, task_id: str) -> None:
        """Let the followers of a task that no longer runs here go on over its channel."""
        topic = self._topics.get(task_id)
        if topic is None or topic.local:
            return
        if topic.followers:
            away = False
            try:
                await self._ensure_subscribed(topic.channel)
            except StoreUnavailableError:
                # The run has waited for it already.
                away = True
            topic.doubt(away=away)
        else:
            self._tidy(topic)

    def lag(self) -> int:
        """How many events wait for the reader that is furthest behind; from any thread."""
        topics = list(self._topics.values())
        return max((follower.waiting for topic in topics for follower in topic.followers.copy()), default=0)

    def doubt(self) -> None:
        """The store is not what it was: let every follower look into its log."""
        for topic in self._topics.values():
            topic.doubt()

    def _topic(self, task_id: str) -> _Topic:
        topic = self._topics.get(task_id)
        if topic is None:
            topic = self._topics[task_id] = _Topic(task_id, self._channel_of(task_id))
        return topic

    def _tidy(self, topic: _Topic) -> None:
        if topic.followers or topic.local or self._topics.get(topic.task_id) is not topic:
            return
        del self._topics[topic.task_id]
        self._interrupted.discard(topic.channel)
        if self._subscribed.pop(topic.channel, None) is not None:
            for listener in self._listeners.values():
                if topic.channel in listener.channels:
                    listener.drop(topic.channel)

    async def _ensure_subscribed(self, channel: str) -> None:
        confirmed = self._subscribed.get(channel)
        if confirmed is None:
            confirmed = self._subscribed[channel] = asyncio.get_running_loop().create_future()
            if self._started:
                self._listener(self._nodes.home(channel)).add(channel)
        try:
            async with asyncio.timeout(self._timeout):
                await asyncio.shield(confirmed)
        except TimeoutError:
            raise StoreUnavailableError("the store does not take subscriptions") from None

    # -- the connections ---------------------------------------------------------------------------------------------

    def _listener(self, home: str) -> Listener:
        listener = self._listeners.get(home)
        if listener is None:
            connect = self._nodes.connector(home)
            listener = Listener(connect, self, timeout=self._timeout, patience=self._patience)
            self._listeners[home] = listener
            listener.start()
        return listener

    def _regroup(self) -> None:
        """Let each channel be listened to where it is at home now."""
        if not self._started:
            return
        homes = {channel: self._nodes.home(channel) for channel in (*self._watches, *self._subscribed)}
        for home, listener in list(self._listeners.items()):
            gone = [channel for channel in listener.channels if homes.get(channel) != home]
            for channel in gone:
                listener.drop(channel)
            self.interrupted(gone)
            if not listener.channels:
                del self._listeners[home]
                closing = asyncio.get_running_loop().create_task(listener.close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
        for channel, home in homes.items():
            listener = self._listener(home)
            if channel not in listener.channels:
                listener.add(channel)

    def _renew(self) -> None:
        for listener in self._listeners.values():
            listener.renew()

    # -- what the listeners tell -------------------------------------------------------------------------------------

    def away(self, listener: Listener) -> None:
        """Nobody waits for news that cannot come: looking into the log says that the store is away (B025)."""
        for topic in self._topics.values():
            if topic.channel in listener.channels:
                topic.doubt(away=True)

    def astray(self) -> None:
        """A node that is no longer the home of a channel: others may know which one is."""
        self._nodes.look()

    def interrupted(self, channels: Iterable[str]) -> None:
        """What comes on these channels may be missed from now on."""
        for channel in channels:
            confirmed = self._subscribed.get(channel)
            if confirmed is not None:
                self._interrupted.add(channel)
                if confirmed.done():
                    self._subscribed[channel] = asyncio.get_running_loop().create_future()

    def published(self, channel: str, data: bytes) -> None:
        """Hand on what came over a channel."""
        callback = self._watches.get(channel)
        if callback is not None:
            callback(data)
            return
        topic = self._topic_of(channel)
        if topic is not None and not topic.local:
            if events := unpack(data):
                topic.offer(events)
            else:
                topic.doubt()

    def confirmed(self, channel: str) -> None:
        """Only now that nothing more can be missed is it time to look for what was."""
        confirmed = self._subscribed.get(channel)
        if confirmed is not None and not confirmed.done():
            confirmed.set_result(None)
        if channel in self._watches:
            self._watches[channel](None)
        elif channel in self._interrupted and (topic := self._topic_of(channel)) is not None:
            topic.doubt()
        self._interrupted.discard(channel)

    def _topic_of(self, channel: str) -> _Topic | None:
        return self._topics.get(channel.rpartition(":")[2])


def unpack(data: bytes) -> list[Event]:
    """The events of a published batch: the first seq, a line feed, then each entry behind its length.

    None where they are too large to be published: they stand in the log.
    """
    head, _, body = data.partition(b"\n")
    seq, at, events = int(head), 0, []
    while at < len(body):
        (length,) = struct.unpack_from(">I", body, at)
        at += 4
        events.append(Event(seq, a2a_pb2.StreamResponse.FromString(body[at : at + length])))
        seq, at = seq + 1, at + length
    return events
