"""The one table of errors and its three forms on the wire."""

import base64
import json
from urllib.parse import quote

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from a2a_grpc.wire import errors
from a2a_grpc.wire.errors import (
    ERRORS,
    A2AError,
    InternalError,
    InvalidArgumentError,
    MethodNotAllowedError,
    QuotaExceededError,
    TaskNotFoundError,
    UnavailableError,
    Violation,
    error_body,
    excerpt,
    from_error_body,
    from_jsonrpc_error,
    from_status,
    invalid,
    jsonrpc_error,
    to_status,
)

# Section 5.4: JSON-RPC code, gRPC status, HTTP status. Reasons: section 10.6, the name in upper snake case without
# "Error".
A2A_ERRORS = [
    ("TaskNotFoundError", "TASK_NOT_FOUND", "NOT_FOUND", 404, -32001),
    ("TaskNotCancelableError", "TASK_NOT_CANCELABLE", "FAILED_PRECONDITION", 400, -32002),
    ("PushNotificationNotSupportedError", "PUSH_NOTIFICATION_NOT_SUPPORTED", "FAILED_PRECONDITION", 400, -32003),
    ("UnsupportedOperationError", "UNSUPPORTED_OPERATION", "FAILED_PRECONDITION", 400, -32004),
    ("ContentTypeNotSupportedError", "CONTENT_TYPE_NOT_SUPPORTED", "INVALID_ARGUMENT", 400, -32005),
    ("InvalidAgentResponseError", "INVALID_AGENT_RESPONSE", "INTERNAL", 500, -32006),
    ("ExtendedAgentCardNotConfiguredError", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "FAILED_PRECONDITION", 400, -32007),
    ("ExtensionSupportRequiredError", "EXTENSION_SUPPORT_REQUIRED", "FAILED_PRECONDITION", 400, -32008),
    ("VersionNotSupportedError", "VERSION_NOT_SUPPORTED", "FAILED_PRECONDITION", 400, -32009),
]
# Section 3.3.2 gives HTTP, gRPC and (for two) JSON-RPC codes by category, section 9.5 those of the JSON layer.
# The other JSON-RPC codes are our choice and, once released, a promise. HTTP statuses without a gRPC code: RFC 9110.
STANDARD_ERRORS = [
    ("InvalidArgumentError", "INVALID_PARAMS", "INVALID_ARGUMENT", 400, -32602),
    ("UnauthenticatedError", "UNAUTHENTICATED", "UNAUTHENTICATED", 401, -32010),
    ("PermissionDeniedError", "PERMISSION_DENIED", "PERMISSION_DENIED", 403, -32011),
    ("RouteNotFoundError", "NOT_FOUND", "NOT_FOUND", 404, -32012),
    ("MethodNotAllowedError", "METHOD_NOT_ALLOWED", "UNIMPLEMENTED", 405, -32013),
    ("UnsupportedMediaTypeError", "UNSUPPORTED_MEDIA_TYPE", "INVALID_ARGUMENT", 415, -32014),
    ("PayloadTooLargeError", "PAYLOAD_TOO_LARGE", "RESOURCE_EXHAUSTED", 413, -32015),
    ("ResourceExhaustedError", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", 429, -32016),
    ("DeadlineExceededError", "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED", 504, -32017),
    ("UnavailableError", "UNAVAILABLE", "UNAVAILABLE", 503, -32018),
    ("UnimplementedError", "UNIMPLEMENTED", "UNIMPLEMENTED", 501, -32019),
    ("AbortedError", "ABORTED", "ABORTED", 409, -32020),
    ("InternalError", "INTERNAL_ERROR", "INTERNAL", 500, -32603),
    ("JsonParseError", "JSON_PARSE", "INVALID_ARGUMENT", 400, -32700),
    ("InvalidRequestError", "INVALID_REQUEST", "INVALID_ARGUMENT", 400, -32600),
    ("MethodNotFoundError", "METHOD_NOT_FOUND", "UNIMPLEMENTED", 404, -32601),
]
ROWS = A2A_ERRORS + STANDARD_ERRORS
every_error = pytest.mark.parametrize("error_type", ERRORS, ids=lambda t: t.__name__)


@pytest.mark.parametrize(
    ("name", "reason", "code", "http", "jsonrpc"), ROWS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_row(name: str, reason: str, code: str, http: int, jsonrpc: int) -> None:
    kind = getattr(errors, name).kind
    assert (kind.name, kind.reason, code_pb2.Code.Name(kind.code), kind.http, kind.jsonrpc, kind.domain) == (
        name,
        reason,
        code,
        http,
        jsonrpc,
        "a2a-protocol.org",  # sections 10.6, 11.6
    )


def test_the_table_is_complete_and_without_doubles() -> None:
    assert [error.__name__ for error in ERRORS] == [row[0] for row in ROWS]
    assert len({error.kind.reason for error in ERRORS}) == len(ERRORS)
    assert len({error.kind.jsonrpc for error in ERRORS}) == len(ERRORS)


def full(error_type: type[A2AError]) -> A2AError:
    return error_type(
        "No such thing: 'été'",
        metadata={"task_id": "t-1", "seen_at": "2025-11-09T10:30:00.000Z"},
        violations=[Violation("message.parts[0].media_type", "is empty"), Violation("id", "is too long")],
        retry_after=1.5,
    )


def assert_same(back: A2AError, sent: A2AError) -> None:
    assert type(back) is type(sent)
    assert (back.message, back.metadata, back.violations, back.retry_after) == (
        sent.message,
        sent.metadata,
        sent.violations,
        sent.retry_after,
    )


@every_error
def test_status_round_trip(error_type: type[A2AError]) -> None:
    sent = full(error_type)
    status = status_pb2.Status.FromString(to_status(sent).SerializeToString())
    assert_same(from_status(status), sent)


@every_error
def test_http_round_trip(error_type: type[A2AError]) -> None:
    sent = full(error_type)
    assert_same(from_error_body(error_type.kind.http, json.loads(json.dumps(error_body(sent)))), sent)


@every_error
def test_jsonrpc_round_trip(error_type: type[A2AError]) -> None:
    sent = full(error_type)
    assert_same(from_jsonrpc_error(json.loads(json.dumps(jsonrpc_error(sent)))), sent)


def test_http_form_is_that_of_the_specification() -> None:
    error = TaskNotFoundError(
        "The specified task ID does not exist or is not accessible",
        metadata={"task_id": "task-123", "timestamp": "2025-11-09T10:30:00.000Z"},
    )
    assert error_body(error) == {  # the example of section 11.6, letter by letter
        "error": {
            "code": 404,
            "status": "NOT_FOUND",
            "message": "The specified task ID does not exist or is not accessible",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "TASK_NOT_FOUND",
                    "domain": "a2a-protocol.org",
                    "metadata": {"taskId": "task-123", "timestamp": "2025-11-09T10:30:00.000Z"},
                }
            ],
        }
    }


def test_jsonrpc_form_is_that_of_the_specification() -> None:
    error = jsonrpc_error(
        InvalidArgumentError(
            "Invalid parameters", violations=[Violation("message.parts", "At least one part is required")]
        )
    )
    bad_request = {  # the example of section 9.5
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": "message.parts", "description": "At least one part is required"}],
    }
    assert (error["code"], error["message"]) == (-32602, "Invalid parameters")
    assert bad_request in error["data"]
    assert all("@type" in detail for detail in error["data"])  # section 9.5, a MUST


def test_json_details_are_what_protobuf_reads() -> None:
    error = full(UnavailableError)
    kinds: list[type[Message]] = [
        error_details_pb2.ErrorInfo,
        error_details_pb2.RetryInfo,
        error_details_pb2.BadRequest,
    ]
    for detail, kind in zip(error_body(error)["error"]["details"], kinds, strict=True):
        name = detail.pop("@type")
        assert name == f"type.googleapis.com/{kind.DESCRIPTOR.full_name}"
        json_format.ParseDict(detail, kind())  # raises for a name or form that is not ProtoJSON


def test_fields_are_named_as_the_binding_names_them() -> None:
    error = invalid(
        Violation("message.parts[1].media_type", "is empty"), Violation("security_schemes[my_key].x_y", "is wrong")
    )
    request = error_details_pb2.BadRequest()
    to_status(error).details[1].Unpack(request)
    assert [v.field for v in request.field_violations] == [
        "message.parts[1].media_type",
        "security_schemes[my_key].x_y",
    ]
    assert to_status(error).message == "Invalid message.parts[1].media_type: is empty (and 1 more)"
    body = error_body(error)["error"]
    assert [v["field"] for v in body["details"][-1]["fieldViolations"]] == [
        "message.parts[1].mediaType",
        "securitySchemes[my_key].xY",  # a key of a map is data
    ]
    assert body["message"] == "Invalid message.parts[1].mediaType: is empty (and 1 more)"


def test_retry_delay_is_a_protojson_duration() -> None:
    detail = error_body(UnavailableError("Later.", retry_after=2))["error"]["details"][1]
    assert detail == {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "2.000s"}


def trailers(error: A2AError) -> int:
    """Bytes that a gRPC peer counts: message (percent-encoded), status (base64), names, 32 bytes of overhead each."""
    status = to_status(error)
    message = quote(status.message, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~")
    details = base64.b64encode(status.SerializeToString())
    return len("grpc-message") + len(message) + len("grpc-status-details-bin") + len(details) + 3 * 32


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600", "\n", "\ud800"])
def test_trailers_stay_below_8_kb_whatever_is_echoed(letter: str) -> None:
    # Case B055: ids of 20 kB, newlines, non-ASCII text, 500 violations.
    long = letter * 20_000
    error = InvalidArgumentError(
        f"Wrong: {long}",
        metadata={f"key_{i}": long for i in range(500)},
        violations=[Violation(f"message.parts[{i}].{long}", long) for i in range(500)],
        retry_after=float("inf"),
    )
    assert trailers(error) < 8192
    assert len(json.dumps(error_body(error))) < 32_768
    back = from_status(to_status(error))
    assert type(back) is InvalidArgumentError
    assert back.violations
    assert all(len(v.field) <= 256 and len(v.description) <= 256 for v in back.violations)
    assert all(len(value) <= 256 for value in back.metadata.values())


@pytest.mark.parametrize("count", [1, 10, 500])
def test_violations_that_do_not_fit_are_counted(count: int) -> None:
    error = invalid(*(Violation(f"message.parts[{i}].raw", "must be base64") for i in range(count)))
    shown = from_status(to_status(error)).violations
    left_out = count - len(shown) + 1
    if count < 500:
        assert shown == error.violations
    else:
        assert shown[-1] == Violation("", f"and {left_out} more")
        assert shown[:-1] == error.violations[: len(shown) - 1]
    in_json = error_body(error)["error"]["details"][-1]["fieldViolations"]
    assert len(in_json) == min(count, len(in_json))
    assert in_json[-1]["description"] == ("must be base64" if count < 500 else f"and {count - len(in_json) + 1} more")


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain", "plain"),
        ("two\nlines\r\n", "two lines  "),
        ("tab\tand\x00nul", "tab and\ufffdnul"),
        ("\u2028\u202e", " \ufffd"),
        ("\ud800", "\ufffd"),
        ("é\U0001f600", "é\U0001f600"),
    ],
)
def test_text_is_one_printable_line(text: str, safe: str) -> None:
    error = InternalError(text)  # grpc-message must not carry control characters
    assert error.message == safe
    assert to_status(error).message == safe


def test_excerpt_keeps_the_limit() -> None:
    assert excerpt("x" * 256) == "x" * 256
    assert excerpt("x" * 257) == "x" * 255 + "…"
    assert excerpt("abcdef", 3) == "ab…"


def test_status_of_a_server_without_error_info_goes_by_code() -> None:
    # Section 5.4 gives NOT_FOUND to one error only.
    assert type(from_status(status_pb2.Status(code=code_pb2.NOT_FOUND, message="gone"))) is TaskNotFoundError
    assert type(from_status(status_pb2.Status(code=code_pb2.UNAVAILABLE))) is UnavailableError
    assert type(from_status(status_pb2.Status(code=code_pb2.UNKNOWN))) is InternalError
    assert type(from_status(status_pb2.Status(code=99))) is InternalError


def test_error_info_of_another_domain_is_not_ours() -> None:
    status = status_pb2.Status(code=code_pb2.NOT_FOUND)
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="TASK_NOT_CANCELABLE", domain="example.com"))
    assert type(from_status(status)) is TaskNotFoundError


def test_broken_details_are_skipped() -> None:
    status = to_status(UnavailableError("Later.", retry_after=2))
    status.details[0].value = b"\xff\xff"
    back = from_status(status)
    assert (type(back), back.retry_after) == (UnavailableError, 2)


def test_ok_is_no_error() -> None:
    with pytest.raises(ValueError, match="OK"):
        from_status(status_pb2.Status())


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (502, None, UnavailableError),
        (503, "<html>", UnavailableError),
        (404, {"error": "nope"}, errors.RouteNotFoundError),
        (418, [], InvalidArgumentError),
        (599, {}, InternalError),
        (400, {"error": {"message": 3, "details": ["x", {"@type": 5}]}}, InvalidArgumentError),
    ],
)
def test_a_foreign_http_error_goes_by_status(status: int, body: object, expected: type[A2AError]) -> None:
    assert type(from_error_body(status, body)) is expected


@pytest.mark.parametrize("error", [None, "x", {}, {"code": "x"}, {"code": -1, "message": None, "data": {}}])
def test_a_foreign_jsonrpc_error_is_internal(error: object) -> None:
    assert type(from_jsonrpc_error(error)) is InternalError


def test_allowed_methods_travel_with_the_error() -> None:
    error = MethodNotAllowedError("No.", metadata={"allow": "GET, POST"})
    assert error.allowed == ("GET", "POST")
    assert MethodNotAllowedError("No.").allowed == ()


def test_limits_that_are_reached_are_named_in_every_form() -> None:
    """google.rpc.QuotaFailure beside RetryInfo; subjects are data and keep their spelling."""
    sent = QuotaExceededError("Slow down.", quotas=[Violation("caller:rate:send_all", "5 a second.")], retry_after=0.25)
    status = to_status(sent)
    failure = error_details_pb2.QuotaFailure()
    assert [detail.Unpack(failure) for detail in status.details] == [False, False, True]
    assert [(one.subject, one.description) for one in failure.violations] == [("caller:rate:send_all", "5 a second.")]
    for back in (
        from_status(status),
        from_error_body(429, json.loads(json.dumps(error_body(sent)))),
        from_jsonrpc_error(json.loads(json.dumps(jsonrpc_error(sent)))),
    ):
        assert type(back) is QuotaExceededError
        assert (back.quotas, back.retry_after) == (sent.quotas, 0.25)
