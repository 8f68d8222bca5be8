"""Following the logs of tasks: one pub/sub connection per process, whatever the number of followers.

A published event is a hint. Each follower has a cursor of its own and takes an event only as the next of its cursor;
what is missing, for whatever reason (a lost connection, a full buffer, a message that never came), it reads from the
log. So nothing is missed, repeated or out of order.
"""

import asyncio
import contextlib
import logging
import struct
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, cast

from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.store.connections import follow_client
from a2a_grpc.server.store.errors import StoreUnavailableError

log = logging.getLogger(__name__)

_RECONNECT_PAUSE = 0.1
# The net under the net: without any sign of life a follower looks into the log this often.
_SAFETY_POLL = 30.0
_QUIET = 5.0
_PAGE = 512


class Log(Protocol):
    """Where a follower reads what it missed."""

    async def log(self, task_id: str, after: int, count: int = ...) -> list[Event]:
        """Up to `count` entries with a seq above `after`."""
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
        self._arrived = asyncio.Event()
        self._behind = False

    def begin(self, after: int, *, behind: bool = False) -> None:
        """Start after the entry `after`; `behind` where older entries than the follower's own are wanted."""
        self._cursor = after
        self._behind = self._behind or behind

    def offer(self, events: Sequence[Event]) -> None:
        """Take events that may be the next ones; called by the topic."""
        if len(self._buffer) + len(events) > self._limit:
            # Too slow for the buffer: forget it and read the log at the reader's own pace.
            self._buffer.clear()
            self._behind = True
        else:
            self._buffer.extend(events)
        self._arrived.set()

    def doubt(self) -> None:
        """Something may have been missed: look into the log; called by the topic."""
        self._behind = True
        self._arrived.set()

    async def next(self) -> Event:
        """The next event of the log.

        Raises:
            StoreUnavailableError: the log had to be read and the store did not answer.
        """
        while True:
            if not self._buffer and self._behind:
                self._behind = False
                try:
                    found = await self._source.log(self._topic.task_id, self._cursor, _PAGE)
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
                    await self._fill(event.seq)
                    continue
                self._cursor = event.seq
                return event
            if self._behind:
                continue
            self._arrived.clear()
            try:
                async with asyncio.timeout(_SAFETY_POLL):
                    await self._arrived.wait()
            except TimeoutError:
                self._behind = True

    async def _fill(self, before: int) -> None:
        """Read the gap between the cursor and `before`."""
        found = await self._source.log(self._topic.task_id, self._cursor, _PAGE)
        missing = [event for event in found if event.seq < before]
        if not missing:
            raise StoreUnavailableError("the log of the task is no longer complete")
        self._buffer.extendleft(reversed(missing))


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

    def doubt(self) -> None:
        for follower in self.followers:
            follower.doubt()


class LogTail:
    """The process's one connection to what other replicas publish, and the direct path for what runs here."""

    def __init__(
        self, url: str, source: Log, channel_of: Callable[[str], str], *, buffer: int, patience: float
    ) -> None:
        """`channel_of` names the channel of a task; `buffer` is how many events wait for a slow follower.

        `patience`: seconds that followers wait for a store that is away before they hear that it is.
        """
        self._source = source
        self._channel_of = channel_of
        self._limit = buffer
        self._patience = patience
        self._client = follow_client(url)
        self._topics: dict[str, _Topic] = {}
        self._watches: dict[str, Callable[[bytes | None], None]] = {}
        self._subscribed: dict[str, asyncio.Future[None]] = {}
        self._asked: Counter[str] = Counter()
        """How many confirmations are still to come, by channel: only the last one counts."""
        self._interrupted: set[str] = set()
        """Channels on which something may have been missed since they were last subscribed."""
        self._pubsub: PubSub | None = None
        self._reader: asyncio.Task[None] | None = None
        self.connected = False

    async def start(self) -> None:
        """Begin to read; the connection is made, and made again, in the background."""
        self._reader = asyncio.create_task(self._read(), name="log-tail")

    async def close(self) -> None:
        """Stop reading and close the connection."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self._client.aclose()

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
            await self._tidy(topic)

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
            with contextlib.suppress(StoreUnavailableError):
                await self._ensure_subscribed(topic.channel)
            topic.doubt()
        else:
            await self._tidy(topic)

    def _topic(self, task_id: str) -> _Topic:
        topic = self._topics.get(task_id)
        if topic is None:
            topic = self._topics[task_id] = _Topic(task_id, self._channel_of(task_id))
        return topic

    async def _tidy(self, topic: _Topic) -> None:
        if topic.followers or topic.local or self._topics.get(topic.task_id) is not topic:
            return
        del self._topics[topic.task_id]
        self._interrupted.discard(topic.channel)
        if self._subscribed.pop(topic.channel, None) is not None and self._pubsub is not None:
            with contextlib.suppress(RedisError, OSError):
                await self._pubsub.sunsubscribe(topic.channel)

    async def _ensure_subscribed(self, channel: str) -> None:
        confirmed = self._subscribed.get(channel)
        if confirmed is None:
            confirmed = self._subscribed[channel] = asyncio.get_running_loop().create_future()
            if self._pubsub is not None:
                self._asked[channel] += 1
                with contextlib.suppress(RedisError, OSError):
                    await self._pubsub.ssubscribe(channel)
        try:
            async with asyncio.timeout(2.0):
                await asyncio.shield(confirmed)
        except TimeoutError:
            raise StoreUnavailableError("the store does not take subscriptions") from None

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        lost = loop.time()
        while True:
            try:
                await self._read_connection()
            except (RedisError, OSError, TimeoutError) as error:
                if self.connected:
                    lost = loop.time()
                    log.warning("lost the connection that follows the store: %s", error)
            except Exception:
                # Whatever it was, followers must not be left to the safety poll: connect anew, look into the log.
                log.exception("the connection that follows the store failed")
            finally:
                self.connected = False
            if loop.time() - lost >= self._patience:
                # Nobody waits for news that cannot come: looking into the log says that the store is away (B025).
                self._doubt_all()
            await asyncio.sleep(_RECONNECT_PAUSE)

    async def _read_connection(self) -> None:
        pubsub = self._client.pubsub()
        try:
            sent: set[str] = set()
            while (wanted := {*self._watches, *self._subscribed}) != sent:
                # Followers come and go while this waits.
                if new := wanted - sent:
                    self._asked.update(new)
                    await pubsub.ssubscribe(*new)
                if gone := sent - wanted:
                    await pubsub.sunsubscribe(*gone)
                sent = wanted
            self._pubsub = pubsub
            quiet = False
            while True:
                message = await pubsub.get_message(timeout=_QUIET)
                if message is not None:
                    quiet = False
                    self._dispatch(message)
                elif quiet:
                    raise TimeoutError("the store is silent")
                else:
                    # A dead peer looks like a quiet one until it is asked.
                    quiet = True
                    await pubsub.ping()
        finally:
            self._pubsub = None
            self._asked.clear()
            self._interrupted.update(self._subscribed)
            for channel in list(self._subscribed):
                if self._subscribed[channel].done():
                    self._subscribed[channel] = asyncio.get_running_loop().create_future()
            with contextlib.suppress(RedisError, OSError):
                await pubsub.aclose()  # type: ignore[no-untyped-call]

    def _doubt_all(self) -> None:
        for topic in self._topics.values():
            topic.doubt()

    def _dispatch(self, message: dict[str, object]) -> None:
        raw = message["channel"]
        channel = raw.decode() if isinstance(raw, bytes) else str(raw)
        if message["type"] == "ssubscribe":
            self._confirm(channel)
        elif message["type"] == "smessage":
            data = cast("bytes", message["data"])
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

    def _confirm(self, channel: str) -> None:
        self._asked[channel] -= 1
        if self._asked[channel] > 0:
            return
        del self._asked[channel]
        self.connected = True
        confirmed = self._subscribed.get(channel)
        if confirmed is not None and not confirmed.done():
            confirmed.set_result(None)
        # Only now that nothing more can be missed is it time to look for what was.
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
