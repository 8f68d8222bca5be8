"""How open responses learn that their listener is about to close."""

import asyncio
from collections.abc import Callable

from a2a_grpc.server.bindings.asgi.types import Scope

_STATE_KEY = "a2a_grpc.draining"


class Draining:
    """A flag that is raised once, with callbacks for whoever has to end something then."""

    def __init__(self) -> None:
        self._started = False
        self._callbacks: dict[Callable[[], None], asyncio.Task[object] | None] = {}

    @property
    def started(self) -> bool:
        """Whether the listener has begun to close."""
        return self._started

    def start(self) -> None:
        """Raise the flag and call everybody back, once."""
        if self._started:
            return
        self._started = True
        for callback in tuple(self._callbacks):
            callback()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called when the flag is raised, or at once if it already is; the result unsubscribes.

        Whoever subscribes ends its task by itself then.
        """
        self._callbacks[callback] = asyncio.current_task()
        if self._started:
            callback()

        def unsubscribe() -> None:
            self._callbacks.pop(callback, None)

        return unsubscribe

    @property
    def tasks(self) -> set[asyncio.Task[object]]:
        """The tasks of those who subscribe at present."""
        return {task for task in self._callbacks.values() if task is not None}

    def state(self) -> dict[str, object]:
        """What a listener puts into the `state` of each scope, so that `draining` finds this object again."""
        return {_STATE_KEY: self}


_NEVER = Draining()
"""For servers other than our listener: they do not announce their end."""


def draining(scope: Scope) -> Draining:
    """The flag of the listener that took the request of `scope`."""
    state = scope.get("state")
    found = state.get(_STATE_KEY) if state else None
    return found if isinstance(found, Draining) else _NEVER
