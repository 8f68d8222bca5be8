"""A key opens where it stands once in its place, whatever else a request has: through what reads HTTP and gRPC."""

import asyncio
import re
from hashlib import sha256
from typing import Any, Final, cast
from urllib.parse import unquote_to_bytes

import grpc.aio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_grpc.server.auth.config import AuthConfig, build_gate
from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.auth.gate import Gate
from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.bindings.asgi.exchange import Exchange
from a2a_grpc.server.bindings.asgi.query import read_query
from a2a_grpc.server.bindings.grpc.servicer import make_call
from a2a_grpc.wire.errors import InvalidArgumentError, UnauthenticatedError, UnavailableError
from tests.auth.test_nonsense import TOKENS
from tests.support.leaks import secret

pytestmark = pytest.mark.wide

KEY: Final = secret("placed").encode()
NAME: Final = b"api-key"


def _gate(location: str) -> Gate:
    keys = {"keys": [["alice", sha256(KEY).hexdigest()]], "location": location, "name": NAME.decode()}
    # None of the tokens is of this one, so that nobody is asked for keys.
    jwt = {"issuer": "https://login.example.com", "audience": "me", "jwks_url": "http://127.0.0.1:1/keys"}
    return build_gate(AuthConfig.model_validate({"api_keys": keys, "jwt": jwt}))


GATES: Final = {location: _gate(location) for location in ("header", "query", "cookie")}

PIECES = st.sampled_from([NAME, b"=", KEY, b" ", b'"', b"%", b"+", b"\xff", b"\x00", b"$Version"]) | st.binary(
    max_size=5
)
NAMES = st.just(NAME) | st.sampled_from([NAME + b"s", b"x-" + NAME, b"authorization", b"cookie", b"a2a-version"])
VALUES = st.just(KEY) | st.lists(PIECES, max_size=4).map(b"".join)
BEARERS = TOKENS.map(lambda token: f"Bearer {token}".encode())


def joined(pieces: st.SearchStrategy[bytes], *separators: bytes) -> st.SearchStrategy[bytes]:
    """Sound pairs and broken ones, with any of `separators` between them."""
    pairs = st.builds(lambda name, value: name + b"=" + value, NAMES, VALUES)
    parts = st.lists(st.tuples(pairs | pairs | pieces, st.sampled_from(separators)), max_size=5)
    return parts.map(lambda found: b"".join(part + separator for part, separator in found)).flatmap(
        lambda text: st.sampled_from([text, text[:-1]])
    )


def over_http(headers: list[tuple[bytes, bytes]], query: bytes = b"") -> Credentials:
    """As they come from the listener: names in lower case."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/tasks",
        "query_string": query,
        "headers": headers,
        "client": ("192.0.2.1", 40000),
    }
    exchange = Exchange(cast("Any", scope), cast("Any", None), cast("Any", None), Cors(()))
    return exchange.make_call("ListTasks", "HTTP+JSON", read_query(exchange)).credentials


def over_grpc(metadata: list[tuple[str, str | bytes]]) -> Credentials:
    class Context:
        def invocation_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
            return tuple(metadata)

        def peer(self) -> str:
            return "ipv4:192.0.2.1:40000"

        def time_remaining(self) -> None:
            return None

    return make_call("ListTasks", cast("grpc.aio.ServicerContext[Any, Any]", Context())).credentials


def opens(location: str, credentials: Credentials) -> bool:
    """Whether somebody gets in, who can be alice alone; nothing but a refusal may come of anything else."""
    try:
        principal = asyncio.run(GATES[location].admit(credentials))
    except (UnauthenticatedError, UnavailableError) as error:
        assert error.message.isprintable()
        assert KEY.decode() not in error.message
        return False
    assert principal.name == "alice"
    return True


@settings(max_examples=120, deadline=None)
@given(st.lists(st.tuples(NAMES, VALUES | BEARERS), max_size=5))
def test_in_headers(headers: list[tuple[bytes, bytes]]) -> None:
    """RFC 9110, 5.3: one that is there twice is one list, and no key."""
    sent = [value for name, value in headers if name == NAME]
    assert opens("header", over_http(headers)) is (sent == [KEY])


@settings(max_examples=120, deadline=None)
@given(
    joined(st.lists(PIECES, max_size=4).map(b"".join), b"&", b"&", b"&&", b";"), st.sampled_from([NAME, b"%61pi-key"])
)
def test_in_the_query(query: bytes, spelled: bytes) -> None:
    """As forms are written (WHATWG URL, 5.1): only an ampersand separates."""
    query = query.replace(NAME, spelled)
    pairs = [field.replace(b"+", b" ").partition(b"=") for field in query.split(b"&") if field]
    found = [(unquote_to_bytes(name), unquote_to_bytes(value)) for name, _, value in pairs]
    sent = [value for name, value in found if name == NAME]
    try:
        credentials = over_http([(b"host", b"agent.example.com")], query)
    except InvalidArgumentError:
        for text in (query, *(text for pair in found for text in pair)):
            try:
                text.decode()
            except UnicodeDecodeError:
                return
        raise
    assert opens("query", credentials) is (sent == [KEY])
    assert not opens("header", credentials)
    assert not opens("cookie", credentials)


@settings(max_examples=120, deadline=None)
@given(st.lists(joined(st.lists(PIECES, max_size=4).map(b"".join), b";", b"; ", b","), max_size=3))
def test_in_cookies(cookies: list[bytes]) -> None:
    """RFC 6265, 4.2.1; several headers are one (RFC 9113, 8.2.3)."""
    pairs = [pair.decode("latin-1").strip() for cookie in cookies for pair in re.split(b"[;,]", cookie)]
    sent = [pair.partition("=")[2] for pair in pairs if pair.startswith(f"{NAME.decode()}=")]
    credentials = over_http([(b"cookie", cookie) for cookie in cookies])
    assert opens("cookie", credentials) is (sent == [KEY.decode()])
    assert not opens("header", credentials)
    assert not opens("query", credentials)


TEXTS = VALUES.map(lambda value: value.decode("latin-1"))


@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.tuples(NAMES.map(bytes.decode), TEXTS | BEARERS.map(bytes.decode))
        | st.tuples(st.sampled_from(["api-key-bin", "trace-bin"]), VALUES),
        max_size=5,
    )
)
def test_in_metadata(metadata: list[tuple[str, str | bytes]]) -> None:
    """Over gRPC a key is metadata of its name, whatever its place is over HTTP; binary metadata are none."""
    sent = [value for name, value in metadata if name == NAME.decode()]
    for location in GATES:
        assert opens(location, over_grpc(metadata)) is (sent == [KEY.decode()])
