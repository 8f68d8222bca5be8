"""ProtoJSON as A2A uses it."""

from typing import Any, TypeVar

from google.protobuf.message import Message

DEFAULT_NESTING = 32
M = TypeVar("M", bound=Message)


def to_dict(message: Message) -> dict[str, Any]:
    raise NotImplementedError


def dumps(message: Message) -> bytes:
    raise NotImplementedError


def parse(data: bytes, max_nesting: int = DEFAULT_NESTING) -> Any:
    raise NotImplementedError


def from_dict(value: object, message_type: type[M], max_nesting: int = DEFAULT_NESTING) -> M:
    raise NotImplementedError


def loads(data: bytes, message_type: type[M], max_nesting: int = DEFAULT_NESTING) -> M:
    raise NotImplementedError


def check_nesting(message: Message, max_nesting: int = DEFAULT_NESTING) -> None:
    raise NotImplementedError
