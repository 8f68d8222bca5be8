"""Which event loops these tests run on."""

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

_ON_BOTH = {"test_streams.py", "test_listener.py"}


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The product runs on uvloop where there is one; the two loops notice a lost peer in different ways."""
    if item.path.name in _ON_BOTH:
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}
