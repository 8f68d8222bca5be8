"""What an error adds to an HTTP response besides its body."""

from math import ceil

from a2a_grpc.server.bindings.asgi.types import Header
from a2a_grpc.server.calls.call import Call
from a2a_grpc.wire.errors import A2AError, MethodNotAllowedError, UnauthenticatedError, UnsupportedMediaTypeError


def error_headers(error: A2AError, call: Call | None, challenge: bytes) -> list[Header]:
    """Retry-After, WWW-Authenticate and Allow, as far as `error` calls for them.

    A 401 must carry a challenge that applies (RFC 9110 section 15.5.2): `challenge`, unless the pipeline has left one
    of its own in the response parameters of `call`. Where no credentials would help none applies.
    """
    headers: list[Header] = []
    if error.retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, ceil(error.retry_after))))
    if isinstance(error, UnauthenticatedError) and not (call and _challenged(call)):
        headers.append((b"www-authenticate", challenge))
    elif isinstance(error, MethodNotAllowedError):
        headers.append((b"allow", ", ".join(allowed_verbs(error)).encode()))
    elif isinstance(error, UnsupportedMediaTypeError):
        # RFC 9110 section 12.5.3: tells a 415 for the coding from one for the type.
        headers.append((b"accept-encoding", b"identity"))
    return headers


def _challenged(call: Call) -> bool:
    """There is a challenge, or nothing to ask for: its gate is open."""
    return "www-authenticate" in call.response_parameters or bool(call.admitted and call.admitted[0].open)


def allowed_verbs(error: MethodNotAllowedError) -> list[str]:
    """All that may be asked of the resource: its own verbs, HEAD where there is GET, and OPTIONS."""
    verbs = list(error.allowed)
    if "GET" in verbs:
        verbs.insert(verbs.index("GET") + 1, "HEAD")
    return [*verbs, "OPTIONS"]
