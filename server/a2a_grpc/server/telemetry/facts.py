"""What is known of the work that a task does, for whatever is logged meanwhile: by the service, and by an agent."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

_NONE: Final[Mapping[str, str]] = {}
_FACTS: ContextVar[Mapping[str, str]] = ContextVar("a2a_grpc_facts", default=_NONE)


def know(**facts: str) -> None:
    """From here on, in this task and in what it begins, these are the facts; those that are "" are left out.

    They stand in the log: nothing that opens a door, and nothing long that callers make up.
    """
    _FACTS.set({name: value for name, value in facts.items() if value})


def know_more(**facts: str) -> None:
    """As `know`, besides what is known already."""
    _FACTS.set({**_FACTS.get(), **{name: value for name, value in facts.items() if value}})


def known() -> Mapping[str, str]:
    """The facts of this task."""
    return _FACTS.get()
