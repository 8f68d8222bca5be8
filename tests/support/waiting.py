"""Waiting for a condition instead of sleeping and hoping."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, overload

T = TypeVar("T")

POLL = 0.01
"""Seconds between two looks at the condition."""


@overload
async def wait_until(predicate: Callable[[], Coroutine[Any, Any, T]], description: str, timeout: float = 5.0) -> T: ...
@overload
async def wait_until(predicate: Callable[[], T], description: str, timeout: float = 5.0) -> T: ...
async def wait_until(predicate: Callable[[], Any], description: str, timeout: float = 5.0) -> Any:
    """Calls `predicate` (plain or async) until its result is true, and returns that result.

    Fails after `timeout` seconds with "not within 5 s: DESCRIPTION (last seen: …)"; the deadline also ends an async
    predicate that hangs. An exception of the predicate fails the test at once: it is no reason to wait.
    """
    last: object = "nothing: the first look did not end"
    deadline = asyncio.timeout(timeout)
    try:
        async with deadline:
            while True:
                result = predicate()
                value = await result if inspect.isawaitable(result) else result
                if value:
                    return value
                last = value
                await asyncio.sleep(POLL)
    except TimeoutError:
        if not deadline.expired():
            raise  # the predicate's own
    raise AssertionError(f"not within {timeout:g} s: {description} (last seen: {last!r})")
