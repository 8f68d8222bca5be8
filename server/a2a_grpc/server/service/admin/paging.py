"""Pages of a listing for operators: how long they are, and tokens that hold where the next one begins."""

from hashlib import blake2b
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from a2a_grpc.server.core import pages
from a2a_grpc.server.core.pages import Cursor
from a2a_grpc.wire.errors import InvalidArgumentError, Violation, invalid

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 1000


class _Listing(Protocol):
    page_size: int
    page_token: str


R = TypeVar("R", bound=Message)


def page_size(request: _Listing) -> int:
    """How many are wanted. Raises: InvalidArgumentError."""
    if not 0 <= request.page_size <= MAX_PAGE_SIZE:
        raise invalid(Violation("page_size", f"must be between 0 and {MAX_PAGE_SIZE}"))
    return request.page_size or DEFAULT_PAGE_SIZE


def cursor_of(token: str, request: Message) -> Cursor | None:
    """Where the page begins that `token` stands for; None for the first. Raises: InvalidArgumentError."""
    if not token:
        return None
    try:
        return pages.decode(token, _filters(request))
    except ValueError as error:
        raise bad_token(error) from None


def token_of(cursor: Cursor | None, request: Message) -> str:
    """The token of the page after `cursor`, good for requests with the same filters; "" for None."""
    return "" if cursor is None else pages.encode(cursor, _filters(request))


def bad_token(error: ValueError) -> InvalidArgumentError:
    """The error for a token that cannot be used."""
    return InvalidArgumentError(
        "The page token cannot be used.",
        violations=[Violation("page_token", f"{error}; send that of the page before with the same filters")],
    )


def _filters(request: Message) -> bytes:
    bound = type(request)()
    bound.CopyFrom(request)
    bound.ClearField("page_size")
    bound.ClearField("page_token")
    return blake2b(bound.SerializeToString(deterministic=True), digest_size=16).digest()
