"""How a process ends: on a signal, in order, and in time.

1. It says that it is not ready, and serves on for the delay, in which balancers take it out. (SIGINT skips that.)
2. It takes no new connections and no new work. Turns that run have the grace to end by themselves, and whoever waits
   for one or reads it goes on with it.
3. What still runs then is given back, and another replica runs it.
4. Calls that are left (their task runs elsewhere, or waits for a person) end with an error that says so.

A second signal ends the process at once. So does the deadline, whatever hangs: it runs in a thread of its own.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from a2a_grpc.server.core.readiness import Readiness

log = logging.getLogger(__name__)

OVERDUE = 124
"""The exit status of a process that its deadline has ended; that of timeout(1)."""

_LAST_LINE = 0.5
"""Seconds that the log has to take the last line."""
_BACKSTOP = 1.0


class Listener(Protocol):
    """What takes calls."""

    def retire(self) -> None:
        """Tell callers, where the protocol has a way to, that they should go elsewhere; serve on."""

    async def leave(self) -> None:
        """Take no new connections; calls that run go on."""

    async def end(self) -> None:
        """End the calls that still run, each with an error that says how to go on, and close."""


class Work(Protocol):
    """What a process finishes before it leaves."""

    def retire(self) -> None:
        """Begin nothing new."""

    async def idle(self) -> None:
        """Wait until nothing is at work."""

    async def close(self) -> None:
        """Interrupt what is at work, and give it back."""


class Answers:
    """The work of a process that runs no turns itself: the answers that it owes."""

    def __init__(self, answered: Callable[[], Awaitable[None]]) -> None:
        """`answered` waits until nobody waits for an answer."""
        self._answered = answered

    def retire(self) -> None:
        """Nothing to do: whoever takes no calls owes no new answers."""

    async def idle(self) -> None:
        """Wait until nobody waits for an answer."""
        await self._answered()

    async def close(self) -> None:
        """Nothing to do: the listeners end the calls."""


class Deadline:
    """Ends the process a while after the signal, also where the event loop is blocked."""

    def __init__(self, seconds: float, *, again: bool = True) -> None:
        """`again`: a second signal ends the process at once."""
        self.again = again
        self._seconds = seconds
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        """Let the time run from now on. Called by a signal handler, so in the main thread."""
        self._timer = threading.Timer(self._seconds, self._end)
        self._timer.daemon = True
        self._timer.start()
        # A thread needs the interpreter, and a regular expression can keep that for hours. SIGALRM then needs nobody.
        signal.setitimer(signal.ITIMER_REAL, self._seconds + _LAST_LINE + _BACKSTOP)

    def cancel(self) -> None:
        """The process has ended by itself, up to its last line."""
        if self._timer is not None:
            self._timer.cancel()
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _end(self) -> None:
        # In a thread of its own: what hangs may be the log.
        telling = threading.Thread(target=self._tell, daemon=True)
        telling.start()
        telling.join(_LAST_LINE)
        os._exit(OVERDUE)

    def _tell(self) -> None:
        frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001  # there is no other way
        at = traceback.extract_stack(frame)[-1]
        log.error(
            "not stopped within A2A_DRAIN_TIMEOUT (%g s): the process ends as it is, at %s:%s in %s",
            self._seconds,
            at.filename,
            at.lineno,
            at.name,
        )
        logging.shutdown()


class Stop:
    """The request to stop."""

    def __init__(self, *, again: bool = True) -> None:
        """`again`: see `Deadline`."""
        self._again = again
        self.signal: signal.Signals | None = None
        self.at = 0.0
        """When it came, by `time.monotonic`."""
        self._asked = asyncio.Event()

    def ask(self, number: signal.Signals, at: float) -> None:
        """Wake up whoever waits."""
        self.signal, self.at = number, at
        log.info("%s: stopping%s", number.name, "; another signal ends the process at once" if self._again else "")
        self._asked.set()

    async def wait(self) -> None:
        """Wait for the request."""
        await self._asked.wait()


def default() -> signal.Handlers | Callable[[int, object], None]:
    """What has a signal end this process at once.

    The kernel keeps what is usual for a signal from the first process of a container.
    """
    return _leave if os.getpid() == 1 else signal.SIG_DFL


def _leave(number: int, _: object) -> None:
    os._exit(128 + number)


def end_at_once(number: signal.Signals) -> None:
    """End this process as `number` does where nobody handles it."""
    signal.signal(number, default())
    os.kill(os.getpid(), number)


@contextlib.contextmanager
def stop_signals(deadline: Deadline) -> Iterator[Stop]:
    """What SIGTERM or SIGINT asks for; `deadline` runs from then on.

    The second signal ends the process at once, as does any after the block; or neither does anything, where a
    supervisor passes on what the platform has perhaps sent to every process already. The handlers are the interpreter's
    and not the loop's: those would wait for an agent that blocks the loop.
    """
    loop = asyncio.get_running_loop()
    asked = Stop(again=deadline.again)

    def heard() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, default() if deadline.again else signal.SIG_IGN)

    def stop(number: int, _: object) -> None:
        heard()
        deadline.start()
        loop.call_soon_threadsafe(asked.ask, signal.Signals(number), time.monotonic())

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        yield asked
    finally:
        heard()


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """In seconds."""

    delay: float
    """How long to serve on after SIGTERM, for balancers to notice."""
    grace: float
    """How long what is at work may take to end by itself."""


class Drain:
    """Takes a process out of service."""

    def __init__(self, readiness: Readiness, work: Work, times: Times) -> None:
        self._readiness = readiness
        self._work = work
        self._times = times
        self._listeners: list[Listener] = []
        self._closed = False

    def add(self, listener: Listener) -> None:
        """Have `listener` closed, too."""
        self._listeners.append(listener)

    async def run(self, stop: Stop) -> None:
        """Wait until `stop` asks; then leave in order, until nothing is at work and nobody is connected any more."""
        await stop.wait()
        self._readiness.set("process", False, "stopping")
        for listener in self._listeners:
            listener.retire()
        if stop.signal is signal.SIGTERM:
            await asyncio.sleep(max(0.0, stop.at + self._times.delay - time.monotonic()))
        try:
            await _all(listener.leave() for listener in self._listeners)
            self._work.retire()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._times.grace):
                    await self._work.idle()
        finally:
            await self.close()
        log.info("stopped %.1f s after the signal", time.monotonic() - stop.at)

    async def close(self) -> None:
        """Leave without waiting for anything; nothing, where that is done already."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._work.close()
        finally:
            # Together: calls over one listener have no longer to finish than those over another.
            await _all(listener.end() for listener in self._listeners)


async def _all(works: Iterable[Awaitable[None]]) -> None:
    """Wait for all, also where one fails; raise the first failure then."""
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if outcome is not None:
            raise outcome
