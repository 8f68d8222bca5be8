"""One event loop for all tests of gRPC."""

from pathlib import Path

import pytest
from pytest_asyncio import is_async_test


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests beside this file share a loop.

    The gRPC core delivers through one queue per process, and events that come after a test has closed its loop take
    those of the next test down with them: its calls hang.
    """
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
