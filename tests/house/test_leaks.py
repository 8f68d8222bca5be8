"""A run of tests fails when a secret was in any log."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.replica import ROOT

pytestmark = pytest.mark.wide

RUN = """
import logging, subprocess, sys
from tests.support.leaks import MARKER
from tests.support.replica import Replica

SAYS = ["begun", {says}]

class Talker(Replica):
    def spawn(self, log):
        return subprocess.Popen([sys.executable, "-c", f"print(*{{SAYS!r}}, sep=chr(10))"], stdout=log)

def test_a_process():
    talker = Talker(agent=None, redis_url=None, env={{}})
    talker.start(wait=False)
    talker.wait()
    talker.close()

def test_this_process():
    logging.getLogger("a2a_grpc.some").warning("with %s", {logged})
"""
LEAKS = (
    "'the key ' + MARKER + '-alice'",
    "'redis://:' + MARKER[::-1] + '@store'",
    "'-----BEGIN EC PRIVATE KEY-----'",
    "'Bearer eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJ4In0.c2lnbmF0dXJl'",
    """'{"kty": "OKP", "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}'""",
)


def run(folder: Path, says: str, logged: str, *more: str) -> subprocess.CompletedProcess[str]:
    path = folder / "test_talking.py"
    path.write_text(RUN.format(says=says, logged=logged))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.leaks", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*command, "--rootdir", str(folder), *more, str(path)],
        cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("more", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_run_with_a_secret_in_a_log_fails_and_says_where(tmp_path: Path, more: tuple[str, ...]) -> None:
    done = run(tmp_path, ", ".join(LEAKS), "MARKER", *more)
    told = [line.removeprefix("SECRET IN A LOG ") for line in done.stdout.splitlines() if line.startswith("SECRET")]
    places = [line.rpartition(":") for line in told]
    assert done.returncode == 1, done.stdout
    assert "2 passed" in done.stdout, done.stdout
    assert sorted(int(number) for _, _, number in places) == [1, 2, 3, 4, 5, 6], done.stdout
    kept = [Path(path) for path, _, _ in places]
    assert all(path.is_file() for path in kept)
    for folder in {path.parents[1] for path in kept}:
        shutil.rmtree(folder)


def test_a_run_without_one_does_not(tmp_path: Path) -> None:
    done = run(tmp_path, "'Authorization: Bearer ***', 'eyJ', 'a key of nobody'", "'nothing'")
    assert (done.returncode, "SECRET" in done.stdout) == (0, False), done.stdout
