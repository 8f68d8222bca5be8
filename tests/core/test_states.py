"""The transition table, pair by pair, against a table written from the specification by hand (4.1.3)."""

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import states

# Rows: from; columns: to, in the order of the proto. "x" is a legal move.
COLUMNS = ("SUBMITTED", "WORKING", "COMPLETED", "FAILED", "CANCELED", "INPUT_REQUIRED", "REJECTED", "AUTH_REQUIRED")
TABLE = {
    "UNSPECIFIED": "........",
    "SUBMITTED": ".xxxxxxx",
    "WORKING": ".xxxxxxx",
    "COMPLETED": "........",
    "FAILED": "........",
    "CANCELED": "........",
    "INPUT_REQUIRED": ".xxxxxxx",
    "REJECTED": "........",
    "AUTH_REQUIRED": ".xxxxxxx",
}


def of(name: str) -> a2a_pb2.TaskState:
    return states.parse(str(a2a_pb2.TaskState.Value(f"TASK_STATE_{name}")))


@pytest.mark.parametrize("current", TABLE)
@pytest.mark.parametrize("following", ["UNSPECIFIED", *COLUMNS])
def test_every_pair_of_states(current: str, following: str) -> None:
    expected = following in COLUMNS and TABLE[current][COLUMNS.index(following)] == "x"
    assert states.legal(of(current), of(following)) is expected


def test_the_table_knows_every_state_of_the_proto() -> None:
    declared = {value.number for value in a2a_pb2.TaskState.DESCRIPTOR.values}
    assert set(states.TRANSITIONS) == declared - {a2a_pb2.TASK_STATE_UNSPECIFIED}
    assert {of(name) for name in COLUMNS} == set(states.TRANSITIONS)


def test_a_state_is_terminal_where_nothing_leaves_it() -> None:
    assert {of(name) for name in ("COMPLETED", "FAILED", "CANCELED", "REJECTED")} == states.TERMINAL
    assert {state for state, following in states.TRANSITIONS.items() if not following} == states.TERMINAL
    assert {of("INPUT_REQUIRED"), of("AUTH_REQUIRED")} == states.INTERRUPTED
    assert states.SETTLED == states.TERMINAL | states.INTERRUPTED


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        states.TRANSITIONS[states.COMPLETED] = frozenset({states.WORKING})  # type: ignore[index]


@pytest.mark.parametrize("name", COLUMNS)
def test_a_state_survives_the_store(name: str) -> None:
    assert states.parse(str(int(of(name))).encode()) == of(name)
    assert states.name(of(name)) == f"TASK_STATE_{name}"
