"""Nothing secret in any log of a whole run: a pytest plugin that reads what every server of the tests has written.

Each secret that the tests use has MARKER in it. What can have no marker is known by its form: private keys, and tokens.
A run in which one of these is in a log fails, and says in which file and line; the logs are kept then.
"""

import atexit
import base64
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MARKER = "NeverLogThis"
"""Stands in keys, cookies, URLs and base64 as it is."""

_SECRET = re.compile(
    rf"{MARKER}|{MARKER[::-1]}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r'|"d": ?"[\w-]{20,}"'  # the private half of a JWK
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"  # a signed token, or its detached form with the content in it
)
_FOLDER = Path(tempfile.mkdtemp(prefix="a2a-test-logs-"))
_REPORT = "a2a_leaks"


@atexit.register
def _clean() -> None:
    shutil.rmtree(_FOLDER, ignore_errors=True)


def secret(name: str) -> str:
    """A secret for tests."""
    return f"{MARKER}-{name}"


def secret_key() -> str:
    """32 bytes in base64, for A2A_ENCRYPTION_KEYS."""
    return MARKER + base64.b64encode(os.urandom(32)).decode()[len(MARKER) :]


def log_file(name: str) -> Path:
    """A new file for the log of a process; it stays until the end of the run."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_FOLDER)) / "log"


class _OwnLog(logging.Handler):
    """What is logged in the process of the tests themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        self._file = log_file("tests").open("a")

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("a2a_grpc"):
            self._file.write(self.format(record) + "\n")
            self._file.flush()


def found() -> Iterator[str]:
    """File and line of each secret."""
    for path in sorted(_FOLDER.rglob("*")):
        if path.is_file():
            with path.open(errors="replace") as lines:
                yield from (f"{path}:{number}" for number, line in enumerate(lines, 1) if _SECRET.search(line))


def pytest_configure() -> None:
    """Before any test."""
    logging.getLogger().addHandler(_OwnLog())


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """At the end of each process of a run; of the main one when those of its workers are known."""
    leaks, own = session.config.stash.setdefault(_LEAKS, []), [*found()]
    leaks += own
    if own:
        atexit.unregister(_clean)
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_REPORT] = leaks
    elif leaks:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of pytest-xdist has ended."""
    node.config.stash.setdefault(_LEAKS, []).extend(getattr(node, "workeroutput", {}).get(_REPORT, []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say it."""
    for leak in config.stash.get(_LEAKS, []):
        terminalreporter.write_line(f"SECRET IN A LOG {leak}", red=True)


_LEAKS = pytest.StashKey[list[str]]()
