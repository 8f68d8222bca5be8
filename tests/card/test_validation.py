"""What is checked before a card is published (5.7, 4.4, 4.5)."""

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.card.validation import validate
from tests.support.http_bindings import card


def problems(of: a2a_pb2.AgentCard) -> dict[str, str]:
    return {violation.field: violation.description for violation in validate(of)}


def test_a_complete_card_has_no_problems() -> None:
    assert validate(card()) == []


def test_every_required_field_of_an_empty_card_is_named_at_once() -> None:
    """The REQUIRED fields of AgentCard in the schema; `skills` may be an empty list (8.4.1)."""
    assert set(problems(a2a_pb2.AgentCard())) == {
        "name",
        "description",
        "supported_interfaces",
        "version",
        "capabilities",
        "default_input_modes",
        "default_output_modes",
    }


def test_a_card_without_skills_is_complete() -> None:
    bare = card()
    bare.ClearField("skills")

    assert validate(bare) == []


def test_required_fields_are_checked_at_every_depth() -> None:
    incomplete = card()
    incomplete.provider.url = "https://example.com"
    incomplete.skills[0].ClearField("tags")
    incomplete.supported_interfaces.add(url="https://agent.example.com", protocol_binding="HTTP+JSON")
    incomplete.security_schemes["key"].api_key_security_scheme.location = "header"
    incomplete.security_schemes["nothing"].SetInParent()
    incomplete.security_schemes["oauth"].oauth2_security_scheme.flows.client_credentials.SetInParent()

    found = problems(incomplete)
    assert set(found) == {
        "provider.organization",
        "skills[0].tags",
        "supported_interfaces[1].protocol_version",
        "security_schemes['key'].api_key_security_scheme.name",
        "security_schemes['nothing'].scheme",
        # `scopes` is a REQUIRED map, not an array; there are flows without scopes.
        "security_schemes['oauth'].oauth2_security_scheme.flows.client_credentials.token_url",
    }
    assert "api_key_security_scheme" in found["security_schemes['nothing'].scheme"]


def test_schemes_in_use_must_be_declared() -> None:
    undeclared = card()
    undeclared.security_schemes["known"].http_auth_security_scheme.scheme = "Bearer"
    undeclared.security_requirements.add().schemes["known"].SetInParent()
    undeclared.security_requirements.add().schemes["lost"].SetInParent()
    undeclared.skills[0].security_requirements.add().schemes["away"].SetInParent()

    found = problems(undeclared)
    assert set(found) == {"security_requirements[1]", "skills[0].security_requirements[0]"}
    assert "lost" in found["security_requirements[1]"]


def test_skills_must_be_told_apart() -> None:
    twice = card()
    twice.skills.add().CopyFrom(twice.skills[0])

    assert set(problems(twice)) == {"skills[1].id"}


def test_an_address_to_bind_to_is_no_address_to_call() -> None:
    """B093: clients follow what the card says."""
    internal = card()
    del internal.supported_interfaces[:]
    for url in ("0.0.0.0:50051", "[::]:50051", "http://0.0.0.0:8080/a2a", "https://agent.example.com", "10.0.0.1:443"):
        internal.supported_interfaces.add(url=url, protocol_binding="GRPC", protocol_version="1.0")

    assert set(problems(internal)) == {f"supported_interfaces[{index}].url" for index in range(3)}
