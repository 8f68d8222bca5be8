"""How long callers of two replicas go without an answer when the master of the store is lost.

`python -m bench.failover [--rounds N]` prints a table in Markdown. It starts everything itself on 127.0.0.1: three
servers and three sentinels that take a silent master for lost after a second, or a cluster of three masters with a
replica each that does so after a second and a half.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from dataclasses import dataclass
from statistics import median

from a2a_grpc.server.core import ids
from tests.support.cluster import ClusterSet, cluster_set
from tests.support.nodes import Node
from tests.support.outage import Seen, callers
from tests.support.replica import Replica
from tests.support.sentinel import SentinelSet, sentinel_set
from tests.support.waiting import wait_until

_AGENT = "tests.process.echo_agent:agent"
_BEFORE = 1.0
_AFTER = 2.0


@dataclass
class Round:
    """One loss of a master. Times in seconds."""

    named: float
    """Until the sentinels, or the nodes, named another master."""
    outage: float
    """The longest time without an answer about tasks that the lost one held."""
    seen: Seen


async def lose(store: SentinelSet | ClusterSet, replicas: list[Replica], fault: str) -> Round:
    """Lose a master once, by `fault`."""
    lost: Node = store.master() if isinstance(store, SentinelSet) else store.master_of("{0}")

    holders = {} if isinstance(store, SentinelSet) else {n: store.master_of(f"{{{n:x}}}") for n in range(16)}

    def held(task_id: str) -> bool:
        return not holders or holders[ids.made_in(task_id)] is lost

    def replaced() -> bool:
        if isinstance(store, SentinelSet):
            return lost.port not in store.named()
        return store.master_of("{0}") is not lost

    async with callers(replicas, "hello") as seen:
        await asyncio.sleep(_BEFORE)
        if fault == "killed":
            await asyncio.to_thread(lost.kill)
        else:
            lost.stop()
        began = time.monotonic()
        await wait_until(replaced, "there is another master", 30)
        named = time.monotonic() - began
        if fault == "stopped":
            lost.cont()
        count = len(seen.sent)
        await wait_until(lambda: len(seen.sent) > count + 40, "calls are answered", 20)
        await asyncio.sleep(_AFTER)
    await asyncio.to_thread(store.repair)
    return Round(named, seen.outage(held), seen)


def _times(seconds: list[float]) -> str:
    return f"{median(seconds):.2f} / {max(seconds):.2f}"


def main() -> int:
    """Measure and print. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    sys.stdout.write(f"{time.strftime('%Y-%m-%d')}, {rounds} rounds of each\n\n")
    sys.stdout.write("| store | master | another named, s | outage, s | answered | refused | slowest refusal, s |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|\n")
    for name, shards in (("Sentinel", 1), ("Cluster", 16)):
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(sentinel_set()) if shards == 1 else stack.enter_context(cluster_set())
            # A master of the cluster has one replica: when that takes over, none is left to wait for.
            env = {"A2A_STORE_REPLICAS": "1" if shards == 1 else "0", "A2A_SHARDS": str(shards)}
            replicas = [Replica(agent=_AGENT, redis_url=store.url, env=env) for _ in range(2)]
            for replica in replicas:
                stack.callback(replica.close)
                replica.start(wait=False)
            for replica in replicas:
                replica.wait_ready()
            for fault in ("killed", "stopped"):
                found = [asyncio.run(lose(store, replicas, fault)) for _ in range(rounds)]
                refused = [took for one in found for took, _ in one.seen.refused]
                sys.stdout.write(
                    f"| {name} | {fault} | {_times([one.named for one in found])} "
                    f"| {_times([one.outage for one in found])} | {sum(len(one.seen.sent) for one in found)} "
                    f"| {len(refused)} | {max(refused, default=0):.2f} |\n"
                )
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
