"""Trying again what failed for the moment: when, and for how long."""

import asyncio
import random
from typing import Final

from a2a_grpc.client.errors import NotConnectedError
from a2a_grpc.wire.errors import A2AError, ResourceExhaustedError, UnavailableError

_FIRST_DELAY: Final = 0.1
_LAST_DELAY: Final = 5.0
# A stream that stood for so long was a good connection: what ended it is news of its own.
_STOOD: Final = 1.0

# Whoever waits for the time that an agent has said comes with all the others that it said it to.
_LATER: Final = 1.2


def passes(failure: A2AError) -> bool:
    """Whether a failure may be over soon: the agent is not there, or says when a limit has room again."""
    if isinstance(failure, ResourceExhaustedError):
        return failure.retry_after is not None
    return isinstance(failure, UnavailableError)


class Retries:
    """The failures of one call or stream since it was last heard of."""

    def __init__(self, patience: float, closed: asyncio.Event, timeout: float | None = None) -> None:
        """`patience` in seconds from the first failure on; 0: nothing is tried again. `closed`: the client is.

        `timeout` is what the caller has given in all, in seconds from now on.
        """
        self.failures = 0
        """How many times in a row it has failed."""
        self._patience = patience
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self._connected: float | None = None
        self._give_up = 0.0
        self._deadline = float("inf") if timeout is None else self._begun + timeout

    def connected(self) -> None:
        """The stream has begun to answer; called with each of its events."""
        if self._connected is None:
            self._connected = self._loop.time()

    def news(self) -> None:
        """Something new has come: the failures before it don't count any more."""
        self.failures = 0

    async def pause(self, failure: A2AError, *, may_have_worked: bool = False) -> bool:
        """Wait before the next try: ever longer, at random, and not less than the agent asks for.

        `may_have_worked`: silence says nothing, since the agent answers once it is done; a stream answers at once.
        False, at once, where there is to be no other try. Raises UnavailableError when the client is closed meanwhile.
        """
        if not passes(failure):
            return False
        now = self._loop.time()
        stood = self._connected is not None and now - self._connected >= _STOOD
        # Whoever was kept waiting for an answer for so long had a connection, too.
        waited = now - self._begun >= self._patience and not isinstance(failure, NotConnectedError)
        if stood or (waited and may_have_worked):
            self.failures = 0
        if not self.failures:
            self._give_up = now + self._patience
        self.failures += 1
        delay = min(_FIRST_DELAY * 2 ** (self.failures - 1), _LAST_DELAY) * random.uniform(0.5, 1.0)  # noqa: S311
        asked = failure.retry_after or 0.0
        delay = max(delay, asked * random.uniform(1.0, _LATER))  # noqa: S311
        if self._closed.is_set():
            raise UnavailableError("The client was closed.") from failure
        if now + delay >= self._give_up or now + asked >= self._deadline:
            return False
        try:
            async with asyncio.timeout(delay):
                await self._closed.wait()
        except TimeoutError:
            self._begun, self._connected = self._loop.time(), None
            return True
        raise UnavailableError("The client was closed.") from failure
