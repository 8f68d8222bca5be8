"""Looking from time to time whether registered agents answer."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.registry.v1 import registry_pb2 as pb
from a2a_grpc.server.push.allowed import Address
from a2a_grpc.server.push.destinations import Destinations, RefusedDestinationError
from a2a_grpc.server.registry.addresses import AgentAddress, parse_address
from a2a_grpc.server.registry.cards import signature_of
from a2a_grpc.server.registry.fetching import NOT_THERE, UNREACHED, CardFetcher
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.registrations import Registrations
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import A2AError
from a2a_grpc.wire.keys import PublicKey

log = logging.getLogger(__name__)

# An agent that keeps its card to callers with credentials is there all the same.
_KEPT_BACK: Final = frozenset({401, 403})
_LOOK_EVERY: Final = 0.5
"""Seconds between two looks at what is due."""
_AWAY: Final = 2.0
"""Seconds until the next look where the store was away."""
_MARGIN: Final = 5.0
"""Seconds that a claim lasts longer than the look that it is for."""


class Probe(Protocol):
    """Asks for the health of a gRPC server (grpc.health.v1)."""

    async def __call__(self, agent: AgentAddress, addresses: Sequence[Address], timeout: float) -> str:
        """What is wrong with the server at `addresses`, which were checked, half a sentence; "" where it answers."""


class Finding(NamedTuple):
    """What was seen."""

    state: pb.HealthState
    reason: str


class Checker:
    """Looks for the agents of a store, each of which one replica at a time looks for."""

    def __init__(
        self,
        registrations: Registrations,
        destinations: Destinations,
        fetcher: CardFetcher,
        probe: Probe,
        keys: Sequence[PublicKey],
        *,
        interval: float,
        timeout: float,
        concurrency: int,
    ) -> None:
        """`interval` and `timeout` in seconds; `keys` are those whose signatures count, looked at anew each time."""
        self._registrations = registrations
        self._destinations = destinations
        self._fetcher = fetcher
        self._probe = probe
        self._keys = keys
        self._interval = interval
        self._timeout = timeout
        self._concurrency = concurrency
        self._looking: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Look for what is due, for as long as the process lives."""
        try:
            while True:
                pause = await self._begin()
                await asyncio.sleep(pause)
        finally:
            for look in self._looking:
                look.cancel()

    async def _begin(self) -> float:
        room = self._concurrency - len(self._looking)
        if room <= 0:
            return _LOOK_EVERY
        try:
            claim = await self._registrations.claim(self._timeout + _MARGIN, room)
        except StoreUnavailableError:
            return _AWAY
        for agent_id in claim.ids:
            look = asyncio.create_task(self._look(agent_id, claim.proof))
            self._looking.add(look)
            look.add_done_callback(self._looking.discard)
        return _LOOK_EVERY

    async def _look(self, agent_id: str, proof: str) -> None:
        try:
            entry = await self._registrations.find(agent_id)
            if entry is None:
                return
            finding = await self._find(parse_address(entry.url))
            signature = signature_of(entry.card, self._keys)
            reported = await self._registrations.report(
                agent_id,
                proof,
                pause=self._interval,
                state=finding.state,
                reason=finding.reason,
                signature=signature.state,
                key_id=signature.key_id,
            )
        except StoreUnavailableError:
            return  # whoever claims it then looks again
        except Exception:
            log.exception("looking for the agent %s failed", agent_id)
            return
        if reported and finding.state != entry.health.state:
            log.info("agent %s: %s%s", agent_id, _NAMES[finding.state], f", {finding.reason}" if finding.reason else "")

    async def _find(self, agent: AgentAddress) -> Finding:
        if agent.refusal(self._destinations):
            return Finding(pb.HEALTH_STATE_UNKNOWN, f"it {NOT_THERE}")
        try:
            problem = await (self._ask(agent) if agent.grpc else self._read(agent))
        except RefusedDestinationError as error:
            log.info("%s %s", agent.url, error)
            return Finding(pb.HEALTH_STATE_UNKNOWN, f"it {NOT_THERE}")
        return Finding(pb.HEALTH_STATE_UNREACHABLE if problem else pb.HEALTH_STATE_HEALTHY, problem)

    async def _read(self, agent: AgentAddress) -> str:
        answer = await self._fetcher.fetch(agent)
        if answer.status in _KEPT_BACK:
            return ""
        if answer.problem:
            return answer.problem
        try:
            protojson.loads(answer.body, a2a_pb2.AgentCard)
        except A2AError:
            return "what it answered is no agent card"
        return ""

    async def _ask(self, agent: AgentAddress) -> str:
        addresses = await self._fetcher.look_up(agent)
        return await self._probe(agent, addresses, self._timeout) if addresses else UNREACHED


_NAMES: Final = {
    pb.HEALTH_STATE_UNKNOWN: "unknown",
    pb.HEALTH_STATE_HEALTHY: "healthy",
    pb.HEALTH_STATE_UNREACHABLE: "unreachable",
}
