"""File locks that keep two servers away from one data directory.

`flock` and not a pid file: the kernel releases it with the last descriptor, so nothing is stale after SIGKILL.
"""

import fcntl
import os
from pathlib import Path


class FileLock:
    """An exclusive `flock` on a file that is created when missing and never removed (removing it would race)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    @property
    def fd(self) -> int:
        """The locked descriptor. A child that inherits it holds the lock too, also after `release` here."""
        assert self._fd is not None, "the lock is not held"
        return self._fd

    def acquire(self, owner: int) -> bool:
        """Takes the lock if it is free and writes `owner` (a pid) into the file for people to read.

        Raises OSError when the file cannot be opened or the file system has no locks.
        """
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        except BaseException:
            os.close(fd)
            raise
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{owner}\n".encode(), 0)
        self._fd = fd
        return True

    def owner(self) -> str:
        """The pid that the holder wrote, or "unknown" in the instant before it did."""
        return self._path.read_text(errors="replace").strip() or "unknown"

    def release(self) -> None:
        """Gives up this process's hold; does nothing when there is none."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
