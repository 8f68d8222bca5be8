"""A store whose contents are looked through after every test."""

from collections.abc import Iterator

import pytest

from tests.support.audit import audit
from tests.support.servers import StoreServer


@pytest.fixture
def server(one_store_server: StoreServer) -> Iterator[StoreServer]:
    """A store server. What the engines of a test leave in it must fit together."""
    yield one_store_server
    one_store_server.revive()
    assert audit(one_store_server.client) == []
