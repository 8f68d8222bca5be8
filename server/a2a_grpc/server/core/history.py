"""How much of a task's history and artifacts an answer carries (specification 3.2.4, 3.1.4)."""

from a2a_grpc.pb import a2a_pb2


def trim(task: a2a_pb2.Task, history_length: int | None) -> a2a_pb2.Task:
    """Cut `task.history` in place to the most recent `history_length` messages; None means all, 0 none."""
    if history_length is not None and len(task.history) > history_length:
        del task.history[: len(task.history) - history_length]
    return task
