"""What becomes of processes that a test has not started itself."""

import psutil


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended. One that nobody has waited for yet, a zombie, has; so has one that goes meanwhile."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
