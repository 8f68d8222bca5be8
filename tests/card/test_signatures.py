"""8.4: what is signed, who is believed, and that the official Python SDK agrees."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jwt
import orjson
import pytest
from a2a.utils.signing import (
    InvalidSignaturesError,
    NoSignatureError,
    create_agent_card_signer,
    create_signature_verifier,
)
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.card.signing import UNSIGNED, CardSigner
from a2a_grpc.server.keys import SigningKeys, load_signing_keys, signing_key
from a2a_grpc.wire import protojson
from a2a_grpc.wire.card_signatures import canonical, reduced, verify_signatures
from a2a_grpc.wire.jws import BadSignatureError
from a2a_grpc.wire.keys import PublicKey, read_key_set

JKU = "https://agent.example.com/.well-known/jwks.json"

P256 = ec.generate_private_key(ec.SECP256R1())
RSA = rsa.generate_private_key(65537, 2048)
ED = ed25519.Ed25519PrivateKey.generate()
KEYS: Mapping[str, Any] = {"ES256": P256, "RS256": RSA, "EdDSA": ED}


def card(*, scopes: bool = True) -> a2a_pb2.AgentCard:
    """A card with texts and numbers of all kinds; without `scopes` it has entries that are empty."""
    made = a2a_pb2.AgentCard(
        name="Zoë 🦕 \u20ac",
        description='Line\nbreak, "quotes" and \\ and \u007f',
        version="1.0.0",
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=a2a_pb2.AgentCapabilities(streaming=False),
    )
    made.supported_interfaces.add(url="agent.example.com:443", protocol_binding="GRPC", protocol_version="1.0")
    made.skills.add(id="one", name="One", description="Does one thing.", tags=["x"])
    made.security_schemes["\U0001f511"].api_key_security_scheme.location = "header"
    made.security_schemes["\U0001f511"].api_key_security_scheme.name = "x-api-key"
    made.security_schemes["\ue000"].http_auth_security_scheme.scheme = "Bearer"
    requirement = made.security_requirements.add()
    requirement.schemes["\ue000"].list.extend(["read"] if scopes else [])
    extension = made.capabilities.extensions.add(uri="urn:example:ext")
    extension.params.update({"small": 5e-324, "whole": 3.0, "big": 1e21, "beyond": 2.0**60, "b": {"a": [1, True]}})
    return made


def keys_of(*names: str) -> SigningKeys:
    return SigningKeys(tuple(signing_key(KEYS[name]) for name in names))


def trusted(keys: SigningKeys) -> tuple[PublicKey, ...]:
    return read_key_set(orjson.dumps(keys.jwks()))


def _sdk_verifies(keys: SigningKeys, algorithms: list[str]) -> Callable[[Any], None]:
    """What the official SDK's users call, with the keys that are published here."""
    published = {key["kid"]: jwt.PyJWK.from_dict(key) for key in keys.jwks()["keys"]}
    return create_signature_verifier(lambda kid, _: published[kid or ""], algorithms)


def header_of(signature: a2a_pb2.AgentCardSignature) -> Any:
    return json.loads(urlsafe_b64decode(signature.protected + "=" * (-len(signature.protected) % 4)))


def test_8_4_1_the_worked_example() -> None:
    fragment = {
        "name": "Example Agent",
        "description": "",
        "capabilities": {"streaming": False, "pushNotifications": False, "extensions": []},
        "skills": [],
    }
    read = canonical(protojson.from_dict(fragment, a2a_pb2.AgentCard))
    # What the fragment leaves out of a card and the proto requires is in the canonical form of a whole card.
    content = {name: value for name, value in json.loads(read).items() if name in fragment}
    assert json.dumps(content, separators=(",", ":")) == (
        '{"capabilities":{"pushNotifications":false,"streaming":false},"description":"","name":"Example Agent",'
        '"skills":[]}'
    )
    assert set(json.loads(read)) - set(fragment) == {
        "defaultInputModes",
        "defaultOutputModes",
        "supportedInterfaces",
        "version",
    }


def test_8_4_1_object_keys_are_sorted_by_utf_16_and_text_is_not_escaped() -> None:
    text = canonical(card()).decode()
    assert list(json.loads(text)["securitySchemes"]) == ["\U0001f511", "\ue000"]
    assert "Zoë 🦕 €" in text
    assert '"big":1e+21' in text and '"whole":3' in text and '"beyond":1152921504606847000' in text


@pytest.mark.parametrize("algorithm", KEYS)
def test_8_4_2_a_signature_and_its_header(algorithm: str) -> None:
    keys, signed = keys_of(algorithm), card()
    CardSigner(keys, JKU).sign(signed)
    [signature] = signed.signatures
    assert header_of(signature) == {"alg": algorithm, "typ": "JOSE", "kid": keys.keys[0].kid, "jku": JKU}
    assert verify_signatures(protojson.dumps(signed), trusted(keys)) == (keys.keys[0].kid, algorithm)
    assert verify_signatures(signed, trusted(keys)).kid == keys.keys[0].kid


@pytest.mark.parametrize("algorithm", KEYS)
def test_b095_replicas_with_the_same_key_publish_the_same_bytes(algorithm: str) -> None:
    one, other = card(), card()
    CardSigner(keys_of(algorithm)).sign(one)
    CardSigner(keys_of(algorithm)).sign(other)
    assert protojson.dumps(one) == protojson.dumps(other)


@pytest.mark.parametrize("scopes", [True, False])
@pytest.mark.parametrize("algorithm", KEYS)
def test_a_signature_from_here_verifies_with_the_official_sdk(algorithm: str, scopes: bool) -> None:
    keys, signed = keys_of(algorithm), card(scopes=scopes)
    CardSigner(keys, JKU).sign(signed)
    assert len(signed.signatures) == (1 if scopes else 2)
    verify = _sdk_verifies(keys, [algorithm])
    verify(signed)
    signed.description += "!"
    with pytest.raises(InvalidSignaturesError):
        verify(signed)


@pytest.mark.parametrize("scopes", [True, False])
@pytest.mark.parametrize("algorithm", KEYS)
def test_a_signature_of_the_official_sdk_verifies_here(algorithm: str, scopes: bool) -> None:
    keys, signed = keys_of(algorithm), card(scopes=scopes)
    pem = KEYS[algorithm].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    sign: Callable[[Any], Any] = create_agent_card_signer(
        pem, {"kid": keys.keys[0].kid, "alg": algorithm, "jku": JKU, "typ": "JOSE"}, {"note": "not covered"}
    )
    sign(signed)
    assert verify_signatures(protojson.dumps(signed), trusted(keys)) == (keys.keys[0].kid, algorithm)
    signed.skills[0].name = "Another"
    with pytest.raises(BadSignatureError, match="does not belong to this content"):
        verify_signatures(protojson.dumps(signed), trusted(keys))


def test_the_two_forms_differ_in_what_is_empty_alone() -> None:
    assert canonical(card()) == reduced(card())
    bare = card(scopes=False)
    assert json.loads(canonical(bare))["securityRequirements"] == [{"schemes": {"\ue000": {}}}]
    assert "securityRequirements" not in json.loads(reduced(bare))


def test_rotation_old_and_new_key_sign_and_either_is_enough() -> None:
    """8.4.3: several signatures support key rotation."""
    both, signed = keys_of("ES256", "EdDSA"), card()
    CardSigner(both).sign(signed)
    assert [header_of(signature)["kid"] for signature in signed.signatures] == [key.kid for key in both.keys]
    for name in ("ES256", "EdDSA"):
        assert verify_signatures(signed, trusted(keys_of(name))).algorithm == name
    with pytest.raises(BadSignatureError, match="no key that is trusted"):
        verify_signatures(signed, trusted(keys_of("RS256")))
    _sdk_verifies(both, ["EdDSA"])(signed)


def test_signing_again_replaces_what_was_there_and_no_key_leaves_none() -> None:
    signed = card()
    signed.signatures.add(protected="x", signature="y")
    CardSigner(keys_of("ES256")).sign(signed)
    CardSigner(keys_of("ES256")).sign(signed)
    assert len(signed.signatures) == 1
    UNSIGNED.sign(signed)
    assert not signed.signatures
    with pytest.raises(BadSignatureError, match="not signed"):
        verify_signatures(signed, trusted(keys_of("ES256")))
    with pytest.raises(NoSignatureError):
        _sdk_verifies(keys_of("ES256"), ["ES256"])(signed)


def test_a_card_of_a_newer_version_is_verified_as_it_came() -> None:
    content = {**protojson.to_dict(card()), "fieldOfTomorrow": {"a": [1.5, None]}}
    key = signing_key(P256)
    # orjson sorts by code point, and the card has a pair of keys for which UTF-16 has another order.
    content = {
        **content,
        "securitySchemes": {"k": content["securitySchemes"]["\U0001f511"]},
        "securityRequirements": [],
    }
    payload = orjson.dumps(_ints(content), option=orjson.OPT_SORT_KEYS)
    protected, signature = key.sign(payload, {"typ": "JOSE"})
    served = orjson.dumps({**_ints(content), "signatures": [{"protected": protected, "signature": signature}]})
    keys = trusted(SigningKeys((key,)))
    assert verify_signatures(served, keys).kid == key.kid
    with pytest.raises(BadSignatureError):
        verify_signatures(served.replace(b"fieldOfTomorrow", b"fieldOfYesterday"), keys)
    with pytest.raises(BadSignatureError):
        verify_signatures(protojson.loads(served, a2a_pb2.AgentCard), keys)


def _ints(content: dict[str, Any]) -> dict[str, Any]:
    """Without the numbers that JCS writes in another way than orjson."""
    return {**content, "capabilities": {"streaming": False}}


def _reheaded(signature: a2a_pb2.AgentCardSignature, key: Any, payload: bytes, **header: Any) -> None:
    protected = urlsafe_b64encode(orjson.dumps({**header_of(signature), **header})).rstrip(b"=")
    signing_input = protected + b"." + urlsafe_b64encode(payload).rstrip(b"=")
    signature.protected = protected.decode()
    signature.signature = urlsafe_b64encode(key.sign(signing_input)).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"alg": "none"}, "algorithm is not one of the key's"),
        ({"alg": "HS256"}, "algorithm is not one of the key's"),
        ({"alg": "ES256"}, "algorithm is not one of the key's"),
        ({"alg": None}, "does not name an algorithm"),
        ({"alg": ["EdDSA"]}, "does not name an algorithm"),
        ({"kid": 1}, "does not name an algorithm"),
        ({"kid": "another"}, "no key that is trusted"),
        ({"crit": ["exp"], "exp": 0}, "rules that are not known"),
        ({"b64": False}, "rules that are not known"),
        ({"aud": "https://example.com/hook"}, "no signature of a card"),
    ],
)
def test_headers_that_are_not_believed_although_the_key_is_right(header: dict[str, Any], reason: str) -> None:
    keys, signed = keys_of("EdDSA"), card()
    CardSigner(keys).sign(signed)
    _reheaded(signed.signatures[0], ED, canonical(signed))
    assert verify_signatures(signed, trusted(keys)).algorithm == "EdDSA"
    _reheaded(signed.signatures[0], ED, canonical(signed), **header)
    with pytest.raises(BadSignatureError, match=reason):
        verify_signatures(signed, trusted(keys))


@pytest.mark.parametrize(
    ("protected", "signature"),
    [
        ("", ""),
        ("!", "x"),
        ("bnVsbA", "x"),
        ("W10", "x"),
        ("eyJhbGci", "x"),
        ("e30.e30", "x"),
        ("e30", "\u00e9"),
        ("e" * 9000, "x"),
    ],
)
def test_garbage_is_refused_and_does_not_hide_a_good_signature(protected: str, signature: str) -> None:
    keys, signed = keys_of("ES256"), card()
    CardSigner(keys).sign(signed)
    good = a2a_pb2.AgentCardSignature()
    good.CopyFrom(signed.signatures[0])
    del signed.signatures[:]
    signed.signatures.add(protected=protected, signature=signature)
    with pytest.raises(BadSignatureError):
        verify_signatures(signed, trusted(keys))
    signed.signatures.append(good)
    assert verify_signatures(signed, trusted(keys)).algorithm == "ES256"


def test_a_key_that_its_header_carries_is_not_believed() -> None:
    """The card of a stranger brings its own key."""
    stranger = ed25519.Ed25519PrivateKey.generate()
    own, keys, signed = signing_key(stranger), keys_of("EdDSA"), card()
    CardSigner(SigningKeys((own,))).sign(signed)
    _reheaded(
        signed.signatures[0], stranger, canonical(signed), jwk=dict(own.public), jku="https://evil.example/jwks.json"
    )
    with pytest.raises(BadSignatureError, match="no key that is trusted"):
        verify_signatures(signed, trusted(keys))
    # Nor under the id of a key that is trusted.
    _reheaded(signed.signatures[0], stranger, canonical(signed), kid=keys.keys[0].kid)
    with pytest.raises(BadSignatureError, match="does not belong"):
        verify_signatures(signed, trusted(keys))


@pytest.mark.parametrize(
    "spoilt", [{"revoked": {"revoked_at": 1}}, {"exp": 1}, {"use": "enc"}, {"key_ops": ["encrypt"]}, {"alg": "PS256"}]
)
def test_keys_that_are_over_or_for_something_else_are_not_used(spoilt: dict[str, Any]) -> None:
    keys, signed = keys_of("ES256", "EdDSA"), card()
    CardSigner(SigningKeys(keys.keys[:1])).sign(signed)
    document = keys.jwks()
    document["keys"][0] |= spoilt
    with pytest.raises(BadSignatureError, match="no key that is trusted"):
        verify_signatures(signed, read_key_set(orjson.dumps(document)))


# -- the files ---------------------------------------------------------------------------------------------------------


def _pem(key: Any) -> bytes:
    written: bytes = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return written


def test_keys_come_from_pem_and_jwk_files_and_publish_nothing_private(tmp_path: Path) -> None:
    (tmp_path / "a.pem").write_bytes(_pem(P256))
    jwk = {**jwt.algorithms.ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()), as_dict=True), "kid": "2026-11"}
    (tmp_path / "b.json").write_text(json.dumps(jwk))
    (tmp_path / "c.json").write_text(json.dumps(jwt.algorithms.RSAAlgorithm.to_jwk(RSA, as_dict=True)))
    keys = load_signing_keys([tmp_path / "a.pem", tmp_path / "b.json", tmp_path / "c.json"])
    assert [key.kid for key in keys.keys] == [signing_key(P256).kid, "2026-11", signing_key(RSA).kid]
    published = keys.jwks()["keys"]
    assert [set(key) for key in published] == [
        {"kty", "crv", "x", "y", "kid", "alg", "use"},
        {"kty", "crv", "x", "y", "kid", "alg", "use"},
        {"kty", "n", "e", "kid", "alg", "use"},
    ]
    assert jwk["d"] not in json.dumps(published) and jwk["d"] not in repr(keys)


PUBLIC = P256.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
LOCKED = P256.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "must be a private key"),
        (b"{}", "must be a private key"),
        (b'{"kty":"oct","k":"c2VjcmV0"}', "must be a key on the curve P-256"),
        (PUBLIC, "must be a private key"),
        (_pem(ec.generate_private_key(ec.SECP384R1())), "P-256"),
        (_pem(rsa.generate_private_key(65537, 1024)), "2048"),  # noqa: S505 -- that is the point
        (LOCKED, "without a password"),
    ],
)
def test_files_that_are_no_keys_are_refused_with_a_sentence(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(ValueError, match=reason) as caught:
        load_signing_keys([tmp_path / "key"])
    assert str(tmp_path / "key") in str(caught.value)


def test_a_missing_file_and_a_repeated_key_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        load_signing_keys([tmp_path / "none.pem"])
    (tmp_path / "a").write_bytes(_pem(P256))
    with pytest.raises(ValueError, match="two keys with the same id"):
        load_signing_keys([tmp_path / "a", tmp_path / "a"])
