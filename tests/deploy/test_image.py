"""The Dockerfile, read: what it promises to the manifests and what the linter says. It is built by `make image`."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from a2a_grpc.server.settings import Settings
from a2a_grpc.server.settings.source import all_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
# The last stage is what runs.
BUILD, RUNTIME = (
    stage.splitlines() for stage in (DEPLOY / "Dockerfile").read_text().partition("\nFROM ")[2].split("\nFROM ")
)


def instruction(name: str) -> str:
    [line] = [line for line in RUNTIME if line.startswith(f"{name} ")]
    return line.removeprefix(f"{name} ")


def test_user_and_ports_are_those_of_the_manifests() -> None:
    pod = yaml.safe_load((DEPLOY / "kubernetes" / "base" / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    context = pod["securityContext"]
    assert instruction("USER") == f"{context['runAsUser']}:{context['runAsGroup']}"
    ports = {port["name"]: str(port["containerPort"]) for port in pod["containers"][0]["ports"]}
    # The metrics are for whoever runs the image, not for callers.
    assert instruction("EXPOSE").split() == [ports["grpc"], ports["http"]]


def test_build_has_what_the_wheel_is_made_of() -> None:
    """An image is built seldom and a wheel's parts change now and then: the two are compared here."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts = {"pyproject.toml", *pyproject["project"]["license-files"]}
    parts |= {pyproject["project"]["readme"]} if "readme" in pyproject["project"] else set()
    parts |= {package.split("/")[0] for package in pyproject["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}
    copied = {source for line in BUILD if line.startswith("COPY ") for source in line.split()[1:-1]}
    assert copied == parts | {"requirements.txt"}
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == copied


def test_settings_are_known() -> None:
    named = set(re.findall(r"\bA2A_\w+(?==)", "\n".join(RUNTIME)))
    assert named == {"A2A_DATA_DIR"}
    assert named <= {setting.variable.name for setting in all_settings(Settings)}


def test_command_is_pid_one() -> None:
    """The exec form: with a shell in between, the SIGTERM of a rollout would never reach the server."""
    assert instruction("ENTRYPOINT") == '["a2a-grpc"]'
    assert instruction("CMD") == '["serve"]'


def test_final_stage_needs_no_shell() -> None:
    assert not [line for line in RUNTIME if line.startswith("RUN ")]


def test_hadolint() -> None:
    hadolint = shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    result = subprocess.run([hadolint, str(DEPLOY / "Dockerfile")], check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
