"""What is taken from a JSON body, and what is refused with which words (ProtoJSON, sections 5.5 to 5.7)."""

import json
import time
from typing import Any

import pytest
from google.protobuf import json_format

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import A2AError, InvalidArgumentError, JsonParseError, error_body


def request(text: str | bytes) -> a2a_pb2.SendMessageRequest:
    return protojson.loads(text.encode() if isinstance(text, str) else text, a2a_pb2.SendMessageRequest)


def part(value: Any) -> a2a_pb2.Part:
    return protojson.from_dict(value, a2a_pb2.Part)


def faults(value: Any, message_type: type[Any] = a2a_pb2.SendMessageRequest) -> dict[str, str]:
    with pytest.raises(InvalidArgumentError) as caught:
        protojson.from_dict(value, message_type)
    return {violation.field: violation.description for violation in caught.value.violations}


# Case B075: the edges of a body.


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b'{"message":',
        b'{"message":{}}}',
        b"{'message':{}}",
        b'{"message":{},}',
        b'{"message":01}',
        b"{} {}",
        b"\xef\xbb\xbf{}",  # RFC 8259, 8.1: a byte order mark may be refused
        b'{"message":{"messageId":"\xff"}}',
        b'{"message":{"messageId":"\xed\xa0\x80"}}',
        b'{"message":{"messageId":"\\ud800"}}',
        b'{"\\udc00":1}',
        "{}".encode("utf-16"),
        b'{"metadata":{"a":NaN}}',
        b'{"metadata":{"a":Infinity}}',
        b'{"metadata":{"a":-Infinity}}',
        b'{"message":{"messageId":"a\nb"}}',
        b"\x00",
    ],
)
def test_what_is_not_json(body: bytes) -> None:
    with pytest.raises(JsonParseError) as caught:
        request(body)
    error = error_body(caught.value)["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
    assert caught.value.kind.jsonrpc == -32700  # section 9.5


@pytest.mark.parametrize("body", [b"null", b"[]", b'"x"', b"1", b"true"])
def test_a_message_is_an_object(body: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match="JSON object"):
        request(body)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "9" * 400, "9" * 5000])
def test_numbers_beyond_a_double(number: str) -> None:
    with pytest.raises(InvalidArgumentError, match="number that is too large"):
        request(f'{{"metadata":{{"a":{number}}}}}')


def test_numbers_beyond_a_double_in_parsed_json() -> None:
    assert faults({"metadata": {"a": float("inf")}}) == {"metadata": "holds a number that JSON cannot carry"}
    assert faults({"metadata": {"a": 10**400}}) == {"metadata": "holds a number that JSON cannot carry"}


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ('{"message":{},"message":{}}', ""),
        ('{"message":{"messageId":"a","messageId":"a"}}', "message"),
        ('{"message":{"parts":[{},{"text":"a:b","text":"c"}]}}', "message.parts[1]"),
        ('{"metadata":{"a":{"b":1,"b":2}}}', "metadata"),
        ('{"metadata":{"\\u003a":1,":":2}}', "metadata"),
        ('{"message":{"parts":[{"data":[{"k":1 , "k" :2}]}]}}', "message.parts[0].data"),
    ],
)
def test_a_key_that_is_named_twice(body: str, where: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        request(body)
    (violation,) = caught.value.violations
    assert violation.field == where
    assert violation.description.startswith("names the key '")


def test_a_twice_named_key_of_a_map() -> None:
    with pytest.raises(InvalidArgumentError, match=r"security_schemes.*names the key 'a' twice"):
        protojson.loads(b'{"securitySchemes":{"a":{},"a":{}}}', a2a_pb2.AgentCard)


def test_surrogate_pairs_are_characters() -> None:
    assert request('{"message":{"messageId":"\\ud83d\\ude00"}}').message.message_id == "\U0001f600"


def test_half_a_character_in_parsed_json() -> None:
    assert set(faults({"tenant": "\ud800", "metadata": {"\ud800": 1}, "message": {"extensions": ["\udc00"]}})) == {
        "tenant",
        "metadata",
        "message.extensions[0]",
    }


def test_unknown_fields_are_ignored() -> None:  # section 5.7
    got = request('{"future":{"a":[1e3,null,{}]},"message":{"messageId":"m","kind":"message"}}')
    assert got == a2a_pb2.SendMessageRequest(message=a2a_pb2.Message(message_id="m"))


# Case B069: spellings and enums.


def test_both_spellings_of_names_and_enums() -> None:
    expected = a2a_pb2.Message(message_id="m", context_id="c", role=a2a_pb2.ROLE_USER)
    assert protojson.from_dict({"message_id": "m", "context_id": "c", "role": 1}, a2a_pb2.Message) == expected
    assert protojson.from_dict({"messageId": "m", "contextId": "c", "role": "ROLE_USER"}, a2a_pb2.Message) == expected


def test_both_spellings_at_once() -> None:
    assert faults({"message": {"message_id": "a", "messageId": "a"}}) == {
        "message.message_id": "is given twice, as message_id and as messageId"
    }
    assert faults({"message": {"message_id": None, "messageId": "a"}})  # not even when one of them is null


@pytest.mark.parametrize("role", ["user", "role_user", "1", "", True, [], {}, 1.5, 2**31])
def test_unknown_enum_values(role: object) -> None:
    assert set(faults({"message": {"role": role}})) == {"message.role"}


def test_the_names_of_an_enum_are_told() -> None:
    (text,) = faults({"message": {"role": "x" * 500}}).values()
    assert text.startswith("must be one of ROLE_USER, ROLE_AGENT, not 'xxx")
    assert len(text) < 120


def test_an_unknown_number_of_an_enum_is_kept() -> None:  # proto3 enums are open; the service decides
    assert protojson.from_dict({"role": 77}, a2a_pb2.Message).role == 77


# Case B071: base64.


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("-_-_", b"\xfb\xff\xbf"),
        ("+/+/", b"\xfb\xff\xbf"),
        ("aGVsbG8", b"hello"),
        ("aGVsbG8=", b"hello"),
        ("aA==", b"h"),
        ("aA", b"h"),
        ("", b""),
    ],
)
def test_base64(text: str, data: bytes) -> None:
    got = part({"raw": text})
    assert (got.WhichOneof("content"), got.raw) == ("raw", data)
    assert protojson.to_dict(got)["raw"] == {"-_-_": "+/+/", "aGVsbG8": "aGVsbG8=", "aA": "aA=="}.get(text, text)


@pytest.mark.parametrize(
    "text",
    ["!!", "a", "aaaaa", "aGVsbG8==", "aGVsbG8=a", "aGVs bG8=", "aGVs\nbG8=", "=", "====", "éé", 1, None.__class__],
)
def test_what_is_not_base64(text: object) -> None:
    assert set(faults({"raw": text}, a2a_pb2.Part)) == {"raw"}


def test_six_megabytes_of_base64() -> None:
    data = bytes(range(256)) * 17_500
    got = protojson.loads(protojson.dumps(a2a_pb2.Part(raw=data)), a2a_pb2.Part)
    assert got.raw == data


# Scalars, null, oneofs


@pytest.mark.parametrize("value", [5, 5.0, "5"])
def test_whole_numbers(value: object) -> None:
    assert protojson.from_dict({"historyLength": value}, a2a_pb2.GetTaskRequest).history_length == 5


@pytest.mark.parametrize("value", [1.5, "1.5", "", " 5", "five", True, [5], {}, 2**31, -(2**31) - 1, "9" * 19, 1e300])
def test_what_is_not_a_whole_number_of_32_bits(value: object) -> None:
    assert set(faults({"historyLength": value}, a2a_pb2.GetTaskRequest)) == {"history_length"}


@pytest.mark.parametrize("value", ["true", 1, 0, "", [], {}])
def test_what_is_not_a_boolean(value: object) -> None:
    assert faults({"returnImmediately": value}, a2a_pb2.SendMessageConfiguration) == {
        "return_immediately": "must be true or false"
    }


@pytest.mark.parametrize("value", [1, True, [], {}, 1.0])
def test_what_is_not_a_string(value: object) -> None:
    assert faults({"id": value}, a2a_pb2.GetTaskRequest) == {"id": "must be a string"}


def test_null_is_not_set() -> None:
    got = request('{"tenant":null,"message":{"messageId":null,"parts":null,"metadata":null},"configuration":null}')
    assert got == a2a_pb2.SendMessageRequest(message=a2a_pb2.Message())
    assert not got.HasField("configuration")


def test_null_data_is_a_value() -> None:
    got = part({"data": None})
    assert got.WhichOneof("content") == "data"
    assert got.data.WhichOneof("kind") == "null_value"


def test_null_does_not_take_part_in_a_oneof() -> None:
    assert part({"text": "x", "raw": None, "url": None}) == a2a_pb2.Part(text="x")


@pytest.mark.parametrize("value", [{"text": "x", "url": "y"}, {"data": None, "text": "x"}])
def test_two_contents_of_one_part(value: dict[str, Any]) -> None:
    second = list(value)[1]
    assert faults(value, a2a_pb2.Part) == {second: f"cannot be given together with {next(iter(value))}"}


def test_an_explicit_zero_is_set() -> None:  # `optional`: section 5.7
    assert protojson.from_dict({"historyLength": 0}, a2a_pb2.GetTaskRequest).HasField("history_length")
    assert not protojson.from_dict({}, a2a_pb2.GetTaskRequest).HasField("history_length")


def test_an_empty_object_is_set() -> None:
    got = request('{"message":{},"metadata":{}}')
    assert got.HasField("message")
    assert got.HasField("metadata")


# Times (section 5.6.1)


@pytest.mark.parametrize(
    ("text", "seconds", "nanos"),
    [
        ("2025-10-28T10:30:00.000Z", 1_761_647_400, 0),
        ("2025-10-28T10:30:00Z", 1_761_647_400, 0),
        ("2025-10-28T12:30:00+02:00", 1_761_647_400, 0),
        ("2025-10-28T05:00:00.5-05:30", 1_761_647_400, 500_000_000),
        ("2025-10-28T10:30:00.123456789Z", 1_761_647_400, 123_456_789),
        ("1969-12-31T23:59:59.5Z", -1, 500_000_000),
        ("0001-01-01T00:00:00Z", -62_135_596_800, 0),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_799, 999_999_999),
    ],
)
def test_times(text: str, seconds: int, nanos: int) -> None:
    got = protojson.from_dict({"statusTimestampAfter": text}, a2a_pb2.ListTasksRequest).status_timestamp_after
    assert (got.seconds, got.nanos) == (seconds, nanos)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2025-10-28",
        "2025-10-28T10:30:00",
        "2025-10-28 10:30:00Z",
        "2025-1-5T1:2:3Z",
        "2025-02-30T00:00:00Z",
        "2025-10-28T24:00:00Z",
        "2025-10-28T10:30:60Z",
        "2025-10-28T10:30:00+99:99",
        "2025-10-28T10:30:00.1234567890Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        1_761_647_400,
        {"seconds": 1},
    ],
)
def test_what_is_not_a_time(text: object) -> None:
    assert set(faults({"statusTimestampAfter": text}, a2a_pb2.ListTasksRequest)) == {"status_timestamp_after"}


# Shapes


def test_everything_wrong_is_told_at_once() -> None:  # section 3.3.2
    assert faults(
        {
            "message": {"messageId": 1, "role": "x", "parts": [{"raw": "!"}, "y", {"data": 1, "metadata": []}]},
            "configuration": "z",
            "metadata": [],
        }
    ) == {
        "message.message_id": "must be a string",
        "message.role": "must be one of ROLE_USER, ROLE_AGENT, not 'x'",
        "message.parts[0].raw": "must be base64",
        "message.parts[1]": "must be an object",
        "message.parts[2].metadata": "must be an object",
        "configuration": "must be an object",
        "metadata": "must be an object",
    }


def test_maps() -> None:
    card = {
        "securitySchemes": {"a": {"mtlsSecurityScheme": {}}, "b": {"httpAuthSecurityScheme": {"scheme": 1}}, "c": 1},
        "securityRequirements": [{"schemes": {"a": {"list": ["x", 2]}}}],
    }
    assert faults(card, a2a_pb2.AgentCard) == {
        "security_schemes[b].http_auth_security_scheme.scheme": "must be a string",
        "security_schemes[c]": "must be an object",
        "security_requirements[0].schemes[a].list[1]": "must be a string",
    }
    assert faults({"scopes": {"x": 1}, "token_url": []}, a2a_pb2.PasswordOAuthFlow) == {
        "scopes[x]": "must be a string",
        "token_url": "must be a string",
    }
    assert faults({"scopes": []}, a2a_pb2.PasswordOAuthFlow) == {"scopes": "must be an object"}


def test_lists() -> None:
    assert faults({"message": {"parts": {}, "extensions": "x"}}) == {
        "message.parts": "must be a list",
        "message.extensions": "must be a list",
    }
    assert faults({"message": {"extensions": [None]}}) == {"message.extensions[0]": "must be a string"}


def test_a_million_faults_are_not_collected() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        protojson.from_dict({"message": {"parts": [1] * 1_000_000}}, a2a_pb2.SendMessageRequest)
    assert len(caught.value.violations) == 100


# Case B073: numbers of free-form data


def test_numbers_of_free_form_data() -> None:
    text = '{"metadata":{"a":3,"b":[1,2],"c":true,"d":3.5,"f":1e21,"g":-0.0,"h":9007199254740991,"i":1e3}}'
    printed = json.loads(protojson.dumps(request(text)))["metadata"]
    assert json.dumps(printed) == (
        '{"a": 3, "b": [1, 2], "c": true, "d": 3.5, "f": 1e+21, "g": 0, "h": 9007199254740991, "i": 1000}'
    )


def test_whole_numbers_from_2_to_the_53_are_rounded_to_a_double() -> None:  # a Value holds nothing else: documented
    assert protojson.to_dict(part({"data": 9007199254740993})) == {"data": 9007199254740992.0}


def test_stock_protobuf_agrees_on_a_whole_request() -> None:
    body = {
        "tenant": "acme",
        "message": {
            "messageId": "m",
            "role": "ROLE_USER",
            "parts": [{"text": "hi", "mediaType": "text/plain"}, {"data": {"a": [None, {}]}}],
            "referenceTaskIds": ["t"],
        },
        "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 0, "returnImmediately": True},
    }
    assert request(json.dumps(body)) == json_format.ParseDict(body, a2a_pb2.SendMessageRequest())


@pytest.mark.parametrize("body", [b"[" * 4_000_000, b'{"a":' * 800_000, b'{"a":[' * 600_000 + b"]}" * 600_000])
def test_four_megabytes_of_brackets_are_refused_at_once(body: bytes) -> None:
    started = time.process_time()
    with pytest.raises(A2AError, match="nests too deep"):
        request(body)
    assert time.process_time() - started < 0.05  # case B067
