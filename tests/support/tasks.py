"""What tests of the store and of the engine make tasks of."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids, states
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.core.events import set_timestamp, status_changed
from a2a_grpc.server.store.records import Append, Dedupe, Origin, Scope, StoredTask
from a2a_grpc.server.store.tasks import TaskStore

ALICE = Scope(tenant="", owner="alice")
BOB = Scope(tenant="", owner="bob")
DAY = 86_400.0


@contextlib.asynccontextmanager
async def open_store(url: str, replica: str = "r1", **settings: Any) -> AsyncIterator[TaskStore]:
    """A TaskStore on the server at `url`, checked, with the settings of the service where none are given."""
    given: dict[str, Any] = {
        "shards": 1, "timeout": 1.5, "task_ttl": 7 * DAY, "patience": 30.0, "max_ready": 100,
        "log_events": 10_000, **settings,
    }  # fmt: skip
    store = TaskStore(url, replica=replica, **given)
    try:
        await store.check()
        yield store
    finally:
        await store.close()


def says(text: str, message_id: str = "", **fields: Any) -> a2a_pb2.Message:
    """A caller's message."""
    return a2a_pb2.Message(
        message_id=message_id or ids.new_id(), role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text=text)], **fields
    )


def origin(text: str, message_id: str = "") -> Origin:
    """A message as the store takes it, with some things that come along."""
    request = a2a_pb2.SendMessageRequest(tenant="")
    request.metadata.update({"said": text})
    return Origin(message=says(text, message_id), request=request, extensions=("urn:one", "urn:two"))


def dedupe(message_id: str, *, digest: str = "digest", call_id: str = "", window_ms: int = 60_000) -> Dedupe:
    return Dedupe(message_id=message_id, digest=digest, window_ms=window_ms, call_id=call_id or ids.new_id())


def new_task(
    store: TaskStore, first: Origin, scope: Scope = ALICE, context: str = "context", stamp_ms: int | None = None
) -> a2a_pb2.StreamResponse:
    """The first entry of a task's log, as the engine makes it."""
    message = first.message
    message.context_id = context
    message.task_id = store.new_task_id(scope, message.message_id)
    entry = a2a_pb2.StreamResponse()
    entry.task.id = message.task_id
    entry.task.context_id = context
    entry.task.status.state = states.SUBMITTED
    set_timestamp(entry.task.status.timestamp, now_ms() if stamp_ms is None else stamp_ms)
    entry.task.history.append(message)
    return entry


async def create(
    store: TaskStore,
    text: str = "hello",
    *,
    scope: Scope = ALICE,
    context: str = "context",
    claim: bool = True,
    stamp_ms: int | None = None,
    limit: int = 3,
) -> StoredTask:
    """A new task, as it stands in the store."""
    first = origin(text)
    entry = new_task(store, first, scope, context, stamp_ms)
    placed = await store.create(entry, scope, first, dedupe(first.message.message_id), claim=claim, limit=limit)
    return await read(store, placed.task_id)


async def read(store: TaskStore, task_id: str) -> StoredTask:
    stored = await store.read(task_id)
    assert stored is not None, f"there is no task {task_id}"
    return stored


def status(
    stored: StoredTask, state: a2a_pb2.TaskState, words: str = "", stamp_ms: int | None = None
) -> a2a_pb2.StreamResponse:
    message = None
    if words:
        message = a2a_pb2.Message(message_id=words, role=a2a_pb2.ROLE_AGENT, parts=[a2a_pb2.Part(text=words)])
    return status_changed(stored.task_id, stored.context, state, now_ms() if stamp_ms is None else stamp_ms, message)


def chunk(stored: StoredTask, text: str, artifact_id: str = "a") -> a2a_pb2.StreamResponse:
    response = a2a_pb2.StreamResponse()
    update = response.artifact_update
    update.task_id, update.context_id, update.append = stored.task_id, stored.context, True
    update.artifact.artifact_id = artifact_id
    update.artifact.parts.add(text=text)
    return response


def step(stored: StoredTask, operation: int, *entries: a2a_pb2.StreamResponse, **fields: Any) -> Append:
    """The append of `entries` by the holder of `stored`, with the state that the last status among them says."""
    last = next((entry.status_update.status for entry in reversed(entries) if entry.HasField("status_update")), None)
    given: dict[str, Any] = {
        "task_id": stored.task_id, "scope": stored.scope, "context": stored.context, "epoch": stored.epoch,
        "operation": operation, "expected": stored.state, "entries": [entry.SerializeToString() for entry in entries],
    }  # fmt: skip
    if last is not None:
        given |= {
            "state": last.state,
            "stamp_ms": last.timestamp.seconds * 1000 + last.timestamp.nanos // 1_000_000,
            "terminal": last.state in states.TERMINAL,
            "release": last.state in states.TERMINAL,
        }
    return Append(**(given | fields))


def facts(stored: StoredTask) -> dict[str, Any]:
    """Everything about `stored`, for comparison."""
    fields = {field.name: getattr(stored, field.name) for field in dataclasses.fields(stored)}
    return fields | {"fold": stored.fold.task()}
