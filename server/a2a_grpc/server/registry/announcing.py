"""Keeping agents registered for as long as their service runs (`a2a-grpc serve --register`).

Whatever becomes of the registry, the service goes on.
"""

import asyncio
import logging
import random
from collections.abc import Coroutine, Sequence
from typing import Any, Final, NamedTuple, Protocol

from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

from a2a_grpc.registry.v1 import registry_pb2 as pb
from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import A2AError, RouteNotFoundError

log = logging.getLogger(__name__)

# Renewed three times within its length, a lease survives two calls that fail.
_RENEWALS: Final = 3
_SHORTEST_WAIT: Final = 0.25
"""Seconds between two renewals, whatever a registry grants."""
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 15.0
"""Seconds between two attempts while the registry is away: it is found again soon after it came back."""
_PARTING: Final = 2.0
"""Seconds for saying goodbye."""


class Registry(Protocol):
    """The registry, called."""

    async def __call__(self, method: str, request: Message) -> Any:
        """The answer to an operation. Raises: A2AError."""

    async def close(self) -> None:
        """Disconnect."""


class Announcement(NamedTuple):
    """An agent as it is registered."""

    name: str
    url: str
    card: bytes
    """Its JSON, as it is published."""


class Announcer:
    """Registers agents once the service is ready, renews in time, and withdraws when it stops.

    A `Listener` for the drain: what leaves with the others.
    """

    def __init__(
        self,
        registry: Registry,
        where: str,
        agents: Sequence[Announcement],
        readiness: Readiness,
        *,
        public: bool,
        instance: str,
    ) -> None:
        """`where` names the registry in the log; `instance` is the name of this process."""
        self._registry = registry
        self._where = where
        self._agents = agents
        self._public = public
        self._instance = instance
        self._ids: dict[str, str] = {}
        """Of the entries that are known to be there, by URL."""
        self._failing: set[str] = set()
        self._calls: set[asyncio.Task[pb.Lease]] = set()
        self._ready = asyncio.Event()
        self._unsubscribe = readiness.subscribe(self._changed)
        self._running: asyncio.Task[None] | None = None
        self._parting: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Keep the agents registered until the service stops; then wait for ever."""
        await self._ready.wait()
        self._running = asyncio.create_task(self._keep_all())
        await asyncio.wait((self._running,))
        await asyncio.Event().wait()

    def retire(self) -> None:
        """Begin to withdraw: the service leaves."""
        self._unsubscribe()
        if self._parting is None:
            self._parting = asyncio.create_task(self._part())

    async def leave(self) -> None:
        """Wait until everything is withdrawn, for a moment."""
        self.retire()
        if self._parting is not None:
            await self._parting

    async def end(self) -> None:
        """Disconnect."""
        await self.leave()
        await self._registry.close()

    def _changed(self, ready: bool) -> None:
        if ready:
            self._ready.set()

    async def _keep_all(self) -> None:
        await asyncio.gather(*(self._keep(agent) for agent in self._agents))

    async def _keep(self, agent: Announcement) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                lease = await self._to_the_end(self._renewed(agent))
            except A2AError as error:
                self._note(agent, error.message)
                wait, pause = max(pause, min(error.retry_after or 0.0, _LONGEST_PAUSE)), min(2 * pause, _LONGEST_PAUSE)
            except Exception as error:
                log.exception("registering %s failed", agent.name)
                self._note(agent, type(error).__name__)
                wait = pause = _LONGEST_PAUSE
            else:
                self._note(agent, "")
                wait, pause = max(lease.ttl_seconds / _RENEWALS, _SHORTEST_WAIT), _FIRST_PAUSE
            await asyncio.sleep(wait * random.uniform(0.75, 1.0))  # noqa: S311 -- so that not all call at once

    async def _to_the_end(self, work: Coroutine[Any, Any, pb.Lease]) -> pb.Lease:
        """What `work` gives. It goes on where nobody waits any more: only its end tells under which id an agent is."""
        call = asyncio.create_task(work)
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        return await asyncio.shield(call)

    async def _renewed(self, agent: Announcement) -> pb.Lease:
        known = self._ids.get(agent.url)
        if known is not None:
            try:
                renewed: pb.RenewAgentResponse = await self._registry(
                    "RenewAgent", pb.RenewAgentRequest(id=known, instance=self._instance)
                )
            except RouteNotFoundError:
                log.info("the registry %s has lost %s", self._where, agent.name)
                del self._ids[agent.url]
            else:
                return renewed.lease
        registered: pb.RegisterAgentResponse = await self._registry(
            "RegisterAgent",
            pb.RegisterAgentRequest(
                url=agent.url,
                card=protojson.loads(agent.card, Struct),
                public=self._public,
                instance=self._instance,
            ),
        )
        self._ids[agent.url] = registered.agent.id
        log.info("%s is registered with %s as %s", agent.name, self._where, registered.agent.id)
        return registered.agent.lease

    def _note(self, agent: Announcement, problem: str) -> None:
        """One line when trouble begins, and one when it is over: an outage may last."""
        before = bool(self._failing)
        (self._failing.add if problem else self._failing.discard)(agent.url)
        if self._failing and not before:
            log.warning("%s cannot be registered with %s: %s; it is tried again", agent.name, self._where, problem)
        elif before and not self._failing:
            log.info("the registry %s takes registrations again", self._where)

    async def _part(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait((self._running,))
        try:
            async with asyncio.timeout(_PARTING):
                await asyncio.gather(*self._calls, return_exceptions=True)
                await asyncio.gather(*(self._withdraw(agent_id) for agent_id in self._ids.values()))
        except TimeoutError:
            log.info("the registry %s does not answer: its entries end with their leases", self._where)

    async def _withdraw(self, agent_id: str) -> None:
        try:
            await self._registry("WithdrawAgent", pb.WithdrawAgentRequest(id=agent_id, instance=self._instance))
        except A2AError as error:
            log.info("%s stays at the registry %s until its lease ends: %s", agent_id, self._where, error.message)
        except Exception:
            log.exception("withdrawing %s failed", agent_id)  # and nothing else has to suffer
