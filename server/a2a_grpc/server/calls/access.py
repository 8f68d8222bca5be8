"""The access log: one record of each call, whatever became of it, when it is over.

Nothing in it opens a door: no header, no credentials, no content, no query. Ids and names that callers make up are cut.
"""

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message
from google.rpc import code_pb2

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.core import ids
from a2a_grpc.wire.errors import A2AError, excerpt
from a2a_grpc.wire.headers import REQUEST_ID

log = logging.getLogger("a2a_grpc.access")

SYSTEMS: Final = {"GRPC": "grpc", "HTTP+JSON": "http_json", "JSONRPC": "jsonrpc"}
"""The values of `rpc.system.name` by binding; OpenTelemetry knows the first and the last."""
_LONGEST: Final = 128
_REQUEST_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")


@dataclass(slots=True)
class Record:
    """What there is to say of one call. Whoever writes it asks only for what it writes."""

    call: Call
    code: str
    reason: str
    milliseconds: float
    caller: str
    tenant: str
    task_id: str
    context_id: str
    request_id: str

    def message(self) -> str:
        """The record as a sentence."""
        call, task_id, request_id = self.call, self.task_id, self.request_id
        who = f"{self.caller} at {call.peer}" if self.caller else call.peer or "unknown"
        what = f"task {task_id}, request {request_id}" if task_id and request_id else task_id or f"request {request_id}"
        return (
            f"{call.method or 'a call'} over {call.binding} from {who}: "
            f"{self.reason or self.code} in {self.milliseconds:.1f} ms ({what})"
        )

    def fields(self) -> dict[str, str | float]:
        """The record by name, without what there is nothing to say of."""
        call = self.call
        fields: dict[str, str | float] = {
            "method": call.method,
            "binding": SYSTEMS[call.binding],
            "code": self.code,
            "reason": self.reason,
            "duration_ms": round(self.milliseconds, 2),
            "peer": call.peer,
            "caller": self.caller,
            "tenant": excerpt(self.tenant, _LONGEST),
            "task_id": self.task_id,
            "context_id": excerpt(self.context_id, _LONGEST),
            "request_id": self.request_id,
        }
        return {name: value for name, value in fields.items() if value != ""}


Sink = Callable[[Record], bool]
"""Writes a record; False where it is to go the usual way."""

_sink: Sink | None = None


def write_with(sink: Sink | None) -> None:
    """Let `sink` write the records: what `logging` does for each costs more than all else about it."""
    global _sink  # noqa: PLW0603 -- there is one log, as in `logging`
    _sink = sink


def request_id(call: Call) -> tuple[str, bool]:
    """The name that the caller and the log have for the call, and whether the caller has given it."""
    given = call.parameters.get(REQUEST_ID)
    return (given, True) if given is not None and _REQUEST_ID.fullmatch(given) else (ids.new_id(), False)


def outcome(error: BaseException | None) -> tuple[str, str]:
    """The google.rpc code of a call that ended with `error`, and the reason, "" where there is none."""
    if error is None:
        return "OK", ""
    if isinstance(error, A2AError):
        return code_pb2.Code.Name(error.kind.code), error.kind.reason
    # A defect, of which the caller hears no more either; else the caller has left.
    return ("INTERNAL" if isinstance(error, Exception) else "CANCELLED"), ""


def record(
    call: Call,
    *,
    begun: float,
    error: BaseException | None,
    request_id: str = "",
    caller: str = "",
    tenant: str = "",
    request: Message | None = None,
    answer: Message | None = None,
) -> None:
    """Put a call on record that began at `begun` (time.perf_counter) and is over.

    `caller` is the name of who was admitted, "" where nobody was; `answer` the response, or the first of a stream.
    """
    if not log.isEnabledFor(logging.INFO):
        return
    milliseconds = 1000 * (time.perf_counter() - begun)
    code, reason = outcome(error)
    task_id, context_id = about(request, answer)
    caller, task_id = excerpt(caller, _LONGEST), excerpt(task_id, _LONGEST)
    ended = Record(call, code, reason, milliseconds, caller, tenant, task_id, context_id, request_id)
    if _sink is None or not _sink(ended):
        log.info("%s", ended.message(), extra={"fields": ended.fields()})


def about(request: Message | None, answer: Message | None) -> tuple[str, str]:
    """The ids of the task and of the context that a call is about; "" where it is about none, or they are not known."""
    for message in (answer, request):
        if isinstance(message, a2a_pb2.Task):
            return message.id, message.context_id
        if isinstance(message, a2a_pb2.SendMessageResponse | a2a_pb2.StreamResponse):
            payload = message.WhichOneof("payload")
            if payload == "task":
                return message.task.id, message.task.context_id
            if payload is not None:
                part = getattr(message, payload)
                return part.task_id, part.context_id
        elif isinstance(message, a2a_pb2.SendMessageRequest):
            return message.message.task_id, message.message.context_id
        elif isinstance(message, a2a_pb2.ListTasksRequest):
            return "", message.context_id
        elif isinstance(message, a2a_pb2.GetTaskRequest | a2a_pb2.CancelTaskRequest | a2a_pb2.SubscribeToTaskRequest):
            return message.id, ""
        elif message is not None and message is request:
            # A webhook's config has an id of its own besides that of its task.
            return getattr(message, "task_id", ""), ""
    return "", ""
