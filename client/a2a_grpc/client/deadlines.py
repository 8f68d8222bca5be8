"""The time that a caller gives for a call."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from a2a_grpc.wire.errors import DeadlineExceededError


@asynccontextmanager
async def time_limit(timeout: float | None) -> AsyncGenerator[None, None]:
    """Ends the block after so many seconds, with DeadlineExceededError; None sets no limit."""
    try:
        async with asyncio.timeout(timeout):
            yield
    except TimeoutError as error:
        raise too_late(timeout) from error


def too_late(timeout: float | None) -> DeadlineExceededError:
    """The error for a call that has taken these seconds."""
    return DeadlineExceededError(f"No answer within the {timeout:g} seconds that the caller gave.")
