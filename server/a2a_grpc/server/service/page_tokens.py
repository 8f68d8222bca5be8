"""The page tokens of callers (3.1.4)."""

from a2a_grpc.server.core import pages
from a2a_grpc.wire.errors import InvalidArgumentError, Violation


def cursor_of(token: str, bound_to: bytes) -> pages.Cursor | None:
    """Where the page begins that `token` stands for in the listing of this digest; None for the first.

    Raises: InvalidArgumentError for a token of another listing, or of nobody.
    """
    if not token:
        return None
    try:
        return pages.decode(token, bound_to)
    except ValueError as error:
        problem = f"{error}; send the token of the previous page with the same filters, or none for the first page"
        raise InvalidArgumentError(
            "The page token cannot be used.", violations=[Violation("page_token", problem)]
        ) from None
