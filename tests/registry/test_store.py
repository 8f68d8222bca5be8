"""The steps of an entry in the store: who may look for an agent, and that a cluster takes them."""

import contextlib
from collections.abc import AsyncGenerator

import pytest

from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.opening import open_nodes
from a2a_grpc.server.store.registrations import HISTORY, INSTANCES, Full, NewEntry, Registrations, Withdrawal
from tests.support.servers import StoreServer
from tests.support.waiting import wait_until

HEALTHY, UNREACHABLE = 2, 3


@contextlib.asynccontextmanager
async def opened(url: str, *, most: int = 10) -> AsyncGenerator[Registrations, None]:
    nodes = open_nodes(url, timeout=1.5)
    try:
        yield Registrations(nodes, max_ttl=60, per_owner=5, most=most)
    finally:
        await nodes.close()


def entry(agent_id: str, owner: str = "alice", instance: str = "") -> NewEntry:
    return NewEntry(
        id=agent_id, owner=owner, url=f"https://{agent_id}.example.com", card=b"{}", facets=b"{}", public=False,
        signature=1, key_id="", instance=instance,
    )  # fmt: skip


async def test_each_step_on_each_kind_of_server(store_server: StoreServer) -> None:
    async with opened(store_server.url) as store:
        made = await store.register(entry("a"), 30)
        assert not isinstance(made, Full)
        kept, created = made
        assert created
        assert (kept.ttl_ms, kept.expires_ms - kept.renewed_ms, kept.created_ms) == (30_000, 30_000, kept.renewed_ms)
        assert await store.find("a") == kept
        assert await store.find("b") is None

        assert await store.renew("a", "bob", 10, "") is None
        renewed = await store.renew("a", "alice", 0, "")
        assert renewed is not None
        assert renewed.ttl_ms == 30_000

        assert await store.withdraw("a", "bob", "") is Withdrawal.OTHER
        assert await store.withdraw("a", "alice", "") is Withdrawal.OK
        assert await store.withdraw("a", "alice", "") is Withdrawal.GONE
        assert await store.renew("a", "alice", 0, "") is None
        assert store_server.client.keys("*") == []


async def test_one_who_claims_looks_alone_until_the_claim_is_over(one_store_server: StoreServer) -> None:
    async with opened(one_store_server.url) as store, opened(one_store_server.url) as other:
        await store.register(entry("a"), 30)
        await store.register(entry("b"), 30)

        first = await store.claim(0.3, 1)
        second = await other.claim(30, 10)
        assert sorted(first.ids + second.ids) == ["a", "b"]
        assert (await store.claim(30, 10)).ids == []

        [lost] = first.ids

        async def again() -> bool:
            return (await other.claim(30, 10)).ids == [lost]

        await wait_until(again, "what a dead replica was to look for falls to another")
        assert not await store.report(
            lost, first.proof, pause=9, state=UNREACHABLE, reason="late", signature=1, key_id=""
        ), "who was overtaken says nothing any more"
        found = await store.find(lost)
        assert found is not None
        assert found.health.reason == ""


async def test_states_are_kept_until_there_are_too_many(one_store_server: StoreServer) -> None:
    async with opened(one_store_server.url) as store:
        await store.register(entry("a"), 30)
        for at in range(HISTORY + 5):
            claim = await store.claim(30, 1)
            assert claim.ids == ["a"]
            state = UNREACHABLE if at % 2 else HEALTHY
            assert await store.report(
                "a", claim.proof, pause=0, state=state, reason=f"look {at}", signature=2, key_id="k"
            )
        found = await store.find("a")
        assert found is not None
        assert (found.health.state, found.health.reason, found.signature, found.key_id) == (
            HEALTHY, f"look {HISTORY + 4}", 2, "k",
        )  # fmt: skip
        assert [seen.reason for seen in found.history] == [f"look {at}" for at in range(HISTORY + 3, 3, -1)]
        assert [seen.state for seen in found.history[:2]] == [UNREACHABLE, HEALTHY]


async def test_processes_that_died_leave_nothing_behind(one_store_server: StoreServer) -> None:
    """Each one that begins has a name of its own, and an entry may be kept for months."""

    def instances() -> set[bytes]:
        fields: set[bytes] = set(one_store_server.client.hgetall("a2a:{agents}:agent:a"))  # type: ignore[arg-type]
        return {field for field in fields if field.startswith(b"i:")}

    async with opened(one_store_server.url) as store:
        for at in range(3):
            await store.register(entry("a", instance=f"died-{at}"), 0.05)
        await store.register(entry("a", instance="lives"), 30)

        async def alone() -> bool:
            await store.renew("a", "alice", 30, "lives")
            return instances() == {b"i:lives"}

        await wait_until(alone, "what the dead ones said is forgotten")

        for at in range(INSTANCES + 20):
            await store.renew("a", "alice", 10 + at / 10, f"many-{at}")
        kept = instances()
        assert len(kept) == INSTANCES
        assert b"i:lives" in kept and f"i:many-{INSTANCES + 19}".encode() in kept


async def test_an_entry_that_is_renewed_is_found_whatever_the_indexes_have_lost(one_store_server: StoreServer) -> None:
    """A sweep in the last millisecond of a lease takes rows of an entry that is then renewed."""
    async with opened(one_store_server.url) as store:
        for again in (lambda: store.renew("a", "alice", 30, ""), lambda: store.register(entry("a"), 30)):
            made = await store.register(entry("a"), 30)
            assert not isinstance(made, Full)
            for index in ("all", "leases", "checks"):
                one_store_server.client.zrem(f"a2a:{{agents}}:{index}", "a")
            await again()
            [glance] = (await store.look(None, 10)).glances
            assert (glance.place.task_id, glance.place.timestamp_ms) == ("a", made[0].created_ms)
            assert (await store.claim(0, 1)).ids == ["a"]


async def test_a_report_brings_back_nothing_that_is_gone(one_store_server: StoreServer) -> None:
    async with opened(one_store_server.url) as store:
        await store.register(entry("a"), 30)
        claim = await store.claim(30, 1)
        await store.withdraw("a", "alice", "")

        assert not await store.report("a", claim.proof, pause=1, state=HEALTHY, reason="", signature=1, key_id="")
        assert one_store_server.client.keys("*agent:*") == []


async def test_there_is_room_for_so_many(one_store_server: StoreServer) -> None:
    async with opened(one_store_server.url, most=2) as store:
        await store.register(entry("a", "alice"), 1)
        await store.register(entry("b", "bob"), 30)
        assert await store.register(entry("c", "carol"), 30) is Full.FULL

        async def room() -> bool:
            return await store.register(entry("c", "carol"), 30) is not Full.FULL

        await wait_until(room, "one that ended makes room")
        look = await store.look(None, 10)
        assert [glance.place.task_id for glance in look.glances] == ["c", "b"]
        assert one_store_server.client.zrange("a2a:{agents}:all", 0, -1) == [b"b", b"c"]


async def test_a_store_that_is_away_is_said_to_be(one_store_server: StoreServer) -> None:
    async with opened(one_store_server.url) as store:
        await store.register(entry("a"), 30)
        one_store_server.kill()
        with pytest.raises(StoreUnavailableError):
            await store.find("a")
        one_store_server.start()
        assert await store.find("a") is not None, "with all that it had"
