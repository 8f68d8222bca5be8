"""An authorization server over HTTP: grants and device flow as Authlib has them, its tokens signed by an issuer."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

from authlib.oauth2.rfc6749 import AuthorizationServer as Server
from authlib.oauth2.rfc6749 import ClientMixin, OAuth2Request, TokenMixin
from authlib.oauth2.rfc6749.grants import ClientCredentialsGrant
from authlib.oauth2.rfc6749.grants import RefreshTokenGrant as Refreshing
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc6750 import BearerTokenGenerator
from authlib.oauth2.rfc8628 import DeviceAuthorizationEndpoint, DeviceCodeGrant, DeviceCredentialDict

from tests.auth.issuer import Issuer, issuing


class Client(ClientMixin):  # type: ignore[misc]
    """A registered client; without a secret it is a public one."""

    def __init__(self, name: str, secret: str) -> None:
        self.name = name
        self.secret = secret

    def get_client_id(self) -> str:
        return self.name

    def get_allowed_scope(self, scope: str | None) -> str:
        return scope or ""

    def check_client_secret(self, secret: str) -> bool:
        return bool(self.secret) and secret == self.secret

    def check_endpoint_auth_method(self, method: str, _endpoint: str) -> bool:
        return method == ("client_secret_basic" if self.secret else "none")

    def check_grant_type(self, grant_type: str) -> bool:
        return bool(grant_type)


class Given(TokenMixin):  # type: ignore[misc]
    """A token that was given, as far as its renewal needs it."""

    def __init__(self, client: Client, user: Any, scope: str) -> None:
        self.client = client
        self.user = user
        self.scope = scope

    def check_client(self, client: Client) -> bool:
        return client is self.client

    def get_scope(self) -> str:
        return self.scope


class Authorization:
    """The server. Its `issuer` names it, and describes it at the address for OpenID Connect."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.clients = {"machine": Client("machine", "s3cret%"), "screen": Client("screen", "")}
        self.lives = 600
        """Seconds that tokens are said to hold."""
        self.renews = False
        """Whether refresh tokens are given."""
        self.too_fast = 0
        """How many times more a device is told to ask less often."""
        self.refusal: tuple[int, bytes] | None = None
        """What is answered instead, whatever is asked."""
        self.asked: list[dict[str, str]] = []
        """The forms that came."""
        self.given: list[str] = []
        """The tokens that were given."""
        self.users: dict[str, tuple[Any, bool]] = {}
        """By user code: who has signed in, and whether they have agreed."""
        self.delay = threading.Event()
        """Answers wait until it is set."""
        self.delay.set()
        self._devices: dict[str, Any] = {}
        self._refreshes: dict[str, Given] = {}
        self._server = _server(self)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self.token_url = f"{self.url}/token"
        self.device_url = f"{self.url}/device"
        issuer.discovery = {"token_endpoint": self.token_url, "device_authorization_endpoint": self.device_url}
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def grants(self) -> list[str]:
        """The grants that were asked for, by the last word of their names."""
        return [form["grant_type"].rpartition(":")[2] for form in self.asked if "grant_type" in form]

    def forget_refresh_tokens(self) -> None:
        self._refreshes.clear()

    def close(self) -> None:
        self.delay.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, path: str, headers: dict[str, str], body: str) -> tuple[int, bytes]:
        """The answer to a form."""
        self.asked.append(dict(parse_qsl(body)))
        self.delay.wait(10)
        if self.refusal is not None:
            return self.refusal
        request = SimpleNamespace(uri=f"https://auth.example.com{path}", headers=headers, form=self.asked[-1])
        if path == "/device":
            status, found = self._server.create_endpoint_response("device_authorization", request)
        else:
            status, found = self._server.create_token_response(request)
        return status, json.dumps(found).encode()

    def token(self, client: Client, scope: str | None, user: Any) -> str:
        self.given.append(self.issuer.token(sub=user or client.name, scope=scope or None))
        return self.given[-1]


def _server(of: Authorization) -> Any:
    class Framework(Server):  # type: ignore[misc]
        def query_client(self, client_id: str) -> Client | None:
            return of.clients.get(client_id)

        def save_token(self, token: dict[str, Any], request: Any) -> None:
            if "refresh_token" in token:
                of._refreshes[token["refresh_token"]] = Given(request.client, request.user, token.get("scope", ""))

        def create_oauth2_request(self, request: Any) -> Any:
            if isinstance(request, OAuth2Request):
                return request
            made = _Form("POST", request.uri, headers=request.headers)
            made.payload = BasicOAuth2Payload(request.form)
            return made

        def handle_response(self, status: int, body: Any, headers: Any) -> tuple[int, Any]:  # noqa: ARG002
            return status, body

        def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
            pass

    class Device(DeviceAuthorizationEndpoint):  # type: ignore[misc]
        EXPIRES_IN = 60
        INTERVAL = 0.05

        def get_verification_uri(self) -> str:
            return "https://auth.example.com/device"

        def save_device_credential(self, client_id: str, scope: str | None, data: dict[str, Any]) -> None:
            of._devices[data["device_code"]] = DeviceCredentialDict(
                client_id=client_id, scope=scope, expires_at=time.time() + data["expires_in"], **data
            )

    class DeviceGrant(DeviceCodeGrant):  # type: ignore[misc]
        def query_device_credential(self, device_code: str) -> Any:
            return of._devices.get(device_code)

        def query_user_grant(self, user_code: str) -> tuple[Any, bool] | None:
            return of.users.get(user_code)

        def should_slow_down(self, _credential: Any) -> bool:
            of.too_fast -= 1
            return of.too_fast >= 0

    class Refresh(Refreshing):  # type: ignore[misc]
        TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic", "none")

        def authenticate_refresh_token(self, refresh_token: str) -> Given | None:
            return of._refreshes.get(refresh_token)

        def authenticate_user(self, refresh_token: Given) -> Any:
            return refresh_token.user or refresh_token.client.name

        def revoke_old_credential(self, refresh_token: Given) -> None:
            pass

    server = Framework()

    def generate(grant_type: str, **asked: Any) -> Any:
        generator = BearerTokenGenerator(
            lambda client, grant_type, user, scope: of.token(client, scope, user),  # noqa: ARG005
            (lambda **_: f"refresh-{len(of._refreshes)}") if of.renews else None,
            lambda client, grant_type: of.lives,  # noqa: ARG005
        )
        # Authlib gives none with client credentials, as RFC 6749 advises; there are servers that do.
        asked["include_refresh_token"] = of.renews
        return generator.generate(grant_type, **asked)

    server.register_token_generator("default", generate)
    for grant in (ClientCredentialsGrant, DeviceGrant, Refresh):
        server.register_grant(grant)
    server.register_endpoint(Device)
    return server


class _Form(OAuth2Request):  # type: ignore[misc]
    @property
    def form(self) -> Any:
        return self.payload.data


def _handler(of: Authorization) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["content-length"])).decode()
            status, body = of.answer(self.path, {name.title(): value for name, value in self.headers.items()}, form)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def authorizing() -> Iterator[Authorization]:
    """A server that is up for the block."""
    with issuing() as issuer:
        one = Authorization(issuer)
        try:
            yield one
        finally:
            one.close()
