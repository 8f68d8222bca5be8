"""A cluster: a pipeline for each master, calls that follow their slots, and a look-out for moves."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from redis.asyncio.connection import AbstractConnection

from a2a_grpc.server.store import keys as key_names
from a2a_grpc.server.store.connections import Connect, to_server
from a2a_grpc.server.store.link import Argument
from a2a_grpc.server.store.location import Endpoint, Location
from a2a_grpc.server.store.nodes import Moved
from a2a_grpc.server.store.pipeline import Call, Calls, Pipeline, Surroundings
from a2a_grpc.server.store.replicated import ReplicatedPipeline
from a2a_grpc.server.store.scripts import Script
from a2a_grpc.server.store.topology import Topology, slot_of
from a2a_grpc.server.store.tracing import record
from a2a_grpc.server.telemetry.tracing import TRACES

log = logging.getLogger(__name__)

_LOOK = 1.0
_AT_MOST = 0.1
# Nodes may disagree for a moment. After so many hops a call waits a little before the next one.
_HOPS = 4

NewLane = Callable[[Endpoint | None, Surroundings], Pipeline]


class ClusterPipeline(Surroundings):
    """Calls of a whole process, each to the node that owns the slot of its keys. See `Calls`."""

    def __init__(self, topology: Topology, new_lane: NewLane, look: Callable[[], None]) -> None:
        """`new_lane` makes a pipeline to a node, or to nowhere, to wait there; `look` has the topology looked at."""
        self._topology = topology
        self._new_lane = new_lane
        self._look = look
        self._lanes: dict[Endpoint | None, Pipeline] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def script(
        self, script: Script, keys: Sequence[str], arguments: Sequence[Argument], timeout: float | None = None
    ) -> asyncio.Future[Any]:
        """See `Calls`."""
        slot = slot_of(keys[0])
        lane = self.lane(self._topology.owner(slot))
        reply = lane.call(("EVALSHA", script.sha, len(keys), *keys, *arguments), script, timeout, slot)
        if TRACES.on:
            record(script.name, reply)
        return reply

    def command(self, *command: Argument, timeout: float | None = None) -> asyncio.Future[Any]:
        """See `Calls`."""
        slot = slot_of(str(command[1]))
        return self.lane(self._topology.owner(slot)).call(command, None, timeout, slot)

    def lane(self, owner: Endpoint | None) -> Pipeline:
        """The pipeline to one node."""
        lane = self._lanes.get(owner)
        if lane is None:
            lane = self._lanes[owner] = self._new_lane(owner, self)
        return lane

    def regroup(self) -> None:
        """Take calls away from nodes that do not own their slots any more, and leave those that own none."""
        homeless: list[Call] = []
        for owner, lane in list(self._lanes.items()):
            if owner in self._topology.masters:
                homeless += lane.release(lambda call, owner=owner: self._elsewhere(call, owner))  # type: ignore[misc]
            else:
                del self._lanes[owner]
                homeless += lane.evict()
                closing = asyncio.get_running_loop().create_task(lane.close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
        for call in homeless:
            if call.slot < 0:
                call.reply.cancel()  # it was for that node only
            else:
                self.lane(self._topology.owner(call.slot)).take(call)

    def _elsewhere(self, call: Call, owner: Endpoint | None) -> bool:
        return call.slot >= 0 and self._topology.owner(call.slot) not in {owner, None}

    async def close(self) -> None:
        """See `Calls`."""
        for lane in list(self._lanes.values()):
            await lane.close()
        await asyncio.gather(*self._closing)

    # -- what the lanes tell -----------------------------------------------------------------------------------------

    def astray(self, pipeline: Pipeline) -> None:  # noqa: ARG002 - the next look tells where else
        """A node cannot serve just now: others may know who can."""
        self._look()

    def unreachable(self, pipeline: Pipeline) -> None:  # noqa: ARG002 - as above
        """A node is gone: others may know who has its slots."""
        self._look()

    def moved(self, pipeline: Pipeline, call: Call, error: str) -> None:
        """MOVED or ASK: another node has the slot, or is about to."""
        kind, slot, where = error.split(" ")[:3]
        host, _, port = where.rpartition(":")
        call.hops += 1
        self._look()
        if not host or call.hops > _HOPS:
            pipeline.later(call)
            return
        owner = Endpoint(host.strip("[]"), int(port))
        if kind == "MOVED":
            self._topology.note(int(slot), owner)
        else:
            call.asking = True
        self.lane(owner).take(call)


class Cluster:
    """The masters of a cluster. A node is left when others say that its slots are elsewhere now."""

    def __init__(self, location: Location, timeout: float, replicas: int) -> None:
        """Raises: StoreMisconfiguredError for options that cannot be used."""
        self._location = location
        self._timeout = timeout
        self._replicas = replicas
        self._servers: dict[Endpoint, Connect] = {}
        self._to(location.endpoints[0])  # so that wrong options are told now
        self._topology = Topology(location.endpoints)
        self._reads = ClusterPipeline(self._topology, self._read_lane, self.look)
        self._calls = ClusterPipeline(self._topology, self._call_lane, self.look)
        self._wake = asyncio.Event()
        self._looked = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._on_move: list[Moved] = []

    @property
    def calls(self) -> Calls:
        """See `Nodes`."""
        return self._calls

    @property
    def reads(self) -> Calls:
        """See `Nodes`."""
        return self._reads

    def homes(self) -> Sequence[str]:
        """See `Nodes`."""
        return sorted(str(master) for master in self._topology.masters)

    def home(self, key: str) -> str:
        """See `Nodes`."""
        owner = self._topology.owner(slot_of(key))
        return str(owner) if owner is not None else ""

    def at(self, home: str, *command: Argument) -> asyncio.Future[Any]:
        """See `Nodes`."""
        return self._reads.lane(self._endpoint(home)).call(command, None, None)

    def connector(self, home: str) -> Connect:
        """See `Nodes`."""
        return self._connector(self._endpoint(home))

    def look(self) -> None:
        """See `Nodes`."""
        self._wake.set()
        if self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch(), name="cluster-watch")

    def when_moved(self, moved: Moved, renew: Moved) -> None:  # noqa: ARG002 - a node is left by moving
        """See `Nodes`."""
        self._on_move.append(moved)

    async def close(self) -> None:
        """See `Nodes`."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._calls.close()
        await self._reads.close()
        await self._topology.close()

    # -- the nodes ---------------------------------------------------------------------------------------------------

    def _endpoint(self, home: str) -> Endpoint | None:
        return next((master for master in self._topology.masters if str(master) == home), None)

    def _to(self, endpoint: Endpoint) -> Connect:
        if endpoint not in self._servers:
            self._servers[endpoint] = to_server(self._location.server_url(endpoint))
        return self._servers[endpoint]

    def _connector(self, owner: Endpoint | None) -> Connect:
        return self._nowhere if owner is None else self._to(owner)

    async def _nowhere(self) -> AbstractConnection:
        """There is nobody to connect to; what waits for it goes elsewhere when there is."""
        self.look()
        self._looked.clear()
        await self._looked.wait()
        raise ConnectionError("no node of the cluster holds this part of the store")

    def _read_lane(self, owner: Endpoint | None, around: Surroundings) -> Pipeline:
        return Pipeline(self._connector(owner), self._timeout, around=around, name=_name(owner))

    def _call_lane(self, owner: Endpoint | None, around: Surroundings) -> Pipeline:
        if not self._replicas or owner is None:
            return self._read_lane(owner, around)
        return ReplicatedPipeline(
            self._to(owner),
            self._timeout,
            self._replicas,
            lambda: self._mark(owner),
            around=around,
            name=_name(owner),
        )

    def _mark(self, owner: Endpoint) -> str:
        """The first key for marks whose slot is at `owner`."""
        marks = (key_names.mark(shard) for shard in range(4096))
        return next((mark for mark in marks if self._topology.owner(slot_of(mark)) == owner), key_names.mark(0))

    # -- the look-out ------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK):
                        await self._wake.wait()
                self._wake.clear()
                if await self._topology.look(self._to):
                    log.info("the cluster: %s", ", ".join(self.homes()))
                    self._calls.regroup()
                    self._reads.regroup()
                    for moved in self._on_move:
                        moved()
            except OSError as error:
                log.debug("looking for the nodes of the cluster: %s", error)
            except Exception:
                log.exception("looking for the nodes of the cluster failed")
            self._looked.set()
            await asyncio.sleep(_AT_MOST)


def _name(owner: Endpoint | None) -> str:
    return f"the node {owner}" if owner is not None else "the cluster"
