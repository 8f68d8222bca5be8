"""How much history an answer carries (3.2.4)."""

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core.history import trim


@pytest.mark.parametrize(
    ("length", "kept"),
    [
        (None, ["1", "2", "3"]),
        (0, []),
        (1, ["3"]),
        (2, ["2", "3"]),
        (3, ["1", "2", "3"]),
        (4, ["1", "2", "3"]),
        (2**31 - 1, ["1", "2", "3"]),
    ],
)
def test_the_most_recent_messages_are_kept(length: int | None, kept: list[str]) -> None:
    task = a2a_pb2.Task(history=[a2a_pb2.Message(message_id=at) for at in ("1", "2", "3")])
    trimmed = trim(task, length)
    assert trimmed is task
    assert [message.message_id for message in trimmed.history] == kept


def test_a_task_without_history_has_none_to_cut() -> None:
    assert trim(a2a_pb2.Task(), 0) == trim(a2a_pb2.Task(), 5) == trim(a2a_pb2.Task(), None) == a2a_pb2.Task()
