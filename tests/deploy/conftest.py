"""Who needs a program or a schema that no registry gives is skipped, and says so."""

from collections.abc import Generator
from typing import Any

import pytest

from tests.deploy.tools import UnavailableError


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    return (yield from _skipping())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, Any, Any]:
    return (yield from _skipping())


def _skipping() -> Generator[None, Any, Any]:
    try:
        return (yield)
    except UnavailableError as error:
        pytest.skip(str(error))
