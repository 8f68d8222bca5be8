"""Tokens: what a continuation or a session is made of, as one word of URL-safe text that another process can read.

They are not signed and hold no secret: what an agent lets somebody do is decided by the credentials of who calls.
"""

import base64
import binascii
import json
from typing import Any, Final, TypeVar, cast

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import InvalidArgumentError, excerpt

_VERSION: Final = 1
_MAX_LENGTH: Final = 256 * 1024
_MAX_NUMBER: Final = 10**18
"""The numbers of events have 18 digits at most."""

V = TypeVar("V")


def encode(kind: str, fields: dict[str, Any]) -> str:
    """A token of the JSON values `fields`."""
    text = json.dumps({"kind": kind, "version": _VERSION, **fields}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def state_word(state: a2a_pb2.TaskState | None) -> str:
    """A state as `Fields.state` reads it; one that this client does not know is none."""
    known = None if state is None else a2a_pb2.TaskState.DESCRIPTOR.values_by_number.get(state)
    return known.name if known else ""


class Fields:
    """The fields of a token. Whatever is wrong with one is an InvalidArgumentError."""

    def __init__(self, kind: str, token: str) -> None:
        """Raises InvalidArgumentError for what is no token of this kind, or one of another version."""
        self._kind = kind
        self._values = self._decode(token)
        found, version = self._values.get("kind"), self._values.get("version")
        if found != kind:
            raise self.wrong(f"it is one of a {excerpt(found, 32)}" if isinstance(found, str) else "it is of no kind")
        if version != _VERSION:
            raise self.wrong(f"it has version {excerpt(str(version), 32)}, and this client reads version {_VERSION}")

    def text(self, name: str) -> str:
        """A string; "" where it is not there."""
        return self._value(name, str, "")

    def number(self, name: str) -> int:
        """A whole number from 0 on; 0 where it is not there."""
        value = self._value(name, int, 0)
        if isinstance(value, bool) or not 0 <= value < _MAX_NUMBER:
            raise self.wrong(f"its {name} is no number of an event")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings."""
        values: list[object] = self._value(name, list, [])
        if not all(isinstance(value, str) for value in values):
            raise self.wrong(f"its {name} is no list of texts")
        return tuple(str(value) for value in values)

    def fields(self, name: str) -> dict[str, Any]:
        """A JSON object."""
        return self._value(name, dict, {})

    def state(self, name: str) -> a2a_pb2.TaskState | None:
        """The state of a task, by its name; None where it is not there."""
        value = self.text(name)
        if not value:
            return None
        if value not in a2a_pb2.TaskState.keys():  # noqa: SIM118 - no dict
            raise self.wrong(f"its {name} is no state of a task")
        return cast("a2a_pb2.TaskState", a2a_pb2.TaskState.Value(value))

    def wrong(self, problem: str) -> InvalidArgumentError:
        """The error for a token that has this problem."""
        return InvalidArgumentError(f"This is no token of a {self._kind} that can be used: {problem}.")

    def _decode(self, token: str) -> dict[str, Any]:
        token = token.strip()
        if len(token) > _MAX_LENGTH:
            raise self.wrong("it is too long")
        try:
            text = base64.b64decode(token + "=" * (-len(token) % 4), altchars="-_", validate=True)
            values: object = json.loads(text)
            json.dumps(values, ensure_ascii=False).encode()  # half of a surrogate pair is JSON, and no text
        except (binascii.Error, ValueError, RecursionError):
            raise self.wrong("it is something else, or only a part of one") from None
        if not isinstance(values, dict):
            raise self.wrong("it is something else")
        return values

    def _value(self, name: str, expected: type[V], default: V) -> V:
        value = self._values.get(name, default)
        if not isinstance(value, expected):
            raise self.wrong(f"its {name} is of the wrong type")
        return value
