"""Writes that wait for replicas of the store: acknowledged when they are there, and not before."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.nodes import Nodes
from a2a_grpc.server.store.opening import open_nodes
from a2a_grpc.server.store.scripts import Script
from tests.support.nodes import Node, binary_of, start_all, wait_for
from tests.support.replica import free_ports
from tests.support.servers import ON_EACH_KIND, ServerKind

# May be repeated, and writes nothing then.
ONCE = Script(
    "once", "if redis.call('SETNX', KEYS[1], ARGV[1]) == 1 then return 'new' end return redis.call('GET', KEYS[1])"
)
TIMEOUT = 1.0


class Two:
    """A server and its replica."""

    def __init__(self, server: Node, replica: Node) -> None:
        self.server = server
        self.replica = replica
        self.url = f"redis://{server.address}"

    @contextlib.contextmanager
    def behind(self) -> Iterator[None]:
        """Inside the block the replica gets nothing."""
        self.replica.stop()
        try:
            yield
        finally:
            self.replica.cont()


@pytest.fixture(scope="module", params=ON_EACH_KIND, ids=lambda kind: kind.name)
def two(request: pytest.FixtureRequest) -> Iterator[Two]:
    kind: ServerKind = request.param
    binary = binary_of(kind)
    first, second = free_ports(2)
    server = Node(binary, first, ("--repl-diskless-sync-delay", "0"))
    replica = Node(binary, second, (), f"replicaof 127.0.0.1 {first}")
    with contextlib.ExitStack() as stack:
        start_all((server, replica), stack)
        wait_for(lambda: replica.replication().get("master_link_status") == "up", "the replica follows")
        wait_for(lambda: server.client.wait(1, 1000) == 1, "the server counts it")
        yield Two(server, replica)


@contextlib.asynccontextmanager
async def opened(two: Two, replicas: int, timeout: float = TIMEOUT) -> AsyncIterator[Nodes]:
    nodes = open_nodes(two.url, timeout=timeout, replicas=replicas)
    try:
        yield nodes
    finally:
        await nodes.close()


async def test_what_is_acknowledged_stands_on_the_replica(two: Two) -> None:
    async with opened(two, 1, 5.0) as nodes:
        for number in range(200):
            assert await nodes.calls.script(ONCE, [f"at-once-{number}"], ["x"]) == b"new"
            assert two.replica.client.get(f"at-once-{number}") == b"x"
        answers = await asyncio.gather(*(nodes.calls.script(ONCE, [f"many-{at}"], ["x"]) for at in range(500)))
        assert answers == [b"new"] * 500
        assert two.replica.client.exists(*(f"many-{at}" for at in range(500))) == 500


async def test_without_the_replica_nothing_is_acknowledged_in_time_and_all_of_it_later(two: Two) -> None:
    async with opened(two, 1) as nodes:
        await nodes.calls.script(ONCE, ["warm"], ["x"])
        with two.behind():
            began = asyncio.get_running_loop().time()
            calls = [nodes.calls.script(ONCE, [f"late-{at}"], ["x"]) for at in range(10)]
            patient = nodes.calls.script(ONCE, ["patient"], ["mine"], 10.0)
            answers = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(answer, StoreUnavailableError) for answer in answers)
            assert asyncio.get_running_loop().time() - began < 2 * TIMEOUT
            assert not patient.done()
            # Reading does not wait, and neither do those who do not ask for it.
            assert await nodes.reads.command("GET", "warm") == b"x"
            async with opened(two, 0) as others:
                assert await others.calls.script(ONCE, ["others"], ["x"]) == b"new"
        assert await patient == b"mine"
        assert two.replica.client.get("patient") == b"mine"


async def test_a_call_that_finds_its_traces_is_not_taken_for_safe(two: Two) -> None:
    """What it finds came over another connection: of this one the server knows no write that could be missing."""
    async with opened(two, 0) as nodes, opened(two, 1) as careful:
        await careful.calls.script(ONCE, ["known-to-both"], ["x"])
        with two.behind():
            assert await nodes.calls.script(ONCE, ["traces"], ["x"]) == b"new"
            with pytest.raises(StoreUnavailableError):
                await careful.calls.script(ONCE, ["traces"], ["x"])
        assert await careful.calls.script(ONCE, ["traces"], ["x"]) == b"x"


async def test_more_replicas_than_there_are_acknowledge_nothing(two: Two) -> None:
    async with opened(two, 2) as nodes:
        with pytest.raises(StoreUnavailableError):
            await nodes.calls.script(ONCE, ["two"], ["x"])
        assert await nodes.reads.command("GET", "two") == b"x"


async def test_a_cut_connection_loses_neither_calls_nor_answers(two: Two) -> None:
    async with opened(two, 1, 3.0) as nodes:
        for cut in range(20):
            calls = [nodes.calls.script(ONCE, [f"cut-{cut}-{at}"], ["x"]) for at in range(100)]
            await asyncio.sleep(0)
            two.server.client.client_kill_filter(_type="normal", skipme=True)
            assert set(await asyncio.gather(*calls)) <= {b"new", b"x"}
            assert two.replica.client.exists(*(f"cut-{cut}-{at}" for at in range(100))) == 100
