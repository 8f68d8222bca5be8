"""What is counted of refusals for want of credentials or of rights."""

from a2a_grpc.server.auth.principal import ANONYMOUS, Principal
from a2a_grpc.server.auth.refusals import NotAdmittedError, ScopeMissingError
from a2a_grpc.server.telemetry.instruments import AUTHENTICATION_FAILURES
from a2a_grpc.wire.errors import PermissionDeniedError, UnauthenticatedError


def count_failure(error: UnauthenticatedError | PermissionDeniedError, principal: Principal = ANONYMOUS) -> None:
    """Count a refusal by scheme and kind; `principal`: who it was, where that is known."""
    if isinstance(error, PermissionDeniedError):
        schemes = "+".join(sorted(principal.schemes))
        AUTHENTICATION_FAILURES.add(schemes, "scope" if isinstance(error, ScopeMissingError) else "denied")
        return
    scheme = error.scheme if isinstance(error, NotAdmittedError) else ""
    AUTHENTICATION_FAILURES.add(scheme, "invalid" if scheme else "missing")
