"""The renderings once more, by the program that reviewers run. It sees a key that stands twice; PyYAML does not."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest

from tests.deploy import tools
from tests.deploy.checking import RELEASES
from tests.deploy.manifests import overlays, template, values_of
from tests.deploy.matrix import MATRIX
from tests.deploy.rendering import STORE, over

pytestmark = [pytest.mark.wide, pytest.mark.timeout(300)]

WHEEL = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
KINDS = (
    *("configmap-v1", "deployment-apps-v1", "horizontalpodautoscaler-autoscaling-v2", "ingress-networking-v1"),
    *("networkpolicy-networking-v1", "poddisruptionbudget-policy-v1", "service-v1", "serviceaccount-v1"),
)


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Each schema complete in a file of its own, since kubeconform follows no reference to a neighbour."""
    folder = tmp_path_factory.mktemp("schemas")
    for release in RELEASES:
        given = WHEEL / f"v{release}.0-local-strict"
        definitions = json.loads((given / "_definitions.json").read_text())["$defs"]
        for kind in KINDS:
            schema = json.loads((given / f"{kind}.json").read_text())
            schema |= {"$id": kind, "$defs": referred_to(schema, definitions)}
            text = json.dumps(schema).replace('"/api/_definitions.json#/', '"#/')
            (folder / f"v{release}.0-{kind}.json").write_text(text)
    for (version, kind), schema in tools.schemas().items():
        group, _, name = version.partition("/")
        for release in RELEASES:
            (folder / f"v{release}.0-{kind.lower()}-{group.split('.')[0]}-{name}.json").write_text(json.dumps(schema))
    return f"{folder}/{{{{ .NormalizedKubernetesVersion }}}}-{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"


def referred_to(schema: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The definitions that `schema` needs, and those that these need: a fiftieth of all."""
    found: dict[str, Any] = {}
    waiting = [schema]
    while waiting:
        for name in set(re.findall(r'#/\$defs/([^"]+)"', json.dumps(waiting.pop()))) - found.keys():
            found[name] = definitions[name]
            waiting.append(definitions[name])
    return found


def kubeconform(rendered: str, release: str, schemas: str) -> Any:
    command = [tools.kubeconform(), "-strict", "-summary", "-output", "json", "-schema-location", schemas]
    command += ["-kubernetes-version", f"{release}.0", "-"]
    result = subprocess.run(list(map(str, command)), input=rendered, check=False, capture_output=True, text=True)
    return json.loads(result.stdout)


@pytest.mark.parametrize("release", RELEASES)
def test_examples(release: str, schemas: str) -> None:
    rendered = "".join(template(*values_of(overlay)) for overlay in (None, *overlays()))
    told = kubeconform(rendered, release, schemas)
    assert told["resources"] == []
    assert told["summary"] == {"valid": rendered.count("\nkind: "), "invalid": 0, "errors": 0, "skipped": 0}


def test_matrix(schemas: str) -> None:
    rendered = "".join(template(values=over(STORE, values)) for values in MATRIX.values())
    told = kubeconform(rendered, RELEASES[-1], schemas)
    assert told["resources"] == []
    assert told["summary"]["valid"] == rendered.count("\nkind: ")


def test_what_is_wrong_is_found(schemas: str) -> None:
    rendered = template(values=STORE)
    for wrong in (
        rendered.replace("replicas: 2", "replicas: 2\n  replicas: 3"),
        rendered.replace("replicas: 2", "replica: 2"),
        rendered.replace("replicas: 2", "replicas: two"),
    ):
        summary = kubeconform(wrong, RELEASES[-1], schemas)["summary"]
        assert summary["invalid"] + summary["errors"] == 1
