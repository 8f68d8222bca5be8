"""Which tokens hold, against an issuer that answers over HTTP."""

import asyncio
import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from a2a_grpc.server.auth import jwks
from a2a_grpc.server.auth.credentials import Credentials, PeerCertificate
from a2a_grpc.server.auth.refusals import NotAdmittedError
from a2a_grpc.server.auth.tokens import Issuer as Trusted
from a2a_grpc.server.auth.tokens import Token, Tokens
from a2a_grpc.wire.errors import UnavailableError
from a2a_grpc.wire.keys import ALGORITHMS, read_key_set
from tests.auth.issuer import AUDIENCE, Issuer, encoded, issuing, jwk, private_key
from tests.support.waiting import wait_until


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing() as one:
        yield one


def tokens(issuer: Issuer, keys: jwks.Keys | None = None, **how: Any) -> Tokens:
    """What trusts `issuer` with everything that may be."""
    return Tokens([trusted(issuer, keys, **how)])


def trusted(issuer: Issuer, keys: jwks.Keys | None = None, **how: Any) -> Trusted:
    given: dict[str, Any] = {"audiences": (AUDIENCE,), "algorithms": frozenset(ALGORITHMS), "leeway": 30.0, **how}
    return Trusted(name=issuer.url, keys=keys or jwks.from_url(issuer.jwks_url), **given)


def fetching(issuer: Issuer, **times: float) -> jwks.Keys:
    """The keys of an issuer with other times."""
    return jwks.Keys(issuer.jwks_url, partial(jwks._get, issuer.jwks_url), **times)


async def read(checked: Tokens, text: str, **more: Any) -> Token:
    token = await checked.read(Credentials(parameters={"authorization": f"Bearer {text}"}, **more))
    assert token is not None
    return token


async def refusal(checked: Tokens, text: str, **more: Any) -> str:
    """What is said of a token that does not hold."""
    with pytest.raises(NotAdmittedError) as caught:
        await read(checked, text, **more)
    assert text not in caught.value.message
    assert caught.value.challenge == f'Bearer error="invalid_token", error_description="{caught.value.message}"'
    return caught.value.message


@pytest.mark.parametrize(
    ("kind", "algorithm"),
    [("EC", "ES256"), ("P-384", "ES384"), ("OKP", "EdDSA"), ("RSA", "RS256"), ("RSA", "PS512")],
)
async def test_a_token_that_holds_says_who_calls(issuer: Issuer, kind: str, algorithm: str) -> None:
    issuer.rotate("two", kind)
    text = issuer.token("two", algorithm=algorithm, scope="read write", scp=["more"], org="acme")

    token = await read(tokens(issuer), text)

    assert (token.issuer, token.subject, token.caller) == (issuer.url, "alice", f"{issuer.url}#alice")
    assert token.scopes == {"read", "write", "more"}
    assert token.claims["org"] == "acme"


@pytest.mark.parametrize("header", ["", "Basic YTpi", "Digest x", "Bearerx", "token"])
async def test_other_headers_are_none(issuer: Issuer, header: str) -> None:
    assert await tokens(issuer).read(Credentials(parameters={"authorization": header})) is None
    assert await tokens(issuer).read(Credentials()) is None


BAD: dict[str, tuple[Callable[[Issuer], str], str]] = {
    "expired": (lambda made: made.token(exp=int(time.time()) - 31), "The token has expired."),
    "long expired": (lambda made: made.token(exp=1), "The token has expired."),
    "not yet": (lambda made: made.token(nbf=int(time.time()) + 40), "The token is not valid yet."),
    "of the future": (lambda made: made.token(iat=int(time.time()) + 40), "The token is not valid yet."),
    "for another": (
        lambda made: made.token(aud="https://other.example.com"),
        "The token is not meant for this service: its audience is another one.",
    ),
    "for nobody": (lambda made: made.token(aud=None), "The token has no aud."),
    "of another": (
        lambda made: made.token(iss="https://other.example.com"),
        "The token is of an issuer that is not trusted here.",
    ),
    "with a slash more": (
        lambda made: made.token(iss=made.url + "/"),
        "The token is of an issuer that is not trusted here.",
    ),
    "of a list": (lambda made: made.token(iss=None, extra=1), "The token is of an issuer that is not trusted here."),
    "for ever": (lambda made: made.token(exp=None), "The token has no exp."),
    "about nobody": (lambda made: made.token(sub=None), "The token has no sub."),
    "about an empty name": (
        lambda made: made.token(sub=""),
        "The subject of the token is not a text of up to 255 printable characters.",
    ),
    "about two lines": (
        lambda made: made.token(sub="a\nb"),
        "The subject of the token is not a text of up to 255 printable characters.",
    ),
    "unknown key": (
        lambda made: made.token("zwei", key=private_key("EC")),
        "The token is signed with a key that its issuer does not publish.",
    ),
    "the key of somebody else": (
        lambda made: made.token("one", key=private_key("EC")),
        "The signature of the token does not hold.",
    ),
    "other content": (
        lambda made: ".".join((made.token().split(".")[0], encoded({"iss": made.url}), made.token().split(".")[2])),
        "The signature of the token does not hold.",
    ),
    "critical": (
        lambda made: made.token(header={"crit": ["exp"], "exp": 1}),
        "The bearer token is no JSON Web Token.",
    ),
    "of another kind": (
        lambda made: made.token(header={"typ": "logout+jwt"}),
        "The header of the token asks for what is not supported.",
    ),
    "garbage": (lambda _: "garbage", "The bearer token is no JSON Web Token."),
    "three dots": (lambda _: "...", "The bearer token is no JSON Web Token."),
    "deep": (lambda _: "e30." + "W10" * 3 + "." + "x", "The bearer token is no JSON Web Token."),
    "long": (lambda _: "x" * 20_000, "The bearer token is empty or too long."),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_token_that_does_not_hold_is_refused_with_the_reason(issuer: Issuer, name: str) -> None:
    make, said = BAD[name]

    assert await refusal(tokens(issuer), make(issuer)) == said


async def test_clocks_may_differ_a_little(issuer: Issuer) -> None:
    now = int(time.time())
    near: list[dict[str, Any]] = [{"exp": now - 20}, {"nbf": now + 20}, {"iat": now + 20}]
    for changes in near:
        assert (await read(tokens(issuer), issuer.token(**changes))).subject == "alice"
        assert await refusal(tokens(issuer, leeway=5.0), issuer.token(**changes))


async def test_no_public_key_is_ever_a_secret(issuer: Issuer) -> None:
    """The classic: HS256 with the published key as the secret. Also `none`, and one algorithm for another."""
    issuer.rotate("rsa", "RSA")
    public = issuer.keys["rsa"].public_key()
    head, body = (
        {"alg": "HS256", "typ": "JWT", "kid": "rsa"},
        json.loads(_payload(issuer.token("rsa", algorithm="RS256"))),
    )
    for secret in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(issuer.document["keys"][0]).encode(),
        b"",
    ):
        signed = f"{encoded(head)}.{encoded(body)}"
        mac = urlsafe_b64encode(hmac.digest(secret, signed.encode(), hashlib.sha256)).rstrip(b"=").decode()
        said = await refusal(tokens(issuer), f"{signed}.{mac}")
        assert said == "The token is signed with HS256, which is not accepted."
    others: list[Any] = ["none", "None", "", 7, None, [], ["ES256"], {}]
    for name in others:
        assert await refusal(tokens(issuer), f"{encoded({**head, 'alg': name})}.{encoded(body)}.")
    only = tokens(issuer, algorithms=frozenset({"ES256"}))
    said = await refusal(only, issuer.token("rsa", algorithm="RS256"))
    assert said == "The token is signed with RS256, which is not accepted."
    for declared in ("RS512", "HS256", "ES256", "RSA-OAEP"):
        issuer.document = {"keys": [jwk("rsa", issuer.keys["rsa"], alg=declared), jwk("one", issuer.keys["one"])]}
        said = await refusal(tokens(issuer), issuer.token("rsa", algorithm="RS256"))
        assert said == "The token is signed with a key that its issuer does not publish."


def _payload(token: str) -> bytes:
    part = token.split(".")[1]
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_keys_for_other_uses_are_left_out() -> None:
    good = private_key("EC")
    secret = {"kty": "oct", "kid": "s", "k": "c2VjcmV0"}
    private = json.loads(json.dumps(jwk("p", good))) | {"d": "c2VjcmV0"}
    others = [
        secret, private, jwk("e", good, use="enc"), jwk("o", good, key_ops=["sign"]), jwk("r", private_key("short")),
        {"kty": "EC", "kid": "x", "crv": "P-256", "x": "AA", "y": "AA"}, {"kty": "EC"}, {}, 7, None,
    ]  # fmt: skip
    assert [key.kid for key in read_key_set(json.dumps({"keys": [*others, jwk("good", good)]}).encode())] == ["good"]
    for document in (b"", b"[]", b"{}", b'{"keys": {}}', json.dumps({"keys": others}).encode()):
        with pytest.raises(ValueError, match=r"it (is|holds) no"):
            read_key_set(document)


async def test_a_token_without_a_key_id_is_checked_where_only_one_key_fits(issuer: Issuer) -> None:
    assert (await read(tokens(issuer), issuer.token(None))).subject == "alice"
    issuer.rotate("two", keep=True)
    assert await refusal(tokens(issuer), issuer.token(None))


async def test_a_token_that_is_bound_to_a_certificate_needs_it(issuer: Issuer) -> None:
    """RFC 8705, 3.1; from the memory of checked tokens too."""
    text, checked = issuer.token(cnf={"x5t#S256": "the-fingerprint"}), tokens(issuer)
    mine = PeerCertificate(subject="CN=alice", fingerprint="the-fingerprint")
    other = PeerCertificate(subject="CN=mallory", fingerprint="another")
    for _ in range(2):
        assert (await read(checked, text, certificate=mine)).subject == "alice"
        for shown in (None, other):
            assert "bound to a client certificate" in await refusal(checked, text, certificate=shown)


async def test_a_token_that_is_bound_to_anything_else_opens_nothing(issuer: Issuer) -> None:
    """RFC 9449, 7.1: one that is bound to a key is no bearer token, whoever sends it as one."""
    checked = tokens(issuer)
    mine = PeerCertificate(subject="CN=alice", fingerprint="the-fingerprint")
    bound: list[Any] = [{"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}, {}, "the-fingerprint", ["x"]]
    for confirmation in bound:
        said = await refusal(checked, issuer.token(cnf=confirmation), certificate=mine)
        assert said == "The token is bound to something that cannot be proved here; only to a certificate it can be."


async def test_a_token_that_hardly_ever_expires(issuer: Issuer) -> None:
    """An end that no floating-point number reaches is no defect of this service."""
    checked, text = tokens(issuer), issuer.token(exp=10**400)
    for _ in range(2):
        assert (await read(checked, text)).subject == "alice"


async def test_a_new_key_is_found_at_once_and_an_old_one_forgotten(issuer: Issuer) -> None:
    checked = tokens(issuer)
    before = issuer.token()
    assert (await read(checked, before)).subject == "alice"
    issuer.rotate("two")

    assert (await read(checked, issuer.token("two"))).subject == "alice"

    # It was remembered as good under a key that is no longer published.
    assert "does not publish" in await refusal(checked, before)
    assert issuer.asked == ["/keys", "/keys"]


async def test_invented_key_names_do_not_make_the_service_hammer_its_issuer(issuer: Issuer) -> None:
    checked = tokens(issuer)
    stranger = private_key("EC")
    bad = [issuer.token(f"invented-{number}", key=stranger) for number in range(50)]
    await asyncio.gather(*(refusal(checked, text) for text in bad))
    assert len(issuer.asked) <= 2
    assert (await read(checked, issuer.token())).subject == "alice"


async def test_a_new_key_is_found_though_no_token_names_it(issuer: Issuer) -> None:
    """OpenID Connect Core 1.0, 10.1: where there is one key, tokens need not name it."""
    checked = tokens(issuer, fetching(issuer, cooldown=0.2))
    before = issuer.token(None)
    assert (await read(checked, before)).subject == "alice"
    issuer.rotate("two")

    assert (await read(checked, issuer.token(None, key=issuer.keys["two"]))).subject == "alice"

    # It could be one of a key that is newer still.
    assert await refusal(checked, before) == "The signature of the token does not hold."
    assert issuer.asked == ["/keys", "/keys", "/keys"]


async def test_bad_signatures_do_not_make_the_service_hammer_its_issuer(issuer: Issuer) -> None:
    """Nor does anybody ask for another key where the token names the one that does not fit."""
    checked = tokens(issuer)
    stranger = private_key("EC")
    for _ in range(5):
        assert await refusal(checked, issuer.token(key=stranger)) == "The signature of the token does not hold."
    assert issuer.asked == ["/keys"]
    bad = [issuer.token(None, key=stranger) for _ in range(50)]
    said = await asyncio.gather(*(refusal(checked, text) for text in bad))
    assert set(said) == {"The signature of the token does not hold."}
    assert issuer.asked == ["/keys", "/keys"]


@pytest.mark.parametrize("kid", ["two", None])
async def test_all_calls_wait_for_a_new_key_that_is_on_its_way(issuer: Issuer, kid: str | None) -> None:
    checked = tokens(issuer)
    await read(checked, issuer.token())
    issuer.rotate("two")
    issuer.delay.clear()
    text = issuer.token(kid, key=issuer.keys["two"])
    waiting = [asyncio.create_task(read(checked, text)) for _ in range(20)]
    await wait_until(lambda: len(issuer.asked) > 1, "the issuer is asked again")
    waiting += [asyncio.create_task(read(checked, text))]
    issuer.delay.set()
    assert {token.subject for token in await asyncio.gather(*waiting)} == {"alice"}
    assert issuer.asked == ["/keys", "/keys"]


@pytest.mark.parametrize("kid", ["two", None])
async def test_an_invented_key_in_front_of_a_new_one_makes_no_good_token_bad(issuer: Issuer, kid: str | None) -> None:
    """The name may be the very one that the issuer takes next."""
    checked = tokens(issuer, fetching(issuer, cooldown=0.5))
    await read(checked, issuer.token())
    invented = issuer.token(kid, key=private_key("EC"))
    await refusal(checked, invented)
    assert issuer.asked == ["/keys", "/keys"]
    issuer.rotate("two")
    good = [issuer.token(kid, key=issuer.keys["two"]) for _ in range(20)]
    assert {token.subject for token in await asyncio.gather(*(read(checked, text) for text in good))} == {"alice"}
    assert issuer.asked == ["/keys", "/keys", "/keys"]
    assert await refusal(checked, invented) == "The signature of the token does not hold."


async def test_keys_that_were_on_their_way_before_a_new_one_are_not_the_last_word(issuer: Issuer) -> None:
    answers: list[asyncio.Future[bytes]] = []

    def ask() -> asyncio.Future[bytes]:
        answers.append(asyncio.get_running_loop().create_future())
        if len(answers) == 1:
            answers[0].set_result(json.dumps(issuer.document).encode())
        return answers[-1]

    checked = tokens(issuer, jwks.Keys(issuer.jwks_url, ask, cooldown=0.2))
    await read(checked, issuer.token())
    bad = asyncio.create_task(refusal(checked, issuer.token("invented", key=private_key("EC"))))
    await wait_until(lambda: len(answers) == 2, "the issuer is asked again")
    before = json.dumps(issuer.document).encode()
    issuer.rotate("two")
    reading = [asyncio.create_task(read(checked, issuer.token("two"))) for _ in range(20)]
    await asyncio.sleep(0)
    answers[1].set_result(before)
    await wait_until(lambda: len(answers) == 3, "the issuer is asked for what is new since")
    answers[2].set_result(json.dumps(issuer.document).encode())
    assert {token.subject for token in await asyncio.gather(*reading)} == {"alice"}
    assert "does not publish" in await bad


async def test_strangers_hear_that_their_tokens_are_bad_however_many_there_are(issuer: Issuer) -> None:
    checked = tokens(issuer, fetching(issuer, cooldown=0.5))
    await read(checked, issuer.token())
    stranger = private_key("EC")
    for questions in (2, 3):
        bad = [issuer.token(f"invented-{questions}-{number}", key=stranger) for number in range(50)]
        said = await asyncio.gather(*(refusal(checked, text) for text in bad))
        assert set(said) == {"The token is signed with a key that its issuer does not publish."}
        assert len(issuer.asked) == questions


async def test_a_token_that_no_key_was_found_for_waits_for_no_other(issuer: Issuer) -> None:
    checked = tokens(issuer, fetching(issuer, cooldown=600.0))
    bad = issuer.token("invented", key=private_key("EC"))
    for _ in range(3):
        assert "does not publish" in await refusal(checked, bad)
    assert issuer.asked == ["/keys", "/keys"]


async def test_so_many_tokens_and_no_more_wait_for_keys_to_be_looked_for(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those beyond it nothing is known, so that they are not refused for good."""
    monkeypatch.setattr(jwks, "_MOST_WAITING", 3)
    checked = tokens(issuer, fetching(issuer, cooldown=600.0))
    stranger = private_key("EC")
    await refusal(checked, issuer.token("invented", key=stranger))
    waiting = [asyncio.create_task(read(checked, issuer.token(f"invented-{n}", key=stranger))) for n in range(3)]
    await asyncio.sleep(0)
    for _ in range(3):
        with pytest.raises(UnavailableError) as caught:
            await read(checked, issuer.token("one-more", key=stranger))
        assert caught.value.retry_after is not None and 500 < caught.value.retry_after <= 600
        assert (await read(checked, issuer.token())).subject == "alice"
    for task in waiting:
        task.cancel()
    assert all(
        isinstance(left, asyncio.CancelledError) for left in await asyncio.gather(*waiting, return_exceptions=True)
    )
    again = asyncio.create_task(read(checked, issuer.token("one-more", key=stranger)))
    await asyncio.sleep(0)
    assert not again.done()
    again.cancel()
    await asyncio.wait((again,))
    assert issuer.asked == ["/keys", "/keys"]


async def test_a_signature_that_no_key_can_be_found_for_is_not_a_bad_one(issuer: Issuer) -> None:
    checked = tokens(issuer, fetching(issuer, cooldown=0.0, retry=0.0))
    await read(checked, issuer.token())
    issuer.rotate("two")
    issuer.status = 503
    text = issuer.token(None, key=issuer.keys["two"])
    with pytest.raises(UnavailableError):
        await read(checked, text)
    issuer.status = 200
    assert (await read(checked, text)).subject == "alice"


async def test_calls_share_one_fetch(issuer: Issuer) -> None:
    issuer.delay.clear()
    checked = tokens(issuer)
    waiting = [asyncio.create_task(read(checked, issuer.token())) for _ in range(20)]
    await wait_until(lambda: issuer.asked, "the issuer is asked")
    issuer.delay.set()
    assert {token.subject for token in await asyncio.gather(*waiting)} == {"alice"}
    assert issuer.asked == ["/keys"]


async def test_a_call_that_is_cancelled_takes_the_fetch_from_nobody(issuer: Issuer) -> None:
    issuer.delay.clear()
    checked = tokens(issuer)
    leaving, staying = (asyncio.create_task(read(checked, issuer.token())) for _ in range(2))
    await wait_until(lambda: issuer.asked, "the issuer is asked")
    leaving.cancel()
    await asyncio.wait((leaving,))
    issuer.delay.set()
    assert (await staying).subject == "alice"


async def test_an_issuer_that_is_down_is_unavailable_and_comes_back(issuer: Issuer) -> None:
    """A token that cannot be checked is not a bad one."""
    checked = tokens(issuer, fetching(issuer, retry=0.05))
    text = issuer.token()
    for trouble in (503, 404):
        issuer.status = trouble
        with pytest.raises(UnavailableError, match="cannot be checked at the moment"):
            await read(checked, text)
    issuer.status = 200
    await wait_until(partial(_holds, checked, text), "the token holds")


async def _holds(checked: Tokens, text: str) -> bool:
    try:
        await read(checked, text)
    except UnavailableError:
        return False
    return True


@pytest.mark.parametrize("document", [b"", b"<html>", {"keys": []}, {"keys": "x"}, b'{"keys":[' + b" " * 600_000])
async def test_an_issuer_that_talks_nonsense_is_unavailable(issuer: Issuer, document: Any) -> None:
    issuer.document = document
    with pytest.raises(UnavailableError):
        await read(tokens(issuer), issuer.token())


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_an_issuer_that_points_elsewhere_is_not_followed(issuer: Issuer, status: int) -> None:
    """Whoever could send the service on would choose who signs tokens, and where it connects."""
    with issuing() as other:
        other.document = issuer.document
        issuer.status, issuer.location = status, other.jwks_url
        for keys in (jwks.from_url(issuer.jwks_url), jwks.from_issuer(issuer.url, plaintext=False)):
            with pytest.raises(UnavailableError):
                await read(tokens(issuer, keys), issuer.token())
        assert issuer.asked == ["/keys", "/.well-known/openid-configuration"]
        assert other.asked == []


async def test_a_key_set_has_a_longest(issuer: Issuer) -> None:
    """512 KiB, however good it is."""
    document = json.dumps(issuer.document).encode()
    issuer.document = document.ljust(512 * 1024)
    assert (await read(tokens(issuer), issuer.token())).subject == "alice"
    issuer.document = document.ljust(512 * 1024 + 1)
    with pytest.raises(UnavailableError):
        await read(tokens(issuer), issuer.token())


async def test_keys_outlast_an_issuer_that_goes_away(issuer: Issuer) -> None:
    checked = tokens(issuer, fetching(issuer, refresh=0.0, retry=0.0))
    known, unknown = issuer.token(), issuer.token("two", key=private_key("EC"))
    await read(checked, known)
    issuer.status = 503

    for _ in range(3):
        assert (await read(checked, issuer.token())).subject == "alice"
    with pytest.raises(UnavailableError):
        await read(checked, unknown)


async def test_keys_that_are_too_old_are_not_trusted(issuer: Issuer) -> None:
    checked = tokens(issuer, fetching(issuer, refresh=0.0, retry=0.0, trusted=0.2))
    text = issuer.token()
    await read(checked, text)
    issuer.status = 503
    await wait_until(partial(_unavailable, checked, text), "the keys are no longer trusted")


async def _unavailable(checked: Tokens, text: str) -> bool:
    return not await _holds(checked, text)


async def test_old_keys_are_fetched_again_while_calls_go_on(issuer: Issuer) -> None:
    """Remembered tokens too: a key that is withdrawn opens nothing any more."""
    checked = tokens(issuer, fetching(issuer, refresh=0.05))
    text = issuer.token()
    await read(checked, text)
    issuer.rotate("two")
    await wait_until(partial(_refused, checked, text), "the withdrawn key opens nothing")


async def _refused(checked: Tokens, text: str) -> bool:
    try:
        await read(checked, text)
    except NotAdmittedError:
        return True
    return False


async def test_a_remembered_token_expires(issuer: Issuer) -> None:
    checked = tokens(issuer, leeway=0.0)
    text = issuer.token(exp=int(time.time()) + 2)
    await read(checked, text)
    await wait_until(partial(_refused, checked, text), "the token expires")
    assert await refusal(checked, text) == "The token has expired."


async def test_the_loop_goes_on_while_keys_are_fetched(issuer: Issuer) -> None:
    issuer.delay.clear()
    task = asyncio.create_task(read(tokens(issuer), issuer.token()))
    await wait_until(lambda: issuer.asked, "the issuer is asked")
    longest, last = 0.0, time.perf_counter()
    for _ in range(50):
        await asyncio.sleep(0)
        longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
    issuer.delay.set()
    await task
    assert longest < 1, "seconds; the issuer answers only after all of this"


async def test_discovery_says_where_the_keys_are(issuer: Issuer) -> None:
    keys = jwks.from_issuer(issuer.url, plaintext=False)
    assert (await read(tokens(issuer, keys), issuer.token())).subject == "alice"
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://other.example.com"},
        {"issuer": None},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": "http://keys.example.com/keys"},
        {"jwks_uri": None},
        {"jwks_uri": "https://user:password@keys.example.com/"},
    ],
)
async def test_a_discovery_document_that_is_not_the_issuers_is_not_followed(issuer: Issuer, changes: Any) -> None:
    issuer.discovery = changes
    with pytest.raises(UnavailableError):
        await read(tokens(issuer, jwks.from_issuer(issuer.url, plaintext=False)), issuer.token())
    assert issuer.asked == ["/.well-known/openid-configuration"]


async def test_keys_from_a_file_that_is_replaced(issuer: Issuer, tmp_path: Any) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(issuer.document))
    checked = tokens(issuer, jwks.from_file(path))
    await read(checked, issuer.token())
    issuer.rotate("two")
    path.write_text(json.dumps(issuer.document))
    assert (await read(checked, issuer.token("two"))).subject == "alice"
    assert issuer.asked == []


async def test_two_issuers_do_not_vouch_for_each_other(issuer: Issuer) -> None:
    with issuing() as other:
        checked = Tokens([trusted(issuer), trusted(other)])
        assert (await read(checked, issuer.token())).caller == f"{issuer.url}#alice"
        assert (await read(checked, other.token())).caller == f"{other.url}#alice"
        assert await refusal(checked, issuer.token(iss=other.url)) == "The signature of the token does not hold."
