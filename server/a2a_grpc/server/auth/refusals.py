"""Errors that say how to get in."""

import re
from collections.abc import Mapping

from a2a_grpc.server.auth.principal import ANONYMOUS, Principal
from a2a_grpc.wire.errors import PermissionDeniedError, UnauthenticatedError

_NOT_QUOTED = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")


def quoted(text: str) -> str:
    """`text` as a value in a challenge (RFC 6750, 3): it can neither end there, nor break a header or metadata."""
    return '"' + _NOT_QUOTED.sub("?", text) + '"'


class NotAdmittedError(UnauthenticatedError):
    """No credentials, or bad ones."""

    def __init__(
        self, message: str, *, challenge: str = "", metadata: Mapping[str, str] | None = None, scheme: str = ""
    ) -> None:
        """`challenge`: the value of WWW-Authenticate; `scheme`: of the bad credentials, "" where there were none."""
        super().__init__(message, metadata=metadata)
        self.challenge = challenge
        self.scheme = scheme


class ScopeMissingError(PermissionDeniedError):
    """The caller is known, and its token does not allow what it asks for."""

    def __init__(self, wanted: frozenset[str], has: frozenset[str], caller: Principal = ANONYMOUS) -> None:
        """`wanted`: all scopes that are needed; `has`: those of the caller; `caller`: who was not let in for it."""
        missing = " ".join(sorted(wanted - has))
        super().__init__(
            f"Your credentials do not include what this needs: the scope {missing}.",
            metadata={"missing_scope": missing},
        )
        self.caller = caller
        self.challenge = f'Bearer error="insufficient_scope", scope={quoted(" ".join(sorted(wanted)))}'
        """The value of WWW-Authenticate (RFC 6750, 3.1)."""
