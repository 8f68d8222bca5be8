"""What the chart makes of values, as objects by kind and name."""

import copy
import json
from functools import cache
from typing import Final

import yaml

from tests.deploy.manifests import KUBE_VERSION, Key, Manifest, key, template

STORE: Final[Manifest] = {"redis": {"existingSecret": {"name": "store"}}}
"""The one value that has to be given."""


def over(values: Manifest, more: Manifest) -> Manifest:
    """`values` with `more` laid over them, as Helm does it."""
    merged = dict(values)
    for name, value in more.items():
        below = merged.get(name)
        merged[name] = over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def rendering(values: Manifest | None = None, *, kube: str = KUBE_VERSION) -> dict[Key, Manifest]:
    """Raises ChartError and UnavailableError, as `template`."""
    return copy.deepcopy(_rendered(json.dumps(over(STORE, values or {})), kube))


@cache
def _rendered(values: str, kube: str) -> dict[Key, Manifest]:
    """Once for the same values: several tests look at each of them."""
    rendered = template(values=json.loads(values), kube=kube)
    return {key(manifest): manifest for manifest in yaml.safe_load_all(rendered) if manifest}


def pod(made: dict[Key, Manifest], name: str = "a2a-grpc") -> Manifest:
    spec: Manifest = made["Deployment", name]["spec"]["template"]["spec"]
    return spec


def container(made: dict[Key, Manifest], name: str = "a2a-grpc") -> Manifest:
    first: Manifest = pod(made, name)["containers"][0]
    return first


def settings(made: dict[Key, Manifest], name: str = "a2a-grpc") -> dict[str, str]:
    data: dict[str, str] = made["ConfigMap", name]["data"]
    return data
