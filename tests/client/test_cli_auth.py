"""`a2a-grpc auth` (a2a-cli specification 0.2, 12.2), with an authorization server that keeps what it was asked."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from a2a_grpc.client.card import card_url
from a2a_grpc.client.cli.tokens import Store
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import UnauthenticatedError
from tests.client.peers import HttpPeer, Request, answer_to, card, http_peer, response, task
from tests.support.commands import Outcome, Run, running


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return running(capsys)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Site:
    """An agent and its authorization server in one place. Tokens are counted: token-1 is the first."""

    def __init__(self) -> None:
        self.flow = "device"
        self.lives = 3600
        self.given = 0
        self.refuses = False
        """Whatever token is shown."""
        self.refused_first = 1
        """So many looks at the device flow come before the person has signed in."""
        self.forms: list[dict[str, list[str]]] = []
        self.headers: list[dict[str, str]] = []
        self.shown: list[str] = []
        """The Authorization headers of calls."""

    def schemes(self, url: str) -> dict[str, object]:
        token = {"tokenUrl": f"{url}/token", "scopes": {"read": "Read."}}
        flows: dict[str, object] = {
            "device": {"deviceCode": token | {"deviceAuthorizationUrl": f"{url}/device"}},
            "client": {"clientCredentials": token},
        }
        if self.flow == "oidc":
            return {"openIdConnectSecurityScheme": {"openIdConnectUrl": f"{url}/.well-known/openid-configuration"}}
        return {"oauth2SecurityScheme": {"flows": flows[self.flow]}}

    def answer(self, request: Request, url: str) -> bytes:
        if request.target.endswith("agent-card.json"):
            found = protojson.to_dict(card(("HTTP+JSON", "1.0", url)))
            wanted = {"securityRequirements": [{"schemes": {"door": {"list": ["read"]}}}]}
            return response(body=json.dumps(found | wanted | {"securitySchemes": {"door": self.schemes(url)}}).encode())
        if request.target.endswith("openid-configuration"):
            described = {"token_endpoint": f"{url}/token", "device_authorization_endpoint": f"{url}/device"}
            return response(body=json.dumps(described).encode())
        if request.target in ("/device", "/token"):
            self.forms.append(parse_qs(request.body.decode()))
            self.headers.append(request.headers)
        if request.target == "/device":
            code = {"device_code": "d-1", "user_code": "ABCD-EFGH\x1b[2J", "verification_uri": f"{url}/door"}
            return response(body=json.dumps(code | {"expires_in": 60, "interval": 0.05}).encode())
        if request.target == "/token":
            return self.token()
        self.shown.append(request.headers.get("authorization", ""))
        if self.refuses or self.shown[-1] != f"Bearer token-{self.given}":
            return answer_to(request, UnauthenticatedError(f"Who are you? {self.shown[-1]} refresh-{self.given}"))
        return answer_to(request, task(a2a_pb2.TASK_STATE_COMPLETED))

    def token(self) -> bytes:
        grant = self.forms[-1]["grant_type"][0]
        if grant.endswith("device_code") and self.refused_first:
            self.refused_first -= 1
            return response(400, json.dumps({"error": "authorization_pending"}).encode())
        self.given += 1
        found = {"access_token": f"token-{self.given}", "token_type": "Bearer", "expires_in": self.lives}
        return response(body=json.dumps(found | {"refresh_token": f"refresh-{self.given}"}).encode())


@pytest.fixture
async def site() -> Site:
    return Site()


@pytest.fixture
async def peer(site: Site) -> AsyncIterator[HttpPeer]:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(site.answer(request, served.url))

    async with http_peer(respond) as served:
        yield served


async def done(run: Run, *argv: str) -> Outcome:
    return await asyncio.to_thread(run, *argv)


@pytest.mark.parametrize("flow", ["device", "oidc"])
async def test_a2acli_auth_005_and_010_the_device_flow(run: Run, site: Site, peer: HttpPeer, flow: str) -> None:
    site.flow = flow
    found = await done(run, "auth", "login", "-a", peer.url, "--client-id", "cli")

    assert found.code == 0
    assert found.err == f"Open {peer.url}/door and enter the code ABCD-EFGH[2J\n"
    assert found.fields["Signed in"] == [card_url(peer.url)]
    assert site.forms[0] == {"client_id": ["cli"], "scope": ["read"]}
    assert site.forms[-1]["device_code"] == ["d-1"]
    assert site.given == 1
    assert (await done(run, "task", "get", "-a", peer.url, "t1")).code == 0
    assert site.shown == ["Bearer token-1"]


async def test_a2acli_auth_006_client_credentials(
    run: Run, site: Site, peer: HttpPeer, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    site.flow = "client"
    monkeypatch.setenv("A2ACLI_CLIENT_ID", "job")
    monkeypatch.setenv("A2ACLI_CLIENT_SECRET", "hush-hush")
    found = await done(run, "auth", "login", "-a", peer.url, "--scope", "write", "-o", "json")

    assert (found.code, found.err) == (0, "")
    (answer,) = found.json
    assert answer["agent"] == card_url(peer.url)
    assert site.forms == [{"grant_type": ["client_credentials"], "scope": ["write"]}]
    assert site.headers[0]["authorization"].startswith("Basic ")
    assert "hush-hush" not in Path(answer["file"]).read_text()
    assert (await done(run, "task", "get", "-a", peer.url, "t1")).code == 0
    assert site.given == 1

    kept = json.loads(Path(answer["file"]).read_text())
    Path(answer["file"]).write_text(json.dumps(kept | {"expires_at": 1, "refresh_token": ""}))
    assert (await done(run, "task", "get", "-a", peer.url, "t1")).code == 0
    assert site.forms[1:] == [{"grant_type": ["client_credentials"], "scope": ["write"]}]
    Path(answer["file"]).write_text(json.dumps(kept | {"expires_at": 1, "refresh_token": ""}))
    monkeypatch.delenv("A2ACLI_CLIENT_SECRET")
    missing = await done(run, "task", "get", "-a", peer.url, "t1")
    assert missing.code == 4
    assert "A2ACLI_CLIENT_SECRET" in missing.err


async def test_a2acli_auth_007_tokens_are_kept_safe_and_shown_by_themselves(
    run: Run, site: Site, peer: HttpPeer, home: Path
) -> None:
    await done(run, "auth", "login", "-a", peer.url, "--client-id", "cli")
    file = Store(card_url(peer.url)).file
    assert file.is_relative_to(home / ".config" / "a2a-cli")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    shown = await done(run, "config", "show")
    assert f"signed-in: {card_url(peer.url)} ({file})" in shown.lines
    assert "token-1" not in shown.out

    # By any way to name the agent; a token that is given counts more; another agent is shown nothing.
    for ref in (peer.url, f"{peer.url}/", peer.url.removeprefix("http://"), card_url(peer.url)):
        assert (await done(run, "task", "get", "-a", ref, "t1", "--debug")).code == 0
    warned = await done(run, "task", "get", "-a", peer.url, "t1", "--insecure")
    assert "credentials are sent over a connection whose other end is not verified" in warned.err
    assert (await done(run, "task", "get", "-a", peer.url, "t1", "--bearer", "mine")).code == 4
    assert (await done(run, "task", "get", "-a", f"{peer.url}/other", "t1")).code == 4
    assert site.shown == ["Bearer token-1"] * 5 + ["Bearer mine", ""]

    assert (await done(run, "auth", "logout", "-a", peer.url)).code == 0
    assert not file.exists()
    assert (await done(run, "task", "get", "-a", peer.url, "t1")).code == 4
    assert "nobody is signed in" in (await done(run, "auth", "logout", "-a", peer.url)).err


async def test_a_token_that_ends_is_refreshed_and_kept_anew(run: Run, site: Site, peer: HttpPeer) -> None:
    site.lives = 20  # less than the time before its end at which a token is renewed
    await done(run, "auth", "login", "-a", peer.url, "--client-id", "cli")
    for number in (2, 3):
        assert (await done(run, "task", "get", "-a", peer.url, "t1")).code == 0
        assert site.forms[-1]["refresh_token"] == [f"refresh-{number - 1}"]
        assert site.shown[-1] == f"Bearer token-{number}"


async def test_a_token_is_for_the_scheme_that_it_was_got_for(run: Run, site: Site, peer: HttpPeer) -> None:
    """An agent that changes its card does not get what was meant for another scheme; nobody is asked unawares."""
    await done(run, "auth", "login", "-a", peer.url, "--client-id", "cli")
    site.flow = "oidc"
    found = await done(run, "task", "get", "-a", peer.url, "t1")
    assert found.code == 4
    assert "No token is kept for what the agent's card asks for now" in found.err
    assert "auth login" in found.err
    assert "A2ACLI_ERR_CREDENTIALS_MISSING" in found.err
    assert site.shown == []


async def test_what_cannot_be_signed_in_to(run: Run, site: Site, peer: HttpPeer) -> None:
    assert (await done(run, "auth", "login", "-a", peer.url)).code == 2
    wrong = await done(run, "auth", "login", "-a", peer.url, "--client-id", "x", "--flow", "client-credentials")
    assert wrong.code == 4
    assert site.given == 0


async def test_a2acli_auth_004_no_diagnostics_hold_a_token_that_is_kept(run: Run, site: Site, peer: HttpPeer) -> None:
    """Nor one that was got in place of it, in this very run: the agent repeats what it was shown."""
    await done(run, "auth", "login", "-a", peer.url, "--client-id", "cli")
    site.refuses = True
    for form in ("text", "json"):
        found = await done(run, "task", "get", "-a", peer.url, "t1", "--debug", "-o", form)
        assert found.code == 4
        assert "token-" not in found.out + found.err
        assert "refresh-" not in found.out + found.err
        assert "Who are you? Bearer [hidden] [hidden]" in found.err
    assert site.shown == ["Bearer token-1", "Bearer token-2", "Bearer token-2", "Bearer token-3"]


@pytest.mark.parametrize("flow", ["client", "device"])
@pytest.mark.parametrize("renews", [True, False])
async def test_a_token_that_is_refused_though_its_time_is_not_over(
    run: Run, site: Site, peer: HttpPeer, flow: str, renews: bool
) -> None:
    """It was shown and refused, as one of --bearer is (11.4): nothing is missing, and nothing is over."""
    site.flow = flow
    secret = ("--client-secret", "hush-hush") if flow == "client" else ()
    await done(run, "auth", "login", "-a", peer.url, "--client-id", "cli", *secret)
    if not renews:
        file = Store(card_url(peer.url)).file
        file.write_text(json.dumps(json.loads(file.read_text()) | {"refresh_token": ""}))
    site.refuses = True
    found = await done(run, "task", "get", "-a", peer.url, "t1", "-o", "json")

    error = found.json[0]["error"]
    assert (found.code, error["code"]) == (4, "A2ACLI_ERR_AUTH_FAILED")
    assert error["message"].startswith("Who are you?")
    assert error["hint"] == "`a2a-grpc auth login` gets another token."
    assert site.shown == ["Bearer token-1", "Bearer token-2"][: 1 + renews]
