"""Writes `deploy/kubernetes` from the chart, and the files of the chart from their source: `make manifests`.

The base is what the chart renders with `deploy/kubernetes/values.yaml`, and each overlay is what `values-NAME.yaml` of
the chart changes of it: resources that it adds, and patches. So both ways to install have one source, and a test
renders them both and compares. What differs is only how a changed setting replaces the pods: the chart has checksums in
annotations, kustomize hashes in names.

Helm reads no file outside of a chart, so the chart has copies of the alerts and the dashboard.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.deploy import tools

CHART: Final = tools.ROOT / "deploy" / "helm" / "a2a-grpc"
KUBERNETES: Final = tools.ROOT / "deploy" / "kubernetes"
VALUES: Final = KUBERNETES / "values.yaml"
NAME: Final = "a2a-grpc"
# The one of docs/DEPLOY.md. Only the queries of KEDA and one alert name it.
NAMESPACE: Final = "agents"
KUBE_VERSION: Final = "1.33.0"
COPIES: Final = {name: tools.ROOT / "deploy" / "observability" / name for name in ("dashboard.json", "rules.yaml")}
"""What `files` of the chart holds: by name, and where it comes from."""

HEADER: Final = "# Written by `make manifests` from deploy/helm/a2a-grpc; a test compares.\n"
# What only Helm needs.
_HELM: Final = re.compile(r"^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by|checksum/[a-z]+): .*\n", re.MULTILINE)
_EMPTY_ANNOTATIONS: Final = re.compile(r"^( *)annotations:\n(?!\1 )", re.MULTILINE)

Manifest = dict[str, Any]
Key = tuple[str, str]


def overlays() -> list[str]:
    return sorted(file.stem.removeprefix("values-") for file in CHART.glob("values-*.yaml"))


def values_of(overlay: str | None) -> list[Path]:
    return [VALUES] if overlay is None else [VALUES, CHART / f"values-{overlay}.yaml"]


def helm(
    *arguments: str | Path, values: Manifest | None = None, program: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """What helm answers, with `values` over those of files. Raises UnavailableError."""
    command = [str(program or tools.helm()), *map(str, arguments), *(() if values is None else ("--values", "-"))]
    given = None if values is None else json.dumps(values)
    return subprocess.run(command, check=False, capture_output=True, text=True, input=given)


def template(*files: Path, values: Manifest | None = None, kube: str = KUBE_VERSION) -> str:
    """What the chart renders. Raises ChartError where it refuses the values, and UnavailableError."""
    where = (NAME, CHART, "--namespace", NAMESPACE, "--kube-version", kube, "--skip-tests")
    result = helm("template", *where, *(part for file in files for part in ("--values", file)), values=values)
    if result.returncode != 0:
        raise ChartError(result.stderr)
    return result.stdout


class ChartError(Exception):
    """The chart refuses its values."""


def rendered(overlay: str | None) -> dict[Key, str]:
    """The documents of the chart without what only Helm needs, as text with its comments."""
    documents = {}
    for document in template(*values_of(overlay)).split("---\n"):
        text = re.sub(r"^# Source: .*\n", "", document)
        manifest = yaml.safe_load(text)
        if manifest:
            text = _EMPTY_ANNOTATIONS.sub("", _HELM.sub("", text))
            documents[key(manifest)] = text.strip() + "\n"
    return documents


def key(manifest: Manifest) -> Key:
    return manifest["kind"], manifest["metadata"]["name"]


def files(overlay: str | None) -> dict[str, str]:
    """What the folder of an overlay, or of the base, holds: the content of files by name."""
    base = rendered(None)
    documents = base if overlay is None else rendered(overlay)
    made: dict[str, str] = {}
    kustomization: dict[str, Any] = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    about = "# kubectl apply -k, or better a kustomization of your own on top (docs/DEPLOY.md).\n"
    resources, generators, patches = [], [], []
    if overlay is not None:
        resources.append("../../base")
        first = (CHART / f"values-{overlay}.yaml").read_text().splitlines()
        about = "".join(f"{line}\n" for line in _while_comment(first))
        gone = base.keys() - documents.keys()
        assert not gone, f"{overlay} takes resources away, which an overlay cannot: {gone}"
    for (kind, name), text in sorted(documents.items()):
        manifest = yaml.safe_load(text)
        before = yaml.safe_load(base[kind, name]) if overlay is not None and (kind, name) in base else None
        if kind == "ConfigMap" and manifest["metadata"]["labels"]["app.kubernetes.io/component"] != "metrics":
            if before is None or before["data"] != manifest["data"]:
                generators.append(_generator(manifest, before, made))
        elif before is None:
            file = f"{kind.lower()}{name.removeprefix(NAME)}.yaml"
            made[file] = HEADER + text
            resources.append(file)
        elif before != manifest:
            file = f"patch-{kind.lower()}{name.removeprefix(NAME)}.yaml"
            made[file] = HEADER + _dump(list(differences(before, manifest)))
            patches.append({"target": {"kind": kind, "name": name}, "path": file})
    kustomization["resources"] = resources
    lists = {"configMapGenerator": generators, "patches": patches}
    kustomization |= {field: entries for field, entries in lists.items() if entries}
    made["kustomization.yaml"] = HEADER + about + _dump(kustomization)
    return made


def _generator(manifest: Manifest, before: Manifest | None, made: dict[str, str]) -> Manifest:
    """An entry of configMapGenerator. It gives the ConfigMap a name that changes with it, and so replaces the pods."""
    name, data = manifest["metadata"]["name"], manifest["data"]
    if before is not None:
        gone = before["data"].keys() - data.keys()
        assert not gone, f"a merged ConfigMap loses no keys: {gone}"
        changed = {field: value for field, value in data.items() if before["data"].get(field) != value}
        return {"name": name, "behavior": "merge", "literals": [f"{field}={value}" for field, value in changed.items()]}
    entry: Manifest = {"name": name, "options": {"labels": manifest["metadata"]["labels"]}}
    if all(re.fullmatch(r"[A-Z0-9_]+", field) for field in data):
        file = f"settings{name.removeprefix(NAME)}.env"
        made[file] = HEADER + "".join(f"{field}={value}\n" for field, value in data.items())
        return entry | {"envs": [file]}
    made.update(data)
    return entry | {"files": sorted(data)}


def differences(before: Any, after: Any, path: str = "") -> Iterator[Manifest]:
    """The operations of JSON Patch (RFC 6902) that make `after` of `before`."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() - after.keys()):
            yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
        for name in sorted(after):
            if name in before:
                yield from differences(before[name], after[name], f"{path}/{_escaped(name)}")
            else:
                yield {"op": "add", "path": f"{path}/{_escaped(name)}", "value": after[name]}
    elif isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        for position, (one, other) in enumerate(zip(before, after, strict=False)):
            yield from differences(one, other, f"{path}/{position}")
        for value in after[len(before) :]:
            yield {"op": "add", "path": f"{path}/-", "value": value}
    elif before != after:
        yield {"op": "replace", "path": path, "value": after}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _while_comment(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("#"):
            return
        yield line


class _Dumper(yaml.SafeDumper):
    """Sequences stand indented, and nothing is abbreviated."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 -- pyyaml's
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- pyyaml's
        return True


def _dump(content: Any) -> str:
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=120)


def folders() -> dict[Path, dict[str, str]]:
    """All that is generated: the content of files by folder and name. Raises UnavailableError."""
    return {KUBERNETES / "base": files(None)} | {KUBERNETES / "overlays" / name: files(name) for name in overlays()}


def main() -> None:
    (CHART / "files").mkdir(exist_ok=True)
    for name, source in COPIES.items():
        shutil.copyfile(source, CHART / "files" / name)
    try:
        wanted = folders()
    except tools.UnavailableError as error:
        sys.exit(f"manifests: {error}")
    for folder in (KUBERNETES / "base", KUBERNETES / "overlays"):
        shutil.rmtree(folder, ignore_errors=True)
    for folder, content in wanted.items():
        folder.mkdir(parents=True)
        for name, text in content.items():
            (folder / name).write_text(text)
    print(f"{len(wanted)} kustomizations written to {KUBERNETES.relative_to(tools.ROOT)}")


if __name__ == "__main__":
    main()
