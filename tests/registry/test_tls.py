"""A registry and an agent that both speak TLS, with certificates of an authority of their own."""

import contextlib
import ssl
import time
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from a2a_grpc.client import ApiKey, ClientCertificate, NotConnectedError, RegisteredAgent, Registry
from tests.registry.processes import API_KEYS, Agent, RegistryProcess, card, key_of
from tests.support.certificates import Authority, Files
from tests.support.replica import READY_TIMEOUT, Replica
from tests.support.waiting import wait_until


def wait_ready(process: Replica, authority: Authority) -> None:
    trust = ssl.create_default_context(cadata=authority.pem.decode())
    deadline = time.monotonic() + READY_TIMEOUT
    with httpx.Client(trust_env=False, verify=trust) as client:
        while True:
            assert process.alive, process.log()
            with contextlib.suppress(httpx.TransportError):
                if client.get(f"{process.http_url}/readyz").is_success:
                    return
            assert time.monotonic() < deadline, process.log()
            time.sleep(0.02)


async def test_everybody_speaks_tls_with_everybody(tmp_path: Path) -> None:
    authority = Authority()
    ca_file = tmp_path / "authority.pem"
    ca_file.write_bytes(authority.pem)
    tls = Files(tmp_path, authority.issue_server()).settings()
    env = {
        **tls,
        "A2A_TLS_CLIENT_CA_FILE": str(ca_file),
        "A2A_TLS_CLIENT_CERT": "optional",
        "A2A_TLS_GRPC_CLIENT_CERT": "none",
        "A2A_MTLS": "san",
        "A2A_API_KEYS": API_KEYS,
        "A2A_REGISTRY_ALLOW": "localhost",
        "A2A_REGISTRY_CHECK_INTERVAL": "1",
        "SSL_CERT_FILE": str(ca_file),
    }
    registry = RegistryProcess(None, env)
    registry.http_url = registry.http_url.replace("http://", "https://")
    registering = {
        **tls,
        "A2A_REGISTER_HEADER": f"X-API-Key: {key_of('alice')}",
        "A2A_REGISTER_CA_FILE": str(ca_file),
    }
    urls = registry.http_url, f"grpcs://{registry.grpc_addr}"
    agents = [Agent(url, registering) for url in urls]
    with contextlib.ExitStack() as stack:
        for process in (registry, *agents):
            stack.callback(process.close)
            process.http_url = process.http_url.replace("http://", "https://")
            process.start(wait=False)
        for process in (registry, *agents):
            wait_ready(process, authority)

        async def healthy(client: Registry, count: int) -> list[RegisteredAgent]:
            async def look() -> list[RegisteredAgent]:
                found = [agent async for agent in client.search(health="healthy", mine=True)]
                return found if len(found) == count else []

            return await wait_until(look, f"{count} healthy agents", 20)

        for url in urls:
            async with await Registry.connect(url, credentials=ApiKey(key_of("alice")), ca_file=ca_file) as client:
                found = await healthy(client, 2)
                assert {agent.url for agent in found} == {agent.http_url for agent in agents}
            with pytest.raises(NotConnectedError):
                async with await Registry.connect(url) as client:
                    await client.find()

        # Somebody who is known by a certificate, with an agent that is looked for over gRPC.
        pair = authority.issue("", [x509.UniformResourceIdentifier("spiffe://example.org/dave")])
        for name, content in zip(("dave.crt", "dave.key"), pair, strict=True):
            (tmp_path / name).write_bytes(content)
        dave = ClientCertificate(tmp_path / "dave.crt", tmp_path / "dave.key")
        async with await Registry.connect(registry.http_url, credentials=dave, ca_file=ca_file) as client:
            made = await client.register(card(), url=f"grpcs://{agents[0].grpc_addr}")
            assert [agent.id for agent in await healthy(client, 1)] == [made.id]
