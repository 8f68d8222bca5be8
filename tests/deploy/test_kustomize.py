"""The plain manifests: what `make manifests` writes, and after kustomize the same as what Helm installs."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from a2a_grpc.server.settings import load
from tests.deploy import manifests, tools
from tests.deploy.checking import check

pytestmark = pytest.mark.wide

EVERY = [None, *manifests.overlays()]

Manifest = dict[str, Any]
Documents = dict[manifests.Key, Manifest]


def kustomize(folder: Path) -> Documents:
    command = [str(tools.kubectl()), "kustomize", str(folder)]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return {manifests.key(manifest): manifest for manifest in yaml.safe_load_all(built.stdout)}


@cache
def folder_of(overlay: str | None) -> Path:
    return manifests.KUBERNETES / ("base" if overlay is None else f"overlays/{overlay}")


def test_the_folders_are_what_the_chart_gives() -> None:
    wanted = manifests.folders()
    found = {path.parent for path in manifests.KUBERNETES.rglob("*/*") if path.is_file()}
    assert found == set(wanted), "run `make manifests`"
    for folder, files in wanted.items():
        assert {path.name: path.read_text() for path in folder.iterdir()} == files, "run `make manifests`"


@pytest.mark.parametrize("overlay", EVERY)
def test_kustomize_and_helm_install_the_same(overlay: str | None) -> None:
    by_kustomize = without_hashes(kustomize(folder_of(overlay)))
    by_helm = {key: yaml.safe_load(text) for key, text in manifests.rendered(overlay).items()}
    assert by_kustomize == by_helm


def without_hashes(documents: Documents) -> Documents:
    """The hash of its content in a ConfigMap's name replaces the pods, as the checksum of an annotation does."""
    text = yaml.safe_dump_all(documents.values())
    for kind, name in documents:
        if kind == "ConfigMap" and not name.endswith("-dashboard"):
            assert re.search(r"-[a-z0-9]{10}$", name), "without the hash a changed setting replaces no pod"
            text = text.replace(name, name[:-11])
    return {manifests.key(manifest): manifest for manifest in yaml.safe_load_all(text)}


@pytest.mark.parametrize("overlay", EVERY)
def test_schemas(overlay: str | None) -> None:
    for manifest in kustomize(folder_of(overlay)).values():
        check(manifest)


def test_the_kustomization_of_the_documentation(tmp_path: Path) -> None:
    """docs/DEPLOY.md tells operators to lay their own over ours; laid out as it says, it does what it says."""
    page = (tools.ROOT / "docs" / "DEPLOY.md").read_text()
    [documented] = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "Kustomization" in block]
    shutil.copytree(manifests.KUBERNETES, tmp_path / "a2a-grpc" / "deploy" / "kubernetes")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "kustomization.yaml").write_text(documented)

    made = kustomize(tmp_path / "agents")
    assert {manifest["metadata"]["namespace"] for manifest in made.values()} == {"agents"}
    deployment = made["Deployment", "a2a-grpc"]["spec"]
    assert deployment["replicas"] == 3
    assert deployment["template"]["spec"]["containers"][0]["image"] == "registry.example.com/my-agent:1.0.0"
    [settings] = [manifest for (kind, _), manifest in made.items() if kind == "ConfigMap"]
    assert (
        settings["data"].items()
        >= {
            "A2A_LOG_FORMAT": "json",
            "A2A_PUBLIC_GRPC_ADDR": "agent.example.com:443",
            "A2A_PUBLIC_HTTP_URL": "https://agent.example.com",
        }.items()
    )
    load(settings["data"])


def test_what_names_the_namespace_in_another_one(tmp_path: Path) -> None:
    """An overlay cannot know it; what docs/DEPLOY.md says to write on top puts it in."""
    page = (tools.ROOT / "docs" / "DEPLOY.md").read_text()
    [documented] = [block for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "replacements:" in block]
    scaled, alerts = yaml.safe_load(documented)["replacements"]
    shutil.copytree(manifests.KUBERNETES, tmp_path / "kubernetes")

    def mine(overlay: str, replacement: Manifest) -> Documents:
        wanted = {
            "namespace": "mine",
            "resources": [f"../kubernetes/overlays/{overlay}"],
            "replacements": [replacement],
        }
        (tmp_path / overlay).mkdir()
        (tmp_path / overlay / "kustomization.yaml").write_text(yaml.safe_dump(wanted))
        return kustomize(tmp_path / overlay)

    triggers = mine("keda", scaled)["ScaledObject", "a2a-grpc"]["spec"]["triggers"]
    assert [trigger["metadata"]["query"] for trigger in triggers] == [
        'sum(a2a_turns_active{namespace="mine",app_kubernetes_io_instance="a2a-grpc"})',
        'max(a2a_queue_age_seconds{namespace="mine",app_kubernetes_io_instance="a2a-grpc"})',
    ]
    groups = mine("observability", alerts)["PrometheusRule", "a2a-grpc"]["spec"]["groups"]
    rules = {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}
    ours = 'absent(a2a_turns_limit{namespace="mine",app_kubernetes_io_instance="a2a-grpc"})'
    assert rules["A2ANoReplica"] == ours
    assert not [expr for expr in rules.values() if '"agents"' in expr]
