"""What is measured by looking at it."""

from collections.abc import Coroutine
from typing import Any

from a2a_grpc.server.engine.engine import Engine
from a2a_grpc.server.store.levels import Levels
from a2a_grpc.server.store.tail import LogTail
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.telemetry.instruments import FOLLOWER_LAG, QUEUE_AGE, QUEUE_DEPTH, TASKS, TURNS_LIMIT


def watch_levels(store: TaskStore, tail: LogTail, engine: Engine) -> list[Coroutine[Any, Any, None]]:
    """What has to run for it in the background: nothing where nothing is measured."""
    if not TASKS.wanted:
        return []
    levels = Levels(store)
    TASKS.watch(levels.tasks)
    QUEUE_DEPTH.watch(levels.waiting)
    QUEUE_AGE.watch(levels.age)
    FOLLOWER_LAG.watch(tail.lag)
    TURNS_LIMIT.watch(lambda: engine.max_turns)
    return [levels.watch()]
