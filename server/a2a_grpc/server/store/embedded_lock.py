"""File locks that keep two servers away from one data directory.

`flock` and not a pid file: the kernel releases it with the last descriptor, so nothing is stale after SIGKILL.
"""

import contextlib
import fcntl
import os
from pathlib import Path


class HeldLock:
    """An exclusive `flock` that this process holds."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        """The locked descriptor. A child that inherits it holds the lock too, also after `release` here."""

    def release(self) -> None:
        """Gives up this process's hold."""
        os.close(self.fd)


def try_lock(path: Path) -> HeldLock | None:
    """Takes the lock on `path` if it is free, and writes the pid of this process into the file for people to read.

    The file is created when missing and never removed, since removing it would race with the next one who comes.
    Raises OSError when the file cannot be opened or the file system has no locks.
    """
    with contextlib.ExitStack() as undo:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        undo.callback(os.close, fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        undo.pop_all()
        return HeldLock(fd)


def holder_of(path: Path) -> str:
    """The pid that the holder of the lock wrote, or "unknown" in the instant before it did."""
    return path.read_text(errors="replace").strip() or "unknown"
