"""A scheme that is configured by half is refused at start, with a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.server.auth.config import AuthConfig, build_gate
from a2a_grpc.server.settings import SettingsError, load
from tests.auth.issuer import jwk, private_key

KEY = f"alice:{'ab' * 32}"
JWT = {
    "A2A_JWT_ISSUER": "https://issuer.example.com",
    "A2A_JWT_AUDIENCE": "https://agent.example.com",
    "A2A_JWT_JWKS_URL": "https://issuer.example.com/keys",
}
FLOW = {"A2A_OAUTH2_FLOWS": "client_credentials", "A2A_OAUTH2_TOKEN_URL": "https://issuer.example.com/token"}


def without(name: str, given: dict[str, str] = JWT) -> dict[str, str]:
    return {key: value for key, value in given.items() if key != name}


HALVES: list[tuple[dict[str, str], str]] = [
    (without("A2A_JWT_AUDIENCE"), "A2A_JWT_ISSUER is set and A2A_JWT_AUDIENCE is not"),
    (without("A2A_JWT_ISSUER"), "A2A_JWT_AUDIENCE is set, but neither A2A_JWT_ISSUER nor A2A_OIDC_ISSUER"),
    (without("A2A_JWT_JWKS_URL"), "neither A2A_JWT_JWKS_URL nor A2A_JWT_JWKS_FILE says where its keys are"),
    (JWT | {"A2A_JWT_JWKS_FILE": "/keys.json"}, "are both set"),
    ({"A2A_JWT_SCOPES": "read"}, "A2A_JWT_SCOPES is set, but neither"),
    ({"A2A_JWT_ALGORITHMS": "ES256"}, "A2A_JWT_ALGORITHMS is set, but neither"),
    ({"A2A_JWT_LEEWAY": "5"}, "A2A_JWT_LEEWAY is set, but neither"),
    ({"A2A_JWKS_PLAINTEXT": "true"}, "A2A_JWKS_PLAINTEXT is set, but neither"),
    (JWT | {"A2A_JWT_AUDIENCE": "x" * 1025}, "audience.0: String should have at most 1024 characters."),
    ({"A2A_API_KEYS": KEY, "A2A_API_KEY_HEADER": "x" * 65}, "name: String should match pattern"),
    ({"A2A_CARD_JKU": "https://agent.example.com/keys"}, "A2A_SIGNING_KEYS names none, so the card is not signed"),
    (
        {"A2A_OIDC_ISSUER": "https://issuer.example.com"},
        "A2A_OIDC_ISSUER is set and A2A_JWT_AUDIENCE is not",
    ),
    (
        without("A2A_JWT_ISSUER") | {"A2A_OIDC_ISSUER": "https://issuer.example.com"},
        "A2A_JWT_JWKS_URL is set without A2A_JWT_ISSUER",
    ),
    (JWT | {"A2A_OIDC_ISSUER": "https://issuer.example.com"}, "both as an issuer of its own and by OpenID Connect"),
    (JWT | {"A2A_JWT_JWKS_URL": "http://issuer.example.com/keys"}, "must begin with https://"),
    (
        {"A2A_OIDC_ISSUER": "http://issuer.example.com", "A2A_JWT_AUDIENCE": "me"},
        "must begin with https://",
    ),
    (without("A2A_JWT_JWKS_URL") | {"A2A_JWT_JWKS_FILE": "/nowhere.json"}, "/nowhere.json cannot be used"),
    (FLOW, "A2A_OAUTH2_FLOWS is set, but neither A2A_JWT_ISSUER nor A2A_OIDC_ISSUER"),
    (JWT | without("A2A_OAUTH2_TOKEN_URL", FLOW), "needs A2A_OAUTH2_TOKEN_URL"),
    (JWT | FLOW | {"A2A_OAUTH2_FLOWS": "authorization_code"}, "needs A2A_OAUTH2_AUTHORIZATION_URL"),
    (JWT | FLOW | {"A2A_OAUTH2_FLOWS": "device_code"}, "needs A2A_OAUTH2_DEVICE_URL"),
    (JWT | {"A2A_OAUTH2_SCOPES": "read=x"}, "A2A_OAUTH2_SCOPES is set, but A2A_OAUTH2_FLOWS names no flow"),
    ({"A2A_API_KEYS": KEY, "A2A_API_KEY_IN": "query"}, "A2A_API_KEY_NAME does not say under which name"),
    ({"A2A_API_KEYS": KEY, "A2A_API_KEY_NAME": "key"}, "keys stand in the header that A2A_API_KEY_HEADER names"),
    ({"A2A_API_KEY_IN": "query", "A2A_API_KEY_NAME": "key"}, "A2A_API_KEYS names none, so anybody could call"),
    ({"A2A_API_KEY_HEADER": "x-key"}, "A2A_API_KEYS names none, so anybody could call"),
    (JWT | {"A2A_API_KEYS": KEY, "A2A_API_KEY_HEADER": "authorization"}, "cannot both stand in the header"),
    ({"A2A_SECURITY": "apiKey"}, "A2A_SECURITY requires schemes, and none is configured"),
    ({"A2A_API_KEYS": KEY, "A2A_SECURITY": "bearer"}, "requires the security scheme bearer; configured: apiKey"),
    ({"A2A_API_KEYS": KEY, "A2A_SECURITY": "apiKey(read)"}, "only tokens have scopes"),
    *(
        (
            {"A2A_API_KEYS": KEY, "A2A_API_KEY_HEADER": name},
            f"cannot be sent as {name.lower()}: that name has a meaning",
        )
        for name in ("Host", "content-type", "Connection", "Cookie", "X-Request-Id", "a2a-version", "last-event-id")
    ),
    *(
        (
            {"A2A_API_KEYS": KEY, "A2A_API_KEY_IN": "query", "A2A_API_KEY_NAME": name},
            f"cannot be sent as {name}: that is a field of requests",
        )
        for name in ("tenant", "id", "page_size", "status")
    ),
    (JWT | {"A2A_JWT_ISSUER": "https://issuer.example.com#a"}, "could be mistaken for that of a caller"),
    (JWT | {"A2A_JWT_ISSUER": "cert:CN=issuer"}, "could be mistaken for that of a caller"),
    ({"A2A_API_KEYS": KEY, "A2A_OWNER": "claim:org"}, "have no token with claims"),
    (JWT | {"A2A_API_KEYS": KEY, "A2A_OWNER": "claim:org"}, "callers who come by apiKey have no token with claims"),
    ({"A2A_OWNER": "claim:org"}, "there are no tokens"),
    ({"A2A_MTLS_ALLOW": "CN=alice"}, "A2A_MTLS_ALLOW says whose certificates let them in, but A2A_MTLS is off"),
    ({"A2A_MTLS": "san", "A2A_MTLS_ALLOW": "CN=alice,O=Example"}, "callers are known by alternative names"),
    ({"A2A_MTLS": "subject", "A2A_MTLS_ALLOW": "DNS:a.example"}, "callers are known by subjects"),
    *(
        ({"A2A_MTLS": "san", "A2A_MTLS_ALLOW": f"DNS:a.example;{pattern}"}, f"{pattern} has a * where none can be")
        for pattern in (
            "DNS:*",
            "DNS:*.",
            "DNS:a.*",
            "DNS:*.*.example",
            "URI:*",
            "URI:spiffe://*",
            "URI:spiffe://a*",
            "URI:spiffe://*/a",
            "URI:spiffe://a/b*",
            "email:*@example.com",
        )
    ),
]


@pytest.mark.parametrize(("given", "said"), HALVES)
def test_a_scheme_by_half_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(given)
    assert any(said in problem for problem in caught.value.problems), caught.value.problems
    assert all(problem.endswith(".") and "\n" not in problem for problem in caught.value.problems)


WRONG = [
    ("A2A_JWT_ALGORITHMS", "HS256", "'HS256' is none of RS256"),
    ("A2A_JWT_ALGORITHMS", "none", "'none' is none of RS256"),
    ("A2A_JWT_LEEWAY", "301", "at most 300"),
    ("A2A_JWT_ISSUER", "two words", "without spaces"),
    ("A2A_JWT_SCOPES", 'read "write"', "scopes are words"),
    ("A2A_OIDC_ISSUER", "issuer.example.com", "it must be a URL"),
    ("A2A_OIDC_ISSUER", "https://user:secret@issuer.example.com", "it must be a URL"),
    ("A2A_OAUTH2_FLOWS", "implicit", "'implicit' is none of client_credentials"),
    ("A2A_MTLS", "cn", "must be subject or san"),
    ("A2A_MTLS_ALLOW", ";", "names of certificates with one semicolon between them"),
    ("A2A_SECURITY", "bearer or apiKey", "names of schemes with commas"),
    ("A2A_OWNER", "everybody", "it must be caller, tenant, or claim:"),
    ("A2A_API_KEY_IN", "body", "one of header, query, cookie"),
]


@pytest.mark.parametrize("text", [",", " , ,"])
@pytest.mark.parametrize(
    "name",
    [
        "A2A_JWT_AUDIENCE", "A2A_JWT_ALGORITHMS", "A2A_JWT_SCOPES", "A2A_OAUTH2_FLOWS", "A2A_OAUTH2_SCOPES",
        "A2A_SIGNING_KEYS", "A2A_REGISTRY_TRUSTED_KEYS",
    ],
)  # fmt: skip
def test_a_list_of_nothing_is_not_taken_for_none(name: str, text: str) -> None:
    """A template whose values were missing would switch off scopes or signatures, and nobody would be told."""
    with pytest.raises(SettingsError) as caught:
        load(JWT | {name: text})
    said = "it names nothing; leave it out, or name at least one, with commas between several"
    assert caught.value.problems == [f"{name} is {text.strip()!r}, but {said}."]


@pytest.mark.parametrize("given", [{}, {"A2A_JWKS_PLAINTEXT": "false"}, {"A2A_JWT_SCOPES": ""}])
def test_what_says_that_there_is_none_is_taken(given: dict[str, str]) -> None:
    assert not load(given).auth.closed


@pytest.mark.parametrize(("name", "value", "said"), WRONG)
def test_wrong_values_are_refused(name: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load({name: value})
    assert said in caught.value.problems[0]
    assert "secret" not in caught.value.problems[0]


def test_keys_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    given = without("A2A_JWT_JWKS_URL") | {"A2A_JWT_JWKS_FILE": str(path)}
    path.write_text(json.dumps({"keys": [jwk("one", private_key("EC"))]}))
    load(given)
    for text in ("", "{}", '{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}'):
        path.write_text(text)
        with pytest.raises(SettingsError, match="cannot be used as a JWK Set"):
            load(given)


def declared(config: AuthConfig, card: pb.AgentCard | None = None) -> pb.AgentCard:
    card = card or pb.AgentCard()
    build_gate(config, card).declare(card)
    return card


def test_the_flows_of_oauth2_are_declared_one_a_scheme() -> None:
    given = JWT | FLOW | {
        "A2A_OAUTH2_FLOWS": "client_credentials,authorization_code,device_code",
        "A2A_OAUTH2_AUTHORIZATION_URL": "https://issuer.example.com/login",
        "A2A_OAUTH2_DEVICE_URL": "https://issuer.example.com/device",
        "A2A_OAUTH2_METADATA_URL": "https://issuer.example.com/.well-known/oauth-authorization-server",
        "A2A_OAUTH2_SCOPES": "read=see tasks, write",
        "A2A_JWT_SCOPES": "read",
        "A2A_SECURITY": "oauth2ClientCredentials, oauth2AuthorizationCode, oauth2DeviceCode(write)",
    }  # fmt: skip
    card = declared(load(given).auth.config())
    assert set(card.security_schemes) == {"oauth2ClientCredentials", "oauth2AuthorizationCode", "oauth2DeviceCode"}
    code = card.security_schemes["oauth2AuthorizationCode"].oauth2_security_scheme
    assert code.flows.authorization_code == pb.AuthorizationCodeOAuthFlow(
        authorization_url="https://issuer.example.com/login",
        token_url="https://issuer.example.com/token",
        scopes={"read": "see tasks", "write": ""},
        pkce_required=True,
    )
    assert code.oauth2_metadata_url.endswith("/oauth-authorization-server")
    device = card.security_schemes["oauth2DeviceCode"].oauth2_security_scheme.flows.device_code
    assert device.device_authorization_url == "https://issuer.example.com/device"
    assert [sorted(one.schemes[name].list) for one in card.security_requirements for name in one.schemes] == [
        ["read"],
        ["read"],
        ["read", "write"],
    ]


FILE: dict[str, Any] = {
    "api_keys": {"keys": [["alice", "ab" * 32], ["alice", "cd" * 32]]},
    "jwt": {
        "issuer": "https://issuer.example.com",
        "audience": "me",
        "jwks_url": "https://issuer.example.com/keys",
        "scopes": ["read"],
    },
    "mtls": "san",
    "security": "bearer+mtls, apiKey",
    "owner": "tenant",
}


def test_the_same_in_a_file() -> None:
    card = declared(AuthConfig.model_validate(FILE))
    assert set(card.security_schemes) == {"bearer", "mtls", "apiKey"}
    assert card.security_requirements[0].schemes["bearer"].list == ["read"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"api_keys": {"keys": [["alice", "my secret key"]]}}, "api_keys.keys"),
        ({"api_keys": {"keys": []}}, "api_keys.keys"),
        ({"jwt": {"issuer": "x", "jwks_url": "https://x"}}, "jwt.audience"),
        ({"jwt": {"issuer": "x", "audience": [], "jwks_url": "https://x"}}, "jwt.audience"),
        ({"jwt": {**FILE["jwt"], "algorithms": ["HS256"]}}, "the algorithms of tokens are RS256"),
        ({"jtw": {}}, "jtw"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_and_not_repeated(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=r"(?s).") as caught:
        AuthConfig.model_validate(FILE | change)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_card_may_say_which_schemes_are_required() -> None:
    """Where the settings say nothing; both would be one too many."""
    entry = pb.SecurityRequirement(schemes={"apiKey": pb.StringList(), "mtls": pb.StringList()})
    card = pb.AgentCard(security_requirements=[entry])
    assert list(declared(AuthConfig.model_validate(FILE | {"security": ""}), card).security_requirements) == [entry]
    with pytest.raises(ValueError, match="leave one of the two out"):
        build_gate(AuthConfig.model_validate(FILE), card)
    with pytest.raises(ValueError, match="would let anybody in"):
        build_gate(
            AuthConfig.model_validate(FILE | {"security": ""}),
            pb.AgentCard(security_requirements=[pb.SecurityRequirement()]),
        )
    with pytest.raises(ValueError, match="requires the security scheme apiKey; configured: none"):
        build_gate(AuthConfig(), card)
