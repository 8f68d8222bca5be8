"""What went wrong, as the command line tells it: a code, a sentence, a hint, an exit code.

A failure that the protocol names keeps the protocol's name; what is the command's own has a code of the a2a-cli
specification (0.2, 11.4 and appendix D).
"""

from dataclasses import dataclass
from typing import Any, Final

from a2a_grpc.client.errors import (
    CardError,
    CardNotFoundError,
    CredentialsError,
    InvalidArtifactError,
    NotConnectedError,
    StreamBrokenError,
)
from a2a_grpc.wire.errors import (
    A2AError,
    DeadlineExceededError,
    InvalidArgumentError,
    JsonParseError,
    UnauthenticatedError,
    UnavailableError,
)

USAGE: Final = "A2ACLI_ERR_USAGE"
CARD_NOT_FOUND: Final = "A2ACLI_ERR_CARD_NOT_FOUND"
CARD_INVALID: Final = "A2ACLI_ERR_CARD_INVALID"
UNREACHABLE: Final = "A2ACLI_ERR_UNREACHABLE"
CREDENTIALS_MISSING: Final = "A2ACLI_ERR_CREDENTIALS_MISSING"
AUTH_FAILED: Final = "A2ACLI_ERR_AUTH_FAILED"
TIMEOUT: Final = "A2ACLI_ERR_TIMEOUT"
INTERNAL: Final = "A2ACLI_ERR_INTERNAL"

# What the specification (9.5) calls two that have other names here.
_NAMES: Final = {InvalidArgumentError.kind.reason: "InvalidParamsError", JsonParseError.kind.reason: "JSONParseError"}

FAILURE: Final = 1
INTERRUPTED: Final = 130
"""After Ctrl-C, as shells have it: 128 and the number of SIGINT."""

EXITS: Final = {
    USAGE: 2,
    CARD_NOT_FOUND: 3,
    CARD_INVALID: 1,
    UNREACHABLE: 3,
    CREDENTIALS_MISSING: 4,
    AUTH_FAILED: 4,
    TIMEOUT: 5,
    INTERNAL: 1,
}


class CommandError(Exception):
    """Something that the command itself cannot go on with; `code` is one of those above."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure as it is printed."""

    code: str
    message: str
    hint: str = ""
    a2a_code: str | None = None

    @property
    def exit(self) -> int:
        """The exit code."""
        return EXITS.get(self.code, FAILURE)

    def envelope(self) -> dict[str, Any]:
        """The error object of appendix B."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "hint": self.hint or None,
                "a2aCode": self.a2a_code,
            }
        }


def failure_of(error: A2AError | CommandError, *, hint: str = "", credentials: bool = False) -> Failure:
    """The failure that an error is. `credentials`: the agent has been shown some."""
    if isinstance(error, CommandError):
        return Failure(error.code, error.message, error.hint or hint)
    if isinstance(error, InvalidArtifactError) and error.task_id:
        hint = hint or f"Task {error.task_id} may still run: a2a-grpc task cancel ends it."
    return Failure(_code(error, credentials=credentials), error.message, hint, _a2a_code(error))


def _code(error: A2AError, *, credentials: bool) -> str:
    match error:
        case CardNotFoundError():
            return CARD_NOT_FOUND
        case CardError():
            return CARD_INVALID
        case NotConnectedError() | StreamBrokenError():
            return UNREACHABLE
        case CredentialsError():
            return CREDENTIALS_MISSING
        case UnauthenticatedError():
            return AUTH_FAILED if credentials else CREDENTIALS_MISSING
        case DeadlineExceededError():
            return TIMEOUT
        case UnavailableError():
            return UNREACHABLE
    return _NAMES.get(error.kind.reason, error.kind.name)


def _a2a_code(error: A2AError) -> str | None:
    # What only the client has seen was never on the wire.
    if isinstance(error, CardError | NotConnectedError | StreamBrokenError | CredentialsError):
        return None
    return error.kind.reason
