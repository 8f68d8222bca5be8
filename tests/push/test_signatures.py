"""Signed deliveries, and the helper by which receivers check them."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from jwt import PyJWK, PyJWS

from a2a_grpc.client.webhooks import NotVerifiedError, check_token, parse, verify
from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.server.keys import PrivateKey, SigningKeys, load_signing_keys
from a2a_grpc.wire.errors import A2AError
from tests.conformance.callers import VERSION, GrpcCaller
from tests.push.config import AGENT, QUICK, config
from tests.support.receiver import Delivery, Receiver
from tests.support.replica import replica

PRIVATE: dict[str, Callable[[], PrivateKey]] = {
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


def pem(folder: Path, algorithm: str, name: str = "key") -> Path:
    path = folder / f"{name}-{algorithm}.pem"
    path.write_bytes(PRIVATE[algorithm]().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


def headers(one: Delivery) -> dict[str, str]:
    return {name.title(): value for name, value in one.headers}


@pytest.mark.parametrize("algorithm", PRIVATE)
async def test_every_delivery_is_signed_by_the_key_that_is_published(
    algorithm: str, tmp_path: Path, hook: Receiver
) -> None:
    """Another key is published beside it, for rotation."""
    keys = f"{pem(tmp_path, algorithm)},{pem(tmp_path, 'ES256', 'old')}"
    async with replica(agent=AGENT, env={**QUICK, "A2A_SIGNING_KEYS": keys}) as one:
        async with GrpcCaller(one, VERSION) as caller:
            task = await caller.task("chunks 2", task_push_notification_config=config(hook, token="mine"))
        async with httpx.AsyncClient(base_url=one.http_url, trust_env=False) as http:
            jwks = (await http.get("/.well-known/jwks.json")).json()
        taken = await hook.until_end()
    assert len(jwks["keys"]) == 2
    for delivery in taken:
        verify(headers(delivery), delivery.body, jwks, url=hook.url + "/hook")
        check_token(headers(delivery), "mine")
        told = parse(headers(delivery), delivery.body)
        assert (told.task_id, told.seq, told.id) == (task.id, delivery.seq, delivery.header("x-a2a-delivery-id"))
        # Any library can: with the body put back in, it is an ordinary JWS.
        protected, signature = delivery.header("x-a2a-signature").split("..")
        key = PyJWK(jwks["keys"][0])
        body = _base64url(delivery.body)
        decoded = PyJWS().decode_complete(f"{protected}.{body}.{signature}", key, algorithms=[algorithm])
        assert (decoded["payload"], decoded["header"]["kid"]) == (delivery.body, jwks["keys"][0]["kid"])
    _forgeries(taken, jwks, hook)


def _base64url(text: bytes) -> str:

    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def _forgeries(taken: list[Delivery], jwks: dict[str, Any], hook: Receiver) -> None:
    url, one, two = hook.url + "/hook", taken[0], taken[1]
    good = headers(one)
    others = {"keys": [key for key in jwks["keys"] if key["kid"] != jwks["keys"][0]["kid"]]}
    none = {**jwks["keys"][0], "kty": "oct", "k": "AAAA", "alg": "HS256"}
    for wrong, body, keys, at, later in (
        (good, two.body, jwks, url, 0),
        (good, one.body + b" ", jwks, url, 0),
        (good, one.body, jwks, hook.url + "/other", 0),
        (good, one.body, others, url, 0),
        (good, one.body, {"keys": []}, url, 0),
        (good, one.body, {"keys": [none]}, url, 0),
        (good, one.body, jwks, url, 3600),
        (good, one.body, jwks, url, -3600),
        (good | {"X-A2A-Delivery-Id": two.header("x-a2a-delivery-id")}, one.body, jwks, url, 0),
        (good | {"X-A2A-Event-Seq": "99"}, one.body, jwks, url, 0),
        (good | {"X-A2A-Signature": ""}, one.body, jwks, url, 0),
        (good | {"X-A2A-Signature": "a.b.c"}, one.body, jwks, url, 0),
        (good | {"X-A2A-Signature": "bm9uZQ..x"}, one.body, jwks, url, 0),
        (good | {"X-A2A-Signature": headers(two)["X-A2A-Signature"]}, one.body, jwks, url, 0),
    ):
        lower = {name.lower(): value for name, value in wrong.items()}
        with pytest.raises(NotVerifiedError):
            verify(lower, body, keys, url=at, now=_made(one) + later)
    with pytest.raises(NotVerifiedError):
        check_token(good, "theirs")
    with pytest.raises(NotVerifiedError):
        check_token({}, "")


def _made(one: Delivery) -> float:

    protected = one.header("x-a2a-signature").split("..")[0]
    return float(json.loads(base64.urlsafe_b64decode(protected + "=="))["iat"])


def test_what_is_no_notification_is_refused() -> None:
    for body in (b"", b"null", b"{}", b"[]", b'{"task": 3}', b'{"unknown": {}}', b"\xff"):
        with pytest.raises(A2AError):
            parse({}, body)
    told = parse({}, b'{"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}')
    assert (told.id, told.seq, told.task_id) == ("", 0, "t")
    assert told.event.task.status.state == pb.TASK_STATE_WORKING


def test_odd_headers_are_no_reason_to_fail() -> None:
    """Whoever knows the URL of a receiver can send it anything."""
    body = b'{"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}'
    for number in ("9" * 5000, "-1", "1e3", "\u0663", "", "x"):
        assert parse({"X-A2A-Event-Seq": number}, body).seq == 0
    for token in ("\udcff", "\xff", "x" * 100_000):
        with pytest.raises(NotVerifiedError):
            check_token({"x-a2a-notification-token": token}, "mine")
    named = base64.urlsafe_b64encode(b'{"kid": "a", "alg": "ES256"}').decode()
    lists = (None, ["x"], [{"kid": "a"}], [{"kid": "a", "kty": "x"}])
    sets: list[dict[str, Any]] = [{}, *({"keys": keys} for keys in lists)]
    for protected in ("W10", "bnVsbA", "\udcff", "é", "A" * 100_000, named):
        for jwks in sets:
            with pytest.raises(NotVerifiedError):
                verify({"x-a2a-signature": f"{protected}..x"}, body, jwks, url="u")


def test_keys_are_known_by_their_thumbprint(tmp_path: Path) -> None:
    paths = [pem(tmp_path, algorithm) for algorithm in PRIVATE]
    keys = load_signing_keys(paths)
    assert [key.algorithm for key in keys.keys] == list(PRIVATE)
    assert keys.jwks() == load_signing_keys(paths).jwks()
    assert all(not {"d", "p", "q"} & key.keys() for key in keys.jwks()["keys"])
    assert SigningKeys().first is None
    assert "private" not in repr(keys)


def test_what_is_no_key_is_refused_with_a_sentence(tmp_path: Path) -> None:
    garbage, weak, curve = tmp_path / "garbage.pem", tmp_path / "weak.pem", tmp_path / "curve.pem"
    garbage.write_text("-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----\n")
    for path, private in (
        (weak, rsa.generate_private_key(65537, 1024)),  # noqa: S505 - it is to be refused
        (curve, ec.generate_private_key(ec.SECP384R1())),
    ):
        path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    for path in (garbage, weak, curve, tmp_path / "missing.pem"):
        with pytest.raises(ValueError, match=path.name) as refusal:
            load_signing_keys([path])
        assert "s3cret" not in str(refusal.value)
    same = pem(tmp_path, "ES256")
    with pytest.raises(ValueError, match="leave one of them out"):
        load_signing_keys([same, same])
