"""A cluster of masters with one replica each."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import redis

from a2a_grpc.server.store.topology import SLOTS, slot_of
from tests.support.nodes import Node, binary_of, start_all, wait_for
from tests.support.replica import free_ports
from tests.support.servers import ServerKind

NODE_TIMEOUT_MS = 1500
"""A node that is silent for so long is taken for lost."""


class ClusterSet:
    """`nodes`, all of them real processes: at first the masters, then their replicas in the same order."""

    def __init__(self, nodes: Sequence[Node], masters: int, password: str = "") -> None:
        self.nodes = nodes
        self._user = f":{password}@" if password else ""
        self._masters = masters

    @property
    def url(self) -> str:
        """What A2A_REDIS_URL says of it: two of the nodes stand for all."""
        return f"redis+cluster://{self._user}{self.nodes[0].address},{self.nodes[self._masters].address}"

    def create(self) -> None:
        """Makes a cluster of the nodes."""
        masters, replicas = self.nodes[: self._masters], self.nodes[self._masters :]
        for at, node in enumerate(masters):
            first, end = SLOTS * at // len(masters), SLOTS * (at + 1) // len(masters)
            self.ask(node, "ADDSLOTSRANGE", first, end - 1)
        for at, node in enumerate(self.nodes):
            self.ask(node, "SET-CONFIG-EPOCH", at + 1)
            self.ask(self.nodes[0], "MEET", "127.0.0.1", node.port, node.bus)
        wait_for(lambda: all(len(self._view(node)) == len(self.nodes) for node in self.nodes), "all nodes have met")
        for node, master in zip(replicas, masters, strict=True):
            self.ask(node, "REPLICATE", self.id_of(master))
        self.wait_steady()

    def wait_steady(self) -> None:
        """Waits until the cluster is whole: every slot served, every replica up to date."""
        wait_for(self._steady, "the cluster is whole")

    def _steady(self) -> bool:
        for node in self.nodes:
            if node.client.cluster("INFO")["cluster_state"] != "ok":
                return False
            replication = node.replication()
            if replication["role"] == "slave" and replication["master_link_status"] != "up":
                return False
            if replication["role"] == "master" and replication["connected_slaves"] == 0:
                return False
        views = [{line[1].split("@")[0]: "master" in line[2] for line in self._view(node)} for node in self.nodes]
        return all(view == views[0] for view in views) and sum(views[0].values()) == self._masters

    def _view(self, node: Node) -> list[list[str]]:
        return [line.split(" ") for line in self.ask(node, "NODES").decode().splitlines()]

    def master_of(self, key: str) -> Node:
        """Who owns the slot of `key`, as the first node that answers sees it."""
        slot = slot_of(key)
        for node in self.nodes:
            if not node.answers:
                continue
            with contextlib.suppress(redis.RedisError):
                for line in self._view(node):
                    for slots in line[8:]:
                        first, _, last = slots.partition("-")
                        if not slots.startswith("[") and int(first) <= slot <= int(last or first):
                            port = int(line[1].partition("@")[0].rpartition(":")[2])
                            return next(one for one in self.nodes if one.port == port)
        raise AssertionError(f"nobody owns the slot of {key}")

    def ask(self, node: Node, *words: str | int) -> Any:
        """What `node` answers to CLUSTER and `words`, as it is."""
        return node.client.execute_command("CLUSTER", *words)  # type: ignore[no-untyped-call]

    def id_of(self, node: Node) -> str:
        """What the nodes call `node`."""
        return str(self.ask(node, "MYID").decode())

    def repair(self) -> None:
        """Brings back whatever a test killed or stopped."""
        for node in self.nodes:
            if node.alive:
                node.cont()
            else:
                node.start()
        self.wait_steady()


@contextlib.contextmanager
def cluster_set(
    kind: ServerKind | None = None, *, masters: int = 3, options: Sequence[str] = (), password: str = ""
) -> Iterator[ClusterSet]:
    """A new cluster; `options` are further arguments for each server, which may ask for a `password`."""
    if password:
        options = (*options, "--requirepass", password, "--masterauth", password)
    binary = binary_of(kind)
    ports = free_ports(4 * masters)
    nodes = []
    for port, bus in zip(ports[: 2 * masters], ports[2 * masters :], strict=True):
        nodes.append(Node(binary, port, (*_NODE, "--cluster-port", str(bus), *options), bus=bus, password=password))
    with contextlib.ExitStack() as stack:
        start_all(nodes, stack)
        made = ClusterSet(nodes, masters, password)
        made.create()
        yield made


_NODE = (
    *("--cluster-enabled", "yes"),
    *("--cluster-config-file", "nodes.conf"),
    *("--cluster-node-timeout", str(NODE_TIMEOUT_MS)),
    *("--appendonly", "yes"),
    *("--save", ""),
    *("--repl-diskless-sync-delay", "0"),
    *("--repl-ping-replica-period", "1"),
)
