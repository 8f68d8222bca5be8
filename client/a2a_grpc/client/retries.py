"""Trying again what failed with UNAVAILABLE: when, and for how long."""

import asyncio
import random
from typing import Final

from a2a_grpc.client.errors import NotConnectedError
from a2a_grpc.wire.errors import UnavailableError

_FIRST_DELAY: Final = 0.1
_LAST_DELAY: Final = 5.0
# A stream that stood for so long was a good connection: what ended it is news of its own.
_STOOD: Final = 1.0


class Retries:
    """The failures of one call or stream since it was last heard of."""

    def __init__(self, patience: float, closed: asyncio.Event) -> None:
        """`patience` in seconds from the first failure on; 0: nothing is tried again. `closed`: the client is."""
        self.failures = 0
        """How many times in a row it has failed."""
        self._patience = patience
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self._connected: float | None = None
        self._give_up = 0.0

    def connected(self) -> None:
        """The stream has begun to answer; called with each of its events."""
        if self._connected is None:
            self._connected = self._loop.time()

    def news(self) -> None:
        """Something new has come: the failures before it don't count any more."""
        self.failures = 0

    async def pause(self, failure: UnavailableError) -> bool:
        """Wait before the next try: ever longer, at random, and not less than the agent asks for.

        False, at once, where there is to be no other try. Raises UnavailableError when the client is closed meanwhile.
        """
        now = self._loop.time()
        stood = self._connected is not None and now - self._connected >= _STOOD
        # Whoever was kept waiting for an answer for so long had a connection, too.
        waited = now - self._begun >= self._patience and not isinstance(failure, NotConnectedError)
        if stood or waited:
            self.failures = 0
        if not self.failures:
            self._give_up = now + self._patience
        self.failures += 1
        delay = min(_FIRST_DELAY * 2 ** (self.failures - 1), _LAST_DELAY) * random.uniform(0.5, 1.0)  # noqa: S311
        delay = max(delay, failure.retry_after or 0.0)
        if self._closed.is_set():
            raise UnavailableError("The client was closed.") from failure
        if now + delay >= self._give_up:
            return False
        try:
            async with asyncio.timeout(delay):
                await self._closed.wait()
        except TimeoutError:
            self._begun, self._connected = self._loop.time(), None
            return True
        raise UnavailableError("The client was closed.") from failure
