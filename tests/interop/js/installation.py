"""The JavaScript client, installed from the lock file beside this module into build/, outside of the source tree."""

import fcntl
import hashlib
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BUILD = Path(__file__).parents[3] / "build"
NODE_AT_LEAST = 20
INSTALL_TIMEOUT = 300

# What npm says when there is no way to its registry; everything else is an error of ours.
_NO_NETWORK = re.compile(r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT)\b")


@cache
def installed() -> Path:
    """The folder to run node in. Skips the test where Node is missing or too old, or npm has no registry to ask."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed: the JavaScript client is not tested")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < NODE_AT_LEAST:
        pytest.skip(f"node is {version}, the JavaScript client needs {NODE_AT_LEAST}: it is not tested")
    sources = [HERE / name for name in ("package.json", "package-lock.json", ".npmrc", "scenarios.mjs")]
    key = hashlib.sha256(b"\0".join([version.encode(), *(path.read_bytes() for path in sources)])).hexdigest()[:12]
    home = BUILD / f"js-sdk-{key}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes that run side by side share the folder
        if not (home / "node_modules" / ".complete").exists():
            for path in sources:
                shutil.copy(path, home)
            _install(npm, home)
            (home / "node_modules" / ".complete").touch()
    return home


def _install(npm: str, home: Path) -> None:
    done = subprocess.run(
        [npm, "ci", "--loglevel=error"], cwd=home, capture_output=True, text=True, timeout=INSTALL_TIMEOUT, check=False
    )
    if done.returncode:
        if _NO_NETWORK.search(done.stderr):
            pytest.skip("npm cannot reach its registry: the JavaScript client is not tested")
        pytest.fail(f"npm ci failed:\n{done.stderr}")
