"""What all tests of webhooks need."""

from collections.abc import AsyncIterator

import pytest

from tests.support.receiver import Receiver, receiver


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    """A receiver that takes everything."""
    async with receiver() as made:
        yield made
