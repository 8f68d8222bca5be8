"""Whether this process may be sent work, as the sum of what it depends on."""

from collections.abc import Callable


class Readiness:
    """Named components, each ready or not for a stated reason. All calls are made on the event loop's thread.

    A process with no component yet is not ready: it has not said what it needs.
    """

    def __init__(self) -> None:
        self._faults: dict[str, str] = {}  # component -> why it is not ready, "" when it is
        self._subscribers: dict[object, Callable[[bool], None]] = {}

    def set(self, component: str, ready: bool, reason: str = "") -> None:
        """Record the state of `component`, which becomes known by the first call; `reason` says why it is not ready."""
        before = self.ready
        self._faults[component] = "" if ready else reason or "not ready"
        if self.ready != before:
            for callback in tuple(self._subscribers.values()):
                callback(self.ready)

    @property
    def ready(self) -> bool:
        """All components are ready, and there is at least one."""
        return bool(self._faults) and not any(self._faults.values())

    def snapshot(self) -> dict[str, str]:
        """Each component with "ok" or the reason why it is not ready."""
        return {component: fault or "ok" for component, fault in self._faults.items()}

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
