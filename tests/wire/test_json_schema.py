"""JSON Schemas of strangers: what is said of data that does not match, and what a check may cost."""

import json
from typing import Any

import pytest

from a2a_grpc.wire.json_schema import JsonSchema, SchemaError

PERSON: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://agent.example/person",
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 2, "pattern": "^[A-Z]"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "contains": {"const": "x"}},
        "a/b~c": {"enum": ["one", "two"]},
        "boss": {"$ref": "#"},
        "never": False,
    },
    "patternProperties": {"^x-": {"type": "number"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"name": "Ada", "age": 36, "tags": ["x"], "x-y": 1.5, "boss": {"name": "Bob"}}, None),
        ([], "the data is not of type object"),
        ({}, "the data lacks 'name'"),
        ({"name": "A"}, "/name does not keep to minLength 2"),
        ({"name": "ada"}, "/name does not match the pattern ^[A-Z]"),
        ({"name": "Ada", "age": 151}, "/age does not keep to maximum 150"),
        ({"name": "Ada", "age": 1.5}, "/age is not of type integer"),
        ({"name": "Ada", "tags": ["x", 1]}, "/tags/1 is not of type string"),
        ({"name": "Ada", "tags": ["x", "x"]}, "/tags has items that are equal"),
        ({"name": "Ada", "tags": ["y"]}, "/tags does not satisfy contains"),
        ({"name": "Ada", "a/b~c": "three"}, "/a~1b~0c is not among the values of enum"),
        ({"name": "Ada", "boss": {"boss": {}}}, "/boss lacks 'name'"),
        ({"name": "Ada", "x-y": "1"}, "/x-y is not of type number"),
        ({"name": "Ada", "secret": 1}, "the data has a property that the schema does not allow"),
        ({"name": "Ada", "never": 1}, "the data has something that is never allowed"),
    ],
)
def test_a_fault_is_told_with_its_place_and_without_the_data(data: Any, fault: str | None) -> None:
    found = JsonSchema(PERSON).fault(data)
    assert (None if found is None else str(found)) == fault


def test_whole_numbers_are_integers_however_they_were_spelled() -> None:
    """Cards and data travel as protobuf's Struct, in which every number is a float."""
    assert JsonSchema({"type": "integer", "minimum": 1.0}).fault(3.0) is None
    assert JsonSchema({"type": "array", "minItems": 1.0}).fault([1]) is None


def test_names_of_properties_are_no_keywords() -> None:
    schema = JsonSchema({"properties": {"$ref": {"type": "string"}, "pattern": {"const": "("}, "$id": {}}})
    assert schema.fault({"$ref": "https://elsewhere.example", "pattern": "("}) is None
    assert schema.fault({"$ref": 1}) is not None


@pytest.mark.parametrize("name", ["enum", "const", "default", "examples"])
def test_what_stands_under_a_name_is_a_schema_whatever_the_name_is(name: str) -> None:
    schema = JsonSchema(
        {"properties": {name: {"pattern": "^a"}}, "$defs": {name: {"patternProperties": {"^b": False}}}}
    )
    assert schema.fault({name: "abc"}) is None
    assert str(schema.fault({name: "bcd"})) == f"/{name} does not match the pattern ^a"
    with pytest.raises(SchemaError, match="is elsewhere"):
        JsonSchema({"properties": {name: {"$ref": "https://elsewhere.example"}}})


def test_a_reference_to_where_no_schema_is_looked_for_leads_to_one() -> None:
    schema = JsonSchema({"$ref": "#/components/schemas/a", "components": {"schemas": {"a": {"pattern": "^a"}}}})
    assert schema.fault("abc") is None
    assert str(schema.fault("bcd")) == "the data does not match the pattern ^a"


TOO_MUCH = "the data takes more work to check against the schema than is allowed"
REPEATED = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": {"type": "number"}}

TWICE = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}", "$dynamicRef": f"#/$defs/d{n + 1}"} for n in range(40)} | {"d40": {}}


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        pytest.param({"$ref": "#"}, 1, id="round and round"),
        pytest.param({"if": {"$ref": "#"}}, 1, id="round and round, in a condition"),
        pytest.param({"not": {"$ref": "#"}}, 1, id="round and round, denied"),
        pytest.param(
            {"unevaluatedProperties": False, "$ref": "#/$defs/d0", "$defs": TWICE},
            {"a": 1},
            id="evaluated",
            marks=pytest.mark.wide,
        ),
        pytest.param({"allOf": [{"uniqueItems": True}] * 500}, ["x" * 200_000], id="texts compared"),
        pytest.param({"items": {"not": {"enum": [[0] * 299 + [1]] * 30}}}, [[0] * 300] * 300, id="lists compared"),
        pytest.param({"pattern": "((a{0,20}){0,20}){0,5}b"}, "a" * 500, id="many ways to the same letter"),
        pytest.param({"$ref": "#/$defs/d0", "$defs": REPEATED}, 1, id="each twice, forty times"),
        pytest.param({"pattern": "(a+)+$"}, "a" * 1_000_000 + "!", id="a long text"),
        pytest.param({"anyOf": [{"type": "number"}] * 500}, ["x" * 1000] * 500, id="errors that hold the data"),
        pytest.param({"items": {"enum": list(range(900))}}, list(range(900)) * 9, id="a list for each of a list"),
    ],
)
def test_a_check_ends(schema: dict[str, Any], data: Any) -> None:
    assert str(JsonSchema(schema).fault(data)) == TOO_MUCH


def test_data_as_deep_and_as_large_as_it_comes_is_checked() -> None:
    deep: Any = json.loads('{"c":' * 98 + "null" + "}" * 98)
    tree = {
        "$ref": "#/$defs/t",
        "$defs": {"t": {"properties": {"c": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/t"}]}}}},
    }
    assert JsonSchema(tree).fault(deep) is None
    rows = [{"n": number} for number in range(10_000)]
    row = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    assert JsonSchema({"items": row, "uniqueItems": True}).fault(rows) is None


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"properties": {str(number): {} for number in range(2001)}}, "has more than 2000 parts"),
        ({"anyOf": [{"pattern": f"a{{{n}}}"} for n in range(4900, 4905)]}, "the patterns are too large"),
        ({"properties": {"a": {"$id": "b"}}}, "/properties/a/$id: only the whole schema may have one"),
        ({"patternProperties": {"a": {}}, "allOf": [{"unevaluatedProperties": False}]}, "cannot be used together"),
        ({"$dynamicRef": "b#c"}, "/$dynamicRef: b#c is elsewhere; put it into $defs"),
        ({"$schema": 5}, "/$schema: must be https://json-schema.org/draft/2020-12/schema"),
        ({"minLength": -1}, "/minLength: -1 is less than the minimum of 0"),
        (json.loads('{"not":' * 101 + "{}" + "}" * 101), "nests too deep"),
        ({"const": float("inf")}, "is no JSON"),
        ({"$ref": "#/required", "required": ["a"]}, "#/required: ['a'] is not of type 'object', 'boolean'"),
        ({"$ref": "#/const", "const": {"pattern": "(?=a)"}}, "#/const: the pattern '(?=a)' cannot be used"),
        (
            {"$ref": "#/const", "const": {"$ref": "https://elsewhere.example"}},
            "#/const/$ref: https://elsewhere.example",
        ),
        ({"$ref": "#/x", "x": {"properties": {str(n): {} for n in range(2001)}}}, "has more than 2000 parts"),
        ({"$ref": "#/required/a", "required": ["b"]}, "there is no #/required/a in it"),
        ({"$ref": "#/type/a", "type": "string"}, "there is no #/type/a in it"),
        ({"$ref": "#/minimum/a", "minimum": 5}, "there is no #/minimum/a in it"),
    ],
)
def test_what_cannot_be_bounded_is_refused(schema: dict[str, Any], problem: str) -> None:
    with pytest.raises(SchemaError) as refused:
        JsonSchema(schema)
    assert problem in str(refused.value)
