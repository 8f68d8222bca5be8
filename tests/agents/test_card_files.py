"""Cards in files: what people get wrong is named, with file and field."""

from pathlib import Path

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents.card_file import CardFileError, load_card

YAML = """
name: Echo
description: Says it again.
version: "1.0"
capabilities: {streaming: true, extensions: [{uri: "urn:x", params: {level: 3}}]}
default_input_modes: [text/plain]
defaultOutputModes: [text/plain]
securitySchemes:
  key: {apiKeySecurityScheme: {location: header, name: x-api-key}}
securityRequirements:
  - schemes: {key: {list: []}}
skills:
  - {id: echo, name: Echo, description: Says it again., tags: [text]}
"""


def write(folder: Path, text: str, name: str = "card.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def problems(folder: Path, text: str, name: str = "card.yaml") -> list[str]:
    with pytest.raises(CardFileError) as caught:
        load_card(write(folder, text, name))
    assert all(line.startswith(str(folder / name)) for line in str(caught.value).splitlines())
    return caught.value.problems


def test_yaml_with_either_spelling_of_names(tmp_path: Path) -> None:
    loaded = load_card(write(tmp_path, YAML))

    assert (loaded.name, loaded.version, loaded.capabilities.streaming) == ("Echo", "1.0", True)
    assert list(loaded.default_input_modes) == list(loaded.default_output_modes) == ["text/plain"]
    assert loaded.security_schemes["key"].api_key_security_scheme.name == "x-api-key"
    assert list(loaded.security_requirements[0].schemes) == ["key"]
    assert loaded.capabilities.extensions[0].params["level"] == 3


def test_json_with_tabs(tmp_path: Path) -> None:
    """Tabs are white space in JSON and an error in YAML."""
    loaded = load_card(write(tmp_path, '{\n\t"name": "Echo",\n\t"skills": []\n}', "card.json"))

    assert loaded == a2a_pb2.AgentCard(name="Echo")


def test_a_number_that_should_be_text_is_explained(tmp_path: Path) -> None:
    found = problems(tmp_path, "name: Echo\nversion: 1.0\nskills:\n  - {id: 7}\n")

    assert found == [
        "version: must be text; write 1.0 in quotes",
        "skills[0].id: must be text; write 7 in quotes",
    ]


def test_a_date_in_free_form_data_is_explained(tmp_path: Path) -> None:
    text = "capabilities: {extensions: [{uri: x, params: {since: [2026-11-30]}}]}"

    assert problems(tmp_path, text) == [
        "capabilities.extensions[0].params.since[0]: must be text, a number, true or false; write 2026-11-30 in quotes"
    ]


def test_a_slip_in_a_name_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    """Unlike in messages (5.7): nobody would notice that a field of the file has no effect."""
    found = problems(tmp_path, "name: Echo\ndefaultInputMode: [text/plain]\nskills:\n  - {id: a, tag: [x]}\nurl: x\n")

    assert found == [
        "defaultInputMode: AgentCard has no such field; did you mean defaultInputModes?",
        "skills[0].tag: AgentSkill has no such field; did you mean tags?",
        "url: AgentCard has no such field",
    ]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("capabilities: {streaming: maybe}", "capabilities.streaming: "),
        ("skills: {id: a}", "skills: "),
        ("provider: somebody", "provider: "),
        ("skills:\n  - {id: a, tags: text}", "skills[0].tags: "),
        (
            "securitySchemes:\n  key: {apiKeySecurityScheme: {in: header}}",
            "securitySchemes.key.apiKeySecurityScheme.in: ",
        ),
    ],
)
def test_wrong_values_are_named_by_their_field(tmp_path: Path, text: str, field: str) -> None:
    found = problems(tmp_path, text)

    assert len(found) == 1 and found[0].startswith(field)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "card.yaml"),
        ("- a list", "card.yaml"),
        ("a: [", "card.yaml"),
        ("a: 'b", "card.yaml"),
        ("a: !!bool perhaps", "card.yaml"),
        ("a: !!int ''", "card.yaml"),
        ("a: " + 3000 * "[", "card.yaml"),
        ("{", "card.json"),
        ('{"a": ' + 100_000 * "[", "card.json"),
    ],
)
def test_files_that_hold_no_card(tmp_path: Path, text: str, name: str) -> None:
    assert len(problems(tmp_path, text, name)) == 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CardFileError, match=r"nowhere\.yaml: cannot be read: No such file or directory"):
        load_card(tmp_path / "nowhere.yaml")


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    (tmp_path / "card.yaml").write_bytes(b"name: \xff\xfe")

    with pytest.raises(CardFileError, match=r"card\.yaml: "):
        load_card(tmp_path / "card.yaml")
