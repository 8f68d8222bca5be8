"""A master, its replicas, and the sentinels that watch over them."""

import contextlib
from collections.abc import Iterator, Sequence

from tests.support.nodes import Node, binary_of, start_all, wait_for
from tests.support.replica import free_ports
from tests.support.servers import ServerKind

DOWN_AFTER_MS = 1000
"""A master that is silent for so long is replaced."""
NAME = "tasks"


class SentinelSet:
    """`servers` and `sentinels`, all of them real processes."""

    def __init__(self, servers: Sequence[Node], sentinels: Sequence[Node], password: str = "") -> None:
        self.servers = servers
        self.sentinels = sentinels
        self._password = password

    @property
    def url(self) -> str:
        """What A2A_REDIS_URL says of it."""
        addresses = ",".join(one.address for one in self.sentinels)
        if self._password:
            return f"redis+sentinel://:{self._password}@{addresses}/{NAME}?sentinel_password={self._password[::-1]}"
        return f"redis+sentinel://{addresses}/{NAME}"

    def named(self) -> set[int]:
        """The ports of all servers that any sentinel takes for the master now: during a failover more than one."""
        return {
            int(one.client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])  # type: ignore[no-untyped-call]
            for one in self.sentinels
            if one.answers
        }

    def master(self) -> Node:
        """Which server the sentinels name now; they have to agree."""
        (port,) = self.named()
        return next(one for one in self.servers if one.port == port)

    def replicas(self) -> list[Node]:
        """All servers but the master."""
        master = self.master()
        return [one for one in self.servers if one is not master]

    def wait_steady(self) -> None:
        """Waits until one is the master, all others follow it, and every sentinel knows all of that."""
        wait_for(self._steady, "one master, the others follow it, and the sentinels know")

    def _steady(self) -> bool:
        named = self.named()
        if len(named) > 1:
            return False
        master = next(one for one in self.servers if one.port in named)
        if master.replication().get("role") != "master":
            return False
        followers = [one.replication() for one in self.servers if one is not master]
        if any(one.get("master_link_status") != "up" or one.get("master_port") != master.port for one in followers):
            return False
        for one in self.sentinels:
            raw = one.client.execute_command("SENTINEL", "MASTER", NAME)  # type: ignore[no-untyped-call]
            view = raw if isinstance(raw, dict) else dict(zip(raw[::2], raw[1::2], strict=True))
            known = {_text(key): _text(value) for key, value in view.items()}
            if known["flags"] != "master" or int(known["num-slaves"]) != len(self.servers) - 1:
                return False
            if int(known["num-other-sentinels"]) != len(self.sentinels) - 1:
                return False
        return True

    def repair(self) -> None:
        """Brings back whatever a test killed or stopped."""
        for one in (*self.servers, *self.sentinels):
            if one.alive:
                one.cont()
            else:
                one.start()
        wait_for(self._reunited, "one master, the others follow it, and the sentinels know", 60)

    def _reunited(self) -> bool:
        named = self.named()
        for one in self.servers:
            if len(named) == 1 and one.port not in named and one.replication().get("role") == "master":
                # The sentinels would do it, too, but not before it has claimed to be one for eight seconds.
                one.client.replicaof("127.0.0.1", *named)
        return self._steady()


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@contextlib.contextmanager
def sentinel_set(
    kind: ServerKind | None = None,
    *,
    servers: int = 3,
    sentinels: int = 3,
    options: Sequence[str] = (),
    password: str = "",
) -> Iterator[SentinelSet]:
    """A new set; `options` are further arguments for each server.

    With a `password` the servers ask for it, and the sentinels for the same backwards.
    """
    binary = binary_of(kind)
    ports = free_ports(servers + sentinels)
    first = ports[0]
    watch = _WATCH.format(name=NAME, port=first)
    if password:
        options = (*options, "--requirepass", password, "--masterauth", password)
        watch += f"requirepass {password[::-1]}\nsentinel auth-pass {NAME} {password}\n"
    nodes = [Node(binary, port, (*_SERVER, *options), _of(first, port), password=password) for port in ports[:servers]]
    watching = [Node(binary, port, ("--sentinel",), watch, password=password[::-1]) for port in ports[servers:]]
    with contextlib.ExitStack() as stack:
        start_all((*nodes, *watching), stack)
        made = SentinelSet(nodes, watching, password)
        made.wait_steady()
        yield made


def _of(first: int, port: int) -> str:
    return "" if port == first else f"replicaof 127.0.0.1 {first}"


_SERVER = (
    *("--appendonly", "yes"),
    *("--save", ""),
    *("--repl-diskless-sync-delay", "0"),
    *("--repl-ping-replica-period", "1"),
    *("--maxmemory-policy", "noeviction"),
)
_WATCH = f"""
sentinel monitor {{name}} 127.0.0.1 {{port}} 2
sentinel down-after-milliseconds {{name}} {DOWN_AFTER_MS}
sentinel failover-timeout {{name}} 6000
sentinel parallel-syncs {{name}} 2
"""
