"""The error for a limit that is reached, wherever it is noticed."""

from a2a_grpc.wire.errors import QuotaExceededError, Violation


def limit_reached(message: str, subject: str, limit: str, *, retry_after: float | None = None) -> QuotaExceededError:
    """The error whose QuotaFailure names `subject`, as WHOSE:WHAT, and says what the `limit` is.

    `retry_after` in seconds; None: time alone does not help.
    """
    return QuotaExceededError(message, quotas=[Violation(subject, f"The limit is {limit}.")], retry_after=retry_after)
