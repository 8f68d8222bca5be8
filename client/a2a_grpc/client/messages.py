"""Messages from a user to an agent."""

import uuid
from collections.abc import Iterable
from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value

from a2a_grpc.client.lists import listed
from a2a_grpc.pb import a2a_pb2


def message(
    text: str,
    *,
    data: Any = None,
    task_id: str = "",
    context_id: str = "",
    reference_task_ids: Iterable[str] = (),
    message_id: str = "",
) -> a2a_pb2.Message:
    """A user's message of one text part, and of one with `data` (JSON values) where there is some (4.1.4).

    `task_id` continues a task that waits for input; `context_id` starts a task beside others of one conversation. An
    agent knows a message by its id, a fresh one unless `message_id` says it: to send the same one again, keep the
    object.
    """
    made = a2a_pb2.Message(
        message_id=message_id or str(uuid.uuid4()),
        role=a2a_pb2.ROLE_USER,
        task_id=task_id,
        context_id=context_id,
        parts=[a2a_pb2.Part(text=text)],
        reference_task_ids=listed(reference_task_ids),
    )
    if data is not None:
        made.parts.add(data=ParseDict(data, Value()))
    return made
