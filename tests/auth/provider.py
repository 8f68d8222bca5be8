"""An OpenID Connect provider of somebody else, in a process of its own: discovery, keys, and people who sign in.

It shares no code with the service: its tokens are made by Authlib. Its access tokens are opaque, so callers show the
ID token, whose audience is the client that they have signed in to; a service that takes these has that client's name as
its audience. As OpenID Connect Core 1.0, 10.1 allows a provider with a single key, its tokens name none.
"""

import contextlib
import json
import subprocess
import sys
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.auth.issuer import encoded
from tests.support.replica import READY_TIMEOUT, WATCHER, free_ports

_BACK = "http://127.0.0.1/signed-in"
"""Where the provider sends people to; nobody goes there."""


class Client(NamedTuple):
    """What the provider has registered (RFC 7591)."""

    id: str
    secret: str


class Given(NamedTuple):
    """What one sign-in gave."""

    id_token: str
    access_token: str


class Provider:
    """`url` is its issuer. It forgets clients and people, and makes another key, when it is started again."""

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self._port = port
        self._log = folder / "provider.log"
        self._http = httpx.Client(base_url=self.url, trust_env=False)
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
        options = ["--port", str(self._port), "--require-registration"]
        with self._log.open("ab") as log:
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", "oidc_provider_mock", *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", WATCHER, "sh", str(process.pid)], stdin=subprocess.PIPE, start_new_session=True
        )
        deadline = time.monotonic() + READY_TIMEOUT
        while True:
            with contextlib.suppress(httpx.TransportError):
                self.described()
                return
            assert process.poll() is None and time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        """Its address stays its own."""
        for process in (self._process, self._watcher):
            if process is not None:
                process.kill()
                process.communicate()
        self._process = self._watcher = None

    def close(self) -> None:
        self.stop()
        self._http.close()

    def described(self) -> Any:
        """Its discovery document."""
        return self._http.get("/.well-known/openid-configuration").raise_for_status().json()

    def register(self) -> Client:
        """A client to which people can sign in."""
        answer = self._http.post(self.described()["registration_endpoint"], json={"redirect_uris": [_BACK]})
        made = answer.raise_for_status().json()
        return Client(made["client_id"], made["client_secret"])

    def sign_in(self, client: Client, subject: str = "alice", *, host: str = "", **claims: Any) -> Given:
        """By the authorization code flow (OpenID Connect Core 1.0, 3.1).

        `claims` are what the provider knows about `subject` and puts into the token. With `host` it is called by that
        name, and says of itself that this is its name.
        """
        self._http.put(f"/users/{subject}", json=claims).raise_for_status()
        found = self.described()
        asked = {"client_id": client.id, "response_type": "code", "scope": "openid", "redirect_uri": _BACK}
        agreed = self._http.post(found["authorization_endpoint"], params=asked, data={"sub": subject})
        assert agreed.status_code == httpx.codes.FOUND, agreed.text
        form = {
            "grant_type": "authorization_code",
            "code": httpx.URL(agreed.headers["location"]).params["code"],
            "redirect_uri": _BACK,
        }
        named = {"host": host} if host else {}
        answer = self._http.post(found["token_endpoint"], data=form, auth=(client.id, client.secret), headers=named)
        given: dict[str, Any] = answer.raise_for_status().json()
        return Given(given["id_token"], given["access_token"])


@contextlib.contextmanager
def providing(folder: Path) -> Iterator[Provider]:
    """A provider that is up for the block; `folder` is for its log."""
    one = Provider(folder)
    try:
        one.start()
        yield one
    finally:
        one.close()


def forged(token: str, **changes: Any) -> str:
    """The token with other claims under the signature that it had."""
    head, body, signature = token.split(".")
    claims = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return ".".join((head, encoded({**claims, **changes}), signature))
