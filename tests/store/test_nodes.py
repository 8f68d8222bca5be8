"""One address, behind which there may be another server."""

import asyncio

from tests.support.places import open_place
from tests.support.servers import StoreServer
from tests.support.tasks import create
from tests.support.waiting import wait_until


async def test_a_refused_write_has_all_connections_replaced(store_server: StoreServer) -> None:
    """What only reads and listens would stay with a server that is no master any more, and never know."""
    async with open_place(store_server.url) as here:
        stored = await create(here.store)
        before = clients(store_server)
        assert len(before) == 3
        store_server.client.replicaof("127.0.0.1", 1)
        try:
            refused = asyncio.create_task(create(here.store))
            await wait_until(lambda: len(clients(store_server) - before) >= 1, "connections are made anew")
            await here.store.read(stored.task_id)
            await wait_until(lambda: not clients(store_server) & before, "no connection is the one that was there")
        finally:
            store_server.client.replicaof("NO", "ONE")
        await refused


def clients(server: StoreServer) -> set[str]:
    """The connections of others than this test."""
    return {client["id"] for client in server.client.client_list() if client["cmd"] != "client|list"}
