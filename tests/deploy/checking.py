"""Manifests against the schemas of Kubernetes releases and of custom resources, with no room for unknown fields."""

import json
from functools import cache
from typing import Any, Final

import jsonschema
import kubernetes_validate  # type: ignore[import-untyped]

from tests.deploy import tools

RELEASES: Final = ("1.27", "1.33", "1.37")
"""The oldest that runs the manifests as they are (it made the gRPC probes final), one between, the newest known."""

_CUSTOM: Final = ("gateway.networking.k8s.io", "monitoring.coreos.com", "keda.sh")


def check(manifest: dict[str, Any], releases: tuple[str, ...] = RELEASES) -> None:
    """Raises ValidationError where a field is unknown, missing or of a wrong type; UnavailableError without schemas."""
    if manifest["apiVersion"].split("/")[0] in _CUSTOM:
        schema = _custom()[manifest["apiVersion"], manifest["kind"]]
        jsonschema.validate(manifest, schema)
    else:
        content = json.dumps(manifest, sort_keys=True)
        for release in releases:
            _check(content, release)


@cache
def _check(content: str, release: str) -> None:
    """Once for each content: most of it is the same in all renderings, and a look takes a quarter of a second."""
    kubernetes_validate.validate(json.loads(content), release, strict=True)


@cache
def _custom() -> dict[tuple[str, str], dict[str, Any]]:
    return tools.schemas()
