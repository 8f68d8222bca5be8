"""The one table of errors, and the three forms they take on the wire.

Each class below is one row: reason, google.rpc code, HTTP status, JSON-RPC code. The nine A2A errors follow section 5.4
of the specification, the others section 3.3.2. Standard errors that JSON-RPC has no code for use -32010 to -32020: part
of the range that section 9.5 sets aside for A2A, and not taken by its nine.

An error holds text that a stranger may read. The constructor makes it safe for every binding: one printable line,
bounded in length, whatever the caller copied into it.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2

DOMAIN: Final = "a2a-protocol.org"

# A peer refuses trailers above 8 kB. A status travels there twice: base64 of the whole (4/3) and its message
# percent-encoded (at worst 3x). 4000 * 4/3 + 700 * 3 = 7434 bytes leave room for the other trailers.
MAX_STATUS_BYTES: Final = 4000
MAX_MESSAGE_BYTES: Final = 700
MAX_EXCERPT: Final = 256
_MAX_METADATA: Final = 16
_MAX_METADATA_BYTES: Final = 1500
_MAX_RETRY_SECONDS: Final = 86_400.0

_TYPE_PREFIX: Final = "type.googleapis.com/"


class Violation(NamedTuple):
    """One field that is wrong.

    `field` is its path in proto spelling ("message.parts[0].media_type"); JSON forms print it in camelCase.
    """

    field: str
    description: str


@dataclass(frozen=True, slots=True)
class ErrorKind:
    """A row of the table: what an error is called on each binding."""

    name: str
    reason: str
    code: int
    http: int
    jsonrpc: int
    domain: str = DOMAIN


_rows: list[type["A2AError"]] = []


class A2AError(Exception):
    """A failure whose text is public.

    `metadata` keys are snake_case; `retry_after` is in seconds; `quotas` are limits that are used up, the subject in
    place of a field. Raise one of the subclasses.
    """

    kind: ClassVar[ErrorKind]

    def __init__(
        self,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        violations: Iterable[Violation] = (),
        retry_after: float | None = None,
        quotas: Iterable[Violation] = (),
    ) -> None:
        self.message = _clip(excerpt(message, MAX_MESSAGE_BYTES), MAX_MESSAGE_BYTES)
        self.metadata = _safe_metadata(metadata or {})
        self.violations = tuple(Violation(excerpt(v.field), excerpt(v.description)) for v in violations)
        self.quotas = tuple(Violation(excerpt(q.field), excerpt(q.description)) for q in quotas)
        self.retry_after = None if retry_after is None else _safe_delay(retry_after)
        super().__init__(self.message)

    def __init_subclass__(cls, *, reason: str = "", code: int = 0, http: int = 0, jsonrpc: int = 0) -> None:
        # A subclass without a row of its own is a special case of its parent's, such as the client's NotConnectedError.
        if reason:
            cls.kind = ErrorKind(cls.__name__, reason, code, http, jsonrpc)
            _rows.append(cls)


# The nine errors of the protocol (section 5.4).


class TaskNotFoundError(A2AError, reason="TASK_NOT_FOUND", code=code_pb2.NOT_FOUND, http=404, jsonrpc=-32001):
    """The task does not exist, or it is not the caller's: the two must look the same (section 3.3.2)."""


class TaskNotCancelableError(
    A2AError, reason="TASK_NOT_CANCELABLE", code=code_pb2.FAILED_PRECONDITION, http=400, jsonrpc=-32002
):
    """The task has already ended."""


class PushNotificationNotSupportedError(
    A2AError, reason="PUSH_NOTIFICATION_NOT_SUPPORTED", code=code_pb2.FAILED_PRECONDITION, http=400, jsonrpc=-32003
):
    """The card says that this agent sends no push notifications."""


class UnsupportedOperationError(
    A2AError, reason="UNSUPPORTED_OPERATION", code=code_pb2.FAILED_PRECONDITION, http=400, jsonrpc=-32004
):
    """The agent does not do this, or not in the state that the task is in."""


class ContentTypeNotSupportedError(
    A2AError, reason="CONTENT_TYPE_NOT_SUPPORTED", code=code_pb2.INVALID_ARGUMENT, http=400, jsonrpc=-32005
):
    """The media type of a part is not one that the agent takes. That of an HTTP body: UnsupportedMediaTypeError."""


class InvalidAgentResponseError(
    A2AError, reason="INVALID_AGENT_RESPONSE", code=code_pb2.INTERNAL, http=500, jsonrpc=-32006
):
    """The agent answered with something that the protocol does not allow."""


class ExtendedAgentCardNotConfiguredError(
    A2AError, reason="EXTENDED_AGENT_CARD_NOT_CONFIGURED", code=code_pb2.FAILED_PRECONDITION, http=400, jsonrpc=-32007
):
    """The card declares an extended card, but there is none."""


class ExtensionSupportRequiredError(
    A2AError, reason="EXTENSION_SUPPORT_REQUIRED", code=code_pb2.FAILED_PRECONDITION, http=400, jsonrpc=-32008
):
    """The card requires an extension that the caller did not name."""


class VersionNotSupportedError(
    A2AError, reason="VERSION_NOT_SUPPORTED", code=code_pb2.FAILED_PRECONDITION, http=400, jsonrpc=-32009
):
    """The caller speaks another version of the protocol."""


# Standard errors (section 3.3.2). Where section 9.5 names an error, its reason is formed from that name as 10.6 says
# (InvalidParamsError: INVALID_PARAMS), which is what the official clients look for; else it is the google.rpc code's.


class InvalidArgumentError(A2AError, reason="INVALID_PARAMS", code=code_pb2.INVALID_ARGUMENT, http=400, jsonrpc=-32602):
    """The request is wrong whatever the state of the server: a field is missing, malformed or out of range."""


class UnauthenticatedError(A2AError, reason="UNAUTHENTICATED", code=code_pb2.UNAUTHENTICATED, http=401, jsonrpc=-32010):
    """No credentials, or none that are valid."""


class PermissionDeniedError(
    A2AError, reason="PERMISSION_DENIED", code=code_pb2.PERMISSION_DENIED, http=403, jsonrpc=-32011
):
    """The caller is known and may not do this."""


class RouteNotFoundError(A2AError, reason="NOT_FOUND", code=code_pb2.NOT_FOUND, http=404, jsonrpc=-32012):
    """Nothing is served at this path."""


class MethodNotAllowedError(
    A2AError, reason="METHOD_NOT_ALLOWED", code=code_pb2.UNIMPLEMENTED, http=405, jsonrpc=-32013
):
    """The path exists, but not for this HTTP method; metadata "allow" lists those that do."""

    @property
    def allowed(self) -> tuple[str, ...]:
        """The HTTP methods that the path has, sorted: the value of the Allow header."""
        return tuple(verb for verb in self.metadata.get("allow", "").split(", ") if verb)


class UnsupportedMediaTypeError(
    A2AError, reason="UNSUPPORTED_MEDIA_TYPE", code=code_pb2.INVALID_ARGUMENT, http=415, jsonrpc=-32014
):
    """The HTTP body is not JSON by its Content-Type, or has a Content-Encoding that is not taken."""


class PayloadTooLargeError(
    A2AError, reason="PAYLOAD_TOO_LARGE", code=code_pb2.RESOURCE_EXHAUSTED, http=413, jsonrpc=-32015
):
    """The message is larger than the limit. gRPC itself answers RESOURCE_EXHAUSTED for this."""


class ResourceExhaustedError(
    A2AError, reason="RESOURCE_EXHAUSTED", code=code_pb2.RESOURCE_EXHAUSTED, http=429, jsonrpc=-32016
):
    """A quota or rate limit is used up."""


class QuotaExceededError(ResourceExhaustedError):
    """A limit is reached; `quotas` says whose it is, and of what."""


class DeadlineExceededError(
    A2AError, reason="DEADLINE_EXCEEDED", code=code_pb2.DEADLINE_EXCEEDED, http=504, jsonrpc=-32017
):
    """The caller's time ran out. What it started may still go on."""


class UnavailableError(A2AError, reason="UNAVAILABLE", code=code_pb2.UNAVAILABLE, http=503, jsonrpc=-32018):
    """The service cannot answer now; the same call may succeed later or on another replica."""


class UnimplementedError(A2AError, reason="UNIMPLEMENTED", code=code_pb2.UNIMPLEMENTED, http=501, jsonrpc=-32019):
    """The server does not know this operation."""


class AbortedError(A2AError, reason="ABORTED", code=code_pb2.ABORTED, http=409, jsonrpc=-32020):
    """Somebody else changed the same thing at the same time; read again, then decide."""


class InternalError(A2AError, reason="INTERNAL_ERROR", code=code_pb2.INTERNAL, http=500, jsonrpc=-32603):
    """A defect on the server; the cause is in its log."""


# Errors of the JSON layer (section 9.5).


class JsonParseError(A2AError, reason="JSON_PARSE", code=code_pb2.INVALID_ARGUMENT, http=400, jsonrpc=-32700):
    """The body is not JSON at all."""


class InvalidRequestError(A2AError, reason="INVALID_REQUEST", code=code_pb2.INVALID_ARGUMENT, http=400, jsonrpc=-32600):
    """The body is JSON, but not a JSON-RPC 2.0 request."""


class MethodNotFoundError(A2AError, reason="METHOD_NOT_FOUND", code=code_pb2.UNIMPLEMENTED, http=404, jsonrpc=-32601):
    """There is no such JSON-RPC method."""


ERRORS: Final[tuple[type[A2AError], ...]] = tuple(_rows)

_BY_REASON: Final = {error.kind.reason: error for error in ERRORS}
_BY_JSONRPC: Final = {error.kind.jsonrpc: error for error in ERRORS}

# What a code means when the server sent no ErrorInfo. NOT_FOUND is a task, since section 5.4 gives that code to nothing
# else; of the errors that share FAILED_PRECONDITION the one that claims least is taken.
_BY_CODE: Final[dict[int, type[A2AError]]] = {
    code_pb2.CANCELLED: AbortedError,
    code_pb2.UNKNOWN: InternalError,
    code_pb2.INVALID_ARGUMENT: InvalidArgumentError,
    code_pb2.DEADLINE_EXCEEDED: DeadlineExceededError,
    code_pb2.NOT_FOUND: TaskNotFoundError,
    code_pb2.ALREADY_EXISTS: AbortedError,
    code_pb2.PERMISSION_DENIED: PermissionDeniedError,
    code_pb2.RESOURCE_EXHAUSTED: ResourceExhaustedError,
    code_pb2.FAILED_PRECONDITION: UnsupportedOperationError,
    code_pb2.ABORTED: AbortedError,
    code_pb2.OUT_OF_RANGE: InvalidArgumentError,
    code_pb2.UNIMPLEMENTED: UnimplementedError,
    code_pb2.INTERNAL: InternalError,
    code_pb2.UNAVAILABLE: UnavailableError,
    code_pb2.DATA_LOSS: InternalError,
    code_pb2.UNAUTHENTICATED: UnauthenticatedError,
}

_FIRST_SERVER_ERROR: Final = 500

# The same for a bare HTTP status, which may come from a proxy that knows nothing of A2A.
_BY_HTTP: Final[dict[int, type[A2AError]]] = {
    400: InvalidArgumentError,
    401: UnauthenticatedError,
    403: PermissionDeniedError,
    404: RouteNotFoundError,
    405: MethodNotAllowedError,
    408: DeadlineExceededError,
    409: AbortedError,
    413: PayloadTooLargeError,
    415: UnsupportedMediaTypeError,
    429: ResourceExhaustedError,
    500: InternalError,
    501: UnimplementedError,
    502: UnavailableError,
    503: UnavailableError,
    504: DeadlineExceededError,
}


def excerpt(text: str, limit: int = MAX_EXCERPT) -> str:
    """`text` as one printable line of at most `limit` characters, "…" at the end when it was cut."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in cut)


def invalid(*violations: Violation) -> InvalidArgumentError:
    """An InvalidArgumentError whose message is made of its violations, in the spelling of each binding."""
    return InvalidArgumentError(_summary(violations), violations=violations)


def to_status(error: A2AError) -> status_pb2.Status:
    """The error as google.rpc.Status (section 10.6); less than MAX_STATUS_BYTES whatever it holds."""
    kind = error.kind
    status = status_pb2.Status(code=kind.code, message=error.message)
    status.details.add().Pack(
        error_details_pb2.ErrorInfo(reason=kind.reason, domain=kind.domain, metadata=error.metadata)
    )
    if error.retry_after is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(round(error.retry_after * 1000))
        status.details.add().Pack(retry)
    if error.quotas:
        failure = error_details_pb2.QuotaFailure()
        for quota in error.quotas:
            failure.violations.add(subject=quota.field, description=quota.description)
        status.details.add().Pack(failure)
    if error.violations:
        request = error_details_pb2.BadRequest()
        for violation in _fitting(error.violations, MAX_STATUS_BYTES - status.ByteSize()):
            request.field_violations.add(field=violation.field, description=violation.description)
        status.details.add().Pack(request)
    return status


def from_status(status: status_pb2.Status) -> A2AError:
    """The error that a Status stands for: by its ErrorInfo if that is of A2A, else by its code.

    Details that are unknown or broken are skipped. Raises ValueError for the code OK.
    """
    if status.code == code_pb2.OK:
        raise ValueError("a status of OK is no error")
    cls: type[A2AError] = _BY_CODE.get(status.code, InternalError)
    metadata: dict[str, str] = {}
    violations: list[Violation] = []
    quotas: list[Violation] = []
    retry_after: float | None = None
    info, retry, request = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo(), error_details_pb2.BadRequest()
    failure = error_details_pb2.QuotaFailure()
    for detail in status.details:
        try:
            if detail.Unpack(info):
                if info.domain == DOMAIN:
                    cls = _BY_REASON.get(info.reason, cls)
                    metadata.update(info.metadata)
            elif detail.Unpack(retry):
                retry_after = _seconds(retry.retry_delay)
            elif detail.Unpack(request):
                violations.extend(Violation(v.field, v.description) for v in request.field_violations)
            elif detail.Unpack(failure):
                quotas.extend(Violation(v.subject, v.description) for v in failure.violations)
        except DecodeError:
            continue
    cls = _with_quotas(cls, quotas)
    return cls(status.message, metadata=metadata, violations=violations, retry_after=retry_after, quotas=quotas)


def error_body(error: A2AError) -> dict[str, Any]:
    """The HTTP body of the error (section 11.6)."""
    return {
        "error": {
            "code": error.kind.http,
            "status": code_pb2.Code.Name(error.kind.code),
            "message": _json_message(error),
            "details": _json_details(error),
        }
    }


def jsonrpc_error(error: A2AError) -> dict[str, Any]:
    """The `error` member of a JSON-RPC response (section 9.5)."""
    return {"code": error.kind.jsonrpc, "message": _json_message(error), "data": _json_details(error)}


def from_error_body(http_status: int, body: object) -> A2AError:
    """The error in a parsed HTTP body; for a body that is not of this form, by the HTTP status alone."""
    fallback = _BY_HTTP.get(http_status, InternalError if http_status >= _FIRST_SERVER_ERROR else InvalidArgumentError)
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return fallback(f"The server answered with HTTP status {http_status}.")
    return _from_json(fallback, error.get("message"), error.get("details"))


def from_jsonrpc_error(error: object) -> A2AError:
    """The error in the `error` member of a JSON-RPC response."""
    if not isinstance(error, dict):
        return InternalError("The server answered with an error that has no form.")
    code = error.get("code")
    fallback = _BY_JSONRPC.get(code, InternalError) if isinstance(code, int) else InternalError
    return _from_json(fallback, error.get("message"), error.get("data"))


# A key of a map, in brackets, is data: it is never respelled.
_UNDERSCORE: Final = re.compile(r"(?P<kept>\[[^\]]*\])|_+(?P<letter>[a-z0-9])")
_CAPITAL: Final = re.compile(r"(?P<kept>\[[^\]]*\])|[A-Z]")


def camel_path(path: str) -> str:
    """A field path in JSON spelling: "message.parts[0].media_type" -> "message.parts[0].mediaType"."""
    return _UNDERSCORE.sub(lambda match: match.group("kept") or match.group("letter").upper(), path)


def _snake(name: str) -> str:
    return _CAPITAL.sub(lambda match: match.group("kept") or f"_{match.group().lower()}", name)


def _clip(text: str, size: int) -> str:
    data = text.encode()
    return text if len(data) <= size else data[: size - 3].decode(errors="ignore") + "…"


def _safe_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    safe: dict[str, str] = {}
    left = _MAX_METADATA_BYTES
    for key, value in list(metadata.items())[:_MAX_METADATA]:
        name, text = excerpt(key, 64), excerpt(value)
        left -= len(name.encode()) + len(text.encode()) + 8
        if left < 0:
            break
        safe[name] = text
    return safe


def _safe_delay(seconds: float) -> float:
    return min(max(0.0, seconds), _MAX_RETRY_SECONDS) if math.isfinite(seconds) else 0.0


def _seconds(delay: Duration) -> float:
    return delay.seconds + delay.nanos / 1e9


def _summary(violations: Iterable[Violation]) -> str:
    known = tuple(violations)
    if not known:
        return "The request is invalid."
    first = known[0]
    text = f"Invalid {first.field}: {first.description}" if first.field else f"Invalid request: {first.description}"
    return text if len(known) == 1 else f"{text} (and {len(known) - 1} more)"


def _fitting(violations: tuple[Violation, ...], size: int) -> list[Violation]:
    """As many violations as `size` bytes hold; the last one then counts those that are left out."""
    fitting: list[Violation] = []
    left = size - 150  # the Any around the list, and the closing line
    for index, violation in enumerate(violations):
        left -= len(violation.field.encode()) + len(violation.description.encode()) + 12
        if left < 0:
            fitting.append(Violation("", f"and {len(violations) - index} more"))
            break
        fitting.append(violation)
    return fitting


def error_info(error: type[A2AError]) -> dict[str, str]:
    """Which error it is, as google.rpc.ErrorInfo in ProtoJSON."""
    kind = error.kind
    return {"@type": _TYPE_PREFIX + "google.rpc.ErrorInfo", "reason": kind.reason, "domain": kind.domain}


def _json_violations(error: A2AError) -> tuple[Violation, ...]:
    return tuple(Violation(camel_path(v.field), v.description) for v in error.violations)


def _json_message(error: A2AError) -> str:
    made = InvalidArgumentError(_summary(error.violations)).message
    return _summary(_json_violations(error)) if error.violations and error.message == made else error.message


def _json_details(error: A2AError) -> list[dict[str, Any]]:
    info: dict[str, Any] = dict(error_info(type(error)))
    if error.metadata:
        info["metadata"] = {camel_path(key): value for key, value in error.metadata.items()}
    details = [info]
    if error.retry_after is not None:
        details.append(
            {"@type": _TYPE_PREFIX + "google.rpc.RetryInfo", "retryDelay": f"{error.retry_after:.3f}s"},
        )
    if error.quotas:
        details.append(
            {
                "@type": _TYPE_PREFIX + "google.rpc.QuotaFailure",
                "violations": [{"subject": q.field, "description": q.description} for q in error.quotas],
            }
        )
    if error.violations:
        shown = _fitting(_json_violations(error), MAX_STATUS_BYTES // 2)
        details.append(
            {
                "@type": _TYPE_PREFIX + "google.rpc.BadRequest",
                "fieldViolations": [{"field": v.field, "description": v.description} for v in shown],
            }
        )
    return details


def _with_quotas(cls: type[A2AError], quotas: list[Violation]) -> type[A2AError]:
    """The two share a reason; what tells them apart is that a limit is named."""
    return QuotaExceededError if quotas and cls is ResourceExhaustedError else cls


def _from_json(fallback: type[A2AError], message: object, details: object) -> A2AError:
    cls = fallback
    metadata: dict[str, str] = {}
    violations: list[Violation] = []
    quotas: list[Violation] = []
    retry_after: float | None = None
    for detail in details if isinstance(details, list) else ():
        if not isinstance(detail, dict):
            continue
        kind = str(detail.get("@type", "")).removeprefix(_TYPE_PREFIX)
        if kind == "google.rpc.ErrorInfo" and detail.get("domain") == DOMAIN:
            cls = _BY_REASON.get(str(detail.get("reason")), cls)
            found = detail.get("metadata")
            if isinstance(found, dict):
                metadata = {_snake(key): str(value) for key, value in found.items()}
        elif kind == "google.rpc.RetryInfo":
            match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,9})?)s", str(detail.get("retryDelay")))
            retry_after = float(match.group(1)) if match else retry_after
        elif kind == "google.rpc.BadRequest":
            listed = detail.get("fieldViolations")
            for item in listed if isinstance(listed, list) else ():
                if isinstance(item, dict):
                    field, description = str(item.get("field", "")), str(item.get("description", ""))
                    violations.append(Violation(_snake(field), description))
        elif kind == "google.rpc.QuotaFailure":
            listed = detail.get("violations")
            quotas.extend(
                Violation(str(item.get("subject", "")), str(item.get("description", "")))
                for item in (listed if isinstance(listed, list) else ())
                if isinstance(item, dict)
            )
    cls = _with_quotas(cls, quotas)
    text = message if isinstance(message, str) else "The server gave no message."
    return cls(text, metadata=metadata, violations=violations, retry_after=retry_after, quotas=quotas)
