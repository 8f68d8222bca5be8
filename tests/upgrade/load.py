"""Callers that go through the front as users do: calls with the documented retries, and streams that are resumed."""

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc
import grpc.aio

from a2a_grpc.client import A2AClient, A2AError, message
from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from tests.support.replica import ROOT
from tests.upgrade.envoy import Envoy

VERSION = (("a2a-version", "1.0"),)
_PAUSE = 0.05
_TIMEOUT = 30.0


def documented_policy() -> str:
    """The service config of docs/DEPLOY.md, as it stands there."""
    found: list[str] = [
        block
        for block in re.findall(r"```json\n(.*?)```", (ROOT / "docs/DEPLOY.md").read_text(), re.DOTALL)
        if "retryPolicy" in block
    ]
    [policy] = found
    json.loads(policy)
    return policy


@dataclass
class Stream:
    """One message that was streamed, and what came of it."""

    task_id: str
    events: list[pb.StreamResponse]


@dataclass
class Seen:
    """What the callers have seen."""

    calls: dict[str, int] = field(default_factory=dict)
    """By binding and operation: how many were answered."""
    failures: list[str] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    """By context: how many messages."""
    streams: list[Stream] = field(default_factory=list)

    def answered(self, what: str) -> None:
        self.calls[what] = self.calls.get(what, 0) + 1


def _say(seen: Seen, context: str, text: str) -> pb.SendMessageRequest:
    seen.sent[context] = seen.sent.get(context, 0) + 1
    return pb.SendMessageRequest(message=message(text, context_id=context))


async def call_over_grpc(front: Envoy, seen: Seen, going: Callable[[], bool]) -> None:
    """Calls with bare stubs and the documented policy."""
    options = (("grpc.service_config", documented_policy()), ("grpc.use_local_subchannel_pool", 1))
    context = uuid.uuid4().hex
    async with grpc.aio.insecure_channel(front.grpc_addr, options) as channel:
        stub = A2AServiceStub(channel)
        number = 0
        while going():
            number += 1
            try:
                request = _say(seen, context, f"say {number}")
                answer = await stub.SendMessage(request, metadata=VERSION, timeout=_TIMEOUT)
                assert _said(answer.task) == str(number), answer
                seen.answered("GRPC SendMessage")
                found = await stub.GetTask(pb.GetTaskRequest(id=answer.task.id), metadata=VERSION, timeout=_TIMEOUT)
                assert found == answer.task
                seen.answered("GRPC GetTask")
                page = await stub.ListTasks(
                    pb.ListTasksRequest(context_id=context, page_size=1), metadata=VERSION, timeout=_TIMEOUT
                )
                assert page.tasks[0].id == answer.task.id
                seen.answered("GRPC ListTasks")
            except grpc.aio.AioRpcError as error:
                seen.failures.append(f"GRPC: {error.code().name} {error.details()}")
            await asyncio.sleep(_PAUSE)


async def call_over_http(front: Envoy, seen: Seen, going: Callable[[], bool]) -> None:
    """Calls with this project's client, which tries again what its page says."""
    context = uuid.uuid4().hex
    async with _client(front, "HTTP+JSON") as client:
        number = 0
        while going():
            number += 1
            try:
                answer = await client.send_message(_say(seen, context, f"say {number}"), timeout=_TIMEOUT)
                assert _said(answer.task) == str(number), answer
                seen.answered("HTTP+JSON SendMessage")
                assert await client.get_task(pb.GetTaskRequest(id=answer.task.id), timeout=_TIMEOUT) == answer.task
                seen.answered("HTTP+JSON GetTask")
            except A2AError as error:
                seen.failures.append(f"HTTP+JSON: {error!r}")
            await asyncio.sleep(_PAUSE)


async def stream_over(binding: str, front: Envoy, seen: Seen, going: Callable[[], bool], ticks: int) -> None:
    """Streams of this project's client, which resumes those that are cut; each lasts `ticks` tenths of a second."""
    context = uuid.uuid4().hex
    async with _client(front, binding) as client:
        while going():
            events: list[pb.StreamResponse] = []
            try:
                async for event in client.send_streaming_message(_say(seen, context, f"count {ticks}")):
                    events.append(event)  # noqa: PERF401 - what came before a failure counts
            except A2AError as error:
                seen.failures.append(f"{binding} stream: {error!r}")
            else:
                seen.streams.append(Stream(events[0].task.id, events))


def _said(task: pb.Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


@asynccontextmanager
async def _client(front: Envoy, binding: str) -> AsyncIterator[A2AClient]:
    url = front.grpc_addr if binding == "GRPC" else front.http_url
    interface = pb.AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")
    async with await A2AClient.connect(interface) as client:
        yield client
