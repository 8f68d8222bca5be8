"""An issuer of tokens: a real HTTP server with a discovery document and keys, and private keys to sign with."""

import json
import threading
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "https://agent.example.com"

_MADE: dict[str, Any] = {}
"""RSA keys take a while to make."""


def private_key(kind: str) -> Any:
    """A new key: "EC" (P-256), "OKP"; a shared one: "RSA", "short"."""
    match kind:
        case "EC":
            return ec.generate_private_key(ec.SECP256R1())
        case "P-384":
            return ec.generate_private_key(ec.SECP384R1())
        case "OKP":
            return ed25519.Ed25519PrivateKey.generate()
        case _:
            bits = 1024 if kind == "short" else 2048
            return _MADE.setdefault(kind, rsa.generate_private_key(public_exponent=65537, key_size=bits))


_FORMS: dict[type, Any] = {
    rsa.RSAPrivateKey: RSAAlgorithm,
    ec.EllipticCurvePrivateKey: ECAlgorithm,
    ed25519.Ed25519PrivateKey: OKPAlgorithm,
}


def jwk(kid: str, private: Any, **more: Any) -> dict[str, Any]:
    """The public half of a key as it is published."""
    form = next(form for kind, form in _FORMS.items() if isinstance(private, kind))
    made: dict[str, Any] = json.loads(form.to_jwk(private.public_key()))
    made.pop("key_ops", None)
    return {"kid": kid, "use": "sig", **made, **more}


class Issuer:
    """`url` is the name of the issuer. What it publishes is `document`; a test may change it at any time."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {"one": private_key("EC")}
        self.document: Any = {"keys": [jwk("one", self.keys["one"])]}
        self.status = 200
        self.location = ""
        """Where answers send whoever asked, with a status that says so."""
        self.delay = threading.Event()
        """Answers wait until it is set."""
        self.delay.set()
        self.asked: list[str] = []
        """The paths that were asked for."""
        self.discovery: dict[str, Any] = {}
        """Changes to the discovery document."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.jwks_url = f"{self.url}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.delay.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def rotate(self, kid: str, kind: str = "EC", *, keep: bool = False) -> None:
        """Publish a new key, and the old ones only with `keep`."""
        self.keys[kid] = private_key(kind)
        self.document = {"keys": [*(self.document["keys"] if keep else ()), jwk(kid, self.keys[kid])]}

    def token(
        self,
        kid: str | None = "one",
        *,
        algorithm: str = "ES256",
        key: Any = None,
        header: dict[str, Any] | None = None,
        **changes: Any,
    ) -> str:
        """A token that holds, but for `changes`; None leaves a claim out."""
        now = int(time.time())
        claims: dict[str, Any] = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "alice",
            "iat": now,
            "exp": now + 600,
            "jti": uuid.uuid4().hex,
            **changes,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        named = {"kid": kid} if kid is not None else {}
        return jwt.encode(claims, key or self.keys[kid or "one"], algorithm, {**named, **(header or {})})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                issuer.delay.wait(10)
                if self.path == "/.well-known/openid-configuration":
                    found: Any = {"issuer": issuer.url, "jwks_uri": issuer.jwks_url, **issuer.discovery}
                elif self.path == "/keys":
                    found = issuer.document
                else:
                    self.send_error(404)
                    return
                body = found if isinstance(found, bytes) else json.dumps(found).encode()
                self.send_response(issuer.status)
                self.send_header("content-length", str(len(body)))
                if issuer.location:
                    self.send_header("location", issuer.location)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@contextmanager
def issuing() -> Iterator[Issuer]:
    """An issuer that is up for the block."""
    issuer = Issuer()
    try:
        yield issuer
    finally:
        issuer.close()


def encoded(part: object) -> str:
    """A part of a token, for those that no library would make."""
    return urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
