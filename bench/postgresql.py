"""A PostgreSQL of its own for the peer, in a temporary folder, beside the load."""

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.processes import LOAD_CPU, running, until

# Nothing waits for a disk on either side: the store of the service keeps nothing on one either.
_OPTIONS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=")


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`; Debian keeps them away from PATH. None where there is no PostgreSQL."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


@contextlib.contextmanager
def postgresql() -> Iterator[str | None]:
    """A server on a unix socket; yields its URL for SQLAlchemy with asyncpg, or None where it is not installed."""
    found = programs()
    if found is None:
        sys.stderr.write("bench: no PostgreSQL here (Debian: postgresql), so nothing is compared with it\n")
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="bench-pg-") as folder:
        user = _unprivileged(Path(folder))
        data = Path(folder) / "data"
        subprocess.run(
            [found / "initdb", "-D", data, "-U", "bench", "-A", "trust", "--no-sync"],
            check=True,
            capture_output=True,
            user=user,
            cwd=folder,
        )
        options = [part for option in (*_OPTIONS, f"unix_socket_directories={folder}") for part in ("-c", option)]
        with running([str(found / "postgres"), "-D", str(data), *options], LOAD_CPU, user=user, cwd=Path(folder)):
            until((Path(folder) / ".s.PGSQL.5432").exists, "PostgreSQL listens")
            yield f"postgresql+asyncpg://bench@/postgres?host={folder}"


def _unprivileged(folder: Path) -> int | None:
    """Who PostgreSQL runs as, to whom `folder` is given: it refuses to run as root. None: as whoever runs the bench."""
    if os.getuid():
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name).pw_uid
            os.chown(folder, user, -1)
            return user
    raise RuntimeError("PostgreSQL does not run as root, and there is no user postgres or nobody")
