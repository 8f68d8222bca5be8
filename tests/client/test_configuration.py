"""An agent that is named in a file or in the environment: discovery by direct configuration (specification 8.2)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from a2a_grpc.client import (
    A2AClient,
    ApiKey,
    BearerToken,
    ClientCertificate,
    ClientCredentials,
    Configuration,
    InvalidArgumentError,
    message,
)
from a2a_grpc.client.credentials import Surroundings
from a2a_grpc.pb import a2a_pb2
from tests.client.peers import Context, grpc_peer, task

SEND = a2a_pb2.SendMessageRequest(message=message("hello"))
AROUND = Surroundings(1.0, None, lambda _: False)


class Recorder:
    """Keeps what it was sent."""

    def __init__(self) -> None:
        self.tenants: list[str] = []
        self.metadata: list[dict[str, str | bytes]] = []

    async def send_message(self, request: a2a_pb2.SendMessageRequest, context: Context) -> a2a_pb2.SendMessageResponse:
        self.tenants.append(request.tenant)
        self.metadata.append(dict(context.invocation_metadata() or ()))
        return a2a_pb2.SendMessageResponse(task=task(a2a_pb2.TASK_STATE_COMPLETED))


@pytest.fixture
async def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
async def address(recorder: Recorder) -> AsyncIterator[str]:
    async with grpc_peer(recorder) as address:
        yield address


@pytest.mark.parametrize("write", [yaml.safe_dump, json.dumps], ids=["yaml", "json"])
async def test_an_interface_of_a_file_is_called_with_its_tenant_and_its_key(
    recorder: Recorder, address: str, tmp_path: Path, write: Any
) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    file = tmp_path / "agent.yaml"
    content = {
        "url": address,
        "binding": "grpc",
        "tenant": "acme",
        "credentials": {"api_key": {"file": "key"}},
        "headers": {"x-team": "blue"},
    }
    file.write_text(write(content))

    async with await A2AClient.connect(Configuration.from_file(file), headers={"x-more": "1"}) as client:
        await client.send_message(SEND)

    assert recorder.tenants == ["acme"]
    sent = recorder.metadata[0]
    assert (sent["x-api-key"], sent["x-team"], sent["x-more"]) == ("s3cret", "blue", "1")


async def test_an_interface_of_the_environment_is_called_with_its_token(recorder: Recorder, address: str) -> None:
    environ = {
        "A2A_AGENT_URL": address,
        "A2A_AGENT_BINDING": "GRPC",
        "A2A_AGENT_TENANT": "acme",
        "A2A_AGENT_TOKEN": "abc",
        "A2A_HTTP_ADDR": "of somebody else",
    }

    async with await A2AClient.connect(Configuration.from_environment(environ)) as client:
        await client.send_message(SEND)
        environ["A2A_AGENT_TOKEN"] = "next"
        await client.send_message(SEND)

    assert recorder.tenants == ["acme", "acme"]
    assert [sent["authorization"] for sent in recorder.metadata] == ["Bearer abc", "Bearer next"]


def test_everything_that_the_environment_may_say(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    found = Configuration.from_environment(
        {
            "A2A_AGENT_URL": "https://agent.example.com",
            "A2A_AGENT_EXTENSIONS": "urn:a, urn:b",
            "A2A_AGENT_ALLOW_ORIGINS": "a.example.com,b.example.com:8443",
            "A2A_AGENT_CA_FILE": "/ca.pem",
            "A2A_AGENT_CLIENT_ID": "me",
            "A2A_AGENT_CLIENT_SECRET_FILE": str(tmp_path / "secret"),
            "A2A_AGENT_TOKEN_URL": "https://auth.example.com/token",
            "A2A_AGENT_SCOPES": "read,write",
            "A2A_AGENT_CERT_FILE": "/cert.pem",
            "A2A_AGENT_KEY_FILE": "/key.pem",
        }
    )

    assert (found.url, found.target, found.binding) == ("https://agent.example.com", "https://agent.example.com", None)
    assert list(found.extensions) == ["urn:a", "urn:b"]
    assert list(found.allow_origins) == ["a.example.com", "b.example.com:8443"]
    assert found.ca_file == Path("/ca.pem")
    machine, certificate = found.credentials
    assert isinstance(machine, ClientCredentials) and certificate == ClientCertificate(
        Path("/cert.pem"), Path("/key.pem")
    )
    assert "s3cret" not in repr(found)


def test_the_environment_may_name_a_file(tmp_path: Path) -> None:
    file = tmp_path / "agent.json"
    file.write_text('{"url": "https://agent.example.com", "credentials": {"bearer": {"env": "TOKEN_OF_IT"}}}')

    found = Configuration.from_environment({"A2A_AGENT_CONFIG": str(file), "TOKEN_OF_IT": "abc"})

    assert found.url == "https://agent.example.com"
    [token] = found.credentials
    assert isinstance(token, BearerToken)
    with pytest.raises(InvalidArgumentError, match="A2A_AGENT_CONFIG stands alone"):
        Configuration.from_environment({"A2A_AGENT_CONFIG": str(file), "A2A_AGENT_URL": "https://other"})


async def test_a_token_in_a_file_is_read_anew(tmp_path: Path) -> None:
    """As where a sidecar replaces it."""
    secret, file = tmp_path / "token", tmp_path / "agent.yaml"
    secret.write_text("one\n")
    file.write_text("url: https://x\ncredentials: {bearer: {file: token}}")
    [token] = Configuration.from_file(file).credentials

    assert (await token.access(None, AROUND)).headers == {"authorization": "Bearer one"}
    secret.write_text("two\n")
    assert (await token.access(None, AROUND)).headers == {"authorization": "Bearer two"}


async def test_an_api_key_is_for_the_scheme_of_the_card(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("url: https://x\ncredentials: {api_key: {env: KEY}}")
    assert Configuration.from_file(file, {"KEY": "k"}).credentials == [ApiKey("k")]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("[]", "the whole must hold some of url, binding"),
        ("binding: GRPC", "url is missing"),
        ("url: 1", "url must be text"),
        ("url: https://x\nbindnig: GRPC", "bindnig is not known; there are url, binding"),
        ("url: https://x\nbinding: SOAP", "SOAP is no binding; there are GRPC, HTTP\\+JSON, JSONRPC"),
        ("url: https://x\ntenant: acme", "A tenant needs a binding"),
        ("url: https://x\nheaders: [a]", "headers must hold texts by name"),
        ("url: https://x\nallow_origins: a", "allow_origins must be a list of texts"),
        ("url: https://x\ncredentials: {bearer: s3cret}", "hold a secret itself; write {env: NAME} or {file: PATH}"),
        ("url: https://x\ncredentials: {bearer: {env: NOT_SET}}", "NOT_SET is not set"),
        ("url: https://x\ncredentials: {bearer: {file: not_there}}", "not_there cannot be read"),
        ("url: https://x\ncredentials: {password: {env: X}}", "credentials.password is not known"),
        ("url: https://x\ncredentials: {client_credentials: {client_id: a}}", "client_secret is missing"),
        ("url: https://x\ncredentials: {client_certificate: {cert_file: a}}", "needs a cert_file and a key_file"),
        ("url: [", "is no YAML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_without_secrets(tmp_path: Path, content: str, text: str) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(content)

    with pytest.raises(InvalidArgumentError, match=text) as caught:
        Configuration.from_file(file, {})
    assert "s3cret" not in caught.value.message


def test_a_file_that_is_not_there_and_an_environment_that_names_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot be read"):
        Configuration.from_file(tmp_path / "none")
    with pytest.raises(InvalidArgumentError, match="the environment: url is missing"):
        Configuration.from_environment({})
    with pytest.raises(InvalidArgumentError, match="A2A_AGENT_KEY: not known; there are A2A_AGENT_ALLOW_ORIGINS, A2A"):
        Configuration.from_environment({"A2A_AGENT_URL": "https://x", "A2A_AGENT_KEY": "k"})
