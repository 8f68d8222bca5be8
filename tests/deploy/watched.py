"""A service that is watched: a replica, two workers, a gateway, receivers of webhooks, and those who call them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import httpx

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import CALLERS, KEYS, VERSION, Caller, CallError, Service
from tests.conformance.conftest import API_KEYS
from tests.process.gateway import Gateway
from tests.push.config import QUICK
from tests.support.receiver import Answer, Delivery, Receiver, receiver
from tests.support.replica import Replica, free_ports
from tests.support.servers import StoreServer, fresh_store_server

AGENT: Final = "tests.deploy.watched_agent:agent"
_ENV: Final = {
    **QUICK,
    "A2A_API_KEYS": API_KEYS,
    "A2A_MAX_TURNS": "6",
    "A2A_LEASE_TTL": "1",
    "A2A_PUSH_ATTEMPTS": "2",
    "A2A_LIMIT_CALLER_RATES": "change=2:2",
}


@dataclass(frozen=True, slots=True)
class Watched:
    """What is there."""

    store: StoreServer
    replica: Replica
    workers: Replica
    gateway: Replica
    hook: Receiver
    targets: dict[str, dict[str, str]]
    """Where each tells its metrics, by job and instance."""

    @contextlib.asynccontextmanager
    async def caller(self, service: Service, over: str, key: str = KEYS["alice"]) -> AsyncIterator[Caller]:
        """One who calls a part of it."""
        async with CALLERS[over](service, {**VERSION, "x-api-key": key}) as caller:
            yield caller


@contextlib.asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    """Start it, ready and idle."""
    addrs = [f"127.0.0.1:{port}" for port in free_ports(3)]

    async def answer(delivery: Delivery) -> Answer:
        return Answer(status=500 if delivery.target == "/bad" else 200)

    async with receiver() as hook, contextlib.AsyncExitStack() as stack:
        hook.behave = answer
        store = await asyncio.to_thread(stack.enter_context, fresh_store_server())
        replica = Replica(agent=AGENT, redis_url=store.url, env={**_ENV, "A2A_METRICS_ADDR": addrs[0]})
        workers = Replica(agent=f"--workers 2 {AGENT}", redis_url=store.url, env={**_ENV, "A2A_METRICS_ADDR": addrs[1]})
        gateway = Gateway(workers.grpc_addr, {"A2A_METRICS_ADDR": addrs[2]})
        for one in (replica, workers, gateway):
            stack.push_async_callback(asyncio.to_thread, one.close)
            await asyncio.to_thread(one.start)
        targets = {
            "a2a-grpc": {"replica": addrs[0], "workers": addrs[1]},
            "a2a-grpc-gateway": {"gateway": addrs[2]},
        }
        yield Watched(store, replica, workers, gateway, hook, targets)


async def load(service: Watched, seconds: float, *, trouble: bool = False) -> None:
    """A few dozen calls a second of every kind for so long; with `trouble` also what goes wrong in a service."""
    async with contextlib.AsyncExitStack() as stack:

        async def by(part: Replica, over: str, key: str = KEYS["alice"]) -> Caller:
            return await stack.enter_async_context(service.caller(part, over, key))

        first, web = await by(service.replica, "GRPC"), await by(service.workers, "HTTP+JSON")
        behind = await by(service.gateway, "JSONRPC")
        stranger = await by(service.workers, "GRPC", "no-key")

        async def reads() -> None:
            task = await first.task("hi")
            for _ in range(4):
                await first.get(task.id)
            await web.page(page_size=5)

        async def streams() -> None:
            await web.events("steps")
            await behind.events("steps")

        async def elsewhere() -> None:
            """Follow a task that runs on another replica."""
            task = await first.task("steps", return_immediately=True)
            async with web.subscribe(task.id) as stream:
                await stream.all()

        async def through() -> None:
            task = await behind.task("hi")
            await behind.get(task.id)

        async def bursts() -> None:
            """More turns than there are places."""
            for _ in range(36):
                await first.task("long", return_immediately=True)
            await asyncio.sleep(8)

        async def hooks(path: str = "/hook") -> None:
            config = pb.TaskPushNotificationConfig(url=service.hook.url + path)
            await web.task("hi", task_push_notification_config=config)

        async def fails() -> None:
            for text in ("fail", "again", "ask"):
                await first.task(text)
            with contextlib.suppress(CallError):
                await web.get("nobody-s")

        async def gives_up() -> None:
            await first.task("give up", return_immediately=True)
            await asyncio.sleep(2)

        async def is_refused() -> None:
            task = await web.task("long", return_immediately=True)
            for _ in range(4):
                with contextlib.suppress(CallError):
                    await web.cancel(task.id)
                await asyncio.sleep(0.1)
            with contextlib.suppress(CallError):
                await stranger.get(task.id)

        works: list[Callable[[], Awaitable[None]]] = [reads, streams, elsewhere, through, bursts, hooks]
        if trouble:
            works += [fails, gives_up, is_refused, lambda: hooks("/bad")]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                for work in works:
                    group.create_task(_again_and_again(work))


async def _again_and_again(work: Callable[[], Awaitable[None]]) -> None:
    while True:
        # Some of what is called here is killed.
        with contextlib.suppress(CallError, httpx.TransportError):
            await work()
        await asyncio.sleep(0.1)
