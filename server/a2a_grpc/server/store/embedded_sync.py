"""Bringing the embedded store's writes to the disk once a second.

The server could do it itself (`appendfsync everysec`), but while its own sync is under way it keeps new writes in
memory, for up to two seconds, and acknowledges them all the same: a SIGKILL of the server then loses them. So it is
told to leave the syncing alone, which makes it hand every write to the operating system before it answers, and it is
done from here. A crash of the operating system can still take the last second with it, as before.
"""

import asyncio
import logging
import os
from pathlib import Path

log = logging.getLogger(__name__)

INTERVAL = 1.0


async def sync_forever(data_dir: Path) -> None:
    """Sync the append-only files in `data_dir` every `INTERVAL` seconds, in a thread, until cancelled."""
    while True:
        await asyncio.sleep(INTERVAL)
        try:
            await asyncio.to_thread(_sync, data_dir / "appendonlydir")
        except OSError as error:
            log.error("the embedded store's data cannot be brought to the disk: %s", error)


def _sync(folder: Path) -> None:
    # Only the increments are written to; a new base file is synced by the server before it counts.
    for path in folder.glob("*.incr.aof"):
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue  # replaced meanwhile
        try:
            (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(file)
        finally:
            os.close(file)
