"""Credentials, bindings, versions and certificates (a2a-cli specification 0.2, 12 and 13)."""

import asyncio
import datetime as dt
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import UnauthenticatedError
from tests.client.peers import (
    Context,
    HttpPeer,
    Request,
    answer_to,
    card,
    grpc_peer,
    http_peer,
    operation_of,
    params_of,
    response,
    task,
)
from tests.support.commands import Outcome, Run, running

SECRET = "s3cret-of-the-caller"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return running(capsys)


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "argv",
    [
        ("discover", "http://localhost", "--bearer", SECRET),
        ("discover", "http://localhost", f"--bearer={SECRET}"),
        ("task", "get", "-a", "localhost", "x", "--baerer", SECRET),
        ("task", "--bearer", SECRET, "get", "x"),
        ("auth", "--api-key", SECRET, "login"),
    ],
)
def test_a2acli_auth_004_an_option_that_is_none_does_not_tell_its_credential(run: Run, argv: tuple[str, ...]) -> None:
    done = run(*argv)
    assert done.code == 2
    assert SECRET not in done.out + done.err
    named = "--b" in done.err or "choose from" in done.err
    assert named, done.err


class Agent:
    """Knows every task, over HTTP+JSON and JSON-RPC; wants what its card says."""

    def __init__(self, **fields: object) -> None:
        self.fields = fields
        """Of the card, in the spelling of JSON."""
        self.interfaces: list[tuple[str, ...]] = [("HTTP+JSON", "1.0", ""), ("JSONRPC", "1.0", "/rpc")]
        """Binding, version, path, and perhaps a tenant."""
        self.refuses = False
        self.asked: list[Request] = []

    def card(self, url: str) -> a2a_pb2.AgentCard:
        offered = [(one[0], one[1], url + one[2], *one[3:]) for one in self.interfaces]
        found = protojson.to_dict(card(*offered))  # type: ignore[arg-type]
        return protojson.from_dict(found | self.fields, a2a_pb2.AgentCard)

    async def respond(self, request: Request, writer: asyncio.StreamWriter, url: str) -> None:
        self.asked.append(request)
        if request.target.endswith("agent-card.json"):
            writer.write(response(body=protojson.dumps(self.card(url))))
        elif self.refuses:
            writer.write(answer_to(request, UnauthenticatedError("Who are you?")))
        elif operation_of(request) == "GetTask":
            writer.write(answer_to(request, task(a2a_pb2.TASK_STATE_COMPLETED)))
        else:
            answer = a2a_pb2.SendMessageResponse(task=task(a2a_pb2.TASK_STATE_COMPLETED))
            writer.write(answer_to(request, answer))

    @property
    def calls(self) -> list[Request]:
        """All requests but those for the card."""
        return [request for request in self.asked if not request.target.endswith("agent-card.json")]

    @property
    def card_requests(self) -> list[Request]:
        return [request for request in self.asked if request.target.endswith("agent-card.json")]


@asynccontextmanager
async def served(agent: Agent, tls: ssl.SSLContext | None = None) -> AsyncIterator[HttpPeer]:
    async with http_peer(lambda request, writer: agent.respond(request, writer, peer.url), tls) as peer:
        yield peer


async def done(run: Run, *argv: str) -> Outcome:
    return await asyncio.to_thread(run, *argv)


def api_key(location: str, name: str) -> dict[str, object]:
    scheme = {"apiKeySecurityScheme": {"location": location, "name": name}}
    return {"securitySchemes": {"key": scheme}, "securityRequirements": [{"schemes": {"key": {"list": []}}}]}


BEARER: dict[str, object] = {
    "securitySchemes": {"token": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
    "securityRequirements": [{"schemes": {"token": {"list": []}}}],
}


@pytest.mark.parametrize("way", ["flag", "environment", "file"])
async def test_a2acli_auth_001_a_bearer_token_by_every_way(
    run: Run, way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    agent, more = Agent(**BEARER), []
    if way == "flag":
        monkeypatch.setenv("A2ACLI_BEARER", "another")
        more = ["--bearer", SECRET]
    elif way == "environment":
        monkeypatch.setenv("A2ACLI_BEARER", SECRET)
    else:
        (tmp_path / "settings").write_text(f"A2ACLI_BEARER={SECRET}\n")
        (tmp_path / "settings").chmod(0o600)
        more = ["--config", str(tmp_path / "settings")]
    async with served(agent) as peer:
        found = await done(run, "task", "get", "-a", peer.url, "t1", *more)

    assert (found.code, found.err) == (0, "")
    assert [call.headers["authorization"] for call in agent.calls] == [f"Bearer {SECRET}"]


@pytest.mark.parametrize("location", ["header", "query", "cookie"])
async def test_a2acli_auth_001_an_api_key_goes_where_the_card_says(run: Run, location: str) -> None:
    agent = Agent(**api_key(location, "the-key"))
    async with served(agent) as peer:
        found = await done(run, "task", "get", "-a", peer.url, "t1", "--api-key", SECRET)

    assert found.code == 0
    (call,) = agent.calls
    assert (call.headers.get("the-key") == SECRET) == (location == "header")
    assert (f"the-key={SECRET}" in call.target) == (location == "query")
    assert (call.headers.get("cookie") == f"the-key={SECRET}") == (location == "cookie")


async def test_a2acli_auth_001_service_parameters_are_no_credentials(run: Run) -> None:
    """They go with every call, and no card asks for them."""
    agent = Agent()
    async with served(agent) as peer:
        argv = ("--svc-param", "x-one: 1", "--svc-param", "X-Two:a:b")
        found = await done(run, "task", "get", "-a", peer.url, "t1", *argv)

    assert found.code == 0
    (call,) = agent.calls
    assert (call.headers["x-one"], call.headers["x-two"]) == ("1", "a:b")
    shown = " ".join((await done(run, "send", "--help")).out.split())
    assert "--svc-param KEY:VALUE a service parameter, sent as a header or as gRPC metadata; repeatable" in shown


async def test_a2acli_auth_002_the_help_says_that_flags_can_be_seen(run: Run) -> None:
    shown = " ".join((await done(run, "send", "--help")).out.split())
    for flag in ("--bearer TOKEN a bearer token", "--api-key KEY an API key"):
        assert f"{flag}; on the command line other users may see it, so prefer the variable" in shown


@pytest.mark.parametrize("transport", ["HTTP+JSON", "JSONRPC"])
async def test_a2acli_auth_004_no_diagnostics_hold_a_credential(run: Run, transport: str) -> None:
    agent = Agent(**BEARER)
    agent.refuses = True
    async with served(agent) as peer:
        argv = ("--bearer", SECRET, "--svc-param", f"x-other:{SECRET}-too", "--debug", "--verbose")
        for form in ("text", "json"):
            found = await done(run, "send", "-a", peer.url, SECRET, "--transport", transport, *argv, "-o", form)
            assert found.code == 4
            assert "A2ACLI_ERR_AUTH_FAILED" in found.err + found.out
            assert SECRET not in found.err + found.out
            assert "authorization=[hidden]" in found.err
            assert "x-other=[hidden]" in found.err
        shown = await done(run, "config", "show", *argv)
        assert SECRET not in shown.out + shown.err
        assert "bearer: (hidden) (flag)" in shown.out.splitlines()


async def test_a2acli_auth_008_the_request_for_a_card_shows_nothing(run: Run) -> None:
    agent = Agent(**BEARER)
    async with served(agent) as peer:
        argv = ("--bearer", SECRET, "--api-key", SECRET, "--svc-param", f"x-key:{SECRET}")
        assert (await done(run, "card", "get", "-a", peer.url, *argv)).code == 0
        assert (await done(run, "task", "get", "-a", peer.url, "t1", *argv)).code == 0

    assert len(agent.card_requests) == 2
    for request in agent.card_requests:
        assert SECRET not in json.dumps([request.target, request.headers])


async def test_credentials_that_are_missing_or_wrong_exit_with_4(run: Run) -> None:
    agent = Agent(**BEARER)
    agent.refuses = True
    async with served(agent) as peer:
        for argv, code in (
            ((), "A2ACLI_ERR_CREDENTIALS_MISSING"),
            (("--api-key", SECRET), "A2ACLI_ERR_CREDENTIALS_MISSING"),
            (("--bearer", SECRET), "A2ACLI_ERR_AUTH_FAILED"),
        ):
            found = await done(run, "task", "get", "-a", peer.url, "t1", *argv, "-o", "json")
            assert found.code == 4
            assert found.json[0]["error"]["code"] == code
            assert "HTTP authentication by Bearer" in found.json[0]["error"]["message"] or argv


# -- bindings and versions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("HTTP+JSON", "JSONRPC"), ("JSONRPC", "HTTP+JSON")])
async def test_a2acli_tx_001_and_002_the_first_interface_of_the_card_unless_the_caller_prefers_another(
    run: Run, order: tuple[str, str]
) -> None:
    agent = Agent()
    agent.interfaces = [(binding, "1.0", "/rpc" if binding == "JSONRPC" else "") for binding in order]

    async def used(*argv: str) -> str:
        async with served(agent) as peer:
            assert (await done(run, "task", "get", "-a", peer.url, "t1", *argv)).code == 0
        return "JSONRPC" if agent.calls[-1].target.endswith("/rpc") else "HTTP+JSON"

    first, second = order
    assert await used() == first
    assert await used("--transport", second) == second
    assert await used("--transport", "grpc", "--transport", second, "--transport", first) == second
    assert await used("--transport", "GRPC") == first


async def test_a2acli_tx_003_the_tenant_of_the_interface_is_sent_exactly(run: Run) -> None:
    agent = Agent()
    agent.interfaces = [("HTTP+JSON", "1.0", "", "acme"), ("JSONRPC", "1.0", "/rpc")]
    async with served(agent) as peer:
        for transport in ("HTTP+JSON", "JSONRPC"):
            found = await done(run, "send", "-a", peer.url, "hi", "--async", "--transport", transport)
            assert found.code == 0
    with_tenant, without = agent.calls
    assert with_tenant.target.startswith("/acme/")
    assert params_of(without, a2a_pb2.SendMessageRequest).tenant == ""


async def test_a2acli_ver_001_the_version_goes_with_every_request(run: Run) -> None:
    agent = Agent()
    async with served(agent) as peer:
        for argv in ((), ("--a2a-version", "1.7")):
            for transport in ("HTTP+JSON", "JSONRPC"):
                await done(run, "task", "get", "-a", peer.url, "t1", "--transport", transport, *argv)
    assert [call.headers["a2a-version"] for call in agent.calls] == ["1.0", "1.0", "1.7", "1.7"]


async def test_a2acli_ver_001_an_older_version_is_not_fallen_back_to(run: Run) -> None:
    agent = Agent()
    agent.interfaces = [("HTTP+JSON", "0.3", "")]
    async with served(agent) as peer:
        found = await done(run, "task", "get", "-a", peer.url, "t1")
    assert found.code == 1
    assert "The agent offers HTTP+JSON 0.3" in found.err
    assert agent.calls == []


async def test_a2acli_ver_002_extensions_are_declared(run: Run) -> None:
    agent = Agent()
    async with served(agent) as peer:
        argv = ("--extension", "urn:one", "--extension", "urn:two")
        await done(run, "task", "get", "-a", peer.url, "t1", *argv)
    assert agent.calls[0].headers["a2a-extensions"] == "urn:one,urn:two"


async def test_a2acli_ver_003_what_the_card_does_not_offer_is_not_called(run: Run) -> None:
    agent = Agent(capabilities={})
    async with served(agent) as peer:
        extended = await done(run, "card", "get", "-a", peer.url, "--extended", "-o", "json")
        hook = await done(
            run, "task", "push-config", "create", "-a", peer.url, "t1", "--url", "https://h.example/", "-o", "json"
        )
    assert extended.code == hook.code == 1
    assert extended.json[0]["error"]["code"] == "UnsupportedOperationError"
    assert hook.json[0]["error"]["code"] == "PushNotificationNotSupportedError"
    assert agent.calls == []


# -- certificates ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate of another host, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "elsewhere.example")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("*.elsewhere.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    file.write_bytes(
        signed.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return file


@pytest.fixture
def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


async def test_a2acli_auth_003_insecure_connections_are_warned_of(run: Run, server_tls: ssl.SSLContext) -> None:
    agent = Agent(**BEARER)
    async with served(agent, server_tls) as peer:
        refused = await done(run, "task", "get", "-a", peer.url, "t1")
        assert refused.code == 3
        assert "A2ACLI_ERR_UNREACHABLE" in refused.err
        assert "certificate" in refused.err

        taken = await done(run, "task", "get", "-a", peer.url, "t1", "--insecure", "--bearer", SECRET)
    assert taken.code == 0
    assert "WARNING: --insecure: TLS certificates are not verified" in taken.err
    assert "WARNING: credentials are sent over a connection" in taken.err
    assert SECRET not in taken.err


async def test_a2acli_default_001_insecure_is_for_grpc_as_well(run: Run, certificate: Path) -> None:
    class Knows:
        async def get_task(self, request: a2a_pb2.GetTaskRequest, _context: Context) -> a2a_pb2.Task:
            return task(a2a_pb2.TASK_STATE_COMPLETED, request.id)

    pem = certificate.read_bytes()
    async with grpc_peer(Knows(), grpc.ssl_server_credentials([(pem, pem)])) as address:
        refused = await done(run, "task", "get", "-a", f"grpcs://{address}", "t1")
        assert refused.code == 3
        taken = await done(run, "task", "get", "-a", f"grpcs://{address}", "t1", "--insecure")
    assert taken.code == 0
    assert taken.fields["State"] == ["COMPLETED"]


async def test_a2acli_auth_009_a_client_certificate(run: Run, certificate: Path) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificate))
    context.load_cert_chain(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    agent = Agent()
    async with served(agent, context) as peer:
        assert (await done(run, "task", "get", "-a", peer.url, "t1", "--insecure")).code != 0
        argv = ("--insecure", "--client-cert", str(certificate))
        assert (await done(run, "task", "get", "-a", peer.url, "t1", *argv)).code == 0


def test_a2acli_tx_004_and_005_three_bindings() -> None:
    """That each of them works is in the tests of the commands, which run with all three."""
    assert set(BINDINGS) == {"GRPC", "HTTP+JSON", "JSONRPC"}
