"""Messages from a user to an agent."""

import uuid
from collections.abc import Iterable

from a2a_grpc.pb import a2a_pb2


def message(
    text: str, *, task_id: str = "", context_id: str = "", reference_task_ids: Iterable[str] = ()
) -> a2a_pb2.Message:
    """A user's message of one text part, under a fresh message id (specification 4.1.4).

    `task_id` continues a task that waits for input; `context_id` starts a task beside others of one conversation. An
    agent knows a message by its id: to send the same one again, keep the object.
    """
    return a2a_pb2.Message(
        message_id=str(uuid.uuid4()),
        role=a2a_pb2.ROLE_USER,
        task_id=task_id,
        context_id=context_id,
        parts=[a2a_pb2.Part(text=text)],
        reference_task_ids=reference_task_ids,
    )
