"""Two replicas of the service while the master of their store is lost: killed, or stopped until it is replaced."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.server.core import ids
from tests.conformance.callers import GrpcCaller, Stream, say
from tests.conformance.expected import UNAVAILABLE
from tests.support.cluster import ClusterSet, cluster_set
from tests.support.nodes import Node
from tests.support.outage import callers
from tests.support.replica import Replica
from tests.support.sentinel import SentinelSet, sentinel_set
from tests.support.waiting import wait_until

AGENT = "tests.process.busy_agent:agent"
CHUNKS = 80
SLACK = 0.4
"""Seconds on top of the promised ones, for a machine that runs fifteen processes on two cores."""


@contextlib.contextmanager
def served(store: SentinelSet | ClusterSet) -> Iterator[tuple[Replica, Replica]]:
    env = {"A2A_STORE_REPLICAS": "1", "A2A_SHARDS": "16" if isinstance(store, ClusterSet) else "1"}
    with ExitStack() as stack:
        one, other = (Replica(agent=AGENT, redis_url=store.url, env=env) for _ in range(2))
        for replica in (one, other):
            stack.callback(replica.close)
            replica.start(wait=False)
        for replica in (one, other):
            replica.wait_ready()
        yield one, other


@pytest.fixture(params=["sentinel", "cluster"])
def store(request: pytest.FixtureRequest) -> Iterator[SentinelSet | ClusterSet]:
    with sentinel_set() if request.param == "sentinel" else cluster_set() as made:
        yield made


def master(store: SentinelSet | ClusterSet, task_id: str) -> Node:
    """Who holds this task."""
    return store.master() if isinstance(store, SentinelSet) else store.master_of(f"{{{ids.made_in(task_id):x}}}")


def replaced(store: SentinelSet | ClusterSet, lost: Node, task_id: str) -> bool:
    """Somebody else holds this task now, as all say who have a say in it."""
    if isinstance(store, SentinelSet):
        return lost.port not in store.named()
    return store.master_of(f"{{{ids.made_in(task_id):x}}}") is not lost


async def counted(stream: Stream) -> str:
    """What the chunks of the stream say, one after another, to its end."""
    said = ""
    async for event in stream:
        for part in event.artifact_update.artifact.parts:
            said += part.text
        if event.HasField("task"):
            for artifact in event.task.artifacts:
                said += "".join(part.text for part in artifact.parts)
    return said


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("fault", ["killed", "stopped"])
async def test_callers_of_a_service_whose_store_loses_its_master(store: SentinelSet | ClusterSet, fault: str) -> None:
    """B025: nothing that was acknowledged is lost, streams are whole, and everybody is told in time."""
    with ExitStack() as stack:
        one, other = await asyncio.to_thread(stack.enter_context, served(store))
        async with (
            GrpcCaller(one) as caller,
            GrpcCaller(other) as observer,
            caller.stream("SendStreamingMessage", say(f"count {CHUNKS}")) as stream,
        ):
            task_id = (await anext(stream)).task.id
            lost = master(store, task_id)
            async with observer.subscribe(task_id) as elsewhere, callers((one, other), "echo this") as seen:
                streams = asyncio.gather(counted(stream), counted(elsewhere))
                await wait_until(lambda: len(seen.sent) > 20, "calls are answered")
                if fault == "killed":
                    await asyncio.to_thread(lost.kill)
                else:
                    lost.stop()
                began = time.monotonic()
                await wait_until(lambda: replaced(store, lost, task_id), "there is another master", 15)
                await asyncio.sleep(0.2)
                if fault == "killed":
                    await asyncio.to_thread(lost.start)
                else:
                    lost.cont()
                async with asyncio.timeout(30):
                    said = await streams
                await wait_until(
                    lambda: [status for _, status in seen.readiness[-20:]] == [200] * 20, "both are ready", 15
                )

            whole = "".join(f"{number} " for number in range(1, CHUNKS + 1))
            assert said[0] == whole
            assert whole.endswith(said[1]) and said[1]

            assert seen.refused, "nobody noticed"
            assert any(status == 503 for _, status in seen.readiness), "readiness stayed"
            for took, error in seen.refused:
                assert error.is_of(UNAVAILABLE), f"{error}\n{one.log()}\n{other.log()}"
                assert error.retry_after, error
                assert took < 2 + SLACK, f"{error} after {took:.2f} s"
            assert any(start > began for start, _, _ in seen.sent), "nothing was answered afterwards"
            for _, _, acknowledged in seen.sent:
                task = await observer.get(acknowledged)
                assert task.status.state == pb.TASK_STATE_COMPLETED, task
            assert "Traceback" not in one.log() + other.log()
