"""What `helm test` runs: it finds the agents of every configuration, and says where it finds none."""

import asyncio
import contextlib
import hashlib
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
import yaml
from cryptography.x509 import IPAddress

from tests.deploy.checking import check
from tests.deploy.manifests import CHART, Manifest, helm
from tests.deploy.rendering import STORE, container, over, pod, rendering, settings
from tests.support.certificates import Authority, Files
from tests.support.leaks import secret
from tests.support.replica import Replica, free_ports, replica
from tests.support.secure import serving
from tests.support.servers import StoreServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wide

AGENT = "examples.minimal_agent:agent"
PUBLIC = "http://a2a-grpc-http:8080"
CARD_PATH = "/.well-known/agent-card.json"
CARD = f"{CARD_PATH}: "
AUTHENTICATED: Manifest = {"settings": {"A2A_CARD_ACCESS": "authenticated"}}

FOUND: dict[str, tuple[Manifest, str]] = {
    "the agent of the image": ({}, f'{CARD}{{\n  "name": "'),
    "an agent": ({"agent": AGENT}, f"{PUBLIC}/"),
    "an agent for callers alone": ({"agent": AGENT} | AUTHENTICATED, f"{CARD}for callers with credentials (401)"),
    "agents, one for who names no tenant": ({"agents": {"file": {"agents": {"": AGENT, "acme": AGENT}}}}, PUBLIC),
    "agents, none for who names no tenant": (
        {"agents": {"file": {"agents": {"globex": AGENT, "acme": AGENT}}}},
        f'/acme{CARD}{{\n  "name": "',
    ),
    "agents for callers alone": (
        {"agents": {"file": {"agents": {"acme": AGENT}}}} | AUTHENTICATED,
        f"/acme{CARD}for callers with credentials (401)",
    ),
}


def hooks(values: Manifest) -> dict[str, Manifest]:
    """By kind."""
    shown = helm("template", "a2a-grpc", CHART, "--show-only", "templates/tests/call.yaml", values=over(STORE, values))
    assert shown.returncode == 0, shown.stderr
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(shown.stdout)}


async def call(values: Manifest, url: str, patience: float = 0) -> tuple[int, str]:
    """The exit code of what the pod runs, and all that it prints, with another address and another patience."""
    [caller] = hooks(values)["Pod"]["spec"]["containers"]
    python, *command = caller["command"]
    assert python == "python3"
    _, _, *tenant = caller["args"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, str(patience), url, *tenant, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    told, _ = await process.communicate()
    return process.returncode or 0, told.decode()


@pytest.mark.parametrize(("values", "finds"), FOUND.values(), ids=FOUND)
async def test_it_finds_the_agents(one_store_server: StoreServer, tmp_path: Path, values: Manifest, finds: str) -> None:
    made = rendering(values)
    # Several servers of the tests run on one machine, and none has to leave a Service.
    other = {"A2A_METRICS_ADDR", "A2A_DRAIN_DELAY"}
    given = {name: value for name, value in settings(made).items() if name not in other}
    if given.get("A2A_CARD_ACCESS") == "authenticated":
        given["A2A_API_KEYS"] = f"caller:{hashlib.sha256(secret('key').encode()).hexdigest()}"
    for name, content in made.get(("ConfigMap", "a2a-grpc-agents"), {}).get("data", {}).items():
        (tmp_path / name).write_text(content)
    serve = [argument.replace("/etc/a2a-grpc/agents", str(tmp_path)) for argument in container(made).get("args", [])]
    async with replica(agent=" ".join(serve[1:]) or None, redis_url=one_store_server.url, env=given) as one:
        code, told = await call(values, one.http_url)
    assert code == 0, told
    assert told.startswith(f'{one.http_url}/readyz: {{"status":"ready"')
    assert finds in told


async def test_agents_of_the_image_may_all_have_a_tenant(one_store_server: StoreServer, tmp_path: Path) -> None:
    """Nobody knows them then, so that one who is not there is no failure; one that the values name is."""
    file = tmp_path / "agents.yaml"
    file.write_text(yaml.safe_dump({"agents": {"acme": AGENT}}))
    async with replica(agent=str(file), redis_url=one_store_server.url) as one:
        code, told = await call({}, one.http_url)
        assert code == 0, told
        assert f"{CARD}none for callers that name no tenant" in told
        code, told = await call({"agent": AGENT}, one.http_url)
        assert code == 1
        assert f"{CARD}404 " in told


async def test_over_tls_it_needs_neither_a_certificate_nor_an_authority(tmp_path: Path) -> None:
    """As where gRPC takes nobody without one, and the name of the Service is in no certificate."""
    values: Manifest = {
        "tls": {
            "existingSecret": "tls",
            "clientCa": {"existingSecret": "ca"},
            "clientCert": "optional",
            "grpcClientCert": "required",
        }
    }
    [caller] = hooks(values)["Pod"]["spec"]["containers"]
    assert caller["args"][1] == "https://a2a-grpc-http:8080"
    authority = Authority()
    files = Files(tmp_path, authority.issue("elsewhere", [IPAddress(ip_address("127.0.0.1"))]), authority.pem)
    required = {"A2A_TLS_CLIENT_CERT": "optional", "A2A_TLS_GRPC_CLIENT_CERT": "required", "A2A_MTLS": "san"}
    with serving(AGENT, files, authority, **required) as one:
        code, told = await call(values, one.http_url.replace("127.0.0.1", "localhost"))
    assert code == 0, told
    assert f'{CARD}{{\n  "name": "' in told


async def test_pods_that_start_are_waited_for() -> None:
    one = Replica(agent=AGENT, redis_url=None, env={})
    try:
        code, told = await call({}, one.http_url)
        assert code == 1
        assert told.startswith(f"{one.http_url}/readyz: no answer ")
        calling = asyncio.create_task(call({}, one.http_url, patience=30))
        await asyncio.to_thread(one.start)
        code, told = await calling
        assert code == 0, told
    finally:
        await asyncio.to_thread(one.close)


async def test_pods_that_answer_and_are_not_ready_are_no_success() -> None:
    [port] = free_ports(1)
    one = Replica(agent=AGENT, redis_url=f"redis://127.0.0.1:{port}", env={})
    try:
        one.start(wait=False)
        async with httpx.AsyncClient(base_url=one.http_url, trust_env=False) as client:

            async def answers() -> bool:
                with contextlib.suppress(httpx.TransportError):
                    return (await client.get(CARD_PATH)).status_code == 200
                return False

            await wait_until(answers, "there is a card", 30)
        code, told = await call({}, one.http_url)
        assert code == 1
        assert told.startswith(f'{one.http_url}/readyz: 503 {{"status":"not ready"')
    finally:
        await asyncio.to_thread(one.close)


def test_it_runs_as_the_pods_do() -> None:
    caller, made = hooks({})["Pod"], rendering()
    check(caller)
    assert caller["spec"]["securityContext"] == pod(made)["securityContext"]
    [call] = caller["spec"]["containers"]
    assert call["securityContext"] == container(made)["securityContext"]
    assert call["image"] == container(made)["image"]
    patience, address = call["args"]
    assert (float(patience), address) == (60, settings(made)["A2A_PUBLIC_HTTP_URL"])
    # Kubernetes would put the value of a variable there.
    assert not [part for part in call["command"] if "$(" in part]


def test_helm_test_may_call_the_pods_whoever_else_may() -> None:
    values: Manifest = {"networkPolicy": {"httpFrom": [{"namespaceSelector": {}}]}}
    made = hooks(values)
    caller, policy = made["Pod"], made["NetworkPolicy"]
    check(policy)
    [rule] = policy["spec"]["ingress"]
    [peer] = rule["from"]
    assert peer["podSelector"]["matchLabels"].items() <= caller["metadata"]["labels"].items()
    ours = rendering(values)["Deployment", "a2a-grpc"]["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= ours.items()
    # There before the pod, and gone with it.
    annotations = [manifest["metadata"]["annotations"] for manifest in (policy, caller)]
    assert [int(hook.get("helm.sh/hook-weight", 0)) for hook in annotations] == [-1, 0]
    assert {hook["helm.sh/hook"] for hook in annotations} == {"test"}
