"""The states of a task and the moves between them (specification 4.1.3, 3.1.1, 3.1.5).

The table below is the only place that knows which move is legal. Store scripts receive the expected state as an
argument; they never spell one.
"""

from types import MappingProxyType
from typing import cast

from a2a_grpc.pb import a2a_pb2

SUBMITTED = a2a_pb2.TASK_STATE_SUBMITTED
WORKING = a2a_pb2.TASK_STATE_WORKING
COMPLETED = a2a_pb2.TASK_STATE_COMPLETED
FAILED = a2a_pb2.TASK_STATE_FAILED
CANCELED = a2a_pb2.TASK_STATE_CANCELED
INPUT_REQUIRED = a2a_pb2.TASK_STATE_INPUT_REQUIRED
REJECTED = a2a_pb2.TASK_STATE_REJECTED
AUTH_REQUIRED = a2a_pb2.TASK_STATE_AUTH_REQUIRED

TERMINAL = frozenset({COMPLETED, FAILED, CANCELED, REJECTED})
INTERRUPTED = frozenset({INPUT_REQUIRED, AUTH_REQUIRED})
# A blocking call returns here, and so does nobody's turn: the caller or the author has the next word (3.2.2).
SETTLED = TERMINAL | INTERRUPTED

_FROM_LIVE = frozenset({WORKING, COMPLETED, FAILED, CANCELED, INPUT_REQUIRED, REJECTED, AUTH_REQUIRED})

# state -> the states it may move to. A state may follow itself where a new status message is news (progress, a second
# question). Nothing leaves a terminal state, and nothing goes back to SUBMITTED.
TRANSITIONS: MappingProxyType[a2a_pb2.TaskState, frozenset[a2a_pb2.TaskState]] = MappingProxyType(
    {
        SUBMITTED: _FROM_LIVE,
        WORKING: _FROM_LIVE,
        INPUT_REQUIRED: _FROM_LIVE,
        AUTH_REQUIRED: _FROM_LIVE,
        COMPLETED: frozenset(),
        FAILED: frozenset(),
        CANCELED: frozenset(),
        REJECTED: frozenset(),
    }
)


def legal(current: a2a_pb2.TaskState, following: a2a_pb2.TaskState) -> bool:
    """Whether a task in `current` may move to `following`."""
    return following in TRANSITIONS.get(current, frozenset())


def label(state: a2a_pb2.TaskState) -> str:
    """The name of `state` where it is measured, such as `working`."""
    return name(state).removeprefix("TASK_STATE_").lower()


def parse(number: str | bytes) -> a2a_pb2.TaskState:
    """The state that the store keeps as `number`."""
    return cast("a2a_pb2.TaskState", int(number))


def name(state: a2a_pb2.TaskState) -> str:
    """The name of `state` as the protocol spells it, such as `TASK_STATE_WORKING`."""
    return a2a_pb2.TaskState.Name(state)
