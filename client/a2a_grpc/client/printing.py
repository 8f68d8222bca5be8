"""What every command shows of an agent's text, and what it calls a state."""

from typing import Final

from a2a_grpc.pb import a2a_pb2

# An agent's text must not drive the terminal: no control characters but tab and newline, none that reorder the line.
UNSAFE: Final = dict.fromkeys(
    [
        *(c for c in range(0x20) if chr(c) not in "\t\n"),
        *range(0x7F, 0xA0),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    ]
)


def plain(text: str) -> str:
    """The text without what a terminal would obey."""
    return text.translate(UNSAFE)


def state_name(state: a2a_pb2.TaskState) -> str:
    """A state in the words of a person: "input required"."""
    known = a2a_pb2.TaskState.DESCRIPTOR.values_by_number.get(state)
    return known.name.removeprefix("TASK_STATE_").lower().replace("_", " ") if known else f"state {state}"
