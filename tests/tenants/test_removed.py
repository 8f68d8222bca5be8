"""Tasks of a tenant that is served nowhere any more."""

import pytest

from a2a_grpc.server.core import states
from a2a_grpc.server.engine import engine as module
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.records import Scope
from tests.engine.nodes import echo, open_node, words
from tests.support.servers import StoreServer
from tests.support.tasks import DAY
from tests.support.waiting import wait_until

ALICE = Scope(tenant="gone", owner="alice")


async def test_they_end_with_a_dead_letter(one_store_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_node(one_store_server.url, echo, max_turns=1) as old:
        old.engine.retire()
        task = (await old.send("hi", at_once=True, scope=ALICE)).task
        monkeypatch.setattr(module, "_NO_AGENT_MS", -1)
        async with open_node(one_store_server.url, echo, tenants={"other"}) as new:

            async def over() -> bool:
                stored = await new.store.read(task.id)
                return stored is not None and stored.state in states.TERMINAL

            await wait_until(over, "the task has ended")
            stored = await new.store.read(task.id)
            assert stored is not None
            assert stored.state == states.FAILED
            assert words(stored.fold.task()) == "There is no agent for this tenant any more."
            letters = (await DeadLetters(new.store, ttl=DAY).page(None, None, None, 10)).letters
            assert [(letter.task_id, letter.scope) for letter in letters] == [(task.id, ALICE)]


async def test_what_was_canceled_is_canceled(one_store_server: StoreServer) -> None:
    """A turn that waits is not run any more, wherever the tenant has gone."""
    async with open_node(one_store_server.url, echo, max_turns=1) as old:
        old.engine.retire()
        task = (await old.send("hi", at_once=True, scope=ALICE)).task
        assert (await old.cancel(task.id, scope=ALICE)).status.state == states.CANCELED
        async with open_node(one_store_server.url, echo, tenants=set()) as new:
            stored = await new.store.read(task.id)
            assert stored is not None
            assert stored.state == states.CANCELED


async def test_they_wait_for_a_replica_that_knows_the_tenant(
    one_store_server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No attempt is used up meanwhile, and other tenants are served."""
    monkeypatch.setattr(module, "_NO_AGENT_PAUSE", 0.2)
    async with open_node(one_store_server.url, echo, max_attempts=1) as old:
        old.engine.retire()
        task = (await old.send("hi", at_once=True, scope=ALICE)).task
        async with open_node(one_store_server.url, echo, tenants={"other"}, max_attempts=1) as new:

            async def met() -> bool:
                stored = await new.store.read(task.id)
                return stored is not None and stored.epoch >= 4

            await wait_until(met, "it was met twice")
            other = Scope(tenant="other", owner="alice")
            assert (await new.send("hi", scope=other)).task.status.state == states.COMPLETED
        async with open_node(one_store_server.url, echo, max_attempts=1) as third:

            async def over() -> bool:
                stored = await third.store.read(task.id)
                return stored is not None and stored.state == states.COMPLETED

            await wait_until(over, "it is done")
