"""Commands of other languages, and when a machine cannot run them."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

BUILD_TIMEOUT = 900
"""Seconds for a command that may have to fetch and compile everything."""

# What these tools say when there is no way to their registry; everything else is an error of ours.
_NO_NETWORK = re.compile(
    r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT)\b"  # npm
    r"|dial tcp|no such host|i/o timeout"  # go
    r"|Could not transfer artifact|Unknown host|Temporary failure in name resolution"  # maven
)


def need(*tools: str) -> None:
    """Skips the test on a machine that lacks one of the programs."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def build(command: str, where: Path) -> None:
    """Runs a command that prepares something. Skips the test if it fails because a registry cannot be reached."""
    done = run(["bash", "-euc", command], where, limit=BUILD_TIMEOUT)
    if done.returncode:
        said = done.stdout + done.stderr
        if _NO_NETWORK.search(said):
            pytest.skip(f"`{command}` needs a package registry, and none can be reached")
        pytest.fail(f"`{command}` in {where} failed:\n{said}")


def run(command: Sequence[str], where: Path, *, limit: float) -> subprocess.CompletedProcess[str]:
    """Runs a program, with the environment of these tests found before all others; ends it after `limit` seconds."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    return subprocess.run(command, cwd=where, env=env, capture_output=True, text=True, timeout=limit, check=False)
