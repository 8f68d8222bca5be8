"""The Kubernetes manifests against the schemas of real clusters, and against each other."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from a2a_grpc.server.bindings.grpc.health import LIVENESS
from a2a_grpc.server.bindings.grpc.server import A2A_SERVICE
from a2a_grpc.server.settings import Settings, load
from a2a_grpc.server.settings.source import all_settings

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"

# The oldest release that runs the manifests as they are (it made the gRPC probes final), one between, the newest that
# the schemas know.
RELEASES = ("1.27", "1.33", "1.37")

Manifest = dict[str, Any]


def read(path: Path) -> list[Manifest]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


KUSTOMIZATION = read(KUBERNETES / "kustomization.yaml")[0]
MANIFESTS = [manifest for name in KUSTOMIZATION["resources"] for manifest in read(KUBERNETES / name)]


def one(kind: str, name: str = "a2a-grpc", among: list[Manifest] = MANIFESTS) -> Manifest:
    [manifest] = [m for m in among if (m["kind"], m["metadata"]["name"]) == (kind, name)]
    return manifest


POD: Manifest = one("Deployment")["spec"]["template"]["spec"]
CONTAINER: Manifest = POD["containers"][0]


def named(manifest: Manifest) -> str:
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def test_every_manifest_belongs_to_the_kustomization() -> None:
    files = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(KUSTOMIZATION["resources"])


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("manifest", MANIFESTS, ids=named)
def test_schema(manifest: Manifest, release: str) -> None:
    kubernetes_validate.validate(manifest, release, strict=True)


def kustomize(folder: Path) -> list[Manifest]:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed")
    built = subprocess.run([kubectl, "kustomize", str(folder)], check=True, capture_output=True, text=True).stdout
    manifests = list(yaml.safe_load_all(built))
    for manifest in manifests:
        kubernetes_validate.validate(manifest, RELEASES[-1], strict=True)
    return manifests


def test_what_kustomize_makes_of_them() -> None:
    manifests = kustomize(KUBERNETES)
    assert len(manifests) == len(MANIFESTS) + 1

    [settings] = [m for m in manifests if m["kind"] == "ConfigMap"]
    container = one("Deployment", among=manifests)["spec"]["template"]["spec"]["containers"][0]
    assert container["envFrom"] == [{"configMapRef": {"name": settings["metadata"]["name"]}}]
    assert settings["metadata"]["name"].startswith("a2a-grpc-"), "without the hash a changed setting rolls nothing"

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert container["image"] == f"a2a-grpc:{version}"


def test_the_kustomization_of_the_documentation(tmp_path: Path) -> None:
    """docs/DEPLOY.md tells operators to lay their own over ours; laid out as it says, it does what it says."""
    [documented] = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "DEPLOY.md").read_text(), re.DOTALL)
    shutil.copytree(KUBERNETES, tmp_path / "a2a-grpc" / "deploy" / "kubernetes")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "kustomization.yaml").write_text(documented)

    manifests = kustomize(tmp_path / "agents")
    assert {m["metadata"]["namespace"] for m in manifests} == {"agents"}
    deployment = one("Deployment", among=manifests)["spec"]
    assert deployment["replicas"] == 3
    assert deployment["template"]["spec"]["containers"][0]["image"] == "registry.example.com/my-agent:1.0.0"
    [settings] = [m for m in manifests if m["kind"] == "ConfigMap"]
    assert settings["data"] == {
        "A2A_LOG_FORMAT": "json",
        "A2A_PUBLIC_GRPC_ADDR": "agent.example.com:443",
        "A2A_PUBLIC_HTTP_URL": "https://agent.example.com",
        "A2A_DRAIN_DELAY": "5",
        "A2A_GRPC_MAX_CONNECTION_AGE": "300",
        "A2A_TLS_TERMINATED": "true",
    }
    load(settings["data"])


def test_every_selector_finds_the_pods() -> None:
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        one("Deployment")["spec"]["selector"]["matchLabels"],
        one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        *(m["spec"]["selector"] for m in MANIFESTS if m["kind"] == "Service"),
        *(spread["labelSelector"]["matchLabels"] for spread in POD["topologySpreadConstraints"]),
    ]
    assert len(selectors) == 6
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
    lines = (KUBERNETES / "settings.env").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return given | {"A2A_REDIS_URL": "redis://:secret@redis:6379/0", "A2A_API_KEYS": f"caller:{'0' * 64}"}


def test_settings_are_known_and_leave_nothing_to_complain_about() -> None:
    names = environment().keys() | {variable["name"] for variable in CONTAINER["env"]}
    assert names <= {setting.variable.name for setting in all_settings(Settings)}
    assert load(environment()).warnings == ()


def test_ports_are_those_that_the_server_listens_on() -> None:
    settings = load(environment())
    assert {port["name"]: port["containerPort"] for port in CONTAINER["ports"]} == {
        "grpc": settings.grpc.addr.port,
        "http": settings.http.addr.port,
    }


def test_the_card_names_the_services() -> None:
    """As delivered: callers in the same namespace, by the names and ports of the two Services."""
    settings = load(environment())
    grpc, http = one("Service"), one("Service", "a2a-grpc-http")
    assert settings.public_grpc_addr == f"{grpc['metadata']['name']}:{grpc['spec']['ports'][0]['port']}"
    assert settings.public_http_url == f"http://{http['metadata']['name']}:{http['spec']['ports'][0]['port']}"
