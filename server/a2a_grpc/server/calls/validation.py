"""Whether a request is well formed: every problem of it at once (3.3.2, 5.7).

What the proto declares is checked from the proto: REQUIRED fields, non-empty required arrays, known enum values. What
only the text says stands below by name.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeAlias

from google.api import field_behavior_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import PayloadTooLargeError, Violation, invalid

MAX_PAGE_SIZE = 100
_MAX_VIOLATIONS = 100

# Lengths are limited for what becomes part of a key, an index or a log line.
_IDS = frozenset({"id", "task_id", "context_id", "message_id", "tenant", "page_token"})
_PAGE_TOKEN_LENGTH = 1024
# The tenant is part of a path, and the ids of path and body come back in errors and logs.
_PLAIN = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.Timestamp"})


class Validator:
    """Checks requests against the schema, the text and the limits of this service."""

    def __init__(self, *, max_message_bytes: int, max_nesting: int, max_id_length: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._max_nesting = max_nesting
        self._max_id_length = max_id_length

    def check(self, request: Message) -> None:
        """Raises: InvalidArgumentError with every violation; PayloadTooLargeError."""
        if request.ByteSize() > self._max_message_bytes:
            raise PayloadTooLargeError(
                f"The message has {request.ByteSize()} bytes; this service takes {self._max_message_bytes}. "
                "Send large content by url."
            )
        protojson.check_nesting(request, self._max_nesting)
        violations = [*_schema(request, "", self._max_id_length)]
        rules = _RULES.get(request.DESCRIPTOR.name)
        if rules is not None:
            violations.extend(rules(request))
        if violations:
            raise invalid(*violations[:_MAX_VIOLATIONS])


class _Field:
    """One field of a message type, as far as it has to be checked."""

    __slots__ = ("enum", "id", "message", "name", "repeated", "required")

    def __init__(self, descriptor: FieldDescriptor) -> None:
        behavior = descriptor.GetOptions().Extensions[field_behavior_pb2.field_behavior]
        self.name = descriptor.name
        self.required = field_behavior_pb2.REQUIRED in behavior
        self.repeated = descriptor.is_repeated
        self.enum = descriptor.enum_type
        self.id = descriptor.name in _IDS
        is_map = descriptor.message_type is not None and descriptor.message_type.GetOptions().map_entry
        plain = descriptor.message_type is not None and descriptor.message_type.full_name in _PLAIN
        self.message = descriptor.message_type is not None and not is_map and not plain

    @property
    def checked(self) -> bool:
        return bool(self.required or self.enum or self.id or self.message)


@cache
def _fields(descriptor: Descriptor) -> tuple[_Field, ...]:
    return tuple(field for field in map(_Field, descriptor.fields) if field.checked)


def _schema(message: Message, path: str, max_id_length: int) -> Iterator[Violation]:
    for field in _fields(message.DESCRIPTOR):
        where = path + field.name
        value = getattr(message, field.name)
        if field.repeated:
            if field.required and not value:
                yield Violation(where, "at least one is required")
            if field.message:
                for at, item in enumerate(value):
                    yield from _schema(item, f"{where}[{at}].", max_id_length)
        elif field.message:
            if message.HasField(field.name):
                yield from _schema(value, where + ".", max_id_length)
            elif field.required:
                yield Violation(where, "is required")
        elif field.required and not value:
            yield Violation(where, "is required")
        elif field.enum is not None and value not in field.enum.values_by_number:
            yield Violation(where, f"{value} is not a value of {field.enum.name}")
        elif field.id and len(value) > (_PAGE_TOKEN_LENGTH if field.name == "page_token" else max_id_length):
            yield Violation(where, f"is longer than {max_id_length} characters")
    if isinstance(message, a2a_pb2.Part) and message.WhichOneof("content") is None:
        yield Violation(f"{path}content", "a part needs one of text, raw, url or data")


_WithHistory: TypeAlias = a2a_pb2.SendMessageConfiguration | a2a_pb2.GetTaskRequest | a2a_pb2.ListTasksRequest


def _send(request: a2a_pb2.SendMessageRequest) -> Iterator[Violation]:
    if request.message.role == a2a_pb2.ROLE_AGENT:
        yield Violation("message.role", "must be ROLE_USER: what callers send is the user's word")
    yield from _history_length(request.configuration, "configuration.")


def _history_length(message: _WithHistory, path: str = "") -> Iterator[Violation]:
    if message.HasField("history_length") and message.history_length < 0:
        yield Violation(f"{path}history_length", "must not be negative; leave it out for the whole history")


def _list(request: a2a_pb2.ListTasksRequest) -> Iterator[Violation]:
    if request.HasField("page_size") and not 1 <= request.page_size <= MAX_PAGE_SIZE:
        yield Violation("page_size", f"must be between 1 and {MAX_PAGE_SIZE}, got {request.page_size}")
    if request.HasField("status_timestamp_after"):
        try:
            request.status_timestamp_after.ToJsonString()
        except ValueError:
            yield Violation("status_timestamp_after", "is no time between the years 1 and 9999")
    yield from _history_length(request)


_RULES: dict[str, Callable[..., Iterator[Violation]]] = {
    "SendMessageRequest": _send,
    "GetTaskRequest": _history_length,
    "ListTasksRequest": _list,
}
