"""Whatever is sent as credentials is refused or not understood; nothing else ever comes of it."""

import asyncio
import json
import re
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_grpc.server.auth.config import AuthConfig, build_gate
from a2a_grpc.server.auth.credentials import Credentials, PeerCertificate
from a2a_grpc.server.auth.refusals import NotAdmittedError
from a2a_grpc.server.auth.requirements import parse, show
from a2a_grpc.wire.errors import UnauthenticatedError, UnavailableError
from a2a_grpc.wire.keys import read_key_set
from tests.auth.issuer import AUDIENCE

pytestmark = pytest.mark.wide

ISSUER = "https://issuer.example.com"
GATE = build_gate(
    AuthConfig.model_validate(
        {
            "api_keys": {"keys": [["alice", "ab" * 32]]},
            # Nobody listens there.
            "jwt": {"issuer": ISSUER, "audience": AUDIENCE, "jwks_url": "http://127.0.0.1:1/keys"},
            "mtls": "san",
            "security": "bearer, apiKey, mtls",
        }
    )
)

# RFC 6750, 3.
CHALLENGES = re.compile(r'(\w+( \w+="[\x20\x21\x23-\x5b\x5d-\x7e]*"(, \w+="[\x20\x21\x23-\x5b\x5d-\x7e]*")*)?(, |$))+')

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
HEADERS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("alg", "kid", "typ", "crit", "b64", "jwk", "jku", "x5c", "zip"), JSON)
) | st.just({"alg": "ES256", "kid": "one"})
CLAIMS = st.fixed_dictionaries({}, optional=dict.fromkeys(("iss", "aud", "sub", "exp", "nbf", "scope", "cnf"), JSON))
OURS = CLAIMS.map(lambda claims: {**claims, "iss": ISSUER})


def _encoded(part: Any) -> str:
    return urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


TOKENS = st.builds(
    lambda header, claims, signature: f"{_encoded(header)}.{_encoded(claims)}.{signature}",
    HEADERS | JSON,
    CLAIMS | OURS | JSON,
    st.text("abc_-=", max_size=90) | st.just("AAAA"),
)


async def refused(credentials: Credentials) -> None:
    with pytest.raises((UnauthenticatedError, UnavailableError)) as caught:
        await GATE.admit(credentials)
    assert caught.value.message.isprintable()
    if isinstance(caught.value, NotAdmittedError):
        assert CHALLENGES.fullmatch(caught.value.challenge), caught.value.challenge


@settings(max_examples=200, deadline=None)
@given(st.text() | TOKENS, st.text(), st.sampled_from(["Bearer ", "bearer ", "BEARER  ", "", "Basic "]))
def test_no_header_opens_or_breaks_anything(token: str, key: str, scheme: str) -> None:
    sent = {"authorization": f"{scheme}{token}", "x-api-key": key}
    asyncio.run(refused(Credentials(parameters=sent)))


@settings(max_examples=50, deadline=None)
@given(st.builds(PeerCertificate, subject=st.text(), names=st.just(()), fingerprint=st.text()))
def test_no_certificate_without_a_name_opens(certificate: PeerCertificate) -> None:
    asyncio.run(refused(Credentials(certificate=certificate)))


@settings(max_examples=200, deadline=None)
@given(st.binary() | JSON.map(lambda value: json.dumps({"keys": value}).encode()))
def test_no_key_set_breaks_anything(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"it (is|holds) no"):
        read_key_set(data)


@given(st.text() | st.text("ab, +()", max_size=30))
def test_requirements_are_read_as_they_are_shown(text: str) -> None:
    try:
        found = parse(text)
    except ValueError:
        return
    assert parse(show(found)) == found
