"""What the cases look at in streams, and connections that can be lost."""

import contextlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.client.peers import Relay, relay
from tests.conformance.callers import Caller, Service, Stream, kinds, state
from tests.support.replica import Replica
from tests.support.waiting import wait_until


def ticks(first: int, last: int) -> str:
    """What the agent's `tick` says from one number to another."""
    return "".join(f"{number} " for number in range(first, last + 1))


def chunk(event: pb.StreamResponse) -> str:
    """The text of an artifact update; "" for other events."""
    return "".join(part.text for part in event.artifact_update.artifact.parts)


def chunks(events: Iterable[pb.StreamResponse]) -> str:
    """The text of all artifact updates."""
    return "".join(map(chunk, events))


async def until(stream: Stream, text: str) -> list[pb.StreamResponse]:
    """The events up to the chunk that is `text`."""
    events = []
    async for event in stream:
        events.append(event)
        if chunk(event) == text:
            return events
    pytest.fail(f"the stream ended without {text!r}: {kinds(events)}")


async def reached(caller: Caller, task_id: str, name: str, timeout: float = 10.0) -> pb.Task:
    """The task once it is in the state `name`."""

    async def look() -> bool:
        return state((await caller.get(task_id)).status.state) == name

    await wait_until(look, f"the task is {name}", timeout)
    return await caller.get(task_id)


@dataclass(frozen=True)
class _Address:
    grpc_addr: str
    http_url: str


@contextlib.asynccontextmanager
async def behind_relays(replica: Replica) -> AsyncIterator[tuple[Service, tuple[Relay, Relay]]]:
    """`replica` as seen through connections that can be reset."""
    scheme = "http://"
    async with relay(replica.grpc_addr) as grpc, relay(replica.http_url.removeprefix(scheme)) as http:
        yield _Address(grpc.address, scheme + http.address), (grpc, http)
