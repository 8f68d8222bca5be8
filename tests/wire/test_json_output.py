"""What JSON we write (sections 5.5 to 5.7)."""

import json

import pytest
from google.protobuf import empty_pb2, struct_pb2, timestamp_pb2

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson


def test_required_zero_values_are_there_and_no_others() -> None:
    # Case B065; section 3.1.4: nextPageToken always there, artifacts only when asked for.
    assert protojson.to_dict(a2a_pb2.ListTasksResponse(page_size=50)) == {
        "tasks": [],
        "nextPageToken": "",
        "pageSize": 50,
        "totalSize": 0,
    }
    assert protojson.to_dict(a2a_pb2.ListTasksResponse(tasks=[a2a_pb2.Task(id="t")], total_size=1))["tasks"] == [
        {"id": "t", "status": {"state": "TASK_STATE_UNSPECIFIED"}}
    ]


def test_required_fields_of_an_empty_card() -> None:
    assert protojson.to_dict(a2a_pb2.AgentCard()) == {  # the REQUIRED fields of the schema, nothing else
        "name": "",
        "description": "",
        "supportedInterfaces": [],
        "version": "",
        "capabilities": {},
        "defaultInputModes": [],
        "defaultOutputModes": [],
        "skills": [],
    }
    flow = a2a_pb2.OAuth2SecurityScheme(
        flows=a2a_pb2.OAuthFlows(client_credentials=a2a_pb2.ClientCredentialsOAuthFlow())
    )
    assert protojson.to_dict(flow) == {"flows": {"clientCredentials": {"tokenUrl": "", "scopes": {}}}}


def test_zero_values_are_made_anew_each_time() -> None:
    first = protojson.to_dict(a2a_pb2.ListTasksResponse())
    first["tasks"].append("x")
    assert protojson.to_dict(a2a_pb2.ListTasksResponse())["tasks"] == []


def test_explicitly_set_zero_values_appear() -> None:  # `optional`: section 5.7
    assert protojson.to_dict(a2a_pb2.AgentCapabilities(streaming=False)) == {"streaming": False}
    assert protojson.to_dict(a2a_pb2.ListTasksRequest(page_size=0, include_artifacts=False)) == {
        "pageSize": 0,
        "includeArtifacts": False,
    }
    assert protojson.to_dict(a2a_pb2.Part(text="")) == {"text": ""}  # a oneof knows what is set, too


def test_names_are_camel_case_and_enums_are_names() -> None:  # section 5.5
    task = a2a_pb2.Task(id="t", context_id="c", status=a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_INPUT_REQUIRED))
    assert protojson.to_dict(task) == {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}}


def test_the_number_of_an_unknown_enum_value_is_kept() -> None:  # ProtoJSON: enums are open
    message = a2a_pb2.TaskStatus.FromString(b"\x08\x4d")
    assert protojson.to_dict(message) == {"state": 77}


@pytest.mark.parametrize(
    ("seconds", "nanos", "text"),
    [
        (1_761_647_400, 0, "2025-10-28T10:30:00.000Z"),  # the first example of section 5.6.1
        (1_761_647_400, 142_000_000, "2025-10-28T10:30:00.142Z"),
        (1_761_647_400, 999_999_999, "2025-10-28T10:30:00.999Z"),  # cut, not rounded: never later than it was
        (0, 0, "1970-01-01T00:00:00.000Z"),
        (-1, 500_000_000, "1969-12-31T23:59:59.500Z"),
        (-62_135_596_800, 0, "0001-01-01T00:00:00.000Z"),
        (253_402_300_799, 999_999_999, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_times_have_three_decimals_and_a_z(seconds: int, nanos: int, text: str) -> None:
    status = a2a_pb2.TaskStatus(
        state=a2a_pb2.TASK_STATE_SUBMITTED, timestamp=timestamp_pb2.Timestamp(seconds=seconds, nanos=nanos)
    )
    assert protojson.to_dict(status)["timestamp"] == text


@pytest.mark.parametrize(
    ("seconds", "nanos"), [(253_402_300_800, 0), (-62_135_596_801, 0), (0, -1), (0, 10**9), (2**62, 0)]
)
def test_times_that_json_cannot_write(seconds: int, nanos: int) -> None:
    status = a2a_pb2.TaskStatus(timestamp=timestamp_pb2.Timestamp(seconds=seconds, nanos=nanos))
    with pytest.raises(ValueError, match="timestamp"):
        protojson.to_dict(status)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (3.0, "3"),
        (-0.0, "0"),
        (2.0**53 - 1, "9007199254740991"),
        (1 - 2.0**53, "-9007199254740991"),
        (2.0**53, "9007199254740992.0"),  # from here on a double may stand for several integers
        (3.5, "3.5"),
        (float("nan"), "null"),
        (float("-inf"), "null"),
    ],
)
def test_numbers(number: float, text: str) -> None:  # case B073
    assert protojson.dumps(a2a_pb2.Part(data=struct_pb2.Value(number_value=number))).decode() == f'{{"data":{text}}}'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_cannot_write_are_null(number: float) -> None:
    assert protojson.to_dict(a2a_pb2.Part(data=struct_pb2.Value(number_value=number))) == {"data": None}


def test_keys_of_maps_are_in_order() -> None:  # so that the text, and an ETag of it, is the same on every replica
    keys = [f"key-{i}" for i in range(20)]
    for made in (keys, keys[::-1]):
        card = a2a_pb2.AgentCard()
        flow = a2a_pb2.PasswordOAuthFlow()
        for key in made:
            card.security_schemes[key].mtls_security_scheme.description = "x"
            flow.scopes[key] = "x"
        assert list(protojson.to_dict(card)["securitySchemes"]) == sorted(keys)
        assert list(protojson.to_dict(flow)["scopes"]) == sorted(keys)


def test_bytes_are_standard_base64_with_padding() -> None:  # case B071
    assert protojson.to_dict(a2a_pb2.Part(raw=b"\xfb\xff\xbf\x00")) == {"raw": "+/+/AA=="}


def test_free_form_data() -> None:
    value = {"z": None, "a": [1, "x", True, {}, []], "é": {"b": {"c": 0.5}}}
    part = protojson.from_dict({"data": value, "metadata": {}}, a2a_pb2.Part)
    assert protojson.to_dict(part) == {"data": value, "metadata": {}}
    assert list(protojson.to_dict(part)["data"]) == ["a", "z", "é"]


def test_a_value_that_is_nothing_is_null() -> None:
    part = a2a_pb2.Part()
    part.data.SetInParent()
    assert protojson.to_dict(part) == {"data": None}


def test_text_is_utf_8_without_spaces() -> None:
    data = protojson.dumps(a2a_pb2.StreamResponse(message=a2a_pb2.Message(message_id="é\n")))
    assert data == '{"message":{"messageId":"é\\n","role":"ROLE_UNSPECIFIED","parts":[]}}'.encode()
    assert b"\n" not in data  # one line of an event stream
    assert json.loads(data)["message"]["messageId"] == "é\n"


def test_an_operation_that_answers_nothing_answers_an_empty_object() -> None:
    assert protojson.dumps(empty_pb2.Empty()) == b"{}"
