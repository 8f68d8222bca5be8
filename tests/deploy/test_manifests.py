"""The Kubernetes manifests as they are committed: against the schemas of real clusters, and against each other.

That they are what the chart renders, and what kustomize makes of them, is shown by test_kustomize.py.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from a2a_grpc.server.bindings.grpc.health import LIVENESS
from a2a_grpc.server.bindings.grpc.server import A2A_SERVICE
from a2a_grpc.server.settings import Settings, load
from a2a_grpc.server.settings.source import all_settings
from tests.deploy.checking import RELEASES, check

pytestmark = pytest.mark.wide

ROOT = Path(__file__).parents[2]
BASE = ROOT / "deploy" / "kubernetes" / "base"

Manifest = dict[str, Any]


def read(path: Path) -> list[Manifest]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


KUSTOMIZATION = read(BASE / "kustomization.yaml")[0]
MANIFESTS = [manifest for name in KUSTOMIZATION["resources"] for manifest in read(BASE / name)]


def one(kind: str, name: str = "a2a-grpc", among: list[Manifest] = MANIFESTS) -> Manifest:
    [manifest] = [m for m in among if (m["kind"], m["metadata"]["name"]) == (kind, name)]
    return manifest


POD: Manifest = one("Deployment")["spec"]["template"]["spec"]
CONTAINER: Manifest = POD["containers"][0]


def named(manifest: Manifest) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def test_every_manifest_belongs_to_the_kustomization() -> None:
    files = {path.name for path in BASE.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(KUSTOMIZATION["resources"])


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("manifest", MANIFESTS, ids=named)
def test_schema(manifest: Manifest, release: str) -> None:
    check(manifest, (release,))


def test_every_selector_finds_the_pods() -> None:
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        one("Deployment")["spec"]["selector"]["matchLabels"],
        one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        *(m["spec"]["selector"] for m in MANIFESTS if m["kind"] == "Service"),
        *(spread["labelSelector"]["matchLabels"] for spread in POD["topologySpreadConstraints"]),
    ]
    selectors.append(one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"])
    assert len(selectors) == 7
    for selector in selectors:
        assert selector
        assert selector.items() <= labels.items()


def test_services_lead_to_the_ports_of_the_container() -> None:
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    grpc, http = one("Service")["spec"], one("Service", "a2a-grpc-http")["spec"]
    assert grpc["clusterIP"] == "None", "behind one virtual address a gRPC client stays with one pod"
    for spec, name in ((grpc, "grpc"), (http, "http")):
        [port] = spec["ports"]
        assert port["targetPort"] == name
        assert port["port"] == ports[name]


def test_pods_are_replaced_without_a_gap() -> None:
    spec = one("Deployment")["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_the_times_of_a_stop_fit_each_other() -> None:
    """Each of them ends before the one that cuts it off."""
    settings = load(environment())
    drain, readiness = settings.drain, CONTAINER["readinessProbe"]
    # Until a pod is found not ready, which is what balancers outside of the cluster may go by.
    assert drain.delay >= readiness["periodSeconds"] * readiness["failureThreshold"]
    # Giving back what is interrupted takes the cancel grace and a second, ending the calls not two.
    assert drain.delay + drain.grace + settings.engine.cancel_grace + 3 <= drain.timeout
    assert drain.timeout + 1 < POD["terminationGracePeriodSeconds"]
    assert "lifecycle" not in CONTAINER, "a preStop hook takes its time from terminationGracePeriodSeconds"


def test_connections_live_long_enough_and_not_for_ever() -> None:
    grpc = load(environment()).grpc
    assert 60 <= grpc.max_connection_age <= 600
    assert grpc.max_connection_age_grace == 600


def test_pods_meet_the_restricted_standard() -> None:
    """What the pod security standard "restricted" asks for, and a root file system that nobody can write to."""
    assert POD["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert [set(volume) - {"name"} for volume in POD["volumes"]] == [{"emptyDir"}]
    assert POD["automountServiceAccountToken"] is False
    assert one("ServiceAccount", POD["serviceAccountName"])["automountServiceAccountToken"] is False


def test_services_of_the_namespace_do_not_become_settings() -> None:
    """With service links a Service "a2a-grpc-http" would set A2A_GRPC_HTTP_PORT and its like in every pod."""
    assert POD["enableServiceLinks"] is False


def test_secrets_are_only_referred_to() -> None:
    references = {variable["name"]: variable["valueFrom"]["secretKeyRef"] for variable in CONTAINER["env"]}
    assert references == {
        "A2A_REDIS_URL": {"name": "a2a-grpc", "key": "redis-url"},
        "A2A_API_KEYS": {"name": "a2a-grpc", "key": "api-keys", "optional": True},
    }
    assert not [named(m) for m in MANIFESTS if m["kind"] == "Secret"]


def test_probes_ask_for_what_the_server_serves() -> None:
    [port] = [port["containerPort"] for port in CONTAINER["ports"] if port["name"] == "grpc"]
    probes = {name: CONTAINER[f"{name}Probe"]["grpc"] for name in ("startup", "liveness", "readiness")}
    assert probes == {
        "startup": {"port": port, "service": LIVENESS},
        "liveness": {"port": port, "service": LIVENESS},
        "readiness": {"port": port, "service": A2A_SERVICE},
    }


def environment() -> dict[str, str]:
    """What a pod gets, with secrets as docs/DEPLOY.md makes them."""
    lines = (BASE / "settings.env").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return given | {"A2A_REDIS_URL": "redis://:secret@redis:6379/0", "A2A_API_KEYS": f"caller:{'0' * 64}"}


def test_settings_are_known_and_leave_nothing_to_complain_about() -> None:
    names = environment().keys() | {variable["name"] for variable in CONTAINER["env"]}
    assert names <= {setting.variable.name for setting in all_settings(Settings)}
    assert load(environment()).warnings == ()


def test_ports_are_those_that_the_server_listens_on() -> None:
    settings = load(environment())
    assert settings.metrics.addr is not None
    assert {port["name"]: port["containerPort"] for port in CONTAINER["ports"]} == {
        "grpc": settings.grpc.addr.port,
        "http": settings.http.addr.port,
        "metrics": settings.metrics.addr.port,
    }


def test_the_card_names_the_services() -> None:
    """As delivered: callers in the same namespace, by the names and ports of the two Services."""
    settings = load(environment())
    grpc, http = one("Service"), one("Service", "a2a-grpc-http")
    assert settings.public_grpc_addr == f"{grpc['metadata']['name']}:{grpc['spec']['ports'][0]['port']}"
    assert settings.public_http_url == f"http://{http['metadata']['name']}:{http['spec']['ports'][0]['port']}"


def test_only_what_a_pod_serves_can_be_connected_to() -> None:
    """The metrics ask for no credentials: they are for the monitoring alone. Nothing else of a pod can be reached."""
    policy = one("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    monitoring = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert policy["ingress"] == [
        {"ports": [{"port": 50051, "protocol": "TCP"}]},
        {"ports": [{"port": 8080, "protocol": "TCP"}]},
        {"ports": [{"port": 9464, "protocol": "TCP"}], "from": monitoring},
    ]


def test_pods_reach_names_the_store_and_the_public_internet() -> None:
    policy = one("NetworkPolicy")["spec"]
    names, store, https = policy["egress"]
    assert names == {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}
    assert store == {"ports": [{"port": 6379, "protocol": "TCP"}]}
    assert https["ports"] == [{"port": 443, "protocol": "TCP"}]
    blocks = {to["ipBlock"]["cidr"]: to["ipBlock"]["except"] for to in https["to"]}
    assert blocks.keys() == {"0.0.0.0/0", "::/0"}
    # The cluster's own, and where clouds keep the credentials of their machines.
    assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"} <= set(blocks["0.0.0.0/0"])


def test_version_is_that_of_the_project() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert CONTAINER["image"] == f"a2a-grpc:{version}"
