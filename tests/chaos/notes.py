"""What the suite's agent notes about itself, past the service: one file for each process, one line for each note.

A line is written with one call at the end of the file, so that a process that is killed leaves whole lines.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

FOLDER = "CHAOS_NOTES"
"""The variable that names the folder of the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One note. Times are of the machine's monotonic clock, which all its processes share."""

    at: float
    pid: int
    what: str
    """`begin` and `end` of a run, `kept` after a checkpoint, `late` where the process stood still."""
    run: str = ""
    """Names one execution of one turn."""
    task: str = ""
    message: str = ""
    """The id of the message that the turn answers."""
    skill: str = ""
    attempt: int = 0
    number: int = 0
    """begin: the first chunk that is still to be written. kept: how many are. late: for how many milliseconds."""
    how: str = ""
    """end: `returned`, `cancelled`, or the name of the error."""


class Notebook:
    """The file of this process."""

    def __init__(self) -> None:
        path = Path(os.environ[FOLDER]) / f"{os.getpid()}.notes"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, what: str, **facts: str | int) -> None:
        """Adds one line."""
        note = {"at": time.monotonic(), "pid": os.getpid(), "what": what, **facts}
        os.write(self._file, orjson.dumps(note) + b"\n")


def read(folder: Path) -> Iterator[Note]:
    """All notes of all processes."""
    for path in sorted(folder.glob("*.notes")):
        for line in path.read_bytes().splitlines():
            yield Note(**orjson.loads(line))
