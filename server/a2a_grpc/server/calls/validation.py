"""Whether a request is well formed: every problem of it at once (3.3.2, 5.7).

What the proto declares is checked from the proto: REQUIRED fields, non-empty required arrays, known enum values. What
only the text says stands below by name.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from google.api import field_behavior_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import PayloadTooLargeError, Violation, invalid

MAX_PAGE_SIZE = 100
_MAX_VIOLATIONS = 100

# Lengths are limited for what becomes part of a key, an index or a log line.
_IDS = frozenset({"id", "task_id", "context_id", "message_id", "tenant", "page_token"})
_PAGE_TOKEN_LENGTH = 1024
INLINE_WEBHOOK: Final = "task_push_notification_config"
MISSING: Final = "is required"
# Free-form data and times: `protojson` knows what they may hold.
_FREE = frozenset({"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.Timestamp"})


CheckWebhook: TypeAlias = Callable[[a2a_pb2.TaskPushNotificationConfig, str], Iterable[Violation]]


class Validator:
    """Checks requests against the schema, the text and the limits of this service."""

    def __init__(self, *, max_nesting: int, max_id_length: int, webhook: CheckWebhook | None = None) -> None:
        """`webhook` gives what is wrong with a push notification config whose fields are named behind a path."""
        self._webhook = webhook
        self._max_nesting = max_nesting
        self._max_id_length = max_id_length

    def check(self, request: Message, max_message_bytes: int) -> None:
        """Raises: InvalidArgumentError with every violation; PayloadTooLargeError."""
        if request.ByteSize() > max_message_bytes:
            raise PayloadTooLargeError(
                f"The message has {request.ByteSize()} bytes; this service takes {max_message_bytes}. "
                "Send large content by url."
            )
        violations: list[Violation] = []
        _check(request, "", self._max_id_length, self._max_nesting, violations)
        rules = _RULES.get(request.DESCRIPTOR.name)
        if rules is not None:
            violations.extend(rules(request))
        if self._webhook is not None:
            violations.extend(self._of_webhook(request, self._webhook))
        if violations:
            raise invalid(*violations[:_MAX_VIOLATIONS])

    @staticmethod
    def _of_webhook(request: Message, check: CheckWebhook) -> Iterable[Violation]:
        if isinstance(request, a2a_pb2.TaskPushNotificationConfig):
            return check(request, "")
        if isinstance(request, a2a_pb2.SendMessageRequest) and request.configuration.HasField(INLINE_WEBHOOK):
            return check(request.configuration.task_push_notification_config, f"configuration.{INLINE_WEBHOOK}.")
        return ()


class _Field(NamedTuple):
    """What has to be checked of one field that is set."""

    name: str
    repeated: bool
    message: bool
    free: bool
    """Free-form data, or a time: what it may hold is said in `protojson`."""
    enum: EnumDescriptor | None
    max_length: int | None


class _Type(NamedTuple):
    """What has to be checked of one message type."""

    required: dict[int, tuple[str, str]]
    """The REQUIRED fields by number: their names, and what to say where one is missing."""
    fields: dict[int, _Field]
    is_part: bool


@cache
def _type(descriptor: Descriptor, max_id_length: int) -> _Type:
    required: dict[int, tuple[str, str]] = {}
    fields: dict[int, _Field] = {}
    for field in descriptor.fields:
        if field_behavior_pb2.REQUIRED in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]:
            required[field.number] = (field.name, "at least one is required" if field.is_repeated else MISSING)
        of = field.message_type
        free = of is not None and of.full_name in _FREE
        walked = of is not None and not of.GetOptions().map_entry and not free
        max_length = _PAGE_TOKEN_LENGTH if field.name == "page_token" else max_id_length
        if walked or free or field.enum_type or field.name in _IDS:
            fields[field.number] = _Field(
                field.name, field.is_repeated, walked, free, field.enum_type, max_length if field.name in _IDS else None
            )
    return _Type(required, fields, descriptor is a2a_pb2.Part.DESCRIPTOR)


def _check(message: Message, path: str, max_id_length: int, max_nesting: int, found: list[Violation]) -> None:
    """Add to `found` what the schema has against `message`. Only fields that are set cost time."""
    required, fields, is_part = _type(message.DESCRIPTOR, max_id_length)
    missing = required.copy()
    for descriptor, value in message.ListFields():
        # Its name would be made anew each time that it is asked for.
        number = descriptor.number
        missing.pop(number, None)
        field = fields.get(number)
        if field is None:
            continue
        name, repeated, is_message, free, enum, max_length = field
        if is_message:
            if repeated:
                for at, item in enumerate(value):
                    _check(item, f"{path}{name}[{at}].", max_id_length, max_nesting, found)
            else:
                _check(value, f"{path}{name}.", max_id_length, max_nesting, found)
        elif free:
            if (problem := protojson.fault(value, max_nesting)) is not None:
                found.append(Violation(path + name, problem))
        elif enum is not None:
            unknown = [one for one in (value if repeated else (value,)) if one not in enum.values_by_number]
            found.extend(Violation(path + name, f"{one} is not a value of {enum.name}") for one in unknown)
        elif max_length is not None and len(value) > max_length:
            found.append(Violation(path + name, f"is longer than {max_length} characters"))
    for name, problem in missing.values():
        found.append(Violation(path + name, problem))
    if is_part and message.WhichOneof("content") is None:
        found.append(Violation(f"{path}content", "a part needs one of text, raw, url or data"))


_WithHistory: TypeAlias = a2a_pb2.SendMessageConfiguration | a2a_pb2.GetTaskRequest | a2a_pb2.ListTasksRequest


def _send(request: a2a_pb2.SendMessageRequest) -> Iterator[Violation]:
    if request.message.role == a2a_pb2.ROLE_AGENT:
        yield Violation("message.role", "must be ROLE_USER: what callers send is the user's word")
    if request.HasField("configuration"):
        yield from _history_length(request.configuration, "configuration.")


def _history_length(message: _WithHistory, path: str = "") -> Iterator[Violation]:
    if message.HasField("history_length") and message.history_length < 0:
        yield Violation(f"{path}history_length", "must not be negative; leave it out for the whole history")


def _list(request: a2a_pb2.ListTasksRequest) -> Iterator[Violation]:
    if request.HasField("page_size") and not 1 <= request.page_size <= MAX_PAGE_SIZE:
        yield Violation("page_size", f"must be between 1 and {MAX_PAGE_SIZE}, got {request.page_size}")
    yield from _history_length(request)


def _list_webhooks(request: a2a_pb2.ListTaskPushNotificationConfigsRequest) -> Iterator[Violation]:
    if request.page_size < 0:
        yield Violation("page_size", "must not be negative; 0 stands for the default")


def _create_webhook(request: a2a_pb2.TaskPushNotificationConfig) -> Iterator[Violation]:
    # Not REQUIRED by the schema: in a message it is the server that fills it in.
    if not request.task_id:
        yield Violation("task_id", MISSING)


_RULES: dict[str, Callable[..., Iterator[Violation]]] = {
    "SendMessageRequest": _send,
    "GetTaskRequest": _history_length,
    "ListTasksRequest": _list,
    "ListTaskPushNotificationConfigsRequest": _list_webhooks,
    "TaskPushNotificationConfig": _create_webhook,
}
