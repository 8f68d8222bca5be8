"""Probes tell the truth, the same over both protocols, at once: in trouble with the store and under load (B103)."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

import grpc.aio
import httpx
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from tests.conformance.callers import HttpCaller
from tests.support.replica import Replica, replica
from tests.support.sentinel import sentinel_set
from tests.support.servers import StoreServer, fresh_store_server
from tests.support.troubles import TROUBLES, Trouble
from tests.support.waiting import wait_until

AGENT = "tests.process.busy_agent:agent"
TURNS = 4
NOTICED_WITHIN = 5.0
AT_ONCE = 0.1
"""Seconds to an answer."""
LONGEST = 1.0
"""Seconds to any answer at all, on a busy machine: what a kubelet waits by default. It forgives one that is late."""


@pytest.fixture(scope="module")
def store() -> Iterator[StoreServer]:
    with fresh_store_server() as server:
        yield server


@pytest.fixture(scope="module")
def one(store: StoreServer) -> Iterator[Replica]:
    """A replica on a store that the tests may harm. Nobody restarts it."""
    started = Replica(agent=AGENT, redis_url=store.url, env={"A2A_MAX_TURNS": str(TURNS)})
    try:
        started.start()
        pid = started.pid
        yield started
        assert started.alive and started.pid == pid, started.log()
        assert "Traceback" not in started.log()
    finally:
        started.close()


@dataclass
class Probes:
    """Asks a replica over both protocols, and notes how long each answer took."""

    http: httpx.AsyncClient
    health: Any
    took: list[float] = field(default_factory=list)
    told: list[bool] = field(default_factory=list)

    async def verbose(self) -> dict[str, Any]:
        """What `/readyz?verbose` says."""
        begun = time.monotonic()
        answer = await self.http.get("/readyz?verbose")
        self.took.append(time.monotonic() - begun)
        body: dict[str, Any] = answer.json()
        assert body["status"] == ("ready" if answer.status_code == 200 else "not ready")
        # The whole is the sum of its parts, and the short form says the same.
        assert (answer.status_code == 200) == all(one["status"] == "ready" for one in body["components"].values())
        return body

    async def serving(self, service: str = "") -> bool:
        """What grpc.health.v1 says."""
        begun = time.monotonic()
        answer = await self.health.Check(HealthCheckRequest(service=service), timeout=10)
        self.took.append(time.monotonic() - begun)
        serving: bool = answer.status == HealthCheckResponse.SERVING
        return serving

    async def ready(self) -> bool:
        """What both say. They agree, unless it changes while they are asked."""
        while True:
            before, serving, after = await self._http(), await self.serving(), await self._http()
            if before == after:
                assert serving == before, "the protocols contradict each other"
                assert (await self.http.get("/healthz")).status_code == 200 and await self.serving("liveness")
                self.told.append(before)
                return before

    async def _http(self) -> bool:
        begun = time.monotonic()
        answer = await self.http.get("/readyz")
        self.took.append(time.monotonic() - begun)
        return answer.status_code == 200


@contextlib.asynccontextmanager
async def probing(one: Replica) -> AsyncIterator[Probes]:
    async with (
        httpx.AsyncClient(base_url=one.http_url, trust_env=False, timeout=10) as http,
        grpc.aio.insecure_channel(one.grpc_addr) as channel,
    ):
        probes = Probes(http, HealthStub(channel))
        yield probes
        assert median(probes.took) < AT_ONCE
        assert sum(one >= LONGEST for one in probes.took) <= 1, sorted(probes.took)[-5:]


def at(text: str) -> float:
    """RFC 3339, in seconds since 1970."""
    assert text.endswith("Z")
    return datetime.fromisoformat(text).timestamp()


# In the run that everybody waits for the one that could make a probe hang.
MARKS = {"standing still": [], "loading": [pytest.mark.slow]}
EACH = [pytest.param(one, id=one.name, marks=MARKS.get(one.name, [pytest.mark.wide])) for one in TROUBLES]
SHORT = {"paused", "loading"}
"""What is over by itself."""


@pytest.mark.parametrize("trouble", EACH)
async def test_both_say_what_is_wrong_with_the_store_and_since_when(
    trouble: Trouble, one: Replica, store: StoreServer
) -> None:
    async with probing(one) as probes:
        await wait_until(probes.ready, "the replica is ready")
        was = await probes.verbose()
        assert set(was["components"]) == {"store", "events", "turns"}
        begun = time.time()
        with trouble.begin(store):

            async def noticed() -> dict[str, Any] | None:
                if await probes.ready():
                    return None
                said = await probes.verbose()
                return said if trouble.word in said["components"]["store"].get("reason", "") else None

            told = await wait_until(noticed, "both say that it is not ready, and why", timeout=NOTICED_WITHIN)
            assert told is not None
            component = told["components"]["store"]
            assert begun - 1 <= at(component["since"]) <= at(component["checked"]) <= time.time()
            assert at(told["since"]) >= at(was["since"])

            async def looked_again() -> dict[str, Any] | None:
                now: dict[str, Any] = (await probes.verbose())["components"]["store"]
                return now if now["checked"] != component["checked"] else None

            if trouble.name not in SHORT:
                again = await wait_until(looked_again, "the store is asked again", timeout=NOTICED_WITHIN)
                assert again is not None and again["since"] == component["since"]
        over = time.time()
        await wait_until(probes.ready, "it is ready again by itself", timeout=10)
        told = await probes.verbose()
        assert at(told["since"]) >= over - 1 and "reason" not in told["components"]["store"]


@pytest.mark.slow
async def test_both_tell_of_a_failover() -> None:
    """From the loss of the master until another one takes writes."""
    with sentinel_set() as sentinels:
        lost = sentinels.master()
        async with replica(agent=AGENT, redis_url=sentinels.url) as one, probing(one) as probes:
            assert await probes.ready()
            await asyncio.to_thread(lost.kill)

            async def noticed() -> bool:
                return not await probes.ready()

            await wait_until(noticed, "both say that it is not ready", timeout=NOTICED_WITHIN)
            away = at((await probes.verbose())["since"])
            await wait_until(probes.ready, "it is ready again by itself", timeout=20)
            assert lost.port not in sentinels.named()
            assert at((await probes.verbose())["components"]["store"]["since"]) > away


async def test_a_user_who_may_not_write_any_more_is_a_reason_and_no_end(one: Replica, store: StoreServer) -> None:
    async with probing(one) as probes:
        await wait_until(probes.ready, "the replica is ready")
        store.client.execute_command("ACL", "SETUSER", "default", "-set")  # type: ignore[no-untyped-call]
        try:

            async def noticed() -> bool:
                return not await probes.ready()

            await wait_until(noticed, "both say that it is not ready", timeout=NOTICED_WITHIN)
            assert "NOPERM" in (await probes.verbose())["components"]["store"]["reason"]
        finally:
            store.client.execute_command("ACL", "SETUSER", "default", "+@all")  # type: ignore[no-untyped-call]
        await wait_until(probes.ready, "it is ready again by itself", timeout=10)


async def test_a_loaded_replica_answers_at_once_and_is_not_taken_out(one: Replica) -> None:
    """All turns are at work, more wait, and an agent keeps the event loop for half of the time, 30 ms each."""
    async with probing(one) as probes, HttpCaller(one) as caller:
        await wait_until(probes.ready, "the replica is ready")
        probes.took.clear()
        works = ["stutter 1000", *(TURNS + 1) * ["hang"]]
        tasks = [await caller.task(work, return_immediately=True) for work in works]
        try:
            for _ in range(25):
                assert await probes.ready()
        finally:
            for task in tasks:
                await caller.cancel(task.id)


async def test_who_stood_still_does_not_blame_the_store(one: Replica) -> None:
    """An agent keeps the event loop for longer than the store may take: nobody who watches hears of it."""
    async with (
        HttpCaller(one) as caller,
        grpc.aio.insecure_channel(one.grpc_addr) as channel,
        httpx.AsyncClient(base_url=one.http_url, trust_env=False, timeout=10) as http,
    ):
        heard: list[int] = []

        async def watch() -> None:
            health: Any = HealthStub(channel)
            async for answer in health.Watch(HealthCheckRequest()):
                heard.append(answer.status)  # noqa: PERF401 - seen while it goes on

        watching = asyncio.create_task(watch())
        await wait_until(lambda: heard == [HealthCheckResponse.SERVING], "the replica is ready", timeout=10)
        before = (await http.get("/readyz?verbose")).json()
        await caller.task("stand 2")
        after = (await http.get("/readyz?verbose")).json()
        assert after["since"] == before["since"]
        watching.cancel()
        assert heard == [HealthCheckResponse.SERVING]


async def test_before_the_first_claim_it_is_not_ready_and_says_what_it_waits_for(store: StoreServer) -> None:
    """The store answers only after a while. The process lives all the time."""
    starting = Replica(agent=AGENT, redis_url=store.url, env={})
    try:
        with store.frozen():
            starting.start(wait=False)
            async with probing(starting) as probes:

                async def listens() -> bool:
                    with contextlib.suppress(httpx.TransportError):
                        return (await probes.http.get("/healthz")).status_code == 200
                    return False

                await wait_until(listens, "it listens", timeout=20)
                assert not await probes.ready()

                async def looked() -> bool:
                    told = (await probes.verbose())["components"]
                    assert {name: one["status"] for name, one in told.items()} == dict.fromkeys(
                        ("store", "events", "turns"), "not ready"
                    )
                    assert all(one["reason"] for one in told.values())
                    return "not answer" in told["store"]["reason"]

                await wait_until(looked, "it has looked for the store", timeout=NOTICED_WITHIN)
        async with probing(starting) as probes:
            await wait_until(probes.ready, "it is ready", timeout=10)
    finally:
        starting.close()


async def test_both_say_that_it_stops() -> None:
    async with replica(agent=AGENT, env={"A2A_DRAIN_DELAY": "1"}) as one, probing(one) as probes:
        assert await probes.ready()
        one.terminate()

        async def told() -> bool:
            return not await probes.ready()

        await wait_until(told, "both say that it is not ready")
        components = (await probes.verbose())["components"]
        assert components["process"]["reason"] == "stopping"
        assert {name for name, one in components.items() if one["status"] == "ready"} == {"store", "events", "turns"}
