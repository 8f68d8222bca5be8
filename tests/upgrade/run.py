"""One rehearsal: pods, a front, load, and each pod replaced while it lasts."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

import grpc.aio

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from tests.support.replica import Replica
from tests.support.servers import fresh_store_server
from tests.upgrade.envoy import Envoy
from tests.upgrade.load import VERSION, Seen, call_over_grpc, call_over_http, stream_over
from tests.upgrade.rollout import LAG, Rollout

AGENT = "tests.process.busy_agent:agent"
PODS = 3
SHORT, LONG = 20, 80
"""Tenths of a second that turns last: those that end within the grace of a stop, and those that move to another pod."""
SETTINGS = {
    "A2A_DRAIN_DELAY": str(2 * LAG),
    "A2A_DRAIN_GRACE": "4",
    "A2A_CANCEL_GRACE": "2",
    "A2A_DRAIN_TIMEOUT": "14",
    "A2A_GRPC_MAX_CONNECTION_AGE": "15",
}


@dataclass
class Outcome:
    """What a rehearsal has shown."""

    seen: Seen
    codes: list[int]
    """Exit statuses of the pods that were replaced."""
    replaced: int
    wrong_streams: list[str]
    """What was missing or repeated, for each stream that was not as the log."""
    tasks: dict[str, int]
    """By context: how many tasks there are in the end."""
    moved: int
    """Tasks whose turn was begun more than once."""

    def problems(self) -> list[str]:
        """All that should not be."""
        twice = [
            f"{self.tasks[context]} tasks for {count} messages"
            for context, count in self.seen.sent.items()
            if self.tasks[context] != count
        ]
        ended = [f"a pod ended with {code}" for code in self.codes if code != 0]
        return [*self.seen.failures, *self.wrong_streams, *twice, *ended]


async def rehearse(rounds: int) -> Outcome:
    """Replaces all pods so many times, under load."""
    seen, going = Seen(), asyncio.Event()
    going.set()
    with fresh_store_server() as store:
        async with AsyncExitStack() as stack:
            front = Envoy()
            stack.callback(front.close)

            def make() -> Replica:
                pod = Replica(agent=AGENT, redis_url=store.url, env=SETTINGS)
                stack.callback(pod.close)
                return pod

            rollout = Rollout(front, make)
            await rollout.scale(PODS)
            front.start()
            await _reachable(front)
            async with asyncio.TaskGroup() as callers:
                for _ in range(3):
                    callers.create_task(call_over_grpc(front, seen, going.is_set))
                    callers.create_task(call_over_http(front, seen, going.is_set))
                for binding in ("GRPC", "HTTP+JSON", "JSONRPC"):
                    for ticks in (SHORT, LONG, LONG):
                        callers.create_task(stream_over(binding, front, seen, going.is_set, ticks))
                for _ in range(rounds):
                    await rollout.replace_all()
                going.clear()
            return await _judge(rollout, seen)


async def _reachable(front: Envoy) -> None:
    async with grpc.aio.insecure_channel(front.grpc_addr) as channel:
        await A2AServiceStub(channel).ListTasks(
            pb.ListTasksRequest(), metadata=VERSION, timeout=10, wait_for_ready=True
        )


async def _judge(rollout: Rollout, seen: Seen) -> Outcome:
    wrong: list[str] = []
    moved = 0
    async with grpc.aio.insecure_channel(rollout.pods[0].grpc_addr) as channel:
        stub = A2AServiceStub(channel)
        for stream in seen.streams:
            log = [
                event
                async for event in stub.SubscribeToTask(
                    pb.SubscribeToTaskRequest(id=stream.task_id),
                    metadata=(*VERSION, ("last-event-id", "0")),
                    timeout=10,
                )
            ]
            # Both begin with the task, as it was then; what follows is the log.
            if stream.events[1:] != log[1:]:
                wrong.append(f"{len(stream.events)} events of {len(log)} in the log of {stream.task_id}")
            moved += _begun(log) > 1
        tasks = {
            context: (
                await stub.ListTasks(pb.ListTasksRequest(context_id=context, page_size=1), metadata=VERSION, timeout=10)
            ).total_size
            for context in seen.sent
        }
    return Outcome(seen, rollout.codes, len(rollout.codes), wrong, tasks, moved)


def _begun(log: list[pb.StreamResponse]) -> int:
    """How many times a turn has counted from 1."""
    texts = [part.text for event in log for part in event.artifact_update.artifact.parts]
    return texts.count("1 ")
