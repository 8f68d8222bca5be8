"""Whether this process may be sent work, as the sum of what it depends on."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class State:
    """How a component is. Times are those of `time.time`."""

    ready: bool
    reason: str
    """Why it is not ready; "" when it is."""
    since: float
    """When it became ready, or ceased to be."""
    checked: float
    """When that was last seen to be true."""


class Readiness:
    """Named components, each ready or not for a stated reason. All calls are made on the event loop's thread.

    A process with no component yet is not ready: it has not said what it needs.
    """

    def __init__(self) -> None:
        self._states: dict[str, State] = {}
        self._since = time.time()
        self._subscribers: dict[object, Callable[[bool], None]] = {}

    def set(self, component: str, ready: bool, reason: str = "") -> None:
        """Record the state of `component`, which becomes known by the first call; `reason` says why it is not ready."""
        before, known, now = self.ready, self._states.get(component), time.time()
        since = known.since if known is not None and known.ready == ready else now
        self._states[component] = State(ready, "" if ready else reason or "not ready", since, now)
        if self.ready != before:
            self._since = now
            for callback in tuple(self._subscribers.values()):
                callback(self.ready)

    @property
    def ready(self) -> bool:
        """All components are ready, and there is at least one."""
        return bool(self._states) and all(state.ready for state in self._states.values())

    @property
    def since(self) -> float:
        """When that became so, by `time.time`."""
        return self._since

    def components(self) -> dict[str, State]:
        """Each component as it is now."""
        return self._states.copy()

    def snapshot(self) -> dict[str, str]:
        """Each component with "ok" or the reason why it is not ready."""
        return {component: state.reason or "ok" for component, state in self._states.items()}

    def subscribe(self, callback: Callable[[bool], None]) -> Callable[[], None]:
        """Call `callback` with the present answer at once, then with each new one. Returns the function that ends it.

        The callback must neither block nor raise.
        """
        key = object()
        self._subscribers[key] = callback
        callback(self.ready)

        def unsubscribe() -> None:
            self._subscribers.pop(key, None)

        return unsubscribe
