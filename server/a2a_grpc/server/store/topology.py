"""Which node of a cluster holds which slot, as the nodes themselves say."""

import random
from binascii import crc_hqx
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from redis.exceptions import RedisError

from a2a_grpc.server.store.asking import ask_all
from a2a_grpc.server.store.connections import Connect
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.location import Endpoint
from a2a_grpc.server.store.pipeline import Pipeline

Connector = Callable[[Endpoint], Connect]

SLOTS = 16384
_ANSWER = 0.5
_ASKED = 3


@lru_cache(maxsize=8192)
def _slot(hashed: str) -> int:
    return crc_hqx(hashed.encode(), 0) % SLOTS


def slot_of(key: str) -> int:
    """The slot of a key or of a sharded channel: of its hash tag, where it has one."""
    opening = key.find("{")
    closing = key.find("}", opening + 2) if opening >= 0 else -1
    return _slot(key[opening + 1 : closing] if closing > 0 else key)


@dataclass(frozen=True)
class Claim:
    """What one master holds, as one node sees it."""

    owner: Endpoint
    epoch: int
    """The higher one is the newer one, of all claims to a slot."""
    ranges: tuple[tuple[int, int], ...]
    """First and last slot of each range."""


@dataclass(frozen=True)
class View:
    """The cluster as one node sees it."""

    claims: tuple[Claim, ...]
    nodes: tuple[Endpoint, ...]
    """All that are thought to be alive, replicas too."""


def view_of(text: str, asked: Endpoint) -> View:
    """The answer of the node `asked` to CLUSTER NODES."""
    claims, nodes = [], []
    for line in text.splitlines():
        _, address, flags, _, _, _, epoch, _, *slots = line.split(" ")
        marks = set(flags.split(","))
        endpoint = _endpoint(address, asked)
        if endpoint is None or marks & {"noaddr", "handshake"}:
            continue
        if "fail" not in marks:
            nodes.append(endpoint)
        # A slot in brackets is on its way to another node, or from there.
        ranges = tuple(_range(slot) for slot in slots if not slot.startswith("["))
        if "master" in marks and ranges:
            claims.append(Claim(endpoint, int(epoch), ranges))
    return View(tuple(claims), tuple(nodes))


def _endpoint(address: str, asked: Endpoint) -> Endpoint | None:
    """From `IP:PORT@BUS[,HOSTNAME[,…]]`. A node that does not know its own address gives none."""
    where, _, names = address.partition("@")
    host, _, port = where.rpartition(":")
    hostname = names.split(",")[1] if "," in names else ""
    return Endpoint(hostname or host or asked.host, int(port)) if int(port) else None


def _range(slots: str) -> tuple[int, int]:
    first, _, last = slots.partition("-")
    return int(first), int(last or first)


class Topology:
    """The owners of the slots, brought up to date by asking several nodes: a claim with a higher epoch wins.

    One node alone may be behind: it was stopped, its slots were given away, and it goes on with what it knew.
    """

    def __init__(self, seeds: tuple[Endpoint, ...]) -> None:
        self._seeds = seeds
        self._known: tuple[Endpoint, ...] = seeds
        self._asked: dict[Endpoint, Pipeline] = {}
        self._seen: list[View | None] = []
        self._owners: list[Endpoint | None] = [None] * SLOTS
        self._noted = False
        self.masters: frozenset[Endpoint] = frozenset()
        """All that own a slot."""

    def owner(self, slot: int) -> Endpoint | None:
        """Who owns `slot`; None where nobody does, or nothing is known yet."""
        return self._owners[slot]

    def note(self, slot: int, owner: Endpoint) -> None:
        """A node says that `slot` is at `owner` now: true until the next look."""
        self._owners[slot] = owner
        self.masters |= {owner}
        self._noted = True
        self._seen = []

    async def look(self, connector: Connector) -> bool:
        """Ask anew; whether anything has changed. Raises: ConnectionError where no node answers."""
        self._choose(connector)
        asked = list(self._asked)
        try:
            answers = await ask_all([self._asked[endpoint].command("CLUSTER", "NODES") for endpoint in asked])
        except (StoreUnavailableError, RedisError) as error:
            await self._forget(asked)
            self._known = self._seeds
            raise ConnectionError(f"no node says who holds what: {error}") from None
        views = [
            None if answer is None else view_of(answer.decode(), endpoint)
            for endpoint, answer in zip(asked, answers, strict=True)
        ]
        await self._forget([endpoint for endpoint, view in zip(asked, views, strict=True) if view is None])
        seen = [view for view in views if view is not None]
        self._known = tuple({*self._seeds, *(endpoint for view in seen for endpoint in view.nodes)})
        if seen == self._seen:
            return False
        self._seen = list(seen)
        return self._merge(seen)

    def _merge(self, views: list[View]) -> bool:
        owners: list[Endpoint | None] = [None] * SLOTS
        epochs = [-1] * SLOTS
        for claim in (claim for view in views for claim in view.claims):
            for first, last in claim.ranges:
                for slot in range(first, last + 1):
                    if claim.epoch > epochs[slot]:
                        owners[slot], epochs[slot] = claim.owner, claim.epoch
        changed = owners != self._owners or self._noted
        self._owners, self._noted = owners, False
        self.masters = frozenset(owner for owner in owners if owner is not None)
        return changed

    def _choose(self, connector: Connector) -> None:
        left = [endpoint for endpoint in self._known if endpoint not in self._asked]
        random.shuffle(left)
        for endpoint in left[: _ASKED - len(self._asked)]:
            self._asked[endpoint] = Pipeline(connector(endpoint), _ANSWER, name=f"the node {endpoint}")

    async def _forget(self, endpoints: list[Endpoint]) -> None:
        for endpoint in endpoints:
            await self._asked.pop(endpoint).close()

    async def close(self) -> None:
        """Close the connections."""
        await self._forget(list(self._asked))
