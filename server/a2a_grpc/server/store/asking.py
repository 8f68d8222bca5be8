"""Asking several servers that should know the same thing, some of which may be gone, silent or behind."""

import asyncio
from collections.abc import Sequence
from typing import Any

# Seconds for others to answer when one has: what they say may be newer.
_GRACE = 0.05


async def ask_all(questions: Sequence[asyncio.Future[Any]]) -> list[Any]:
    """The answer to each question, in their order; None where none came soon after the first one.

    Raises: what the last question raised, where all failed.
    """
    waiting = set(questions)
    try:
        while waiting and not any(_answered(question) for question in questions):
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if waiting:
            await asyncio.wait(waiting, timeout=_GRACE)
    finally:
        for question in questions:
            question.cancel()
    if not any(_answered(question) for question in questions):
        questions[-1].result()
    return [question.result() if _answered(question) else None for question in questions]


def _answered(question: asyncio.Future[Any]) -> bool:
    return question.done() and not question.cancelled() and question.exception() is None
